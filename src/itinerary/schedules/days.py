"""The matching days of an expression: the calendar as bits.

There are only fourteen different years: leap or not, beginning on one of seven weekdays. For each day of each of them
two 64-bit words hold everything that a cron expression can ask about that day:

    the date word       0-30  it is day 1 … 31 of its month
                       31-61  it is the weekday nearest to day 1 … 31 of its month (`15W`)
                          62  it is the last day of its month (`L`)
                          63  it is the last weekday of its month (`LW`)
    the weekday word     0-6  it is a Sunday … Saturday
                        7-13  it is the last Sunday … Saturday of its month (`5L`)
                       14-48  it is the first Sunday … fifth Saturday of its month (`5#2`)

An expression has a mask for each word, and a day matches if mask and word have a bit in common. So `15W` or `5#2` are
as fast as a plain number, for one day or for a million days at once.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LAST_DAY",
    "LAST_WEEKDAY",
    "YEAR_FIRST",
    "YEAR_LAST",
    "DayMasks",
    "day_words",
    "last_bit",
    "matching_days",
    "nearest_bit",
    "next_day",
    "nth_bit",
    "year_kind",
]

YEAR_FIRST: Final = 1900
YEAR_LAST: Final = 2199

LAST_DAY: Final = 1 << 62
LAST_WEEKDAY: Final = 1 << 63
_KINDS: Final = 14
_DAYS: Final = 366
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


def nearest_bit(day: int) -> int:
    """The date mask of the weekday nearest to a day of the month."""
    return 1 << (30 + day)


def last_bit(weekday: int) -> int:
    """The weekday mask of the last such weekday in the month."""
    return 1 << (7 + weekday)


def nth_bit(weekday: int, nth: int) -> int:
    """The weekday mask of the n-th such weekday in the month."""
    return 1 << (7 + 7 * nth + weekday)


class DayMasks(NamedTuple):
    """The days that an expression matches."""

    date: int
    month: int
    weekday: int
    either: bool
    """Whether date or weekday suffices; otherwise both must match."""


@dataclass(frozen=True, slots=True)
class _YearTable:
    """Words by kind of year and day of the year; a 366th day that does not exist has month 0 and matches nothing."""

    date_words: NDArray[np.uint64]
    weekday_words: NDArray[np.uint64]
    months: NDArray[np.uint16]


@cache
def _year_table() -> _YearTable:
    date_words = np.zeros((_KINDS, _DAYS), np.uint64)
    weekday_words = np.zeros((_KINDS, _DAYS), np.uint64)
    months = np.zeros((_KINDS, _DAYS), np.uint16)
    for year in range(2000, 2028):  # 28 years in a row contain every kind
        kind, at = year_kind(year), 0
        for month in range(1, 13):
            first_weekday, length = (monthrange(year, month)[0] + 1) % 7, monthrange(year, month)[1]
            words = _month_words(first_weekday, length)
            date_words[kind, at : at + length] = [word for word, _ in words]
            weekday_words[kind, at : at + length] = [word for _, word in words]
            months[kind, at : at + length] = month
            at += length
    return _YearTable(date_words, weekday_words, months)


@cache
def _month_words(first_weekday: int, length: int) -> list[tuple[int, int]]:
    """Return date and weekday word of each day of a month that begins on a weekday (0 = Sunday)."""
    weekdays = [(first_weekday + n) % 7 for n in range(length)]
    dates = [1 << n for n in range(length)]
    for day in range(1, length + 1):
        dates[_nearest_weekday(day, weekdays) - 1] |= nearest_bit(day)
    dates[-1] |= LAST_DAY
    dates[max(n for n in range(length) if 1 <= weekdays[n] <= 5)] |= LAST_WEEKDAY
    return [
        (
            dates[n],
            1 << weekdays[n] | nth_bit(weekdays[n], n // 7 + 1) | (last_bit(weekdays[n]) if n + 7 >= length else 0),
        )
        for n in range(length)
    ]


def _nearest_weekday(day: int, weekdays: list[int]) -> int:
    match weekdays[day - 1]:
        case 6:
            return day - 1 if day > 1 else day + 2
        case 0:
            return day + 1 if day < len(weekdays) else day - 2
        case _:
            return day


@cache
def year_kind(year: int) -> int:
    """Which of the fourteen kinds of year it is."""
    return date(year, 1, 1).isoweekday() % 7 + (7 if isleap(year) else 0)


@cache
def _years() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first day (since the epoch) and the kind of each supported year, and of one year on either side."""
    years = range(YEAR_FIRST - 1, YEAR_LAST + 2)
    firsts = np.array([_first_day(year) for year in years], np.int64)
    return firsts, np.array([year_kind(year) for year in years], np.int64)


@cache
def _first_day(year: int) -> int:
    return date(year, 1, 1).toordinal() - _EPOCH_ORDINAL


class DayWords(NamedTuple):
    """The words of many days."""

    date: NDArray[np.uint64]
    weekday: NDArray[np.uint64]
    month: NDArray[np.uint16]
    year: NDArray[np.int64]


def day_words(days: NDArray[np.int64]) -> DayWords:
    """The words of many days, given as days since the epoch."""
    firsts, kinds = _years()
    number = np.searchsorted(firsts, days, side="right") - 1
    kind, of_year = kinds[number], days - firsts[number]
    table = _year_table()
    return DayWords(
        table.date_words[kind, of_year],
        table.weekday_words[kind, of_year],
        table.months[kind, of_year],
        number + (YEAR_FIRST - 1),
    )


@lru_cache(maxsize=16_384)
def matching_days(masks: DayMasks, kind: int) -> int:
    """The matching days of a kind of year, as a number whose bit n is day n of the year, counted from 0."""
    table = _year_table()
    by_date = (table.date_words[kind] & np.uint64(masks.date)) != 0
    by_weekday = (table.weekday_words[kind] & np.uint64(masks.weekday)) != 0
    in_month = (np.uint16(masks.month) >> table.months[kind]) & 1 == 1
    matching = in_month & (by_date | by_weekday if masks.either else by_date & by_weekday)
    return int.from_bytes(np.packbits(matching, bitorder="little").tobytes(), "little")


def next_day(masks: DayMasks, years: int | None, day: int, last: int) -> int | None:
    """The first matching day in `[day, last]`, as days since the epoch. Bit n of `years` is the year 1970 + n."""
    year = date.fromordinal(day + _EPOCH_ORDINAL).year
    while (first := _first_day(year)) <= last and year <= YEAR_LAST + 1:  # east of UTC 2200 begins a day early
        if years is None or (year >= 1970 and years >> (year - 1970) & 1):
            skipped = max(day - first, 0)
            if found := matching_days(masks, year_kind(year)) >> skipped:
                at = first + skipped + (found & -found).bit_length() - 1
                return at if at <= last else None
        year += 1
    return None
