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
from itinerary.core.timeline.history import Active, Paused, Removed, Stopped, Stretch
from itinerary.errors import ItineraryError
from itinerary.model.queries import Active as ActiveRuns
from itinerary.model.queries import History, Nodes
from itinerary.model.rows import JobNumber, JobRow, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.read.nodes import lacked_by_all
from itinerary.read.runs import is_waiting
from itinerary.read.snapshot import Ground, moment

__all__ = ["ACTIVE_COUNTED_MAX", "JobSeen", "JobState", "JobsSeen", "LastSeen", "Looker", "jobs_seen"]


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


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
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

    jobs: tuple[JobSeen, ...]
    more: int


class Looker:
    """A reader of jobs that shares one read of the active runs and nodes. Make it with `Looker.at`."""

    def __init__(self, ground: Ground, lacked: frozenset[JobNumber], active: Sequence[OccurrenceRow]) -> None:
        self._ground, self._lacked = ground, lacked
        self._running = Counter(row.job for row in active if row.started_at is not None)
        self._waiting = Counter(row.job for row in active if row.started_at is None and is_waiting(row, ground.now))
        self._active = active

    @classmethod
    async def at(cls, ground: Ground, job: JobNumber | None = None, limit: int = ACTIVE_COUNTED_MAX) -> Looker:
        """Read the active runs of one job or of all, and the jobs whose code no node has."""
        nodes = await ground.store.read(Nodes())
        rows = await ground.store.read(ActiveRuns(job, limit=limit))
        return cls(ground, lacked_by_all(nodes, ground.now), rows)

    def state(self, job: JobRow) -> tuple[JobState, str | None, int | None]:
        """Return the status of a job, the reason, and the next instant."""
        try:
            stretch = self._ground.stretch(job.number)
            following = next(iter(self._ground.next_runs(job.number, 1)), None)
            is_finished = following is None and self._ground.timeline.is_finished(job.number, self._ground.now)
        except ItineraryError as error:
            return JobState.QUARANTINED, str(error), None
        if stretch is None:
            return JobState.REMOVED, None, None
        state, why = self._standing(stretch, is_finished=is_finished)
        if job.number in self._lacked and state in {JobState.ACTIVE, JobState.LATER}:
            return JobState.QUARANTINED, "no node that runs has its code", following
        return state, why, following

    def under_way(self, job: JobNumber) -> tuple[int, int]:
        """Return the numbers of running and of waiting occurrences of a job."""
        return self._running[job], self._waiting[job]

    def _standing(self, stretch: Stretch, *, is_finished: bool) -> tuple[JobState, str | None]:
        match stretch.standing:
            case Paused() as paused:
                return JobState.PAUSED, str(paused)
            case Stopped() as stopped:
                return JobState.STOPPED, str(stopped)
            case Removed() as removed:
                return JobState.REMOVED, str(removed)
            case Active():
                if stretch.start > self._ground.now:
                    return JobState.LATER, None
                return (JobState.FINISHED if is_finished else JobState.ACTIVE), None

    async def seen(self, job: JobRow) -> JobSeen:
        """Return a job in one row."""
        state, why, following = self.state(job)
        if state is JobState.PAUSED and (held := self._held(job)):
            why = f"{why}; {held} that had not started {'is' if held == 1 else 'are'} held"
        stretch, words = self._described(job.number)
        return JobSeen(
            job=job.name,
            state=state,
            why=why,
            version=job.version if stretch is None else stretch.version,
            schedule=words,
            timezone=self._ground.zone_of(stretch),
            running=self._running[job.number],
            waiting=self._waiting[job.number],
            last=await self._last(job),
            next_at=moment(following),
        )

    def _held(self, job: JobRow) -> int:
        """Return the number of occurrences that the pause of a job holds."""
        timeline, now = self._ground.timeline, self._ground.now
        return sum(row.job == job.number and held_row(timeline, row, now) is not None for row in self._active)

    def _described(self, job: JobNumber) -> tuple[Stretch | None, str | None]:
        """Return the history segment in force and the schedule in words; None for a part that cannot be read."""
        try:
            stretch = self._ground.stretch(job)
        except ItineraryError:
            return None, None
        try:
            return stretch, None if stretch is None else str(stretch.schedule)
        except ItineraryError:
            return stretch, None

    async def _last(self, job: JobRow) -> LastSeen | None:
        page = await self._ground.store.read(History(job.number, limit=1))
        if not page.rows:
            return None
        row = page.rows[0]
        return LastSeen(moment(row.instant), row.status, moment(row.ended_at), row.reason)


async def jobs_seen(
    ground: Ground, *, pattern: str | None = None, states: Collection[JobState] = (), limit: int = 50
) -> JobsSeen:
    """Return the first `limit` jobs by name, and the number of further ones."""
    looker = await Looker.at(ground)
    rows = ground.named(pattern, removed=JobState.REMOVED in states)
    if states:
        rows = list(_standing_so(looker, rows, states))
    return JobsSeen(tuple([await looker.seen(row) for row in rows[:limit]]), max(len(rows) - limit, 0))


def _standing_so(looker: Looker, rows: list[JobRow], states: Collection[JobState]) -> Iterator[JobRow]:
    for row in rows:
        if looker.state(row)[0] in states:
            yield row
