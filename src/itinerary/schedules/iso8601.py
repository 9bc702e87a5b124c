"""ISO 8601 repeating intervals.

    R/2026-01-31T09:00/P1M        every month from then on, on the 31st or the last day before it
    R5/2026-01-01T00:00Z/PT15M    five instants, the first at the start
    R3/2026-01-01/2026-01-08      three instants, a week apart
    P3W                           every three weeks from `start`; without it, from when the job was first registered

A bare duration without `start` stores the registration as its anchor. An interval with a start of its own keeps that as
its anchor, and `start` is then the beginning of the active range alone.

Years, months, weeks and days move on the wall clock of the schedule's zone: 09:00 stays 09:00 over a DST change. Hours,
minutes and seconds are exact, and come after the calendar part. A start with an offset and no `tz` counts in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from itinerary.errors import DurationError, ScheduleError
from itinerary.schedules.base import Batch, Binding, Budget, Found, WallClockSchedule, wall_clock_arguments
from itinerary.schedules.durations import DurationLike, Period, parse_period
from itinerary.schedules.instants import DAY, Moment, MomentLike
from itinerary.schedules.steps import CalendarBatch, CalendarSteps, SteadyBatch, SteadySteps
from itinerary.schedules.wallclock import DEBIAN, Repeat, instant_of
from itinerary.schedules.zones import ZoneSource

__all__ = ["Iso8601", "iso8601"]

_LENGTH_MAX: Final = 128
_REPEATS: Final = re.compile(r"R([0-9]{0,9})", re.ASCII | re.IGNORECASE)
_ALLOWED: Final = (
    "write R/<start>/<duration>, R<n>/<start>/<duration>, R<n>/<start>/<end>, or a duration such as PT15M or P1M"
)


class _Parts(NamedTuple):
    times: int | None
    anchor: Moment | None
    period: Period


@dataclass(frozen=True, slots=True)
class Iso8601(WallClockSchedule):
    """A repeating interval. Build it with `iso8601`."""

    kind: ClassVar[str] = "iso8601"

    interval: str
    """As written."""
    anchored: Moment | None = None
    """The anchor of a bare duration without `start`; set when its job is first registered."""
    parts: _Parts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_common()
        parts = _parse(self.interval)
        if parts.anchor is not None and self.anchored is not None:
            raise ScheduleError(
                f"interval {self.interval!r} has a start of its own, so it cannot be anchored at {self.anchored}"
            )
        if parts.period.is_exact and (self.gap or self.repeat):
            raise ScheduleError(
                f"interval {self.interval!r} is exact, and no DST change touches it; leave out gap and repeat"
            )
        if parts.times is not None and self.repeat is Repeat.BOTH:
            raise ScheduleError(
                f"interval {self.interval!r}: repeat 'both' makes two instants of one; R<n> counts instants"
            )
        object.__setattr__(self, "parts", parts._replace(anchor=parts.anchor or self.anchored or self.start))

    def open_question(self) -> str | None:
        if self.parts.anchor is not None:
            return None
        return f"{self.interval!r} has no start and counts from its job's registration; register it, or bind it"

    def bind(self, binding: Binding) -> Self:
        bound = self.inheriting(binding.timezone)
        return bound if self.parts.anchor is not None else replace(bound, anchored=Moment(binding.registered_at))

    def steps(self, zones: ZoneSource) -> SteadySteps | CalendarSteps:
        times, anchor, period = self.parts
        assert anchor is not None, "require_ready comes first"
        zone = self.zone(zones)
        if period.is_exact:
            return SteadySteps(instant_of(zone, anchor), period.seconds, 0, times)
        begins_at = None if anchor.is_local else anchor.seconds
        return CalendarSteps(zone.reading(anchor), period, times, zone, self.policy_over(DEBIAN), begins_at)

    def _next(self, after: int, zones: ZoneSource) -> int | None:
        return self.steps(zones).next_after(after)

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        return _Batch.compile([schedule.steps(zones) for schedule in schedules])

    def _words(self) -> str:
        times, anchor, period = self.parts
        limit = "" if times is None else f", {times} time{'s' if times > 1 else ''}"
        beginning = "" if anchor is not None and anchor == self.start else f" from {anchor or 'its registration'}"
        return f"Every {_period_words(period)}{beginning}{limit}"

    def _fields(self) -> dict[str, Any]:
        anchored = None if self.anchored is None else str(self.anchored)
        return {"iso8601": self.interval, "anchored": anchored}


@dataclass(frozen=True, slots=True)
class _Batch:
    """Exact and calendar periods, each in bulk."""

    steady: SteadyBatch
    steady_rows: np.ndarray[Any, np.dtype[np.int64]]
    calendar: CalendarBatch
    calendar_rows: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def compile(cls, steps: Sequence[SteadySteps | CalendarSteps]) -> _Batch:
        steady = [(row, step) for row, step in enumerate(steps) if isinstance(step, SteadySteps)]
        calendar = [(row, step) for row, step in enumerate(steps) if isinstance(step, CalendarSteps)]
        return cls(
            SteadyBatch.compile([step for _, step in steady]),
            np.array([row for row, _ in steady], np.int64),
            CalendarBatch.compile([step for _, step in calendar]),
            np.array([row for row, _ in calendar], np.int64),
        )

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        steady_at, steady = self.steady.enumerate(start, end, budget)
        calendar_at, calendar = self.calendar.enumerate(start, end, budget)
        rows = np.concatenate((self.steady_rows[steady_at], self.calendar_rows[calendar_at]))
        return rows, np.concatenate((steady, calendar))


def iso8601(
    interval: str,
    *,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    gap: str | None = None,
    repeat: str | None = None,
    jitter: DurationLike = 0,
) -> Iso8601:
    """A repeating interval: `iso8601("R/2026-01-31T09:00/P1M", tz="Europe/Berlin")`.

    A bare duration counts from `start`: `iso8601("PT50M", start="2026-01-01T08:00Z")` fires at 08:00, 08:50, 09:40 …
    """
    if not isinstance(interval, str):
        raise ScheduleError(f"an ISO 8601 interval is text, not {type(interval).__name__}; {_ALLOWED}")
    return Iso8601(interval.strip(), **wall_clock_arguments(tz, start, end, jitter, gap, repeat))


def _parse(text: str) -> _Parts:
    if len(text) > _LENGTH_MAX:
        raise ScheduleError(f"interval is {len(text)} characters long; at most {_LENGTH_MAX} are allowed")
    match text.split("/"):
        case [duration]:
            return _Parts(None, None, _period(text, duration))
        case [repeats, duration]:
            return _Parts(_count(text, repeats), None, _period(text, duration))
        case [repeats, start, last]:
            count, anchor = _count(text, repeats), Moment.of(start, f"interval {text!r}: start")
            if last[:1].upper() == "P" or last[:1] in ("-", "+"):
                return _Parts(count, anchor, _period(text, last))
            return _Parts(count, anchor, _span(text, anchor, Moment.of(last, f"interval {text!r}: end")))
        case _:
            raise ScheduleError(f"interval {text!r} has too many parts; {_ALLOWED}")


def _count(text: str, repeats: str) -> int | None:
    matched = _REPEATS.fullmatch(repeats)
    if matched is None:
        raise ScheduleError(f"interval {text!r}: {repeats!r} is no number of repetitions; {_ALLOWED}")
    if matched[1] == "":
        return None
    if int(matched[1]) == 0:
        raise ScheduleError(f"interval {text!r}: R0 never fires; write R for no limit, or R1 and more")
    return int(matched[1])


def _period(text: str, duration: str) -> Period:
    try:
        return parse_period(duration)
    except DurationError as error:
        raise ScheduleError(f"interval {text!r}: {error}") from None


def _span(text: str, first: Moment, last: Moment) -> Period:
    if first.is_local != last.is_local:
        raise ScheduleError(f"interval {text!r}: give both ends an offset, or neither")
    if last.seconds <= first.seconds:
        raise ScheduleError(f"interval {text!r}: its end {last} is not after its start {first}")
    # On the wall clock days are days, so that the second instant is the end that was written, over a DST change too.
    days = (last.seconds - first.seconds) // DAY if first.is_local else 0
    return Period(0, days, last.seconds - first.seconds - days * DAY)


def _period_words(period: Period) -> str:
    years, months = divmod(period.months, 12)
    weeks, days = divmod(period.days, 7) if period.days % 7 == 0 else (0, period.days)
    hours, rest = divmod(period.seconds, 3_600)
    minutes, seconds = divmod(rest, 60)
    counted = zip(
        (years, months, weeks, days, hours, minutes, seconds),
        ("year", "month", "week", "day", "hour", "minute", "second"),
        strict=True,
    )
    words = [unit if number == 1 else f"{number} {unit}s" for number, unit in counted if number]
    return words[0] if len(words) == 1 else " and ".join((", ".join(_one(w) for w in words[:-1]), _one(words[-1])))


def _one(words: str) -> str:
    return words if words[0].isdigit() else f"1 {words}"
