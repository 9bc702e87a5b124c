"""The occurrences that a pause holds: those from before the pause that have not started (S11).

    due before the pause, and not started      held: the recovery backlog, claimed, queued and pending occurrences
    requested before the pause, not started    held: triggers, replays, backfills
    due within the pause                       skipped at its instant, with the pause as the reason
    requested within the pause                 runs: a user who requests a run of a paused job means it
    started before the pause                   continues

A held occurrence keeps its row, its state and its place in the queue. No extra state is needed, since the timeline
shows that the job is paused. Every start names the revision of the timeline that its node knows, and the store refuses
an older one (protocol rule 4). So a pause holds from the moment that it is entered. `resume` releases the held
occurrences, or skips them first.
"""

from __future__ import annotations

from enum import StrEnum

from itinerary.core.timeline.history import JobPaused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL

__all__ = ["HeldBacklog", "held_by", "held_row", "made_at"]


class HeldBacklog(StrEnum):
    """The treatment of held occurrences when a pause ends."""

    RUN = "run"
    SKIP = "skip"


def held_by(timeline: Timeline, job: JobNumber, made_at: int, now: int) -> JobPaused | None:
    """Return the pause that holds an unstarted occurrence; None if no pause does.

    Args:
        timeline: The timeline in force.
        job: The job of the occurrence.
        made_at: The instant of a scheduled occurrence, or the time of the request for others.
        now: The store's time.
    """
    try:
        segment = timeline.in_force(job, now)
    except ItineraryError:
        return None
    if segment is None or not isinstance(segment.status, JobPaused):
        return None
    return segment.status if made_at < segment.status.since else None


def held_row(timeline: Timeline, row: OccurrenceRow, now: int) -> JobPaused | None:
    """Return the pause that holds the occurrence of a row.

    Returns:
        The pause, or None if the occurrence has started or ended, is not due yet, or is not held.
    """
    if row.started_at is not None or row.status in FINAL or row.due_at > now:
        return None
    return held_by(timeline, row.job, made_at(row), now)


def made_at(row: OccurrenceRow) -> int:
    """Return the time that decides whether a pause holds an occurrence: its instant, or when it was requested."""
    return row.instant if row.kind.is_by_schedule else row.created_at
