"""From the text of a cron expression to its masks, and every reason to refuse one.

Refused here, before anything is stored: what cannot be read, what is longer than 256 characters, and what can never
fire (30 February). Errors name the expression, the field, what was wrong with it and what is allowed there.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from itinerary.errors import ScheduleError
from itinerary.schedules.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    FieldMask,
    parse_field,
)
from itinerary.schedules.cron_hash import expand_hash, is_hashed
from itinerary.schedules.days import DayMasks, matching_days, year_kind

__all__ = [
    "LENGTH_MAX",
    "NICKNAMES",
    "CronMasks",
    "check_length",
    "expand_expression",
    "has_hash",
    "normalise",
    "parse_expression",
]

LENGTH_MAX: Final = 256

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FIVE: Final = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_KINDS: Final = {5: _FIVE, 6: (SECOND, *_FIVE), 7: (SECOND, *_FIVE, YEAR)}

# Days that come in every month: an expression that has one of them fires, and needs no search to know it.
_COMMON_DATES: Final = 0b11 << 62 | ((1 << 28) - 1) << 31 | (1 << 28) - 1
_COMMON_WEEKDAYS: Final = (1 << 42) - 1
_EVERY_DATE: Final = (1 << 31) - 1
_EVERY_WEEKDAY: Final = (1 << 7) - 1


class CronMasks(NamedTuple):
    """A parsed expression: bit n of `second`, `minute` and `hour` is the value n, of `years` the year 1970 + n."""

    second: int
    minute: int
    hour: int
    days: DayMasks
    years: int | None
    follows_clock: bool
    """Whether minute or hour begins with `*`, so that the schedule follows real time over a shift."""
    warnings: tuple[str, ...]


def normalise(expression: str) -> str:
    """The expression with single spaces. Refuses what is no text, or too long to look at."""
    if not isinstance(expression, str):
        raise ScheduleError(f"a cron expression is text such as '0 5 * * *', not {type(expression).__name__}")
    check_length(expression)
    if not expression.isascii():  # upper() would read a dotless i as I
        raise ScheduleError(
            f"cron {expression!r} has characters that are not ASCII; a field takes digits, names and * , - / #"
        )
    return " ".join(word for word in expression.replace("\t", " ").split(" ") if word)


def check_length(expression: str) -> None:
    """Refuse what is too long to look at."""
    if len(expression) > LENGTH_MAX:
        raise ScheduleError(f"cron expression is {len(expression)} characters long; at most {LENGTH_MAX} are allowed")


def _split(expression: str) -> tuple[list[str], tuple[Field, ...]]:
    """The texts of the fields, and which field each of them is."""
    text = expression
    if text[:1] == "@":
        text = NICKNAMES.get(text.lower(), "")
        if not text:
            if expression.lower().startswith("@every "):
                raise ScheduleError(f"cron {expression!r} is no cron expression; write every({expression[7:]!r})")
            known = " ".join((*NICKNAMES, "@reboot"))
            raise ScheduleError(f"cron {expression!r} is unknown; allowed are {known}, or five to seven fields")
    texts = text.split(" ") if text else []
    kinds = _KINDS.get(len(texts))
    if kinds is None:
        raise ScheduleError(
            f"cron {expression!r} has {len(texts)} fields; five are needed (minute, hour, day of month, month, "
            "day of week), six with leading seconds, seven with a trailing year"
        )
    return texts, kinds


def has_hash(expression: str) -> bool:
    """Whether an expression has an `H` in it that still has to be expanded."""
    return "h" in expression.lower() and expression[:1] != "@" and any(map(is_hashed, expression.split(" ")))


def expand_expression(expression: str, job: str) -> str:
    """The expression with each `H` replaced by what it stands for in this job."""
    texts, kinds = _split(expression)
    try:
        return " ".join(expand_hash(kind, text, job) for kind, text in zip(kinds, texts, strict=True))
    except ScheduleError as error:
        raise ScheduleError(f"cron {expression!r}: {error}") from None


def parse_expression(expression: str) -> CronMasks:
    """The masks of an expression without `H`."""
    texts, kinds = _split(expression)
    try:
        parsed = list(map(parse_field, kinds, texts))
    except ScheduleError as error:
        raise ScheduleError(f"cron {expression!r}: {error}") from None
    second = parsed[0].mask if len(texts) > 5 else 1
    years = parsed[6].mask if len(texts) == 7 and texts[6] != "*" else None
    minute, hour, date, month, weekday = parsed[len(texts) > 5 :][:5]
    days = DayMasks(date.mask, month.mask, weekday.mask, not (date.is_star or weekday.is_star))
    if not _fires(days, years):
        raise ScheduleError(
            f"cron {expression!r} can never fire: no day of month {texts[-3 - (len(texts) == 7)]} in month "
            f"{texts[-2 - (len(texts) == 7)]}, day of week {texts[-1 - (len(texts) == 7)]}, "
            f"{'in the years given' if years is not None else 'in any year'}; change one of these fields"
        )
    warnings = tuple(warning for field in parsed for warning in field.warnings) + _day_warning(date, weekday)
    return CronMasks(second, minute.mask, hour.mask, days, years, minute.is_star or hour.is_star, warnings)


def _day_warning(date: FieldMask, weekday: FieldMask) -> tuple[str, ...]:
    stepped_date = date.is_star and date.mask != _EVERY_DATE
    stepped_weekday = weekday.is_star and weekday.mask != _EVERY_WEEKDAY
    if (stepped_date and weekday.mask != _EVERY_WEEKDAY) or (stepped_weekday and date.mask != _EVERY_DATE):
        return ("a day field that begins with * counts as *, so day of month and day of week must both match",)
    return ()


def _fires(days: DayMasks, years: int | None) -> bool:
    if years is None:
        sure_date, sure_weekday = days.date & _COMMON_DATES, days.weekday & _COMMON_WEEKDAYS
        any_date = days.date & _EVERY_DATE == _EVERY_DATE
        any_weekday = days.weekday & _EVERY_WEEKDAY == _EVERY_WEEKDAY
        if (sure_date and (days.either or any_weekday)) or (sure_weekday and (days.either or any_date)):
            return True
        if sure_date & _EVERY_DATE and sure_weekday & _EVERY_WEEKDAY:
            return True  # each day up to the 28th falls on each weekday in some year
    return any(matching_days(days, kind) for kind in _kinds_of_years(years))


@cache
def _all_kinds() -> frozenset[int]:
    return frozenset(year_kind(year) for year in range(YEAR.low, YEAR.high + 1))


def _kinds_of_years(years: int | None) -> frozenset[int]:
    if years is None:
        return _all_kinds()
    return frozenset(year_kind(YEAR.low + n) for n in range(YEAR.high - YEAR.low + 1) if years >> n & 1)
