"""The grammar of one cron field, as bit masks.

    field = item { "," item }
    item  = range [ "/" step ]          a step needs `*` or a range to run over
    range = "*" | value | value "-" value
    value = number | name               names in any case: JAN … DEC, SUN … SAT; Sunday is 0 and 7

    day of month also   L   LW   15W            day of week also   5L   5#2

Expressions that other crons read in two ways are refused, with a correct way to write them: `22-5`, `5/15`, `*/0`, `?`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from itinerary.errors import ScheduleError
from itinerary.schedules.days import LAST_DAY, LAST_WEEKDAY, last_bit, nearest_bit, nth_bit

__all__ = [
    "DAY_OF_MONTH",
    "DAY_OF_WEEK",
    "HOUR",
    "MINUTE",
    "MONTH",
    "SECOND",
    "YEAR",
    "Field",
    "FieldMask",
    "parse_field",
]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A position in an expression: its name, and the numbers and names that it takes."""

    label: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    base: int = 0
    """The number that bit 0 of its mask stands for."""
    special: str = ""
    """The forms that only this field takes."""

    @property
    def allowed(self) -> str:
        """The allowed values, for error messages."""
        names = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        ways = f"ranges a-b, steps */n and a-b/n, {self.special}lists with commas"
        return f"allowed are {self.low}-{self.high}{names}, *, {ways}"


_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

SECOND: Final = Field("second", 0, 59)
MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY_OF_MONTH: Final = Field("day of month", 1, 31, base=1, special="L, LW, 15W, ")
MONTH: Final = Field("month", 1, 12, _MONTHS)
DAY_OF_WEEK: Final = Field("day of week", 0, 7, _WEEKDAYS, special="5L, 5#2, ")
YEAR: Final = Field("year", 1970, 2199, base=1970)


class FieldMask(NamedTuple):
    """The values that a field matches. `is_star` has Debian's meaning: the text begins with `*`."""

    mask: int
    is_star: bool
    warnings: tuple[str, ...] = ()


_ITEM: Final = re.compile(r"(?:(\*)|([0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?)(?:/([0-9]+))?", re.ASCII)
_NEAREST: Final = re.compile(r"([0-9]{1,2})W", re.ASCII)
_LAST: Final = re.compile(r"([0-7]|[A-Z]{3})L", re.ASCII)
_NTH: Final = re.compile(r"([0-7]|[A-Z]{3})#([0-9]+)", re.ASCII)


@lru_cache(maxsize=8_192)
def parse_field(field: Field, text: str) -> FieldMask:
    """The mask of one field's text; a ScheduleError names the field, what was wrong, and what is allowed."""
    mask, warnings = 0, list[str]()
    for item in text.upper().split(","):
        if not item:
            raise ScheduleError(f"{field.label} {text!r} has an empty item; {field.allowed}")
        special = _special(field, item)
        if special is None:
            mask |= _plain(field, item, warnings)
        else:
            mask |= special
    return FieldMask(mask, text[0] == "*", tuple(warnings))


def _plain(field: Field, item: str, warnings: list[str]) -> int:
    matched = _ITEM.fullmatch(item)
    if matched is None:
        raise ScheduleError(_unreadable(field, item))
    star, low_text, high_text, step_text = matched.groups()
    step = _step(field, item, step_text)
    if star:
        low, high = field.low, 6 if field is DAY_OF_WEEK else field.high
        if step > high - low:
            warnings.append(f"{field.label} {item} steps over the whole field and matches {low} alone")
    else:
        low = _value(field, low_text)
        high = low if high_text is None else _value(field, high_text)
        if step_text and high_text is None:
            top = 6 if field is DAY_OF_WEEK else field.high
            instead = f"{low}-{top}/{step}" if low + step <= top else str(low)
            raise ScheduleError(f"{field.label} {item} steps from a single value; write {instead}")
        if low > high:
            raise ScheduleError(f"{field.label} {item} runs backwards; write {_unwrapped(field, low, high)}")
    mask = sum(1 << (value - field.base) for value in range(low, high + 1, step))
    if field is DAY_OF_WEEK and mask >> 7:
        mask = mask & 0b111_1111 | 1  # 7 is Sunday too
    return mask


def _step(field: Field, item: str, text: str | None) -> int:
    if text is None:
        return 1
    if len(text) > 4 or int(text) > 9_999:
        raise ScheduleError(f"{field.label} {item} has a step over 9999; {field.allowed}")
    if int(text) == 0:
        raise ScheduleError(f"{field.label} {item} has step 0; write a step of 1 or more")
    return int(text)


def _value(field: Field, text: str) -> int:
    if text.isdigit():
        value = int(text[:5])
        if len(text) <= 4 and field.low <= value <= field.high:
            return value
        shown = text if len(text) <= 8 else text[:8] + "…"
        raise ScheduleError(f"{field.label} {shown} is out of range {field.low}-{field.high}")
    if text not in field.names:
        names = f"one of {' '.join(field.names)}" if field.names else f"a number {field.low}-{field.high}"
        raise ScheduleError(f"{field.label} {text} is unknown; it takes {names}")
    return field.names.index(text) + (field.low if field is MONTH else 0)


def _unwrapped(field: Field, low: int, high: int) -> str:
    if field is DAY_OF_WEEK and high == 0:
        return f"{low}-7"
    if field is YEAR:
        return f"{high}-{low}"
    ends = ((low, 6 if field is DAY_OF_WEEK else field.high), (field.low, high))
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ends)


def _special(field: Field, item: str) -> int | None:
    if field is DAY_OF_MONTH:
        return _special_date(item)
    if field is DAY_OF_WEEK:
        return _special_weekday(item)
    return None


def _special_date(item: str) -> int | None:
    if item == "L":
        return LAST_DAY
    if item == "LW":
        return LAST_WEEKDAY
    if matched := _NEAREST.fullmatch(item):
        return nearest_bit(_value(DAY_OF_MONTH, matched[1]))
    return None


def _special_weekday(item: str) -> int | None:
    if item == "L":
        raise ScheduleError(
            "day of week L needs a day; write 6L for the last Saturday of the month, or 6 for Saturdays"
        )
    if matched := _LAST.fullmatch(item):
        return last_bit(_value(DAY_OF_WEEK, matched[1]) % 7)
    if matched := _NTH.fullmatch(item):
        nth = int(matched[2][:3])
        if not 1 <= nth <= 5:
            raise ScheduleError(f"day of week {item}: a month has the first to the fifth of a weekday; write #1 to #5")
        return nth_bit(_value(DAY_OF_WEEK, matched[1]) % 7, nth)
    return None


def _unreadable(field: Field, item: str) -> str:
    if item == "?":
        return f"{field.label} ? is Quartz's way to say any; write *"
    shown = item if len(item) <= 40 else item[:40] + "…"
    return f"{field.label} {shown!r} cannot be read; {field.allowed}"
