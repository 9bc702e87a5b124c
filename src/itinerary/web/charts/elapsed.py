"""A bar for the elapsed time of a run, against its usual durations. The script in the browser fills it."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

from itinerary.web.charts.svg import element, picture

__all__ = ["elapsed_bar"]

_WIDTH = 180
_HEIGHT = 12


def elapsed_bar(since: datetime, p50: float, p95: float) -> Markup:
    """Draw ticks at the median and the 95th percentile. The script lets the bar grow from `since` on."""
    whole = max(p95 * 1.5, 0.1)
    title = "how long it has run, against its usual durations"
    return picture(
        _WIDTH,
        _HEIGHT,
        title,
        element("rect", x=0, y=3, width=_WIDTH, height=6, rx=3, class_="track"),
        element(
            "rect",
            x=0,
            y=3,
            width=0,
            height=6,
            rx=3,
            class_="grows",
            data_since=since.isoformat(),
            data_whole=f"{whole:.3f}",
            data_long=f"{p95:.3f}",
            data_width=str(_WIDTH),
        ),
        *(
            element("line", x1=at / whole * _WIDTH, x2=at / whole * _WIDTH, y1=0, y2=_HEIGHT, class_="tick")
            for at in (p50, p95)
        ),
        class_="picture elapsed-bar",
    )
