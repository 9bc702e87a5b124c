"""What the benches share: a result, a stopwatch, and how both are shown."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

__all__ = ["Result", "stopwatch", "timed"]


@dataclass(frozen=True, slots=True)
class Result:
    """One measure of one bench, beside one peer or none."""

    bench: str
    measure: str
    ours: float
    unit: str
    peer: str | None = None
    theirs: float | None = None
    more_is_better: bool = False
    differing: int | None = None
    """In how many cases the peer's answer was not ours; None where answers are not compared."""

    @property
    def ratio(self) -> float | None:
        """How many times better ours is."""
        if self.theirs is None or not self.ours or not self.theirs:
            return None
        return self.ours / self.theirs if self.more_is_better else self.theirs / self.ours

    def to_json(self) -> str:
        """One line of JSON."""
        data: dict[str, Any] = {
            "bench": self.bench,
            "measure": self.measure,
            "ours": _rounded(self.ours),
            "peer": self.peer,
            "theirs": _rounded(self.theirs),
            "ratio": _rounded(self.ratio),
            "unit": self.unit,
        }
        if self.differing is not None:
            data["differing"] = self.differing
        return json.dumps(data)

    def to_row(self) -> tuple[str, ...]:
        """One line of a table."""
        return (
            self.bench,
            self.measure,
            f"{_rounded(self.ours):,} {self.unit}",
            self.peer or "",
            "" if self.theirs is None else f"{_rounded(self.theirs):,} {self.unit}",
            "" if self.ratio is None else f"{_rounded(self.ratio):,}×",
            "" if self.differing is None else str(self.differing),
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")


def stopwatch(work: Callable[[], object]) -> float:
    """How many seconds one call takes."""
    begun = perf_counter()
    work()
    return perf_counter() - begun


def timed(work: Callable[[], object], times: int) -> float:
    """The median of several calls in seconds, after one to warm up, with the garbage collected before."""
    work()
    gc.collect()
    return median(stopwatch(work) for _ in range(times))
