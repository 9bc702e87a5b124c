"""What a pause holds: everything of its job that was to run before the pause and has not started (S11).

    due before the pause, and not started      held: the recovery backlog, what is claimed, queued or pending
    asked for before the pause, not started    held: triggers, replays, backfills
    due within the pause                       skipped at its instant, with the pause as the reason
    asked for within the pause                 runs: a person who asks for a run of a paused job means it
    started before the pause                   goes on

A held occurrence keeps its row, its state and its place in the queue: no state is needed for it, since the timeline
says that its job is paused. Every start names the revision of the timeline that its node knows, and the store refuses
an older one (protocol rule 4). So a pause holds from the moment that it is entered. `resume` releases what was held, or
skips it first.
"""

from __future__ import annotations

from enum import StrEnum

from itinerary.core.timeline.history import Paused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL

__all__ = ["Backlog", "held_by", "held_row", "made_at"]


class Backlog(StrEnum):
    """What becomes of what a pause held, when it ends."""

    RUN = "run"
    SKIP = "skip"


def held_by(timeline: Timeline, job: JobNumber, made_at: int, now: int) -> Paused | None:
    """The pause that holds an occurrence which has not started; None: nothing does.

    Args:
        timeline: What is in force.
        job: The job of the occurrence.
        made_at: Its instant, if its schedule made it due; else when it was asked for.
        now: The store's time.
    """
    try:
        stretch = timeline.in_force(job, now)
    except ItineraryError:
        return None
    if stretch is None or not isinstance(stretch.standing, Paused):
        return None
    return stretch.standing if made_at < stretch.standing.since else None


def held_row(timeline: Timeline, row: OccurrenceRow, now: int) -> Paused | None:
    """The pause that holds an occurrence, by its row; None: it has started or ended, is not due yet, or is not held."""
    if row.started_at is not None or row.status in FINAL or row.due_at > now:
        return None
    return held_by(timeline, row.job, made_at(row), now)


def made_at(row: OccurrenceRow) -> int:
    """When an occurrence was to run, as far as a pause is concerned."""
    return row.instant if row.kind.is_by_schedule else row.created_at
