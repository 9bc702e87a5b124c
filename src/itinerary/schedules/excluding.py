"""A schedule less a calendar: `excluding(cron("0 9 * * *"), holidays, "next")`.

skip        what falls into a closure is passed over
next        it moves to the same time of the next business day
previous    … of the previous business day
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from reprlib import repr as shown
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import ScheduleError
from itinerary.schedules.base import Batch, Binding, Budget, Found, Schedule, common_arguments
from itinerary.schedules.bulk import ScheduleTable
from itinerary.schedules.calendars import CLOSED_MAX, Calendar, Closures
from itinerary.schedules.durations import DurationLike
from itinerary.schedules.instants import DAY, EARLIEST, LATEST, Moment, MomentLike
from itinerary.schedules.union import distinct
from itinerary.schedules.wallclock import DEBIAN, instants_of
from itinerary.schedules.zones import UTC_NAME, Zone, ZoneSource, packaged_zone

__all__ = ["Excluding", "Shift", "excluding"]

_LOOK_AHEAD_MAX: Final = 366 * DAY


class Shift(StrEnum):
    """The treatment of an instant that falls into a closure."""

    SKIP = "skip"
    NEXT = "next"
    PREVIOUS = "previous"

    @property
    def step(self) -> int:
        """The direction in days."""
        return {Shift.SKIP: 0, Shift.NEXT: 1, Shift.PREVIOUS: -1}[self]


@dataclass(frozen=True, slots=True)
class Excluding(Schedule):
    """A schedule less a calendar. Build it with `excluding`."""

    kind: ClassVar[str] = "excluding"

    schedule: Schedule
    calendar: Calendar | str
    """The calendar, or the name of one that is filled in when the schedule is bound."""
    shift: Shift = Shift.SKIP

    def __post_init__(self) -> None:
        self._check_common()
        if not isinstance(self.schedule, Schedule):
            raise ScheduleError(f"excluding needs a schedule, not {type(self.schedule).__name__}")
        self.schedule.check_nesting(2)
        object.__setattr__(self, "schedule", self.schedule.inheriting(self.tz))

    def inner(self) -> tuple[Schedule, ...]:
        return (self.schedule,)

    def zone(self, zones: ZoneSource = packaged_zone) -> Zone:
        return zones(self.tz or self.schedule.tz or UTC_NAME)

    def closures(self, zones: ZoneSource) -> Closures:
        assert isinstance(self.calendar, Calendar), "require_ready comes first"
        return Closures.of(self.calendar, self.zone(zones))

    def _next(self, after: int, zones: ZoneSource) -> int | None:
        closures = self.closures(zones)
        if self.shift is not Shift.SKIP:
            return self._next_shifted(after, closures, zones)
        found = self.schedule.next_second(after, zones)
        while found is not None and (closed_until := closures.reopens_after(found)) is not None:
            found = self.schedule.next_second(closed_until, zones)
        return found

    def _next_shifted(self, after: int, closures: Closures, zones: ZoneSource) -> int | None:
        """Moved instants need not keep their order, so the window of the next one is enumerated whole."""
        batch = _Batch(ScheduleTable.compile([self.schedule], zones), closures, self.shift)
        reach, low, look_ahead = (CLOSED_MAX + 2) * DAY, after + 1, DAY
        while low < LATEST:
            closed_until = closures.reopens_after(low)
            if closed_until is not None:
                low = closed_until + 1  # nothing runs in a closure, and nothing moves into one
                continue
            unmoved = self.schedule.next_second(low - reach - 1, zones)
            if unmoved is None:
                return None
            low = max(low, unmoved - reach)
            high = min(low + look_ahead, LATEST)
            _, seconds = batch.enumerate(low, high, Budget())
            if len(seconds):
                return int(seconds.min())
            low, look_ahead = high, min(2 * look_ahead, _LOOK_AHEAD_MAX)
        return None

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        rows_of: dict[tuple[Calendar | str, Shift, Zone], list[int]] = {}
        for row, schedule in enumerate(schedules):
            rows_of.setdefault((schedule.calendar, schedule.shift, schedule.zone(zones)), []).append(row)
        return _Batches(
            tuple(
                (
                    np.array(rows, np.int64),
                    _Batch(
                        ScheduleTable.compile([schedules[row].schedule for row in rows], zones),
                        schedules[rows[0]].closures(zones),
                        shift,
                    ),
                )
                for (_, shift, _), rows in rows_of.items()
            )
        )

    def open_question(self) -> str | None:
        if isinstance(self.calendar, str):
            return f"calendar {self.calendar!r} is named and not known yet; register it, or give a Calendar"
        return self.schedule.open_question()

    def bind(self, binding: Binding) -> Self:
        calendar = self.calendar
        if isinstance(calendar, str):
            calendar = binding.calendars.get(calendar, calendar)
        bound = self.schedule.bind(replace(binding, timezone=self.tz or binding.timezone))
        return replace(self, tz=self.tz or bound.tz, schedule=bound, calendar=calendar)

    def _words(self) -> str:
        name = self.calendar if isinstance(self.calendar, str) else self.calendar.name
        how = "except on" if self.shift is Shift.SKIP else f"moved to the {self.shift} business day on"
        return f"{self.schedule}, {how} {name}"

    def _shows_zone(self) -> bool:
        return self.tz != self.schedule.tz

    def _fields(self) -> dict[str, Any]:
        calendar = self.calendar if isinstance(self.calendar, str) else self.calendar.to_json()
        shift = None if self.shift is Shift.SKIP else self.shift
        return {"excluding": calendar, "schedule": self.schedule.to_json(), "shift": shift}


@dataclass(frozen=True, slots=True)
class _Batch:
    """Schedules that exclude the same calendar in the same way."""

    table: ScheduleTable
    closures: Closures
    shift: Shift

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        low, high = self._reach(start, end)
        rows, seconds = self.table.seconds(low, high, budget)
        closed = self.closures.excludes(seconds)
        if not closed.any() and (low, high) == (start, end):
            return rows, seconds
        at, moved = self._moved(seconds[closed])
        rows = np.concatenate((rows[~closed], rows[closed][at]))
        seconds = np.concatenate((seconds[~closed], moved))
        inside = (seconds >= start) & (seconds < end)
        return distinct(rows[inside], seconds[inside])

    def _reach(self, start: int, end: int) -> tuple[int, int]:
        """The window from which instants can move into the one that was asked for."""
        step = self.shift.step
        if step == 0:
            return start, end
        edge = self.closures.zone.reading(Moment(start if step > 0 else end - 1)) // DAY
        days = (self.closures.closed_run(edge - step, -step) + 2) * DAY
        return (max(start - days, EARLIEST), end) if step > 0 else (start, min(end + days, LATEST))

    def _moved(self, seconds: NDArray[np.int64]) -> Found:
        """Return where excluded instants move to: positions in `seconds`, and instants.

        Instants without a free day are left out.
        """
        moved, found = seconds.copy(), np.zeros(len(seconds), np.bool_)
        readings = self.closures.readings(seconds)
        waiting = np.arange(len(seconds) if self.shift.step else 0)
        for _ in range(CLOSED_MAX):
            if not len(waiting):
                break
            readings[waiting] += self.shift.step * DAY
            _, instants = instants_of(self.closures.zone, DEBIAN, readings[waiting])
            # The day that the instant is in, and not that of the reading: a zone may have jumped over that one.
            days = self.closures.readings(instants) // DAY
            is_open = self.closures.is_business_day(days) & ~self.closures.blacked_out(instants)
            moved[waiting[is_open]] = instants[is_open]
            found[waiting[is_open]] = True
            waiting = waiting[~is_open]
        return np.flatnonzero(found), moved[found]


@dataclass(frozen=True, slots=True)
class _Batches:
    groups: tuple[tuple[NDArray[np.int64], _Batch], ...]

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        found = [(numbers, batch.enumerate(start, end, budget)) for numbers, batch in self.groups]
        rows = np.concatenate([numbers[rows] for numbers, (rows, _) in found])
        return rows, np.concatenate([seconds for _, (_, seconds) in found])


def excluding(
    schedule: Schedule,
    calendar: Calendar | str,
    shift: str = "skip",
    *,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    jitter: DurationLike = 0,
) -> Excluding:
    """A schedule less a calendar, or less one known by name: `excluding(every("1h"), "freeze")`."""
    if shift not in Shift.__members__.values():
        raise ScheduleError(f"shift {shift!r} is unknown; allowed are {', '.join(Shift)}")
    if not isinstance(calendar, Calendar | str) or calendar == "":
        raise ScheduleError(f"excluding needs a Calendar or the name of one, not {shown(calendar)}")
    return Excluding(schedule, calendar, Shift(shift), **common_arguments(tz, start, end, jitter))
