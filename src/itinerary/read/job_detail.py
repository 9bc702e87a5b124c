"""A job in full: the definition in force, the source of each configuration value, the versions, and waiting runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from itinerary.core.timeline.history import HistorySegment
from itinerary.errors import ItineraryError
from itinerary.model.definition import Definition
from itinerary.model.overrides import OverrideLevel
from itinerary.model.rows import EntryKind, JobRow
from itinerary.model.states import OccurrenceState
from itinerary.model.task import Task
from itinerary.read.jobs import ACTIVE_COUNTED_MAX, JobReader, JobView
from itinerary.read.runs import RunView, SettingSeen, active_runs, history_page, settings_seen, why_waiting
from itinerary.read.snapshot import StoreSnapshot, at, moment

__all__ = ["ChangeSeen", "JobDetail", "TaskDeclared", "WaitingSeen", "job_detail"]

_CHANGES_MAX: Final = 10
_ACTIVE_MAX: Final = 1_000
"""The limit of active occurrences that are read."""


class TaskDeclared(msgspec.Struct, frozen=True):
    """A task as declared."""

    name: str
    runs: Any
    """The stored definition of what the task runs."""
    configuration: tuple[SettingSeen, ...]
    """The values that the task sets itself."""


class ChangeSeen(msgspec.Struct, frozen=True):
    """An entry on the job's timeline."""

    kind: EntryKind
    version: int
    effective_from: datetime | None
    entered_at: datetime | None
    by: str
    reason: str | None


class WaitingSeen(msgspec.Struct, frozen=True):
    """A run that has not ended, and the reason if it waits."""

    run: RunView
    why: str | None


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A job in full."""

    seen: JobView
    registered_at: datetime | None
    next_runs: tuple[datetime, ...]
    tasks: tuple[TaskDeclared, ...]
    requires: tuple[str, ...]
    on_start: tuple[str, ...]
    on_complete: tuple[str, ...]
    configuration: tuple[SettingSeen, ...]
    changes: tuple[ChangeSeen, ...]
    """The last changes, newest first."""
    more_changes: int
    active: tuple[WaitingSeen, ...]
    """Started runs, then waiting runs, in order of their due instants."""
    more_active: int
    runs: tuple[RunView, ...]
    """The runs that ended last."""


async def job_detail(
    snapshot: StoreSnapshot, job: JobRow, *, limit: int = 5, counted_max: int = ACTIVE_COUNTED_MAX
) -> JobDetail:
    """Return a job in full.

    Args:
        ground: The snapshot of the store.
        job: The job.
        limit: The number of runs and of instants.
        counted_max: The limit of active runs that are counted.
    """
    seen = await (await JobReader.at(snapshot, job.number, counted_max)).seen(job)
    page = await history_page(snapshot, job, limit=limit)
    active = await _waiting(snapshot, job)
    segment, definition = _in_force(snapshot, job)
    entries = sorted(
        snapshot.timeline.entries(job.number), key=lambda entry: (entry.revision, entry.line), reverse=True
    )
    return JobDetail(
        seen=seen,
        registered_at=moment(job.registered_at),
        next_runs=_next_runs(snapshot, job, limit),
        tasks=() if definition is None else tuple(_task(task, definition) for task in definition.tasks),
        requires=() if definition is None else tuple(f"{one}, else {one.on_unmet}" for one in definition.requires),
        on_start=() if definition is None else definition.on_start,
        on_complete=() if definition is None else definition.on_complete,
        configuration=()
        if segment is None or definition is None
        else tuple(settings_seen(definition.config(), snapshot.source(job.number, segment.version))),
        changes=tuple(
            ChangeSeen(
                entry.kind,
                entry.version,
                moment(entry.effective_from),
                moment(entry.entered_at),
                entry.entered_by,
                entry.reason,
            )
            for entry in entries[:_CHANGES_MAX]
        ),
        more_changes=max(len(entries) - _CHANGES_MAX, 0),
        active=tuple(active[:limit]),
        more_active=max(len(active) - limit, 0),
        runs=page.runs,
    )


def _in_force(snapshot: StoreSnapshot, job: JobRow) -> tuple[HistorySegment | None, Definition | None]:
    """Return the history segment and the definition in force; None for both if they cannot be read."""
    try:
        segment = snapshot.segment(job.number)
        definition = None if segment is None else segment.definition
    except ItineraryError:
        return None, None
    return segment, definition


def _next_runs(snapshot: StoreSnapshot, job: JobRow, count: int) -> tuple[datetime, ...]:
    try:
        found = snapshot.next_runs(job.number, count)
    except ItineraryError:
        return ()
    return tuple(at(instant) for instant in found)


def _task(task: Task, definition: Definition) -> TaskDeclared:
    rows = definition.config(task=task.overrides).rows()
    own = tuple(SettingSeen(*row) for row in rows if row.source is OverrideLevel.TASK)
    return TaskDeclared(task.name, dict(task.definition), own)


async def _waiting(snapshot: StoreSnapshot, job: JobRow) -> list[WaitingSeen]:
    rows = await active_runs(snapshot, job, limit=_ACTIVE_MAX)
    line = [row for row in rows if row.state is OccurrenceState.QUEUED]
    begun = [row for row in reversed(rows) if row.started_at is not None]
    others = [row for row in reversed(rows) if row.started_at is None]
    return [WaitingSeen(row, why_waiting(row, line)) for row in (*begun, *others)]
