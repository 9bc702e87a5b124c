"""`every("15m")`: a steady interval on which every node and every restart agrees.

Without a `start` the instants are the multiples of the interval since the epoch, so no start time has to be stored.
With a `start`, the instants count from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from itinerary.errors import ScheduleError
from itinerary.schedules.base import Batch, Schedule, common_arguments
from itinerary.schedules.durations import SECOND, DurationLike, format_duration, parse_duration
from itinerary.schedules.instants import MomentLike
from itinerary.schedules.steps import SteadyBatch, SteadySteps
from itinerary.schedules.wallclock import instant_of
from itinerary.schedules.zones import ZoneSource

__all__ = ["Every", "every"]


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """A steady interval in whole seconds. Build it with `every`."""

    kind: ClassVar[str] = "every"

    interval: int
    """Microseconds; a whole number of seconds."""

    def __post_init__(self) -> None:
        self._check_common()
        if self.interval < SECOND or self.interval % SECOND:
            raise ScheduleError(
                f"every {format_duration(self.interval)}: the interval must be whole seconds, at least one"
            )

    def steps(self, zones: ZoneSource) -> SteadySteps:
        anchor = 0 if self.start is None else instant_of(self.zone(zones), self.start)
        return SteadySteps(anchor, self.interval // SECOND)

    def _next(self, after: int, zones: ZoneSource) -> int | None:
        return self.steps(zones).next_after(after)

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        return SteadyBatch.compile([schedule.steps(zones) for schedule in schedules])

    def _words(self) -> str:
        return f"Every {format_duration(self.interval)}"

    def _shows_zone(self) -> bool:
        return any(moment is not None and moment.is_local for moment in (self.start, self.end))

    def _fields(self) -> dict[str, Any]:
        return {"every": format_duration(self.interval)}


def every(
    interval: DurationLike,
    *,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    jitter: DurationLike = 0,
) -> Every:
    """A steady interval: `every("15m")`, `every(timedelta(hours=6), start="2026-01-01T03:00Z")`."""
    microseconds = parse_duration(interval, whole_seconds=True, minimum=SECOND)
    return Every(microseconds, **common_arguments(tz, start, end, jitter))
