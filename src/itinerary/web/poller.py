"""The poller: reads facts that are too expensive for each page in small steps, in the web server itself.

    every two seconds    read what has just ended, and the latest outcomes of the next thousand jobs;
                         sample the inbox and the syncer; search for late occurrences

So the first page shows the one failing job among a hundred thousand, though no store keeps a list of failing jobs.
After a start, reading all jobs takes some minutes, and the page shows the progress until then. Runs are seen when they
end.

The cost does not depend on the number of users, and is almost nothing in a store with few jobs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Final

import msgspec
import numpy as np

from itinerary.core.timeline.history import FOREVER, JobActive
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, StoreError
from itinerary.model.queries import ActiveQuery, NodesQuery, RecentQuery
from itinerary.model.rows import JobNumber, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.observe.node_probe import NodeProbe
from itinerary.observe.overdue import OverdueInstant, look_for_undecided
from itinerary.observe.start_rate import BEAT, BEATS, RateInterval
from itinerary.read.nodes import lacked_by_all
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.web.job_index import JobIndex

__all__ = ["FAILED", "LATE_AFTER", "LoadGauge", "Poller", "UpcomingCache"]

FAILED: Final = frozenset(
    {OccurrenceState.FAILED, OccurrenceState.FAILED_STALE, OccurrenceState.ORPHANED, OccurrenceState.MISSED}
)
"""A job whose latest run ended in one of these states is failing."""
LATE_AFTER: Final = 5 * SECOND
"""An occurrence that is due for longer than this and not decided is late."""
_SAYS_NOTHING: Final = frozenset({OccurrenceState.SKIPPED, OccurrenceState.CANCELLED})
"""An occurrence in one of these states did not run, so the previous one decides whether the job is failing."""
_EVERY: Final = 2.0
_PACE: Final = 1_000
"""The number of jobs that are read in one round, besides those that have just run."""
_BACK: Final = 16
_ACTIVE_MAX: Final = 2_000
_NEXT_MAX: Final = 200
_HORIZONS: Final = (600 * SECOND, 3_600 * SECOND, 86_400 * SECOND, 31 * 86_400 * SECOND)
_FAR: Final = FOREVER - 9 * 366 * 86_400 * SECOND
"""A schedule with an instant after this one counts as endless."""


class LoadGauge(msgspec.Struct, frozen=True):
    """The deepest inbox and the longest backlog within ten seconds."""

    at: int
    inbox_depth: int
    syncer_backlog: int


class UpcomingCache(msgspec.Struct, frozen=True):
    """The next instants of all jobs, in order."""

    start: int
    end: int
    """The end of the enumerated time."""
    revision: int
    instants: tuple[tuple[int, JobNumber], ...]


class Poller:
    """The polling task of the web server. Its results may be read at any time."""

    def __init__(self, snapshot: Callable[[], Awaitable[StoreSnapshot]], watched: Callable[[], NodeProbe]) -> None:
        self._snapshot, self._watched = snapshot, watched
        self.failing: dict[JobNumber, OccurrenceRow] = {}
        """The latest run of each failing job."""
        self.finished: set[JobNumber] = set()
        """Jobs whose schedule has ended."""
        self.lacked: frozenset[JobNumber] = frozenset()
        """Jobs whose code no node has."""
        self.late: tuple[OverdueInstant, ...] = ()
        """Occurrences that are due and not decided, longest overdue first."""
        self.seen_share = 0.0
        """The share of all jobs that was read since the start, up to 1."""
        self._book: JobIndex | None = None
        self._coming: UpcomingCache | None = None
        self._gauged: deque[LoadGauge] = deque(maxlen=BEATS + 1)
        self._active: dict[Ref, JobNumber] = {}
        self._after = JobNumber(0)
        self._endless: dict[JobNumber, object] = {}
        self._lock = asyncio.Lock()
        self._busy_until = 0.0

    async def run(self) -> None:
        """Run rounds until cancelled. In a store outage, wait until the next round."""
        while True:
            with suppress(StoreError):  # the server state has recorded it, and pages show it
                await self.once()
            await asyncio.sleep(_EVERY)

    async def once(self) -> None:
        """Run one round."""
        snapshot = await self._snapshot()
        self._gauge(snapshot.now)
        await self._look_at_outcomes(snapshot)
        await self._look_for_late(snapshot)

    # -- all jobs ----------------------------------------------------------------------------------------------------

    async def book(self, snapshot: StoreSnapshot) -> JobIndex:
        """Return the index of all jobs by name and state."""
        async with self._lock:
            if self._book is None or not self._book.is_true(snapshot.timeline, snapshot.now):
                self._book = await asyncio.to_thread(JobIndex, snapshot.timeline, snapshot.now, self._book)
            return self._book

    async def _look_at_outcomes(self, snapshot: StoreSnapshot) -> None:
        jobs = snapshot.timeline.jobs
        hot = await self._just_ended(snapshot)
        numbers = list(islice((number for number in jobs if number > self._after), _PACE))
        self._look_at_ends(snapshot, numbers)
        await self._see(snapshot, {*hot, *numbers})
        if len(numbers) < _PACE:
            self.seen_share, self._after = 1.0, JobNumber(0)
        else:
            self._after = numbers[-1]
            if self.seen_share < 1:
                self.seen_share = min(self.seen_share + len(numbers) / len(jobs), 1.0)

    async def _just_ended(self, snapshot: StoreSnapshot) -> set[JobNumber]:
        rows = await snapshot.store.read(ActiveQuery(limit=_ACTIVE_MAX, with_queued=False))
        before, self._active = self._active, {row.ref: row.job for row in rows}
        return {job for ref, job in before.items() if ref not in self._active}

    async def _see(self, snapshot: StoreSnapshot, jobs: Iterable[JobNumber]) -> None:
        """Read the latest outcomes of these jobs."""
        wanted = tuple(sorted(jobs))
        found = {job: list(rows) for job, rows in (await snapshot.store.read(RecentQuery(wanted))).items()}
        unclear = tuple(job for job, rows in found.items() if rows[0].status in _SAYS_NOTHING)
        if unclear:
            found |= {job: list(rows) for job, rows in (await snapshot.store.read(RecentQuery(unclear, _BACK))).items()}
        for job, rows in found.items():
            telling = next((row for row in rows if row.status not in _SAYS_NOTHING), None)
            if telling is None:
                continue
            if telling.status in FAILED:
                self.failing[job] = telling
            else:
                self.failing.pop(job, None)

    def _look_at_ends(self, snapshot: StoreSnapshot, jobs: Iterable[JobNumber]) -> None:
        """Check which schedules have ended. Most never end, which is checked once for each version."""
        timeline = snapshot.timeline
        for job in jobs:
            entries = timeline.entries(job)
            if self._endless.get(job) is entries:
                continue
            try:
                segment = timeline.in_force(job, snapshot.now)
                if segment is None or not isinstance(segment.status, JobActive):
                    self.finished.discard(job)  # paused or stopped: the schedule does not decide then
                elif timeline.next_run(job, _FAR) is not None:
                    self._endless[job] = entries
                    self.finished.discard(job)
                elif timeline.is_finished(job, snapshot.now):
                    self.finished.add(job)
                else:
                    self.finished.discard(job)
            except ItineraryError:
                self.finished.discard(job)  # quarantined, which the index shows

    # -- late and upcoming occurrences -------------------------------------------------------------------------------

    async def _look_for_late(self, snapshot: StoreSnapshot) -> None:
        self.lacked = lacked_by_all(await snapshot.store.read(NodesQuery()), snapshot.now)
        if monotonic() < self._busy_until:
            return  # the search is slow, so it does not run in each round
        began = monotonic()
        status = snapshot.status
        try:
            found = await look_for_undecided(
                snapshot.store.read, snapshot.timeline, status.watermark, status.now, asyncio.to_thread
            )
        except StoreError:
            raise
        except ItineraryError:  # a job that cannot be enumerated is quarantined, and shown as such
            self.late = ()
        else:
            late = [one for one in found.instants if one.is_undecided and one.due_at < status.now - LATE_AFTER]
            self.late = tuple(one for one in late if not one.is_skipped)
        self._busy_until = monotonic() + 20 * (monotonic() - began)

    async def coming(self, snapshot: StoreSnapshot, count: int) -> list[tuple[int, JobNumber]]:
        """Return the next instants to run, of all jobs."""
        known = self._coming
        if known is not None and known.revision == snapshot.timeline.revision:
            ahead = [one for one in known.instants if one[0] > snapshot.now]
            if len(ahead) >= count or snapshot.now < known.start + (known.end - known.start) // 2:
                return ahead[:count]
        async with self._lock:
            self._coming = await asyncio.to_thread(_coming, snapshot.timeline, snapshot.now, count)
        return [one for one in self._coming.instants if one[0] > snapshot.now][:count]

    # -- the node ----------------------------------------------------------------------------------------------------

    def _gauge(self, now: int) -> None:
        gauges, at = self._watched().gauges(), now // BEAT * BEAT
        inbox, backlog = gauges.inbox_depth, gauges.syncer_backlog
        if self._gauged and self._gauged[-1].at == at:
            last = self._gauged.pop()
            inbox, backlog = max(inbox, last.inbox_depth), max(backlog, last.syncer_backlog)
        self._gauged.append(LoadGauge(at, inbox, backlog))

    def beats(self, now: int) -> list[RateInterval]:
        """Return the starts of this node in the last ten minutes."""
        return self._watched().pulse.beats(now)

    def gauged(self, now: int) -> list[LoadGauge | None]:
        """Return the queue depths in the same ten minutes; None where there is no sample."""
        known, last = {one.at: one for one in self._gauged}, now // BEAT
        return [known.get(number * BEAT) for number in range(last - BEATS, last)]


def _coming(timeline: Timeline, now: int, count: int) -> UpcomingCache:
    """Return the next instants, from the shortest horizon that has enough."""
    found: list[tuple[int, JobNumber]] = []
    end = now
    for span in _HORIZONS:
        end = now + span
        try:
            expected = timeline.expected(now, end)
        except ItineraryError:  # too many to enumerate: the instants found are enough
            end = now + _HORIZONS[0]
            break
        to_run = np.flatnonzero(expected.is_to_run)
        order = to_run[np.lexsort((expected.jobs[to_run], expected.instants[to_run]))][:_NEXT_MAX]
        found = [
            (instant, JobNumber(job))
            for instant, job in zip(expected.instants[order].tolist(), expected.jobs[order].tolist(), strict=True)
        ]
        if len(found) >= _NEXT_MAX:
            end = found[-1][0]
            break
        if len(found) >= count:
            break
    return UpcomingCache(now, end, timeline.revision, tuple(found))
