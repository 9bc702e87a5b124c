"""The status of the store, read without the node.

The reader runs on a thread and a connection that are not the engine's, so its result is correct even if the engine
hangs. A store that can be opened only once (memory, LMDB) is read through the engine, and the reader raises an error if
that does not answer.

A look is a few reads, and its result is shared by all callers for two seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from itinerary.core.timeline.history import JobPaused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, StoreError, StoreUnavailable
from itinerary.model.queries import NodesQuery, StoreStatusQuery
from itinerary.model.rows import EntryKind, JobNumber
from itinerary.observe.overdue import Elsewhere, OverdueInstant, here, look_for_undecided
from itinerary.stores.paging import StoreRead, news_since

__all__ = ["LOOK_TIMEOUT", "StoreStatus", "StoreStatusReader"]

LOOK_TIMEOUT: Final = 5.0
"""The maximum time for an answer of the store, in seconds."""
_FRESH_FOR: Final = 2.0
"""The time for which a result is shared by all callers, in seconds."""
_MISSES_MAX: Final = 3
"""The number of heartbeats that a node may miss and still count as present."""


class StoreStatus(msgspec.Struct, frozen=True):
    """The status of the store at one time."""

    now: int
    """The time of the store's clock."""
    watermark: int
    oldest: OverdueInstant | None
    """The instant that has been due and undecided for longest."""
    oldest_job: str | None
    """The name of its job."""
    undecided: tuple[OverdueInstant, ...]
    """The instants that are due and have not started."""
    in_queue: int
    paused: int
    nodes: int

    @property
    def undecided_for(self) -> int:
        """The time for which an instant has been due and undecided, in microseconds; 0 if there is none."""
        return 0 if self.oldest is None else max(self.now - self.oldest.due_at, 0)


class StoreStatusReader:
    """The reader of one store's status. Used on one loop only."""

    def __init__(
        self,
        read: StoreRead,
        timeline: Callable[[], Timeline | None],
        heartbeat_interval: int,
        timeout: float = LOOK_TIMEOUT,
        elsewhere: Elsewhere = here,
    ) -> None:
        """Create a reader.

        Args:
            read: Reads from the store.
            timeline: Returns the timeline as the node knows it. Newer entries are read from the store.
            heartbeat_interval: The heartbeat interval of nodes in microseconds.
            timeout: The maximum time for an answer of the store, in seconds.
            elsewhere: Runs a long computation outside the loop.
        """
        self._read, self._node_timeline = read, timeline
        self._silence_max, self._timeout = heartbeat_interval * _MISSES_MAX, timeout
        self._elsewhere = elsewhere
        self._timeline = Timeline()
        self._pausing: tuple[int, tuple[JobNumber, ...]] = (-1, ())
        self._looked_at = -_FRESH_FOR
        self._look: asyncio.Task[StoreStatus] | None = None
        self.last: StoreStatus | None = None
        """The last result."""

    async def look(self) -> StoreStatus:
        """Return the status of the store, at most a moment old.

        Raises:
            StoreError: The store does not answer, or its content cannot be read.
        """
        loop = asyncio.get_running_loop()
        if self.last is not None and loop.time() - self._looked_at < _FRESH_FOR:
            return self.last
        if self._look is None or self._look.done():
            self._look = loop.create_task(self._seen(), name="look at the store")
        seen = await asyncio.shield(self._look)
        self.last, self._looked_at = seen, loop.time()
        return seen

    async def close(self) -> None:
        """Cancel a read in progress."""
        if self._look is not None and not self._look.done():
            self._look.cancel()
            await asyncio.wait([self._look])

    async def _seen(self) -> StoreStatus:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._look_around()
        except TimeoutError:
            raise StoreUnavailable(f"the store has not answered for {self._timeout:g} s") from None
        except StoreError:
            raise
        except ItineraryError as error:  # for example, a job that cannot be enumerated or a page without an end
            raise StoreError(f"what the store holds cannot be read: {error}") from error

    async def _look_around(self) -> StoreStatus:
        status = await self._read(StoreStatusQuery())
        timeline = await self._newest(status.revision)
        found = await look_for_undecided(self._read, timeline, status.watermark, status.now, self._elsewhere)
        nodes = await self._read(NodesQuery())
        there = [row for row in nodes if row.left_at is None and status.now - row.beat_at < self._silence_max]
        oldest = found.oldest
        return StoreStatus(
            status.now,
            status.watermark,
            oldest,
            None if oldest is None else timeline.jobs[oldest.job].name,
            found.instants,
            found.in_queue,
            self._paused(timeline, status.now),
            len(there),
        )

    async def _newest(self, revision: int) -> Timeline:
        """Return the timeline up to a revision: the node's, if it is new enough."""
        theirs = self._node_timeline()
        if theirs is not None and theirs.revision >= self._timeline.revision:
            self._timeline = theirs
        if self._timeline.revision < revision:
            self._timeline = self._timeline.extended(*await news_since(self._read, self._timeline))
        return self._timeline

    def _paused(self, timeline: Timeline, now: int) -> int:
        """Return the number of paused jobs. Only jobs with a pause in their timeline are checked."""
        revision, jobs = self._pausing
        if revision != timeline.revision:
            jobs = tuple(
                job for job in timeline.jobs if any(one.kind is EntryKind.PAUSE for one in timeline.entries(job))
            )
            self._pausing = timeline.revision, jobs
        return sum(_is_paused(timeline, job, now) for job in jobs)


def _is_paused(timeline: Timeline, job: JobNumber, now: int) -> bool:
    try:
        segment = timeline.in_force(job, now)
    except ItineraryError:
        return False  # the job is unreadable and quarantined
    return segment is not None and isinstance(segment.status, JobPaused)
