"""A schedule that somebody else might write, and the package through which it would be found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

__all__ = ["Tides", "install"]

_FIRST = datetime(2000, 1, 1, 3, 14, 15, tzinfo=UTC)


@dataclass(frozen=True)
class Tides:
    """High water at a port: every 12 h 25 min 14 s, plus what the port is late."""

    port: str
    late: int = 0
    kind: str = "tides"

    def next_after(self, t: datetime) -> datetime | None:
        """The first high water later than `t`."""
        return self._high_water((t - self._high_water(0)) // _PERIOD + 1)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Every high water in the window."""
        number = -((self._high_water(0) - start) // _PERIOD)
        while (at := self._high_water(number)) < end:
            yield at
            number += 1

    def _high_water(self, number: int) -> datetime:
        return _FIRST + timedelta(seconds=self.late) + number * _PERIOD

    def __str__(self) -> str:
        return f"At high water in {self.port}"

    def to_json(self) -> Any:
        """The port and its delay."""
        return {"port": self.port, "late": self.late}

    @classmethod
    def from_json(cls, data: Any) -> Tides:
        """The same tides again."""
        return cls(data["port"], data["late"])


_PERIOD = timedelta(hours=12, minutes=25, seconds=14)


def install(folder: Path) -> None:
    """Make `folder` look like the place where a package with this kind has been installed."""
    info = folder / "contract_tides-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: contract-tides\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[itinerary.schedules]\ntides = tests.contracts.custom_kind:Tides\n")
