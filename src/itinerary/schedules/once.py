"""`once(…)`: a single instant. After it has fired the job is finished, until it is rescheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from itinerary.errors import ScheduleError
from itinerary.schedules.base import Batch, WallClockSchedule, wall_clock_arguments
from itinerary.schedules.durations import DurationLike, Period
from itinerary.schedules.instants import Moment, MomentLike
from itinerary.schedules.steps import CalendarBatch, CalendarSteps
from itinerary.schedules.wallclock import DEBIAN, Repeat
from itinerary.schedules.zones import UTC_NAME, ZoneSource

__all__ = ["Once", "once"]


@dataclass(frozen=True, slots=True)
class Once(WallClockSchedule):
    """A schedule of a single moment. Build it with `once`."""

    kind: ClassVar[str] = "once"

    at: Moment

    def __post_init__(self) -> None:
        self._check_common()
        if self.repeat is Repeat.BOTH:
            raise ScheduleError("repeat 'both' makes two instants of one; once allows first or second")
        if not self.at.is_local and (self.gap or self.repeat):
            raise ScheduleError(f"{self.at} is an instant, and no DST change touches it; leave out gap and repeat")

    def steps(self, zones: ZoneSource) -> CalendarSteps:
        zone = self.zone(zones) if self.at.is_local else zones(UTC_NAME)
        return CalendarSteps(self.at.seconds, Period(0, 1, 0), 1, zone, self.policy_over(DEBIAN))

    def _next(self, after: int, zones: ZoneSource) -> int | None:
        return self.steps(zones).next_after(after)

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        return CalendarBatch.compile([schedule.steps(zones) for schedule in schedules])

    def _words(self) -> str:
        return f"Once at {self.at}"

    def _shows_zone(self) -> bool:
        return self.at.is_local

    def _fields(self) -> dict[str, Any]:
        return {"once": str(self.at)}


def once(
    at: MomentLike,
    *,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    gap: str | None = None,
    repeat: str | None = None,
    jitter: DurationLike = 0,
) -> Once:
    """A single instant: `once("2026-12-31T23:59:00Z")`, or on a zone's wall clock: `once("2026-12-31T23:59", tz=…)`."""
    return Once(Moment.of(at, "once"), **wall_clock_arguments(tz, start, end, jitter, gap, repeat))
