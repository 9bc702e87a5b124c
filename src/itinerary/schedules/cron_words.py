"""A cron expression in words, from its masks: "At 05:00, Monday to Friday".

The words come from what the expression matches and not from how it was written, so `0 5 * * 1-5` and
`0 5 * * MON,TUE,WED,THU,FRI` read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from itinerary.schedules.cron_fields import DAY_OF_WEEK, HOUR, MINUTE, SECOND, YEAR, Field
from itinerary.schedules.cron_parse import CronMasks
from itinerary.schedules.days import LAST_DAY, LAST_WEEKDAY, DayMasks, last_bit, nearest_bit, nth_bit

__all__ = ["bits_of", "cron_words", "joined", "ordinal"]

_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_TIMES_MAX: Final = 6
_EVERY_DATE: Final = (1 << 31) - 1
_EVERY_WEEKDAY: Final = (1 << 7) - 1


def cron_words(masks: CronMasks) -> str:
    """The expression in words, without its zone."""
    parts = [_time_words(masks), *_day_words(masks.days)]
    months = bits_of(masks.days.month)
    if len(months) < 12:
        parts.append("in " + _series([_MONTHS[month - 1] for month in months], months))
    if masks.years is not None:
        years = [YEAR.base + n for n in bits_of(masks.years)]
        parts.append("in " + _series([str(year) for year in years], years))
    return ", ".join(parts)


def bits_of(mask: int) -> list[int]:
    """The positions of a mask's bits."""
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


def joined(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _time_words(masks: CronMasks) -> str:
    seconds, minutes, hours = bits_of(masks.second), bits_of(masks.minute), bits_of(masks.hour)
    if len(seconds) * len(minutes) * len(hours) <= _TIMES_MAX:
        with_seconds = seconds != [0]
        times = [
            f"{hour:02}:{minute:02}" + (f":{second:02}" if with_seconds else "")
            for hour in hours
            for minute in minutes
            for second in seconds
        ]
        return f"At {joined(times)}"
    phrases = []
    if seconds != [0]:
        phrases.append(_every(SECOND, seconds))
    if len(minutes) < 60 or not phrases:
        phrases.append(_every(MINUTE, minutes))
    if len(hours) < 24:
        phrases.append(_every(HOUR, hours))
    elif len(minutes) < 60 and _step(MINUTE, minutes) is None:
        phrases.append("of every hour")
    text = " ".join(phrases).replace("minute 0 of every hour", "the start of every hour")
    return text[0].upper() + text[1:]


def _every(field: Field, values: list[int]) -> str:
    """`every 15 minutes`, `at minute 5 and 20`, `past hours 9 to 17`."""
    step = _step(field, values)
    if field is HOUR:
        if step:
            return f"in every {ordinal(step)} hour from {values[0]:02}:00"
        return "during " + _series([f"{hour:02}h" for hour in values], values)
    if len(values) == field.high + 1:
        return f"every {field.label}"
    if step:
        start = f" from {field.label} {values[0]}" if values[0] else ""
        return f"every {step} {field.label}s{start}"
    return f"at {field.label} " + _series([str(value) for value in values], values)


def _step(field: Field, values: list[int]) -> int | None:
    """The step n where the values are `a-max/n` and go round evenly: 0,15,30,45 but not 0,7,14."""
    if len(values) < 3:
        return None
    step = values[1] - values[0]
    whole = values == list(range(values[0], field.high + 1, step)) and values[0] < step
    return step if whole and step > 1 and (field.high + 1) % step == 0 else None


def _day_words(days: DayMasks) -> list[str]:
    dates, weekdays = _date_words(days), _weekday_words(days)
    if dates and weekdays:
        return [f"{dates} or {weekdays}" if days.either else f"{dates} if it is {weekdays.removeprefix('on ')}"]
    return [dates or weekdays] if dates or weekdays else []


def _date_words(days: DayMasks) -> str:
    plain = [n + 1 for n in bits_of(days.date & _EVERY_DATE)]
    if len(plain) == 31:
        return ""
    step = plain[1] - plain[0] if len(plain) > 2 else 1
    if step > 1 and plain == list(range(plain[0], 32, step)) and days.date & ~_EVERY_DATE == 0:
        return f"on every {ordinal(step)} day of the month from the {ordinal(plain[0])}"
    words = [_series([ordinal(n) for n in plain], plain)] if plain else []
    words += [f"weekday nearest the {ordinal(n)}" for n in range(1, 32) if days.date & nearest_bit(n)]
    words += ["last day"] if days.date & LAST_DAY else []
    words += ["last weekday"] if days.date & LAST_WEEKDAY else []
    return f"on the {joined(words)} of the month"


def _weekday_words(days: DayMasks) -> str:
    plain = bits_of(days.weekday & _EVERY_WEEKDAY)
    if len(plain) == 7:
        return ""
    words = [_week_series(plain)] if plain else []
    for nth in range(1, 6):
        words += [f"the {ordinal(nth)} {_WEEKDAYS[n]} of the month" for n in range(7) if days.weekday & nth_bit(n, nth)]
    words += [f"the last {_WEEKDAYS[n]} of the month" for n in range(7) if days.weekday & last_bit(n)]
    text = joined(words)
    return text if text.count(" to ") and "," not in text and " and " not in text else f"on {text}"


def _week_series(values: list[int]) -> str:
    """Weekdays with the week beginning on Monday, so that the weekend stays together."""
    order = sorted((value - 1) % 7 for value in values)
    return _series([_WEEKDAYS[(n + 1) % DAY_OF_WEEK.high] for n in order], order)


def _series(names: Sequence[str], numbers: Sequence[int]) -> str:
    """Names of ascending numbers, runs of three and more as `a to b`."""
    pieces: list[str] = []
    first = 0
    for n in range(1, len(numbers) + 1):
        if n < len(numbers) and numbers[n] == numbers[n - 1] + 1:
            continue
        run = names[first:n]
        pieces += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
        first = n
    return joined(pieces)
