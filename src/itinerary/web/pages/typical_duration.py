"""The usual duration of a job, by its latest runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["TypicalDuration", "usual"]

_MIN: Final = 3
"""The minimum number of runs for a meaningful result."""
_ENDED_WELL: Final = frozenset({OccurrenceState.COMPLETED, OccurrenceState.COMPLETED_WITH_ERRORS})


class TypicalDuration(msgspec.Struct, frozen=True):
    """Percentiles of the duration, in seconds."""

    p50: float
    p95: float
    runs: int


def usual(rows: Sequence[OccurrenceRow]) -> TypicalDuration | None:
    """Return the usual duration of the successful runs; None if there are too few."""
    took = sorted(
        (row.ended_at - row.started_at) / SECOND
        for row in rows
        if row.status in _ENDED_WELL and row.started_at is not None and row.ended_at is not None
    )
    if len(took) < _MIN:
        return None
    return TypicalDuration(_at(took, 0.5), _at(took, 0.95), len(took))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
