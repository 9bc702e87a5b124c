"""Cron: five fields, six with leading seconds, seven with a trailing year.

    ┌───────────── second, only with six or seven fields
    │ ┌─────────── minute
    │ │ ┌───────── hour
    │ │ │ ┌─────── day of month       both days restricted: either suffices, as in Debian's
    │ │ │ │ ┌───── month
    │ │ │ │ │ ┌─── day of week
    │ │ │ │ │ │ ┌─ year, only with seven fields
    0 0 5 * * 1-5 *

An expression becomes one bit mask a field. The search for the next match asks each mask for its next bit, and searches
days by the year (`days`). So 29 February on a Monday is found as fast as tomorrow.

By default, daylight saving follows Debian's cron. An expression with `*` in minute or hour follows real time. An
expression with fixed times runs once in a night that skips its time, and once in a night that has it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from itinerary.errors import ScheduleError
from itinerary.schedules.base import Batch, Binding, WallClockSchedule, common_arguments, wall_clock_arguments
from itinerary.schedules.cron_bulk import CronBatch
from itinerary.schedules.cron_parse import (
    CronMasks,
    check_length,
    expand_expression,
    has_hash,
    normalise,
    parse_expression,
)
from itinerary.schedules.cron_words import cron_words
from itinerary.schedules.days import next_day
from itinerary.schedules.durations import DurationLike
from itinerary.schedules.instants import DAY, LATEST, MomentLike
from itinerary.schedules.reboot import Reboot
from itinerary.schedules.wallclock import DEBIAN, REAL_TIME, ClockChangePolicy, stretches
from itinerary.schedules.zones import ZoneSource

__all__ = ["Cron", "cron"]


@dataclass(frozen=True, slots=True)
class Cron(WallClockSchedule):
    """A cron expression in a time zone. Build it with `cron`."""

    kind: ClassVar[str] = "cron"

    expression: str
    written: str | None = None
    """The original text, if `H` has been expanded since."""
    masks: CronMasks = field(init=False, repr=False, compare=False)
    is_open: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_common()
        is_open = has_hash(self.expression)
        # With an open H any job's name will do to check the rest of the expression.
        text = expand_expression(self.expression, "") if is_open else self.expression
        for part in (text, self.written or ""):
            check_length(part)  # what is stored is read again, and H is longer when it is written out
        object.__setattr__(self, "masks", parse_expression(text))
        object.__setattr__(self, "is_open", is_open)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the expression that are allowed but may surprise."""
        return self.masks.warnings

    @property
    def policy(self) -> ClockChangePolicy:
        """The behaviour in a gap and in a repeated hour."""
        return self.policy_over(REAL_TIME if self.masks.follows_clock else DEBIAN)

    def _next(self, after: int, zones: ZoneSource) -> int | None:
        for stretch in stretches(self.zone(zones), self.policy, after + 1, LATEST):
            reading = _first_match(self.masks, stretch.low, stretch.high)
            if reading is not None:
                return reading - stretch.offset if stretch.instant is None else stretch.instant
        return None

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        return CronBatch.compile([(s.masks, s.policy, s.tz) for s in schedules], zones)

    def open_question(self) -> str | None:
        if not self.is_open:
            return None
        return (
            f"the H in {self.expression!r} is hashed from the job's name; register it with a job, or bind it to a name"
        )

    def bind(self, binding: Binding) -> Self:
        bound = self.inheriting(binding.timezone)
        if not self.is_open:
            return bound
        return replace(bound, expression=expand_expression(self.expression, binding.job), written=self.expression)

    def _words(self) -> str:
        return f"Spread by the job's name ({self.expression})" if self.is_open else cron_words(self.masks)

    def _fields(self) -> dict[str, Any]:
        return {"cron": self.expression, "written": self.written}


def cron(
    expression: str,
    *,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    gap: str | None = None,
    repeat: str | None = None,
    jitter: DurationLike = 0,
) -> Cron | Reboot:
    """A cron schedule: `cron("0 5 * * 1-5", tz="America/New_York")`. `@reboot` is once per start of a node."""
    text = normalise(expression)
    if text.lower() == "@reboot":
        if gap is not None or repeat is not None:
            raise ScheduleError("cron '@reboot' follows no clock; leave out gap and repeat")
        return Reboot(**common_arguments(tz, start, end, jitter))
    return Cron(text, **wall_clock_arguments(tz, start, end, jitter, gap, repeat))


def _first_match(masks: CronMasks, low: int, high: int) -> int | None:
    """The first matching wall-clock reading in `[low, high)`."""
    from_day, second = divmod(low, DAY)
    last_day = (high - 1) // DAY
    day = next_day(masks.days, masks.years, from_day, last_day)
    if day == from_day:
        reading = _first_time(masks, second)
        if reading is not None:
            return _below(day * DAY + reading, high)
        day = next_day(masks.days, masks.years, from_day + 1, last_day)
    if day is None:
        return None
    reading = _first_time(masks, 0)
    assert reading is not None, "an expression matches at least one time of day"
    return _below(day * DAY + reading, high)


def _below(reading: int, high: int) -> int | None:
    return reading if reading < high else None


def _first_time(masks: CronMasks, second_of_day: int) -> int | None:
    """The first matching second of the day at or after one."""
    minute_of_day, second = divmod(second_of_day, 60)
    hour, minute = divmod(minute_of_day, 60)
    if masks.hour >> hour & 1:
        if masks.minute >> minute & 1 and (rest := masks.second >> second):
            return second_of_day + _lowest_bit(rest)
        if rest := masks.minute >> (minute + 1):
            return hour * 3_600 + (minute + 1 + _lowest_bit(rest)) * 60 + _lowest_bit(masks.second)
    if rest := masks.hour >> (hour + 1):
        return (hour + 1 + _lowest_bit(rest)) * 3_600 + _lowest_bit(masks.minute) * 60 + _lowest_bit(masks.second)
    return None


def _lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
