"""The health of this node's loop, as small charts of the last ten minutes: one point for each ten seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from markupsafe import Markup

from itinerary.schedules.durations import SECOND
from itinerary.web.charts.marks import Tone
from itinerary.web.charts.sparkline import sparkline
from itinerary.web.pages.filters import span
from itinerary.web.poller import Poller

__all__ = ["Chart", "health"]

_LATE_SECONDS = 1.0
"""A start that is later than this is drawn as a warning."""


class Chart(msgspec.Struct, frozen=True):
    """A chart of one value."""

    name: str
    last: str
    highest: str
    picture: Markup


def health(rounds: Poller, now: int) -> list[Chart]:
    """Return charts of starts, lateness, inbox and backlog."""
    beats, gauged = rounds.beats(now), rounds.gauged(now)
    late = [None if beat.late_for is None else beat.late_for / SECOND for beat in beats]
    is_late = max((one for one in late if one is not None), default=0.0) > _LATE_SECONDS
    return [
        _chart("Starts in 10 s", [float(beat.starts) for beat in beats], _count),
        _chart("Start lateness, p99", late, span, Tone.WARN if is_late else Tone.GOOD),
        _chart("Messages in the inbox", [None if one is None else float(one.inbox_depth) for one in gauged], _count),
        _chart("Updates to be written", [None if one is None else float(one.syncer_backlog) for one in gauged], _count),
    ]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _chart(name: str, values: Sequence[float | None], word: Callable[[float], str], tone: Tone = Tone.BUSY) -> Chart:
    known = [value for value in values if value is not None]
    last = word(known[-1]) if known else "–"
    highest = word(max(known)) if known else "–"
    title = f"{name} over the last 10 minutes: now {last}, at most {highest}"
    return Chart(name, last, highest, sparkline(values, title, tone=tone, width=260, height=46))
