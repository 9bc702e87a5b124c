"""How croniter 6.2.4 reads an expression, where it reads it otherwise than we do.

Each reason is a function that says whether it concerns an expression; `readings` applies all of them. What croniter
means comes out as one expression, or as two when it ORs the day fields: it then searches twice and takes the
earlier answer.
"""

from __future__ import annotations

import calendar
import functools
from dataclasses import fields, replace
from datetime import date
from typing import TYPE_CHECKING

from tests.oracles.grammar import Expression, matches_month_day, matches_weekday, parse
from tests.oracles.libraries import fields_of, number_of

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_YEAR = 2099
A_MONTH = [date(2024, 1, day) for day in range(1, 32)]


def ranges_of_one_value_mean_the_whole_field(text: str) -> bool:
    """croniter takes `15-15` for `*` and `15-15/10` for `*/10`. Ours is one value."""
    return widened(text) != " ".join(fields_of(text))


def nearest_weekdays_move_to_the_end_of_a_short_month(text: str) -> bool:
    """croniter takes `31W` in June for the weekday nearest to the 30th. Ours does not fire in a month without a
    31st."""
    return any(item.endswith("w") and int(item[:-1]) > 28 for item in day_fields(text)[0])


def special_days_are_not_ored(text: str) -> bool:
    """croniter applies `15W` and `5#2` in both searches of an OR, so that the other day field is ignored, or nothing is
    found at all when the two never coincide. Ours ORs them as it does all restricted day fields."""
    month_days, weekdays = day_fields(text)
    return (any(map(is_nearest, month_days)) or any(map(is_nth, weekdays))) and not reads_as_both(text)


def nth_weekdays_push_out_plain_ones(text: str) -> bool:
    """croniter takes `0-6,5#2` for `5#2`. Ours takes a list for what any of its items says."""
    weekdays = day_fields(text)[1]
    return any(map(is_nth, weekdays)) and not all(map(is_nth, weekdays))


def full_ranges_count_as_stars(text: str) -> bool:
    """croniter takes `1-31` for `*`, and ANDs, if the other day field has a star anywhere. Ours looks for a star in
    front."""
    return reads_as_both(text) != parse(text).days_must_both_match


def thirty_days_and_the_last_count_as_all(text: str) -> bool:
    """croniter takes `2-31,L` for `*`: it counts 31 entries and looks no further. Ours does not fire on the 1st."""
    return "l" in day_fields(text)[0] and is_whole_month(text)


def either_day_field_may_run_out(text: str) -> bool:
    """croniter fails as soon as one of two ORed day fields has no day, like a 31st of April or a year gone by, even
    if the other has one. Ours takes what either has."""
    meant = readings(text)
    return len(meant) == 2 and (meant[0].years is not None or is_stuck(text))


def stepped_years_end_in_2099(text: str) -> bool:
    """croniter's years, and so `*/4` among them, end in 2099. Ours end in 2199."""
    years = parse(text).years
    return years is not None and max(years) > LAST_YEAR and "*" not in fields_of(text)[-1].split(",")


READINGS: tuple[Callable[[str], bool], ...] = (
    ranges_of_one_value_mean_the_whole_field,
    nearest_weekdays_move_to_the_end_of_a_short_month,
    special_days_are_not_ored,
    nth_weekdays_push_out_plain_ones,
    full_ranges_count_as_stars,
    thirty_days_and_the_last_count_as_all,
    either_day_field_may_run_out,
    stepped_years_end_in_2099,
)


class CroniterDays(Expression):
    """An expression whose `31W` moves to the end of a short month."""

    def matches_day(self, day: date) -> bool:
        return (
            day.month in self.months
            and (self.years is None or day.year in self.years)
            and any(matches_month_day(_moved(item, day), day) for item in self.month_days)
            and any(matches_weekday(item, day) for item in self.weekdays)
        )


def _moved(item: str, day: date) -> str:
    if not is_nearest(item) or int(item[:-1]) <= 28:
        return item
    return "lw" if int(item[:-1]) > calendar.monthrange(day.year, day.month)[1] else item


@functools.lru_cache
def readings(text: str) -> tuple[CroniterDays, ...]:
    """What croniter searches for: one expression, or two of which it takes the earlier instant."""
    wide = parse(widened(text))
    years = wide.years and frozenset(year for year in wide.years if year <= LAST_YEAR)
    if years and ("*" in fields_of(text)[-1].split(",") or len(years) == LAST_YEAR - 1969):
        years = None
    nearest = tuple(filter(is_nearest, wide.month_days))
    nth = tuple(filter(is_nth, wide.weekdays))
    base = CroniterDays(**{field.name: getattr(wide, field.name) for field in fields(wide)})
    base = replace(base, years=years, weekdays=nth or wide.weekdays)
    if is_whole_month(text):
        base = replace(base, month_days=("*",))
    if reads_as_both(text):
        return (base,)
    return replace(base, weekdays=nth or ("*",)), replace(base, month_days=nearest or ("*",))


@functools.lru_cache
def is_stuck(text: str) -> bool:
    """Whether one of croniter's searches can never find anything."""
    return not all(one.can_fire() for one in readings(text))


@functools.lru_cache
def widened(text: str) -> str:
    """The expression with every range of one value made a star."""
    parts = fields_of(text)
    wide = [",".join(map(_widen, part.split(","))) for part in parts]
    if len(parts) == 5:  # only there does croniter know Sunday as 7
        wide[-1] = ",".join(_widen(item, cycle=7) for item in parts[-1].split(","))
    return " ".join(wide)


def _widen(item: str, cycle: int = 10_000) -> str:
    span, slash, step = item.partition("/")
    first, _, last = span.partition("-")
    return f"*{slash}{step}" if last and number_of(first) % cycle == number_of(last) % cycle else item


def reads_as_both(text: str) -> bool:
    """Whether croniter ANDs the day fields."""
    month_day, weekday = map(",".join, day_fields(text))
    starred = month_day.startswith("*") or weekday.startswith("*")
    return starred or is_whole_month(text) or (is_whole_week(text) and "*" in month_day)


@functools.lru_cache
def is_whole_month(text: str) -> bool:
    """Whether croniter takes the days of the month for a star."""
    month_days = parse(widened(text)).month_days
    plain = [item for item in month_days if item[-1] not in "wl"]
    count = sum(any(matches_month_day(item, day) for item in plain) for day in A_MONTH)
    return count + ("l" in month_days) == len(A_MONTH) and "*" in ",".join(day_fields(text)[1])


@functools.lru_cache
def is_whole_week(text: str) -> bool:
    plain = [item for item in parse(widened(text)).weekdays if not is_nth(item)]
    return all(any(matches_weekday(item, day) for item in plain) for day in A_MONTH[:7])


def day_fields(text: str) -> tuple[list[str], list[str]]:
    parts = fields_of(text)
    first = 0 if len(parts) == 5 else 1
    return parts[first + 2].split(","), parts[first + 4].split(",")


def is_nearest(item: str) -> bool:
    return item.endswith("w") and item != "lw"


def is_nth(item: str) -> bool:
    return "#" in item
