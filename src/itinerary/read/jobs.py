"""Every job in a line: how it stands and why, what came of it last, and when it runs next.

With a hundred thousand jobs nothing is done for each of them that need not be: names are sorted and filtered first, and
only those that are shown are folded, asked for their next instant, and looked up in the history.
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
"""The most that is looked at of what is under way."""


class JobState(StrEnum):
    """How a job stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Its instants are skipped."""
    STOPPED = "stopped"
    """Nothing is expected of it."""
    FINISHED = "finished"
    """Its schedule has no instant left."""
    LATER = "later"
    """Its first version is not in force yet."""
    QUARANTINED = "quarantined"
    """It cannot run: what it says cannot be read, its schedule misbehaves, or no node has its code."""
    REMOVED = "removed"


class LastSeen(msgspec.Struct, frozen=True):
    """What came of it last."""

    instant: datetime | None
    state: OccurrenceState
    ended_at: datetime | None
    reason: str | None


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One job."""

    job: str
    state: JobState
    why: str | None
    """Why it stands so, where somebody or something has decided it."""
    version: int
    schedule: str | None
    """In words."""
    timezone: str
    running: int
    """Occurrences that have begun and have not ended."""
    waiting: int
    """Occurrences that are due, or stand in line, and have not begun."""
    last: LastSeen | None
    next_at: datetime | None


class JobsSeen(msgspec.Struct, frozen=True):
    """Some jobs, and how many more there are."""

    jobs: tuple[JobSeen, ...]
    more: int


class Looker:
    """Looks at jobs, with what is read once for all of them. Make it with `Looker.at`."""

    def __init__(self, ground: Ground, lacked: frozenset[JobNumber], active: Sequence[OccurrenceRow]) -> None:
        self._ground, self._lacked = ground, lacked
        self._running = Counter(row.job for row in active if row.started_at is not None)
        self._waiting = Counter(row.job for row in active if row.started_at is None and is_waiting(row, ground.now))
        self._active = active

    @classmethod
    async def at(cls, ground: Ground, job: JobNumber | None = None, limit: int = ACTIVE_COUNTED_MAX) -> Looker:
        """Read what is under way, of one job or of all, and which jobs nobody has the code of."""
        nodes = await ground.store.read(Nodes())
        rows = await ground.store.read(ActiveRuns(job, limit=limit))
        return cls(ground, lacked_by_all(nodes, ground.now), rows)

    def state(self, job: JobRow) -> tuple[JobState, str | None, int | None]:
        """How a job stands, why, and when it runs next."""
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
        """How many of a job's occurrences run, and how many wait."""
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
        """A job in a line."""
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
        """How many occurrences the pause of a job holds."""
        timeline, now = self._ground.timeline, self._ground.now
        return sum(row.job == job.number and held_row(timeline, row, now) is not None for row in self._active)

    def _described(self, job: JobNumber) -> tuple[Stretch | None, str | None]:
        """What is in force, and its schedule in words; whatever of it can be read."""
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
    """Jobs by name, at most so many, and how many more there are."""
    looker = await Looker.at(ground)
    rows = ground.named(pattern, removed=JobState.REMOVED in states)
    if states:
        rows = list(_standing_so(looker, rows, states))
    return JobsSeen(tuple([await looker.seen(row) for row in rows[:limit]]), max(len(rows) - limit, 0))


def _standing_so(looker: Looker, rows: list[JobRow], states: Collection[JobState]) -> Iterator[JobRow]:
    for row in rows:
        if looker.state(row)[0] in states:
            yield row
