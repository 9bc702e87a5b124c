"""A small line chart with a filled area; the line is broken where values are missing."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from itinerary.web.charts.marks import Tone
from itinerary.web.charts.svg import element, number, picture

__all__ = ["sparkline"]


def sparkline(
    values: Sequence[float | None],
    title: str,
    *,
    width: float = 240,
    height: float = 44,
    tone: Tone = Tone.BUSY,
    top: float | None = None,
) -> Markup:
    """Draw a line through equidistant values, newest on the right.

    `top` is the value at the upper edge, if it is larger than the largest value. `title` describes the chart in words.
    """
    highest = max([*(value for value in values if value is not None), top or 0.0], default=0.0) or 1.0
    step = width / max(len(values) - 1, 1)
    pieces: list[list[tuple[float, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
            continue
        pieces[-1].append((place * step, height - 2 - max(value, 0.0) / highest * (height - 4)))
    drawn: list[Markup] = [element("line", x1=0, x2=width, y1=height - 1, y2=height - 1, class_="axis")]
    for piece in pieces:
        if len(piece) == 1:
            drawn.append(element("circle", cx=piece[0][0], cy=piece[0][1], r=1.5, class_=f"fill-{tone}"))
        elif piece:
            line = " ".join(f"{number(x)},{number(y)}" for x, y in piece)
            foot = height - 1
            area = f"{number(piece[0][0])},{number(foot)} {line} {number(piece[-1][0])},{number(foot)}"
            drawn.append(element("polygon", points=area, class_=f"area-{tone}"))
            drawn.append(element("polyline", points=line, class_=f"line-{tone}"))
    return picture(width, height, title, *drawn, class_="picture sparkline")
