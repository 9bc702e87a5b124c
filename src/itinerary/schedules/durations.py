"""Durations as people write them: `90`, `"30s"`, `"1h30m"`, `"2d"`, `"PT15M"`, `"P3W"`, `timedelta(hours=1)`.

Inside Itinerary a duration is a whole number of microseconds; this module is the door. Months and years are no
durations here, since their length depends on where they start: only `iso8601` schedules take those, as a `Period`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from reprlib import repr as shown
from typing import Final, TypeAlias

from itinerary.errors import DurationError

__all__ = ["SECOND", "DurationLike", "Period", "format_duration", "parse_duration", "parse_period"]

SECOND: Final = 1_000_000

DurationLike: TypeAlias = str | int | float | timedelta
"""The forms of a duration that a caller may pass. A bare number is seconds."""

_TEXT_MAX: Final = 64
_LONGEST: Final = 400 * 366 * 86_400 * SECOND
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SHORT: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|[wdhms]))+", re.ASCII)
_SHORT_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|[wdhms])", re.ASCII)
_ISO: Final = re.compile(
    r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_ALLOWED: Final = 'write seconds as a number, units as "30s", "1h30m", "2d", or ISO 8601 as "PT15M"'


@dataclass(frozen=True, slots=True)
class Period:
    """An ISO 8601 duration in its three independent parts: calendar months, calendar days, and exact seconds."""

    months: int
    days: int
    seconds: int

    @property
    def is_exact(self) -> bool:
        """True if the duration is the same length everywhere: no months and no calendar days in it."""
        return not (self.months or self.days)

    def __str__(self) -> str:
        years, months = divmod(self.months, 12)
        weeks, days = divmod(self.days, 7) if self.days % 7 == 0 else (0, self.days)
        hours, rest = divmod(self.seconds, 3_600)
        minutes, seconds = divmod(rest, 60)
        date = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (weeks, "W"), (days, "D")) if n)
        clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if n)
        return f"P{date}{'T' if clock else ''}{clock}"


def parse_period(text: str) -> Period:
    """Read an ISO 8601 duration: `P1M`, `P1Y2M10D`, `P3W`, `PT15M`."""
    if len(text) > _TEXT_MAX:
        raise DurationError(f"duration is {len(text)} characters long, {_TEXT_MAX} are allowed")
    if text.lstrip("+-")[:1] in ("p", "P") and ("-" in text or "+" in text):
        raise DurationError(f"duration {text!r} has a sign; only positive durations are allowed, such as P1M or PT15M")
    matched = _ISO.fullmatch(text)
    if matched is None:
        raise DurationError(f"duration {text!r} is not ISO 8601 in whole units; allowed are P1Y2M10D, P3W, PT1H30M")
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in matched.groups())
    period = Period(years * 12 + months, weeks * 7 + days, hours * 3_600 + minutes * 60 + seconds)
    if period == Period(0, 0, 0):
        raise DurationError(f"duration {text!r} is zero; it must be at least one second")
    if (period.months * 31 + period.days) * 86_400 + period.seconds > _LONGEST // SECOND:
        raise DurationError(f"duration {text!r} is longer than 400 years")
    return period


def parse_duration(value: DurationLike, *, whole_seconds: bool = False, minimum: int = 0) -> int:
    """The duration in microseconds. `minimum` is in microseconds too; `whole_seconds` refuses fractions of one."""
    microseconds = _microseconds(value)
    if microseconds > _LONGEST:
        raise DurationError(f"duration {value!r} is longer than 400 years")
    if microseconds < 0:
        raise DurationError(f"duration {value!r} is negative; give 0 or more")
    if microseconds < minimum:
        raise DurationError(f"duration {value!r} is too short; at least {format_duration(minimum)} is required")
    if whole_seconds and microseconds % SECOND:
        raise DurationError(f"duration {value!r} is not a whole number of seconds")
    return microseconds


def _microseconds(value: DurationLike) -> int:
    match value:
        case bool():
            raise DurationError(f"duration {value!r} is a truth value; {_ALLOWED}")
        case timedelta():
            return value // timedelta(microseconds=1)
        case int():
            if abs(value) > _LONGEST:  # too long to be shown, perhaps
                raise DurationError("duration is longer than 400 years")
            return value * SECOND
        case float():
            if not abs(value) < _LONGEST:  # also false for nan
                raise DurationError(f"duration {value!r} is not a finite number of seconds")
            return round(value * SECOND)
        case str():
            return _from_text(value)
        case _:
            raise DurationError(f"duration {shown(value)} is of type {type(value).__name__}; {_ALLOWED}")


def _from_text(text: str) -> int:
    if len(text) > _TEXT_MAX:
        raise DurationError(f"duration is {len(text)} characters long, {_TEXT_MAX} are allowed")
    compact = text.strip().replace(" ", "")
    if compact[:1] in ("p", "P"):
        period = parse_period(compact)
        if period.months:
            raise DurationError(f"duration {text!r} has years or months, whose length varies; use days or less")
        return (period.days * 86_400 + period.seconds) * SECOND
    compact = compact.lower()
    if not _SHORT.fullmatch(compact):
        raise DurationError(f"duration {text!r} cannot be read; {_ALLOWED}")
    parts = _SHORT_PART.findall(compact)
    units = [unit for _, unit in parts]
    if len(set(units)) < len(units):
        raise DurationError(f"duration {text!r} names a unit twice; {_ALLOWED}")
    total = sum((Decimal(number) * _scale(unit) for number, unit in parts), Decimal(0))
    if total != int(total):
        raise DurationError(f"duration {text!r} is finer than a microsecond")
    return int(total)


def _scale(unit: str) -> int:
    return {"us": 1, "ms": 1_000}.get(unit) or _UNITS[unit] * SECOND


def format_duration(microseconds: int) -> str:
    """The shortest way to write a duration that `parse_duration` reads back: `1h30m`, `30s`, `250ms`, `0s`."""
    if microseconds < 0:
        return "-" + format_duration(-microseconds)
    if microseconds % 1_000:
        return f"{microseconds}us" if microseconds < SECOND else _with_fraction(microseconds)
    if microseconds % SECOND:
        return f"{microseconds // 1_000}ms" if microseconds < SECOND else _with_fraction(microseconds)
    seconds = microseconds // SECOND
    parts = []
    for unit, length in _UNITS.items():
        if unit == "w" and seconds % length:
            continue  # 10 days read better than 1w3d
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _with_fraction(microseconds: int) -> str:
    whole, fraction = divmod(microseconds, 60 * SECOND)
    seconds = format(Decimal(fraction) / SECOND, "f")
    return (format_duration(whole * 60 * SECOND) if whole else "") + f"{seconds}s"
