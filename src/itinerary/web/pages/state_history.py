"""The states of an occurrence, to the millisecond: a ribbon, and a table with reasons and users."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from itinerary.model.states import FINAL, OccurrenceState
from itinerary.read.runs import RunDetail, StepSeen
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import microseconds_of
from itinerary.web.charts.marks import tone_of
from itinerary.web.charts.waterfall import ChartSpan, ribbon
from itinerary.web.pages.filters import span as told_span
from itinerary.web.pages.templates import drawn

__all__ = ["StepDrawn", "trail_drawn"]

_FIRST: Final = 10
_LAST: Final = 40
"""The first and last steps that are shown of a long history, as after a night of condition checks."""


class StepDrawn(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the occurrence."""

    step: StepSeen
    after_due: float | None
    """Seconds from the instant; negative before it."""
    lasted: float | None
    """The duration in seconds; None: the state is final or current."""
    is_now: bool


def trail_drawn(detail: RunDetail, now: int) -> str:
    """Render the part of the page."""
    steps = [step for step in detail.trail if step.at is not None]
    places = [_at(step.at) for step in steps]
    ends = [*places[1:], now]
    due = None if detail.run.instant is None else microseconds_of(detail.run.instant)
    rows = [
        StepDrawn(
            step=step,
            after_due=None if due is None else (place - due) / SECOND,
            lasted=(end - place) / SECOND if number < len(steps) - 1 else None,
            is_now=number == len(steps) - 1 and step.after not in FINAL,
        )
        for number, (step, place, end) in enumerate(zip(steps, places, ends, strict=True))
    ]
    left_out = max(len(rows) - _FIRST - _LAST, 0)
    return drawn(
        "run/states.html",
        ribbon=_ribbon(steps, places, ends),
        first=rows[:_FIRST],
        left_out=left_out,
        last=rows[_FIRST + left_out :],
    )


def _ribbon(steps: list[StepSeen], places: list[int], ends: list[int]) -> str:
    """Draw each state as wide as it lasted.

    The final state has no end. The wait for the instant would leave no room for the others. Both are omitted.
    """
    pieces = [
        (place, end, tone_of(step.after), f"{step.after.replace('_', ' ')}: {told_span((end - place) / SECOND)}")
        for step, place, end in zip(steps, places, ends, strict=True)
        if step.after not in FINAL and step.after is not OccurrenceState.PRERUN
    ]
    if not pieces:
        return ""
    return ribbon(ChartSpan(pieces[0][0], max(end for _, end, _, _ in pieces)), pieces[-(_FIRST + _LAST) :])


def _at(moment: datetime | None) -> int:
    assert moment is not None, "steps without a time are left out"
    return microseconds_of(moment)
