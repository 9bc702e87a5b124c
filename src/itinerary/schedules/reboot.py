"""`@reboot`: once per start of a node, on that node.

It has no instants: a node that starts makes the occurrence itself. So it asks nothing of a clock and enumerates to
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from itinerary.errors import ScheduleError
from itinerary.schedules.base import Batch, Budget, Found, Schedule
from itinerary.schedules.zones import ZoneSource

__all__ = ["Reboot"]


class _Nothing:
    def enumerate(self, start: int, end: int, budget: Budget) -> Found:  # noqa: ARG002 - the protocol's arguments
        return np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Reboot(Schedule):
    """Once per start of a node."""

    kind: ClassVar[str] = "reboot"

    def __post_init__(self) -> None:
        self._check_common()

    def _next(self, after: int, zones: ZoneSource) -> int | None:  # noqa: ARG002 - the protocol's arguments
        return None

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:  # noqa: ARG003 - the protocol's arguments
        return _Nothing()

    def check_nesting(self, depth: int) -> None:  # noqa: ARG002 - at any depth
        raise ScheduleError(
            "@reboot has no instants, so it cannot be part of another schedule; make it a job of its own"
        )

    def _words(self) -> str:
        return "At each start of a node"

    def _shows_zone(self) -> bool:
        return False

    def _fields(self) -> dict[str, Any]:
        return {"reboot": True}
