"""A year as a calendar: a column for each week, a cell for each day.

A darker cell has more occurrences on that day; its colour is the most frequent outcome. A problem has a mark, even if
it is one of a thousand: a cross for a failed or missed occurrence, a slanted line for a skipped or cancelled one, or
one that completed with errors. Each day links to its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import log1p
from typing import Final

import msgspec
from markupsafe import Markup

from itinerary.web.charts.marks import Tone
from itinerary.web.charts.svg import element, picture

__all__ = ["LEVELS", "DayDrawn", "heatmap", "level_of"]

LEVELS: Final = 4
_CELL: Final = 11
_STEP: Final = 13
_LEFT: Final = 30
_TOP: Final = 16
_WEEKDAYS: Final = ((0, "Mon"), (2, "Wed"), (4, "Fri"))
_MONTH_NAMES: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LABEL_WEEKS: Final = 3
"""The minimum distance between two month names, in weeks."""


class DayDrawn(msgspec.Struct, frozen=True):
    """A day in the chart."""

    day: date
    level: int
    """The darkness, from 0 (no occurrence) to LEVELS."""
    tone: Tone | None
    """The most frequent outcome; None on an empty day."""
    worst: Tone | None
    told: str
    href: str | None = None


def level_of(count: int, most: int) -> int:
    """Return the darkness of a day with `count` occurrences, if the busiest day has `most`."""
    if count <= 0:
        return 0
    return max(1, min(LEVELS, round(LEVELS * log1p(count) / log1p(max(most, 1)))))


def heatmap(days: Sequence[DayDrawn], title: str) -> Markup:
    """Draw consecutive days, of which the first is a Monday."""
    weeks = -(-len(days) // 7)
    drawn: list[Markup] = [
        element("text", name, x=0, y=_TOP + row * _STEP + _CELL - 2, class_="small") for row, name in _WEEKDAYS
    ]
    drawn += _months(days)
    for place, day in enumerate(days):
        column, row = divmod(place, 7)
        drawn.append(_cell(day, _LEFT + column * _STEP, _TOP + row * _STEP))
    width, height = _LEFT + weeks * _STEP, _TOP + 7 * _STEP
    return picture(width, height, title, *drawn, class_="picture heatmap", is_whole=False)


def _months(days: Sequence[DayDrawn]) -> list[Markup]:
    names: list[Markup] = []
    last = -_LABEL_WEEKS
    for place in range(0, len(days), 7):
        first = next((one.day for one in days[place : place + 7] if one.day.day == 1), None)
        if first is not None and place // 7 - last >= _LABEL_WEEKS:
            last = place // 7
            names.append(
                element("text", _MONTH_NAMES[first.month - 1], x=_LEFT + last * _STEP, y=_TOP - 6, class_="small")
            )
    return names


def _cell(day: DayDrawn, x: float, y: float) -> Markup:
    tone = day.tone or Tone.IDLE
    shape = element(
        "rect", element("title", day.told), x=x, y=y, width=_CELL, height=_CELL, class_=f"day-{tone}-{day.level}"
    )
    low, high = 3, _CELL - 3
    mark = "day-mark pale" if day.level <= LEVELS // 2 else "day-mark"
    if day.worst is Tone.BAD:
        path = f"M{x + low} {y + low}L{x + high} {y + high}M{x + high} {y + low}L{x + low} {y + high}"
        shape += element("path", d=path, class_=mark)
    elif day.worst is Tone.WARN:
        shape += element("path", d=f"M{x + low} {y + high}L{x + high} {y + low}", class_=mark)
    if day.href is None:
        return shape
    return element("a", shape, href=day.href, aria_label=day.told, tabindex="-1")
