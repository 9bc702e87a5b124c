"""A tiny parser of cron expressions, and the calendar code that says whether a day matches.

It knows only what S1 and S2 allow, and trusts its input: expressions come from the generator or from a test's own
hand. Fields become plain sets of numbers; what depends on the month (`L`, `LW`, `15W`, `5L`, `5#2`) stays a list of
words that are interpreted again for each day asked about. Slow, obvious, and nothing like the engine.
"""

from __future__ import annotations

import calendar
import functools
from dataclasses import dataclass
from datetime import date, timedelta

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIRST_YEAR, LAST_YEAR = 1970, 2199
SATURDAY, SUNDAY = 5, 6  # as date.weekday() counts


@dataclass(frozen=True)
class Expression:
    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: tuple[str, ...]
    months: frozenset[int]
    weekdays: tuple[str, ...]
    years: frozenset[int] | None
    is_wildcard: bool
    days_must_both_match: bool

    def matches_day(self, day: date) -> bool:
        if day.month not in self.months or (self.years is not None and day.year not in self.years):
            return False
        by_month = any(matches_month_day(item, day) for item in self.month_days)
        by_week = any(matches_weekday(item, day) for item in self.weekdays)
        return (by_month and by_week) if self.days_must_both_match else (by_month or by_week)

    def can_fire(self) -> bool:
        """Whether any day matches; without a year field, forty years hold every kind of month, on every day of the
        week."""
        for year in sorted(self.years or range(FIRST_YEAR, FIRST_YEAR + 40)):
            for month in sorted(self.months):
                length = calendar.monthrange(year, month)[1]
                if any(self.matches_day(date(year, month, number)) for number in range(1, length + 1)):
                    return True
        return False


@functools.lru_cache
def parse(text: str) -> Expression:
    fields = NICKNAMES.get(text.lower(), text).lower().split()
    years = numbers(fields.pop(), FIRST_YEAR, LAST_YEAR) if len(fields) == 7 else None
    seconds = numbers(fields.pop(0), 0, 59) if len(fields) == 6 else frozenset({0})
    minute, hour, month_day, month, weekday = fields
    return Expression(
        text=text,
        seconds=seconds,
        minutes=numbers(minute, 0, 59),
        hours=numbers(hour, 0, 23),
        month_days=tuple(month_day.split(",")),
        months=numbers(month, 1, 12, MONTHS, first_name=1),
        weekdays=tuple(weekday.split(",")),
        years=years,
        is_wildcard=minute.startswith("*") or hour.startswith("*"),
        days_must_both_match=month_day.startswith("*") or weekday.startswith("*"),
    )


@functools.cache
def numbers(field: str, low: int, high: int, names: tuple[str, ...] = (), first_name: int = 0) -> frozenset[int]:
    """The numbers that a field's list of values, ranges and steps stands for."""

    def number(word: str) -> int:
        return names.index(word) + first_name if word in names else int(word)

    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        values = range(low, high + 1) if span == "*" else range(number(first), number(last or first) + 1)
        found.update(values[:: int(step or 1)])
    return frozenset(found)


def matches_month_day(item: str, day: date) -> bool:
    if item[-1] not in "lw":
        return day.day in numbers(item, 1, 31)
    last = calendar.monthrange(day.year, day.month)[1]
    if item == "l":
        return day.day == last
    if item == "lw":
        return day == nearest_working_day(day.replace(day=last))
    wanted = int(item[:-1])
    return wanted <= last and day == nearest_working_day(day.replace(day=wanted))


def nearest_working_day(day: date) -> date:
    """The Monday to Friday nearest to a day, within the day's month; the last day of a month can only look back."""
    if day.weekday() == SATURDAY:
        nearest, otherwise = day - timedelta(days=1), day + timedelta(days=2)
    elif day.weekday() == SUNDAY:
        nearest, otherwise = day + timedelta(days=1), day - timedelta(days=2)
    else:
        return day
    return nearest if nearest.month == day.month else otherwise


def matches_weekday(item: str, day: date) -> bool:
    today = (day.weekday() + 1) % 7  # cron counts from Sunday
    if item.endswith("l"):
        return today in weekday_numbers(item[:-1]) and (day + timedelta(days=7)).month != day.month
    if "#" in item:
        name, which = item.split("#")
        return today in weekday_numbers(name) and (day.day - 1) // 7 + 1 == int(which)
    return today in weekday_numbers(item)


@functools.cache
def weekday_numbers(item: str) -> frozenset[int]:
    return frozenset(number % 7 for number in numbers(item, 0, 7, WEEKDAYS))
