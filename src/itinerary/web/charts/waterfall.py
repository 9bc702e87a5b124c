"""Start and end of an attempt, as a bar in a table cell: the text beside it has the same facts.

    |       ███████            |
    |              ██          |

All bars of a table share one time span. A bar that is too short to see is drawn as a thin line.
"""

from __future__ import annotations

from typing import Final

import msgspec
from markupsafe import Markup

from itinerary.web.charts.marks import Tone
from itinerary.web.charts.svg import element, number

__all__ = ["ChartSpan", "bar", "ribbon"]

_WIDTH: Final = 1_000
_HEIGHT: Final = 12
_THIN: Final = 3


class ChartSpan(msgspec.Struct, frozen=True):
    """The time span that a picture shows from left to right, in microseconds."""

    start: int
    end: int

    def place(self, start: int, end: int) -> tuple[float, float]:
        """Return the left edge and the width of a bar."""
        whole = max(self.end - self.start, 1)
        left = min(max((start - self.start) / whole, 0), 1) * _WIDTH
        right = min(max((end - self.start) / whole, 0), 1) * _WIDTH
        width = max(right - left, _THIN)
        return min(left, _WIDTH - width), width


def bar(span: ChartSpan, start: int, end: int, tone: Tone) -> Markup:
    """Draw one bar. Screen readers skip it: its table row has the numbers."""
    x, width = span.place(start, end)
    return _frame(
        element("line", x1=0, x2=_WIDTH, y1=_HEIGHT / 2, y2=_HEIGHT / 2, class_="axis"),
        element("rect", x=x, y=1, width=width, height=_HEIGHT - 2, class_=f"fill-{tone}"),
    )


def ribbon(span: ChartSpan, pieces: list[tuple[int, int, Tone, str]]) -> Markup:
    """Draw consecutive pieces in one row: start, end, tone and title of each."""
    drawn = []
    for start, end, tone, told in pieces:
        x, width = span.place(start, end)
        drawn.append(
            element("rect", element("title", told), x=x, y=0, width=width, height=_HEIGHT, class_=f"fill-{tone} piece")
        )
    return _frame(*drawn)


def _frame(*children: Markup) -> Markup:
    return element(
        "svg",
        *children,
        class_="bar",
        viewBox=f"0 0 {number(_WIDTH)} {number(_HEIGHT)}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
