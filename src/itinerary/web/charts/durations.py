"""Durations of the latest runs: a bar each, newest on the right, with lines for the median and the 95th percentile.

An occurrence that did not run has no bar, only a mark below the line in the shape of its outcome; if none ran, there
are only marks. A bar that is far longer than the others is cut off at the top, so that the others stay distinguishable.
Its title has the full duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from itinerary.model.states import OccurrenceState
from itinerary.web.charts.marks import mark, tone_of
from itinerary.web.charts.svg import element, picture

__all__ = ["Bar", "Percentiles", "durations", "percentiles"]

_WIDTH: Final = 720
_HEIGHT: Final = 140
_FOOT: Final = 118
_TOP: Final = 10
_LEFT: Final = 52
_CUT_AT: Final = 3
"""Bars longer than this multiple of the 95th percentile are cut off."""


class Bar(msgspec.Struct, frozen=True):
    """A run in the chart."""

    took: float | None
    """The duration in seconds; None: it did not run."""
    state: OccurrenceState
    told: str
    href: str | None = None


class Percentiles(msgspec.Struct, frozen=True):
    """Percentiles of the durations, in seconds."""

    middle: float
    high: float
    longest: float


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return the median, the 95th percentile (the smallest value that 95 of 100 do not exceed), and the maximum."""
    if not values:
        return None
    ordered = sorted(values)
    return Percentiles(_at(ordered, 50), _at(ordered, 95), ordered[-1])


def _at(ordered: Sequence[float], percent: int) -> float:
    return ordered[-(-len(ordered) * percent // 100) - 1]


def durations(bars: Sequence[Bar], found: Percentiles | None, words: tuple[str, str], title: str, room: int) -> Markup:
    """Draw these runs, oldest first.

    Args:
        bars: The runs.
        found: The percentiles; None if none of the runs has a duration.
        words: The labels of the median and the 95th percentile.
        title: The title of the chart.
        room: The number of bars that the chart has room for.
    """
    foot, height = (_FOOT, _HEIGHT) if found is not None else (0, _HEIGHT - _FOOT)
    highest = 1.0 if found is None else min(found.longest, found.high * _CUT_AT) or 1e-6
    step = (_WIDTH - _LEFT) / max(room, 1)
    wide = max(step - 1.5, 1)
    drawn: list[Markup] = [element("line", x1=_LEFT, x2=_WIDTH, y1=foot + 0.5, y2=foot + 0.5, class_="axis")]
    empty = max(room - len(bars), 0)
    for place, bar in enumerate(bars, empty):
        drawn.append(_bar(bar, _LEFT + place * step, wide, highest, foot))
    if found is not None:
        high_y, middle_y = (_y(value, highest) for value in (found.high, found.middle))
        drawn += _line("p95", words[1], high_y, high_y + 4)
        drawn += _line("p50", words[0], middle_y, max(middle_y + 4, high_y + 4 + 26))
    return picture(_WIDTH, height, title, *drawn, class_="picture durations", is_whole=False)


def _y(value: float, highest: float) -> float:
    return _FOOT - min(value / highest, 1) * (_FOOT - _TOP)


def _line(name: str, words: str, y: float, text_y: float) -> list[Markup]:
    text_y = min(max(text_y, 10), _FOOT - 8)
    return [
        element("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, class_=f"percentile {name}"),
        element("text", name, x=0, y=text_y, class_="small"),
        element("text", words, x=0, y=text_y + 12, class_="small strong"),
    ]


def _bar(bar: Bar, x: float, wide: float, highest: float, foot: float) -> Markup:
    tone = tone_of(bar.state)
    parts = [element("title", bar.told), mark(tone, x, foot + 6, wide, 10)]
    if bar.took is not None:
        y = min(_y(bar.took, highest), _FOOT - 1)
        parts.append(element("rect", x=x, y=y, width=wide, height=_FOOT - y, class_=f"fill-{tone}"))
        if bar.took > highest:
            parts.append(element("rect", x=x - 0.5, y=_TOP + 5, width=wide + 1, height=2.5, class_="cut"))
    # As high as the picture, so that short bars can be pointed at, too.
    parts.append(element("rect", x=x, y=0, width=wide, height=_HEIGHT, class_="unseen"))
    if bar.href is None:
        return element("g", *parts)
    return element("a", *parts, href=bar.href, aria_label=bar.told, tabindex="-1")
