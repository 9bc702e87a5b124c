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
        series = _series([_MONTHS[month - 1] for month in months], months)
        if parts[-1].endswith("of the month") and not masks.days.either and " to " not in series:
            parts[-1] = parts[-1].replace("the month", series)
        else:
            parts.append(_during(series))
    if masks.years is not None:
        parts.append(_year_words([YEAR.base + n for n in bits_of(masks.years)]))
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
        text = f"at {joined(times)}"
    elif seconds != [0]:
        text = _second_words(seconds, minutes, hours)
    elif len(minutes) > 1:
        text = _minute_words(minutes, hours)
    else:
        text = _hour_words(minutes[0], hours)
    return text[0].upper() + text[1:]


def _second_words(seconds: list[int], minutes: list[int], hours: list[int]) -> str:
    """`every 10 seconds`, `at second 30 of every minute`, `every second of minute 0 of every hour`."""
    text = _every(SECOND, seconds)
    if len(minutes) < 60:
        text += f" of {_numbered(MINUTE, minutes)}" + (" of every hour" if len(hours) == 24 else "")
    elif text.startswith("at"):
        text += " of every minute"
    return text if len(hours) == 24 else f"{text}, {_spans(hours)}"


def _minute_words(minutes: list[int], hours: list[int]) -> str:
    """`every 15 minutes`, `every 5 minutes from 09:00 to 17:59`, `at minutes 5 and 20 of every hour`."""
    text = _every(MINUTE, minutes)
    if len(hours) == 24:
        return f"{text} of every hour" if text.startswith("at") else text
    if len(hours) == 1 and len(minutes) == minutes[-1] - minutes[0] + 1:
        return f"every minute from {hours[0]:02}:{minutes[0]:02} to {hours[0]:02}:{minutes[-1]:02}"
    separator = " " if text.startswith("every") and minutes[0] == 0 else ", "
    return text + separator + _spans(hours)


def _hour_words(minute: int, hours: list[int]) -> str:
    """`every 2 hours`, `every hour from 09:30 to 17:30`, `at the start of every hour`."""
    if len(hours) == 24:
        return f"at minute {minute} of every hour" if minute else "at the start of every hour"
    if step := _step(HOUR, hours):
        return f"every {step} hours" + (f" from {hours[0]:02}:{minute:02}" if hours[0] or minute else "")
    runs = _runs(hours)
    steady = [f"from {low:02}:{minute:02} to {high:02}:{minute:02}" for low, high in runs if high - low > 1]
    single = [f"{hour:02}:{minute:02}" for low, high in runs if high - low <= 1 for hour in range(low, high + 1)]
    phrases = [f"every hour {joined(steady)}" if steady else "", f"at {joined(single)}" if single else ""]
    return ", and ".join(filter(None, phrases))


def _every(field: Field, values: list[int]) -> str:
    """`every minute`, `every 15 minutes`, `every 2 minutes from minute 1`, `at minutes 5 and 20`."""
    if len(values) == field.high + 1:
        return f"every {field.label}"
    if step := _step(field, values):
        return f"every {step} {field.label}s" + (f" from {field.label} {values[0]}" if values[0] else "")
    return f"at {_numbered(field, values)}"


def _numbered(field: Field, values: list[int]) -> str:
    """`minute 5`, `minutes 5 and 20`, `minutes 10 to 20`."""
    return f"{field.label}{'s' if len(values) > 1 else ''} {_series([str(value) for value in values], values)}"


def _spans(hours: list[int]) -> str:
    """Hours as times of day: `from 09:00 to 17:59`."""
    if step := _step(HOUR, hours):
        return f"in every {ordinal(step)} hour from {hours[0]:02}:00"
    return joined([f"from {low:02}:00 to {high:02}:59" for low, high in _runs(hours)])


def _step(field: Field, values: list[int]) -> int | None:
    """The step n where the values are `a-max/n` and go round evenly: 0,15,30,45 but not 0,7,14."""
    if len(values) < 2:
        return None
    step = values[1] - values[0]
    whole = values == list(range(values[0], field.high + 1, step)) and values[0] < step
    return step if whole and step > 1 and (field.high + 1) % step == 0 else None


def _day_words(days: DayMasks) -> list[str]:
    dates, weekdays = _date_words(days), _weekday_words(days)
    if dates and weekdays:
        if days.either:
            return [f"{dates} or {weekdays if weekdays.startswith('on ') else f'on {weekdays}'}"]
        return [f"{dates} if it is {weekdays.removeprefix('on ').replace(' and ', ' or ')}"]
    return [dates or weekdays] if dates or weekdays else []


def _date_words(days: DayMasks) -> str:
    plain = [n + 1 for n in bits_of(days.date & _EVERY_DATE)]
    if len(plain) == 31:
        return ""
    step = plain[1] - plain[0] if len(plain) > 2 else 1
    if step > 1 and plain == list(range(plain[0], 32, step)) and days.date & ~_EVERY_DATE == 0:
        return f"on every {ordinal(step)} day of the month from the {ordinal(plain[0])}"
    words = [f"the {_series([ordinal(n) for n in plain], plain)}"] if plain else []
    words += [f"the weekday nearest the {ordinal(n)}" for n in range(1, 32) if days.date & nearest_bit(n)]
    words += ["the last day"] if days.date & LAST_DAY else []
    words += ["the last weekday"] if days.date & LAST_WEEKDAY else []
    return f"on {joined(words)} of the month"


def _weekday_words(days: DayMasks) -> str:
    plain = bits_of(days.weekday & _EVERY_WEEKDAY)
    if len(plain) == 7:
        return ""
    words = [
        f"the {ordinal(nth)} {_WEEKDAYS[n]}" for nth in range(1, 6) for n in range(7) if days.weekday & nth_bit(n, nth)
    ]
    words += [f"the last {_WEEKDAYS[n]}" for n in range(7) if days.weekday & last_bit(n)]
    if not words:
        return _during(_week_series(plain), "on")
    return f"on {joined([*([_week_series(plain)] if plain else []), *words])} of the month"


def _year_words(years: list[int]) -> str:
    step = years[1] - years[0] if len(years) > 3 else 1
    if step > 1 and years == list(range(years[0], years[-1] + 1, step)):
        return f"in every {ordinal(step)} year from {years[0]} to {years[-1]}"
    return _during(_series([str(year) for year in years], years))


def _during(series: str, preposition: str = "in") -> str:
    """`June to August`, but `in June and July`."""
    one_run = " to " in series and "," not in series and " and " not in series
    return series if one_run else f"{preposition} {series}"


def _week_series(values: list[int]) -> str:
    """Weekdays with the week beginning on Monday, so that the weekend stays together."""
    order = sorted((value - 1) % 7 for value in values)
    return _series([_WEEKDAYS[(n + 1) % DAY_OF_WEEK.high] for n in order], order)


def _series(names: Sequence[str], numbers: Sequence[int]) -> str:
    """Names of ascending numbers, runs of three and more as `a to b`."""
    name_of = dict(zip(numbers, names, strict=True))
    pieces: list[str] = []
    for low, high in _runs(numbers):
        if high - low > 1:
            pieces.append(f"{name_of[low]} to {name_of[high]}")
        else:
            pieces += [name_of[number] for number in range(low, high + 1)]
    return joined(pieces)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as their runs, first and last of each."""
    firsts = [number for number in numbers if number - 1 not in numbers]
    lasts = [number for number in numbers if number + 1 not in numbers]
    return list(zip(firsts, lasts, strict=True))
