"""The latest outcomes of a job, oldest on the left: one mark each, all of the same width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from itinerary.model.states import OccurrenceState
from itinerary.web.charts.marks import mark, tone_of
from itinerary.web.charts.svg import picture

__all__ = ["strip"]

_WIDTH = 6
_GAP = 2
_HEIGHT = 16


def strip(states: Sequence[OccurrenceState], places: int = 20) -> Markup:
    """Draw the latest outcomes, newest on the right, with room for `places` marks."""
    shown = list(states)[-places:]
    empty = places - len(shown)
    marks = [
        mark(tone_of(state), (empty + place) * (_WIDTH + _GAP), 0, _WIDTH, _HEIGHT) for place, state in enumerate(shown)
    ]
    return picture(places * (_WIDTH + _GAP) - _GAP, _HEIGHT, told(shown), *marks, class_="picture strip")


def told(states: Sequence[OccurrenceState]) -> str:
    """Describe the outcomes in words: `last 20: 18 completed, 2 failed`."""
    if not states:
        return "no run has ended yet"
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in Counter(states).most_common())
    return f"last {len(states)}: {counts}"
