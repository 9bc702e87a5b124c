"""Regular steps from an anchor: what `every`, `iso8601` and `once` share.

    steady      anchor + n × interval, in real seconds
    calendar    anchor + n × period on the wall clock: 09:00 stays 09:00, and 31 January is followed by 28 February

The n-th instant comes from the anchor and n alone, never from the one before it, so it cannot drift.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.schedules.base import INSTANTS_MAX, Budget, Found
from itinerary.schedules.durations import Period
from itinerary.schedules.instants import DAY, LATEST
from itinerary.schedules.wallclock import ClockChangePolicy, instants_at, instants_of
from itinerary.schedules.zones import Zone

__all__ = ["CalendarBatch", "CalendarSteps", "SteadyBatch", "SteadySteps"]

_FOREVER: Final = 1 << 40
_SLACK: Final = 3 * DAY
"""More than any zone is away from UTC, with what DST adds."""
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()

Numbers: TypeAlias = NDArray[np.int64]


class SteadySteps(NamedTuple):
    """`anchor + n × interval` for `first <= n < times`, in seconds."""

    anchor: int
    interval: int
    first: int = -_FOREVER
    times: int | None = None

    def next_after(self, after: int) -> int | None:
        """The first instant later than one."""
        n = max((after - self.anchor) // self.interval + 1, self.first)
        return self.anchor + n * self.interval if self.times is None or n < self.times else None


@dataclass(frozen=True, slots=True)
class SteadyBatch:
    """Many steady schedules."""

    anchor: Numbers
    interval: Numbers
    first: Numbers
    times: Numbers

    @classmethod
    def compile(cls, steps: Sequence[SteadySteps]) -> SteadyBatch:
        """Compile the steps, one row for each."""
        rows = [(s.anchor, s.interval, s.first, s.times or _FOREVER) for s in steps]
        anchor, interval, first, times = np.array(rows, np.int64).reshape(-1, 4).T
        return cls(anchor, interval, first, times)

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        """Every instant in the window."""
        first = np.maximum(-((self.anchor - start) // self.interval), self.first)
        until = np.minimum(-((self.anchor - end) // self.interval), self.times)
        rows, n = _expand(first, until, budget)
        return rows, self.anchor[rows] + n * self.interval[rows]


def _expand(first: Numbers, until: Numbers, budget: Budget) -> tuple[Numbers, Numbers]:
    """Expand the numbers `first` to `until` of each row: which row, which number."""
    counts = np.maximum(until - first, 0)
    total = int(counts.sum())
    budget.spend(total)
    rows = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return rows, np.arange(total) - np.repeat(begins - first, counts)


class CalendarSteps(NamedTuple):
    """`anchor + n × period` for `0 <= n < times`: months and days on the wall clock, then exact seconds."""

    anchor: int
    """A wall-clock reading in seconds."""
    period: Period
    times: int | None
    zone: Zone
    policy: ClockChangePolicy
    begins_at: int | None = None
    """The anchor's instant, where it was given as one: in a repeated hour its reading alone could mean another."""

    def next_after(self, after: int) -> int | None:
        """The first instant later than one."""
        if self.begins_at is not None and self.begins_at > after:
            return self.begins_at
        n = max((after - self.anchor - _SLACK) // self.longest, 0 if self.begins_at is None else 1)
        while self.times is None or n < self.times:
            reading = self._reading(n)
            if reading >= LATEST + _SLACK:
                return None
            instants = (instant + n * self.period.seconds for instant in instants_at(self.zone, self.policy, reading))
            later = [instant for instant in instants if instant > after]
            if later:
                return later[0]
            n += 1
        return None

    def _reading(self, n: int) -> int:
        days, second = divmod(self.anchor, DAY)
        anchored = date.fromordinal(days + _EPOCH_ORDINAL)
        year, month = divmod(anchored.year * 12 + anchored.month - 1 + n * self.period.months, 12)
        if year > 2200:
            return LATEST + _SLACK
        day = min(anchored.day, monthrange(year, month + 1)[1])
        shifted = date(year, month + 1, day).toordinal() - _EPOCH_ORDINAL + n * self.period.days
        return shifted * DAY + second

    @property
    def shortest(self) -> int:
        """At least how many seconds lie between two steps, over many of them."""
        return (self.period.months * 28 + self.period.days) * DAY + self.period.seconds

    @property
    def longest(self) -> int:
        """At most how many."""
        return (self.period.months * 31 + self.period.days) * DAY + self.period.seconds


@dataclass(frozen=True, slots=True)
class CalendarBatch:
    """Many calendar schedules. Python loops over the distinct zones and policies among them."""

    anchor: Numbers
    months: Numbers
    days: Numbers
    seconds: Numbers
    shortest: Numbers
    longest: Numbers
    times: Numbers
    begins_at: Numbers
    """The instant of step 0, for the rows in `begun`; their other steps follow from step 1 on."""
    begun: NDArray[np.bool_]
    groups: tuple[tuple[Zone, ClockChangePolicy, Numbers], ...]

    @classmethod
    def compile(cls, steps: Sequence[CalendarSteps]) -> CalendarBatch:
        """Compile the steps, one row for each."""
        columns = np.array(
            [
                (
                    s.anchor,
                    *(s.period.months, s.period.days, s.period.seconds),
                    s.shortest,
                    s.longest,
                    s.times or _FOREVER,
                )
                for s in steps
            ],
            np.int64,
        ).reshape(-1, 7)
        rows_of: dict[tuple[Zone, ClockChangePolicy], list[int]] = {}
        for row, step in enumerate(steps):
            rows_of.setdefault((step.zone, step.policy), []).append(row)
        groups = tuple((zone, policy, np.array(rows, np.int64)) for (zone, policy), rows in rows_of.items())
        anchor, months, days, seconds, shortest, longest, times = columns.T
        begun = np.array([s.begins_at is not None for s in steps], np.bool_)
        begins_at = np.array([s.begins_at or 0 for s in steps], np.int64)
        return cls(anchor, months, days, seconds, shortest, longest, times, begins_at, begun, groups)

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        """Every instant in the window."""
        begun = np.flatnonzero(self.begun & (self.begins_at >= start) & (self.begins_at < end))
        found_rows, found_seconds = [begun], [self.begins_at[begun]]
        for zone, policy, members in self.groups:
            first = np.maximum((start - self.anchor[members] - _SLACK) // self.longest[members], self.begun[members])
            until = np.minimum((end - self.anchor[members] + _SLACK) // self.shortest[members] + 1, self.times[members])
            at, n = _expand(first, until, Budget(2 * INSTANTS_MAX))  # candidates; what remains is spent below
            rows = members[at]
            position, seconds = instants_of(zone, policy, self._readings(rows, n))
            rows, seconds = rows[position], seconds + (n * self.seconds[rows])[position]
            inside = (seconds >= start) & (seconds < end)
            # A gap of a day or more puts a step onto the next one.
            inside[1:] &= (rows[1:] != rows[:-1]) | (seconds[1:] != seconds[:-1])
            found_rows.append(rows[inside])
            found_seconds.append(seconds[inside])
        budget.spend(sum(map(len, found_rows)))
        return np.concatenate(found_rows), np.concatenate(found_seconds)

    def _readings(self, rows: Numbers, n: Numbers) -> Numbers:
        """Wall-clock readings of the n-th step, before exact seconds."""
        anchored = (self.anchor // DAY).astype("datetime64[D]")
        month_of_anchor = anchored.astype("datetime64[M]")
        day_of_anchor = (anchored - month_of_anchor.astype("datetime64[D]")).astype(np.int64)
        month = month_of_anchor[rows] + (n * self.months[rows]).astype("timedelta64[M]")
        begins = month.astype("datetime64[D]").astype(np.int64)
        length = (month + np.timedelta64(1, "M")).astype("datetime64[D]").astype(np.int64) - begins
        day = begins + np.minimum(day_of_anchor[rows], length - 1) + n * self.days[rows]
        readings: Numbers = day * DAY + self.anchor[rows] % DAY
        return readings
