"""Many cron expressions at once: masks of all of them against the wall clock of one window.

    group by zone and policy ─► stretches of wall clock, the same for all in the group ─► days × expressions
        ─► hours of the matching days ─► minutes of the matching hours ─► seconds of the matching minutes

Each arrow narrows with one test on whole arrays and then expands bits, so the work follows what matches, not the size
of the window. Python loops over groups and stretches, of which a window has a handful; never over expressions or
instants. Groups whose stretches are equal (all zones with the same offset in the window) are done together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.schedules.base import INSTANTS_MAX, Budget, Found
from itinerary.schedules.bits import count_bits, expand_bits, span_mask
from itinerary.schedules.cron_fields import YEAR
from itinerary.schedules.cron_parse import CronMasks
from itinerary.schedules.days import YEAR_FIRST, day_words
from itinerary.schedules.instants import DAY
from itinerary.schedules.wallclock import ClockChangePolicy, ReadingRange, stretches
from itinerary.schedules.zones import UTC_NAME, Zone, ZoneSource

__all__ = ["CronBatch"]

Rows: TypeAlias = NDArray[np.int64]

_CELLS: Final = 1 << 18
"""How many (expression, day) pairs are looked at together: a few megabytes at a time."""
_FEW_DAYS: Final = 8
_KEPT_MAX: Final = 8
_HOUR: Final = 3_600
_YEAR_WORDS: Final = 5
_YEAR_BASE: Final = YEAR_FIRST - 1


@dataclass(frozen=True, slots=True)
class CronBatch:
    """Many expressions, one to a row, with the masks of `CronMasks` as columns."""

    second: NDArray[np.uint64]
    minute: NDArray[np.uint64]
    hour: NDArray[np.uint32]
    date: NDArray[np.uint64]
    weekday: NDArray[np.uint64]
    month: NDArray[np.uint16]
    either: NDArray[np.bool_]
    years: NDArray[np.uint64] | None
    """Five words a row, a bit for each year from 1899 on; None where no expression names a year."""
    on_the_minute: bool
    """Whether all expressions fire at second 0 alone."""
    groups: tuple[tuple[Zone, ClockChangePolicy, Rows], ...]
    _kept: dict[tuple[int, int], NDArray[np.bool_]] = field(default_factory=dict, repr=False, compare=False)
    """Which days of a short window match: those that were asked for last."""

    @classmethod
    def compile(
        cls, expressions: Sequence[tuple[CronMasks, ClockChangePolicy, str | None]], zones: ZoneSource
    ) -> CronBatch:
        """The columns of many expressions."""
        masks = [masks for masks, _, _ in expressions]
        second, minute, hour, days, years, _, _ = zip(*masks, strict=True)
        date, month, weekday, either = zip(*days, strict=True)
        rows_of: dict[tuple[str, ClockChangePolicy], list[int]] = {}
        for row, (_, policy, tz) in enumerate(expressions):
            rows_of.setdefault((tz or UTC_NAME, policy), []).append(row)
        return cls(
            np.array(second, np.uint64),
            np.array(minute, np.uint64),
            np.array(hour, np.uint32),
            np.array(date, np.uint64),
            np.array(weekday, np.uint64),
            np.array(month, np.uint16),
            np.array(either, np.bool_),
            None if all(mask is None for mask in years) else _year_words(years),
            set(second) == {1},
            tuple((zones(tz), policy, np.array(rows, np.int64)) for (tz, policy), rows in rows_of.items()),
        )

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        """Every instant of every expression in the window."""
        found: list[Found] = []
        for layout, rows in self._layouts(start, end).items():
            for stretch in layout:
                found.extend(self._in_stretch(np.concatenate(rows) if len(rows) > 1 else rows[0], stretch, budget))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if len(found) == 1:
            return found[0]
        return np.concatenate([rows for rows, _ in found]), np.concatenate([seconds for _, seconds in found])

    def _layouts(self, start: int, end: int) -> dict[tuple[ReadingRange, ...], list[Rows]]:
        """Which rows share the same stretches of wall clock in this window."""
        layouts: dict[tuple[ReadingRange, ...], list[Rows]] = {}
        for zone, policy, rows in self.groups:
            layouts.setdefault(tuple(stretches(zone, policy, start, end)), []).append(rows)
        return layouts

    def _in_stretch(self, rows: Rows, stretch: ReadingRange, budget: Budget) -> Iterator[Found]:
        first, last = stretch.low // DAY, (stretch.high - 1) // DAY
        days_at_once = max(_CELLS // len(rows), 1)
        if stretch.instant is None:
            for day in range(first, last + 1, days_at_once):
                until = min(day + days_at_once, last + 1)
                matching, readings = self._readings(rows, day, until, stretch, budget)
                yield matching, readings - stretch.offset
        else:
            # A gap: all matches in it together are one instant, and cost the budget one a row.
            budget.spend(len(rows))
            rows_at_once = max(INSTANTS_MAX // (stretch.high - stretch.low), 1)
            for at in range(0, len(rows), rows_at_once):
                matching, _ = self._readings(rows[at : at + rows_at_once], first, last + 1, stretch, Budget())
                once = np.unique(matching)
                yield once, np.full(len(once), stretch.instant, np.int64)

    def _readings(self, rows: Rows, first: int, until: int, stretch: ReadingRange, budget: Budget) -> Found:
        """The matching readings of the days `[first, until)` within a stretch: rows and wall-clock seconds."""
        at, days = self._matching_days(rows, first, until)
        if not len(at):
            return at, days
        at, hours = self._matching_hours(at, days, stretch)
        if not len(at):
            return at, hours
        return self._matching_times(at, hours, stretch, budget)

    def _matching_days(self, rows: Rows, first: int, until: int) -> tuple[Rows, NDArray[np.int64]]:
        days = np.arange(first, until)
        if until - first <= _FEW_DAYS and (until - first) * len(self.minute) <= _CELLS:
            row, day = np.nonzero(self._few_days(first, until)[rows])
        else:
            row, day = np.nonzero(self._day_matches(rows, days))
        return rows[row], days[day]

    def _few_days(self, first: int, until: int) -> NDArray[np.bool_]:
        """Which days match, for every row: a node asks for the same few days again and again, all day long."""
        matching = self._kept.get((first, until))
        if matching is None:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            matching = self._kept[first, until] = self._day_matches(
                np.arange(len(self.minute)), np.arange(first, until)
            )
        return matching

    def _day_matches(self, rows: Rows, days: NDArray[np.int64]) -> NDArray[np.bool_]:
        words = day_words(days)
        by_date = (self.date[rows, None] & words.date) != 0
        by_weekday = (self.weekday[rows, None] & words.weekday) != 0
        matching: NDArray[np.bool_] = np.where(self.either[rows, None], by_date | by_weekday, by_date & by_weekday)
        matching &= (self.month[rows, None] >> words.month) & 1 != 0
        if self.years is not None:
            number = words.year - _YEAR_BASE
            allowed = self.years[rows][:, number >> 6] >> (number & 63).astype(np.uint64)
            matching &= allowed & np.uint64(1) != 0
        return matching

    def _matching_hours(
        self, rows: Rows, days: NDArray[np.int64], stretch: ReadingRange
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Hours since the epoch, on the wall clock."""
        first_day, first_hour = divmod(stretch.low // _HOUR, 24)
        last_day, last_hour = divmod((stretch.high - 1) // _HOUR, 24)
        hours = self.hour[rows]
        hours[days == first_day] &= np.uint32(span_mask(first_hour, 24))
        hours[days == last_day] &= np.uint32(span_mask(0, last_hour + 1))
        if not hours.any():
            return rows[:0], days[:0]
        counts = count_bits(hours)
        return np.repeat(rows, counts), np.repeat(days * 24, counts) + expand_bits(hours)

    def _matching_times(self, rows: Rows, hours: NDArray[np.int64], stretch: ReadingRange, budget: Budget) -> Found:
        first_hour, first_minute = divmod(stretch.low // 60, 60)
        last_hour, last_minute = divmod((stretch.high - 1) // 60, 60)
        minutes = self.minute[rows]
        minutes[hours == first_hour] &= np.uint64(span_mask(first_minute, 60))
        minutes[hours == last_hour] &= np.uint64(span_mask(0, last_minute + 1))
        counts = count_bits(minutes)
        seconds = None if self.on_the_minute else self.second[rows]
        budget.spend(int(counts.sum() if seconds is None else (counts * count_bits(seconds)).sum()))
        readings = np.repeat(hours * _HOUR, counts) + expand_bits(minutes) * 60
        rows = np.repeat(rows, counts)
        if seconds is not None:
            seconds = self.second[rows]
            counts = count_bits(seconds)
            readings = np.repeat(readings, counts) + expand_bits(seconds)
            rows = np.repeat(rows, counts)
        if stretch.low % 60 or stretch.high % 60:
            inside = (readings >= stretch.low) & (readings < stretch.high)
            return rows[inside], readings[inside]
        return rows, readings


def _year_words(years: Sequence[int | None]) -> NDArray[np.uint64]:
    everything, shift = (1 << 64 * _YEAR_WORDS) - 1, YEAR.base - _YEAR_BASE
    masks = (everything if mask is None else mask << shift for mask in years)
    octets = b"".join(mask.to_bytes(8 * _YEAR_WORDS, "little") for mask in masks)
    return np.frombuffer(octets, np.dtype("<u8")).reshape(-1, _YEAR_WORDS)
