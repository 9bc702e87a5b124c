"""Events for occurrences that were ended by a component that did not run them: sweep, reaper or rescuer.

The sweep, reaper and rescuer write to the store without the loop, so the loop cannot announce the result. Observers
still need these events: a run that no node ended is a failure, and a missed instant is a run that did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from itinerary.core.loop.events import OccurrenceDecided, SchedulerEvent
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.rows import JobNumber, JobRow, OccurrenceRow, Ref
from itinerary.model.states import FINAL
from itinerary.model.writes import ClaimRequest, Refused, TakeoverWrite, Written

__all__ = ["Tell", "ended", "made", "nobody"]

Tell: TypeAlias = Callable[[Sequence[SchedulerEvent]], None]
"""A function that sends events to the observers, on the node's loop."""


def nobody(_: Sequence[SchedulerEvent]) -> None:
    """Send the events nowhere: there is no observer."""


def ended(
    timeline: Timeline,
    rows: Iterable[OccurrenceRow],
    writes: Sequence[TakeoverWrite],
    answers: Sequence[Written | Refused],
) -> list[OccurrenceDecided]:
    """Return an event for each of these rows that a successful write has ended."""
    by_ref: Mapping[Ref, OccurrenceRow] = {row.ref: row for row in rows}
    return [
        OccurrenceDecided(row.key, _name(timeline.jobs, row.job), write.to, write.why, row.window_count or 1)
        for write, answer in zip(writes, answers, strict=True)
        if isinstance(answer, Written) and write.to is not None and write.to in FINAL
        if (row := by_ref.get(write.ref)) is not None
    ]


def made(timeline: Timeline, wanted: Iterable[ClaimRequest]) -> list[OccurrenceDecided]:
    """Return an event for each of these rows that was created in a final state."""
    return [
        OccurrenceDecided(
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
    return str(job) if known is None else known.name  # the job is newer than the timeline on this node
