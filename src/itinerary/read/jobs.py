"""Every job in one row: its status and why, its last run, and its next run.

With a hundred thousand jobs, work for a single job is expensive. So names are sorted and filtered first. Only the jobs
on the page are evaluated, and only their next instants and histories are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from itinerary.core.recovery.pause import held_row
from itinerary.core.timeline.history import HistorySegment, JobActive, JobPaused, JobRemoved, JobStopped
from itinerary.errors import ItineraryError
from itinerary.model.queries import ActiveQuery, HistoryQuery, NodesQuery
from itinerary.model.rows import JobNumber, JobRow, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.read.nodes import lacked_by_all
from itinerary.read.runs import is_waiting
from itinerary.read.snapshot import StoreSnapshot, moment

__all__ = ["ACTIVE_COUNTED_MAX", "JobReader", "JobState", "JobView", "JobsSeen", "LastSeen", "jobs_seen"]


ACTIVE_COUNTED_MAX: Final = 100_000
"""The limit of active runs that are counted."""


class JobState(StrEnum):
    """The status of a job."""

    ACTIVE = "active"
    PAUSED = "paused"
    """The instants of the job are skipped."""
    STOPPED = "stopped"
    """The job has no expected instants."""
    FINISHED = "finished"
    """The schedule has no instant left."""
    LATER = "later"
    """The first version is not in force yet."""
    QUARANTINED = "quarantined"
    """The job cannot run: its definition is not readable, its schedule misbehaves, or no node has its code."""
    REMOVED = "removed"


class LastSeen(msgspec.Struct, frozen=True):
    """The last run of a job."""

    instant: datetime | None
    state: OccurrenceState
    ended_at: datetime | None
    reason: str | None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job in one row."""

    job: str
    state: JobState
    why: str | None
    """The reason for the status, if a user or a failure caused it."""
    version: int
    schedule: str | None
    """The schedule in words."""
    timezone: str
    running: int
    """The number of occurrences that have started and not ended."""
    waiting: int
    """The number of occurrences that are due or queued and have not started."""
    last: LastSeen | None
    next_at: datetime | None


class JobsSeen(msgspec.Struct, frozen=True):
    """A page of jobs, and the number of further jobs."""

    jobs: tuple[JobView, ...]
    more: int


class JobReader:
    """A reader of jobs that shares one read of the active runs and nodes. Make it with `JobReader.at`."""

    def __init__(self, snapshot: StoreSnapshot, lacked: frozenset[JobNumber], active: Sequence[OccurrenceRow]) -> None:
        self._snapshot, self._lacked = snapshot, lacked
        self._running = Counter(row.job for row in active if row.started_at is not None)
        self._waiting = Counter(row.job for row in active if row.started_at is None and is_waiting(row, snapshot.now))
        self._active = active

    @classmethod
    async def at(
        cls, snapshot: StoreSnapshot, job: JobNumber | None = None, limit: int = ACTIVE_COUNTED_MAX
    ) -> JobReader:
        """Read the active runs of one job or of all, and the jobs whose code no node has."""
        nodes = await snapshot.store.read(NodesQuery())
        rows = await snapshot.store.read(ActiveQuery(job, limit=limit))
        return cls(snapshot, lacked_by_all(nodes, snapshot.now), rows)

    def state(self, job: JobRow) -> tuple[JobState, str | None, int | None]:
        """Return the status of a job, the reason, and the next instant."""
        try:
            segment = self._snapshot.segment(job.number)
            following = next(iter(self._snapshot.next_runs(job.number, 1)), None)
            is_finished = following is None and self._snapshot.timeline.is_finished(job.number, self._snapshot.now)
        except ItineraryError as error:
            return JobState.QUARANTINED, str(error), None
        if segment is None:
            return JobState.REMOVED, None, None
        state, why = self._status(segment, is_finished=is_finished)
        if job.number in self._lacked and state in {JobState.ACTIVE, JobState.LATER}:
            return JobState.QUARANTINED, "no node that runs has its code", following
        return state, why, following

    def under_way(self, job: JobNumber) -> tuple[int, int]:
        """Return the numbers of running and of waiting occurrences of a job."""
        return self._running[job], self._waiting[job]

    def _status(self, segment: HistorySegment, *, is_finished: bool) -> tuple[JobState, str | None]:
        match segment.status:
            case JobPaused() as paused:
                return JobState.PAUSED, str(paused)
            case JobStopped() as stopped:
                return JobState.STOPPED, str(stopped)
            case JobRemoved() as removed:
                return JobState.REMOVED, str(removed)
            case JobActive():
                if segment.start > self._snapshot.now:
                    return JobState.LATER, None
                return (JobState.FINISHED if is_finished else JobState.ACTIVE), None

    async def seen(self, job: JobRow) -> JobView:
        """Return a job in one row."""
        state, why, following = self.state(job)
        if state is JobState.PAUSED and (held := self._held(job)):
            why = f"{why}; {held} that had not started {'is' if held == 1 else 'are'} held"
        segment, words = self._described(job.number)
        return JobView(
            job=job.name,
            state=state,
            why=why,
            version=job.version if segment is None else segment.version,
            schedule=words,
            timezone=self._snapshot.zone_of(segment),
            running=self._running[job.number],
            waiting=self._waiting[job.number],
            last=await self._last(job),
            next_at=moment(following),
        )

    def _held(self, job: JobRow) -> int:
        """Return the number of occurrences that the pause of a job holds."""
        timeline, now = self._snapshot.timeline, self._snapshot.now
        return sum(row.job == job.number and held_row(timeline, row, now) is not None for row in self._active)

    def _described(self, job: JobNumber) -> tuple[HistorySegment | None, str | None]:
        """Return the history segment in force and the schedule in words; None for a part that cannot be read."""
        try:
            segment = self._snapshot.segment(job)
        except ItineraryError:
            return None, None
        try:
            return segment, None if segment is None else str(segment.schedule)
        except ItineraryError:
            return segment, None

    async def _last(self, job: JobRow) -> LastSeen | None:
        page = await self._snapshot.store.read(HistoryQuery(job.number, limit=1))
        if not page.rows:
            return None
        row = page.rows[0]
        return LastSeen(moment(row.instant), row.status, moment(row.ended_at), row.reason)


async def jobs_seen(
    snapshot: StoreSnapshot, *, pattern: str | None = None, states: Collection[JobState] = (), limit: int = 50
) -> JobsSeen:
    """Return the first `limit` jobs by name, and the number of further ones."""
    reader = await JobReader.at(snapshot)
    rows = snapshot.named(pattern, removed=JobState.REMOVED in states)
    if states:
        rows = list(_standing_so(reader, rows, states))
    return JobsSeen(tuple([await reader.seen(row) for row in rows[:limit]]), max(len(rows) - limit, 0))


def _standing_so(reader: JobReader, rows: list[JobRow], states: Collection[JobState]) -> Iterator[JobRow]:
    for row in rows:
        if reader.state(row)[0] in states:
            yield row
