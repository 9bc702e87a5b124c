"""When something began and ended, as a bar in a cell of a table: the words beside it say the same.

    |       ███████            |
    |              ██          |

All bars of a table stand for one span of time. What is shorter than can be seen is drawn as a thin line.
"""

from __future__ import annotations

from typing import Final

import msgspec
from markupsafe import Markup

from itinerary.web.charts.marks import Tone
from itinerary.web.charts.svg import element, number

__all__ = ["Span", "bar", "ribbon"]

_WIDTH: Final = 1_000
_HEIGHT: Final = 12
_THIN: Final = 3


class Span(msgspec.Struct, frozen=True):
    """A span of time, in microseconds, that a picture shows from its left to its right."""

    start: int
    end: int

    def place(self, start: int, end: int) -> tuple[float, float]:
        """Where something begins, and how wide it is."""
        whole = max(self.end - self.start, 1)
        left = min(max((start - self.start) / whole, 0), 1) * _WIDTH
        right = min(max((end - self.start) / whole, 0), 1) * _WIDTH
        width = max(right - left, _THIN)
        return min(left, _WIDTH - width), width


def bar(span: Span, start: int, end: int, tone: Tone) -> Markup:
    """One bar. It is for the eye alone: the row that it stands in has the figures."""
    x, width = span.place(start, end)
    return _frame(
        element("line", x1=0, x2=_WIDTH, y1=_HEIGHT / 2, y2=_HEIGHT / 2, class_="axis"),
        element("rect", x=x, y=1, width=width, height=_HEIGHT - 2, class_=f"fill-{tone}"),
    )


def ribbon(span: Span, pieces: list[tuple[int, int, Tone, str]]) -> Markup:
    """Several pieces in one row, one after the other: start, end, tone, and what is said of it."""
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
