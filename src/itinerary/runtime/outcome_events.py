"""The news of what was ended by somebody who did not run it: the sweep, the reaper, the rescuer.

They write to the store past the loop, so the loop cannot tell of it. Whoever watches hears of it all the same: a run
that nobody ended is a failure, and a missed instant is a run that did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from itinerary.core.loop.events import News, Settled
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.rows import JobNumber, JobRow, OccurrenceRow, Ref
from itinerary.model.states import FINAL
from itinerary.model.writes import Intervention, Refused, Wanted, Written

__all__ = ["Tell", "ended", "made", "nobody"]

Tell: TypeAlias = Callable[[Sequence[News]], None]
"""Tells whoever watches, on the engine's loop."""


def nobody(_: Sequence[News]) -> None:
    """Nobody watches."""


def ended(
    timeline: Timeline,
    rows: Iterable[OccurrenceRow],
    writes: Sequence[Intervention],
    answers: Sequence[Written | Refused],
) -> list[Settled]:
    """What these writes ended, of these rows."""
    by_ref: Mapping[Ref, OccurrenceRow] = {row.ref: row for row in rows}
    return [
        Settled(row.key, _name(timeline.jobs, row.job), write.to, write.why, row.window_count or 1)
        for write, answer in zip(writes, answers, strict=True)
        if isinstance(answer, Written) and write.to is not None and write.to in FINAL
        if (row := by_ref.get(write.ref)) is not None
    ]


def made(timeline: Timeline, wanted: Iterable[Wanted]) -> list[Settled]:
    """What was decided when these rows were made: they are over already."""
    return [
        Settled(
            row.key,
            _name(timeline.jobs, row.key.job),
            row.status,
            row.reason,
            1 if row.window is None else row.window.count or 1,
        )
        for row in wanted
        if row.status in FINAL
    ]


def _name(jobs: Mapping[JobNumber, JobRow], job: JobNumber) -> str:
    known = jobs.get(job)
    return str(job) if known is None else known.name  # it is newer than what this node has read
