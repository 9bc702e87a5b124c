"""A lane of the timeline, as a picture of flexible width: positions are percentages.

    few      single occurrences with links: filled on success, with a tooth below on failure, half as high if skipped,
             hollow if upcoming
    many     bars of counts, stacked by outcome; the latest failures have a tooth and a link

The caller chooses between the two, since a page can hold only a limited number of links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from itinerary.web.charts.marks import Tone
from itinerary.web.charts.svg import element, joined, number

__all__ = ["BARS", "HEIGHT", "Scale", "bars", "lane", "mark_at", "now_line", "range_at", "tick_lines"]

HEIGHT: Final = 26
BARS: Final = 120
_TOP: Final = 4
_BODY: Final = 14
_STEP: Final = 10
"""Units from one bar to the next, and units per pixel of height: integers keep paths short."""
_BAR: Final = 8
_ORDER: Final = (Tone.BAD, Tone.GOOD, Tone.BUSY, Tone.WARN, Tone.IDLE)
"""The stacking order from the bottom up: failures are always visible."""


class Scale:
    """The mapping of instants to percentages of the width."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def at(self, instant: int) -> float:
        """Return the position of an instant, limited to 0 to 100."""
        return min(max((instant - self.start) / (self.end - self.start) * 100, 0.0), 100.0)

    def counts(self, instants: NDArray[np.int64]) -> list[int]:
        """Return the number of instants in each bar."""
        places = np.clip((instants - self.start) * BARS // (self.end - self.start), 0, BARS - 1)
        counts: list[int] = np.bincount(places, minlength=BARS).tolist()
        return counts


def lane(title: str, *children: Markup) -> Markup:
    """Draw the lane of one job."""
    return element(
        "svg", element("title", title), *children, class_="lane", height=HEIGHT, role="group", aria_label=title
    )


def tick_lines(places: Iterable[float]) -> Markup:
    """Draw thin lines behind everything else."""
    return joined(element("line", x1=_percent(x), x2=_percent(x), y1=0, y2=HEIGHT, class_="axis") for x in places)


def now_line(scale: Scale, now: int) -> Markup:
    """Draw the line at the current time; the script moves it."""
    if not scale.start <= now < scale.end:
        return Markup()
    x = _percent(scale.at(now))
    return element(
        "line",
        x1=x,
        x2=x,
        y1=0,
        y2=HEIGHT,
        class_="now",
        data_now_from=str(scale.start // 1_000),
        data_now_to=str(scale.end // 1_000),
    )


def mark_at(scale: Scale, start: int, end: int, tone: Tone, url: str | None, title: str) -> Markup:
    """Draw one occurrence."""
    x, width = scale.at(start), scale.at(end) - scale.at(start)
    size = {"x": _percent(x), "width": _percent(max(width, 0.3))}
    top, height = (_TOP + _BODY / 2, _BODY / 2) if tone is Tone.WARN else (float(_TOP), float(_BODY))
    drawn = element(
        "rect", y=top, height=height, rx=1.5, class_="hollow" if tone is Tone.IDLE else f"fill-{tone}", **size
    )
    if tone is Tone.BAD:
        drawn += _tooth(x + max(width, 0.3) / 2)
    if url is None:
        return drawn
    return element("a", element("title", title), drawn, href=url, aria_label=title)


def range_at(scale: Scale, start: int, end: int, tone: Tone, url: str, title: str) -> Markup:
    """Draw a collapsed range, one row for many instants, as a thin line."""
    x = scale.at(start)
    line = element(
        "rect",
        x=_percent(x),
        width=_percent(max(scale.at(end) - x, 0.3)),
        y=_TOP + _BODY,
        height=3,
        class_=f"fill-{tone}",
    )
    return element("a", element("title", title), line, href=url, aria_label=title)


def bars(counts: Mapping[Tone, Sequence[int]]) -> Markup:
    """Draw the stacked counts of each tone in each part of the width: one shape for each tone."""
    highest = max(map(sum, zip(*counts.values(), strict=True)), default=0)
    if not highest:
        return Markup()
    whole, shapes = _BODY * _STEP, dict[Tone, str]()
    feet = [whole] * BARS
    for tone in _ORDER:
        least, pieces = (20 if tone is Tone.BAD else 10), list[str]()
        for place, count in enumerate(counts.get(tone, ())):
            if count:
                tall = min(max(count * whole // highest, least), feet[place])
                feet[place] -= tall
                pieces.append(f"M{place * _STEP} {feet[place]}h{_BAR}v{tall}h-{_BAR}z")
        shapes[tone] = "".join(pieces)
    paths = [
        element("path", d=shape, class_="density-idle" if tone is Tone.IDLE else f"fill-{tone}")
        for tone, shape in shapes.items()
        if shape
    ]
    return element(
        "svg",
        *paths,
        x=0,
        y=_TOP,
        width="100%",
        height=_BODY,
        viewBox=f"0 0 {BARS * _STEP} {_BODY * _STEP}",
        preserveAspectRatio="none",
    )


def _tooth(x: float) -> Markup:
    """Draw a tooth below a failure: visible without colour, however short the failure is."""
    shape = element("polygon", points="-4,0 4,0 0,6", class_="fill-bad")
    return element("svg", shape, x=_percent(x), y=_TOP + _BODY + 1, overflow="visible", width=8, height=7)


def _percent(share: float) -> str:
    return f"{number(share)}%"
