"""The appearance of each occurrence state in a picture: a tone, which is a colour, and a shape.

good      succeeded                          a full block
bad       failed, missed, orphaned           a block with a notch at its foot: a triangle where it is small
warn      skipped, cancelled, with errors    half a block
busy      running                            a full block
idle      waiting or upcoming                hollow
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from itinerary.model.states import OccurrenceState
from itinerary.web.charts.svg import element, number

__all__ = ["Tone", "mark", "tone_of"]


class Tone(StrEnum):
    """The colours of outcomes; the CSS classes are `fill-<tone>` and `line-<tone>`."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    BUSY = "busy"
    IDLE = "idle"


_STATES: Final = {
    OccurrenceState.COMPLETED: Tone.GOOD,
    OccurrenceState.COMPLETED_WITH_ERRORS: Tone.WARN,
    OccurrenceState.FAILED: Tone.BAD,
    OccurrenceState.FAILED_STALE: Tone.BAD,
    OccurrenceState.ORPHANED: Tone.BAD,
    OccurrenceState.MISSED: Tone.BAD,
    OccurrenceState.CANCELLED: Tone.WARN,
    OccurrenceState.SKIPPED: Tone.WARN,
    OccurrenceState.RUNNING: Tone.BUSY,
    OccurrenceState.CONTAINER_CREATING: Tone.BUSY,
    OccurrenceState.TERMINATING: Tone.BUSY,
    OccurrenceState.CONDITION_RUNNING: Tone.BUSY,
    OccurrenceState.ACTION_RUNNING: Tone.BUSY,
}


def tone_of(state: OccurrenceState) -> Tone:
    """Return the tone of a state."""
    return _STATES.get(state, Tone.IDLE)


@lru_cache(4_096)
def mark(tone: Tone, x: float, y: float, width: float, height: float) -> Markup:
    """Draw a block of a tone. Each tone that is neither good nor busy also has its own shape."""
    match tone:
        case Tone.GOOD | Tone.BUSY:
            return element("rect", x=x, y=y, width=width, height=height, rx=min(1.5, width / 2), class_=f"fill-{tone}")
        case Tone.BAD:
            middle, foot = x + width / 2, y + height
            points = [
                (x, y),
                (x + width, y),
                (x + width, foot - height * 0.45),
                (middle, foot),
                (x, foot - height * 0.45),
            ]
            return element("polygon", points=" ".join(f"{number(a)},{number(b)}" for a, b in points), class_="fill-bad")
        case Tone.WARN:
            return element("rect", x=x, y=y + height / 2, width=width, height=height / 2, class_="fill-warn")
        case Tone.IDLE:
            inset = 0.5
            return element(
                "rect",
                x=x + inset,
                y=y + inset,
                width=max(width - 1, 0.5),
                height=height - 1,
                rx=min(1.5, width / 2),
                class_="hollow",
            )
