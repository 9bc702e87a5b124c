"""The lookout: how the store is, read past the node.

It is asked on a thread that is not the engine's, through a connection that is not the engine's either, so what it sees
is true when the engine hangs. Where a store can only be opened once (memory, LMDB), it asks through the engine, and
says so when that does not answer.

One look is a handful of reads, and serves everybody for a few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from itinerary.core.timeline.history import Paused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, StoreError, StoreUnavailable
from itinerary.model.queries import Nodes, Standing
from itinerary.model.rows import EntryKind, JobNumber
from itinerary.observe.overdue import Elsewhere, Instant, here, look_for_undecided
from itinerary.stores.paging import Read, news_since

__all__ = ["LOOK_TIMEOUT", "Lookout", "Seen"]

LOOK_TIMEOUT: Final = 5.0
"""How long a store may take to answer, in seconds."""
_FRESH_FOR: Final = 2.0
"""For how long a look serves everybody, in seconds."""
_MISSES_MAX: Final = 3
"""How many heartbeats a node may miss and still be counted as there."""


class Seen(msgspec.Struct, frozen=True):
    """How the store was."""

    now: int
    """By the store's clock."""
    watermark: int
    oldest: Instant | None
    """What has been due and undecided for longest."""
    oldest_job: str | None
    """What its job is called."""
    undecided: tuple[Instant, ...]
    """What is due and has not begun."""
    in_queue: int
    paused: int
    nodes: int

    @property
    def undecided_for(self) -> int:
        """For how long something has been due and undecided, in microseconds; 0: nothing is."""
        return 0 if self.oldest is None else max(self.now - self.oldest.due_at, 0)


class Lookout:
    """Looks at one store. Used on one loop only."""

    def __init__(
        self,
        read: Read,
        timeline: Callable[[], Timeline | None],
        heartbeat_interval: int,
        timeout: float = LOOK_TIMEOUT,
        elsewhere: Elsewhere = here,
    ) -> None:
        """`timeline` is the node's, as far as it has read it; what is newer is read here."""
        self._read, self._node_timeline = read, timeline
        self._silence_max, self._timeout = heartbeat_interval * _MISSES_MAX, timeout
        self._elsewhere = elsewhere
        self._timeline = Timeline()
        self._pausing: tuple[int, tuple[JobNumber, ...]] = (-1, ())
        self._looked_at = -_FRESH_FOR
        self._look: asyncio.Task[Seen] | None = None
        self.last: Seen | None = None
        """What was seen last."""

    async def look(self) -> Seen:
        """How the store is, now or a moment ago. Raises StoreError if it does not answer."""
        loop = asyncio.get_running_loop()
        if self.last is not None and loop.time() - self._looked_at < _FRESH_FOR:
            return self.last
        if self._look is None or self._look.done():
            self._look = loop.create_task(self._seen(), name="look at the store")
        seen = await asyncio.shield(self._look)
        self.last, self._looked_at = seen, loop.time()
        return seen

    async def close(self) -> None:
        """Look no more."""
        if self._look is not None and not self._look.done():
            self._look.cancel()
            await asyncio.wait([self._look])

    async def _seen(self) -> Seen:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._look_around()
        except TimeoutError:
            raise StoreUnavailable(f"the store has not answered for {self._timeout:g} s") from None
        except StoreError:
            raise
        except ItineraryError as error:  # a job that cannot be enumerated, a page that does not end
            raise StoreError(f"what the store holds cannot be read: {error}") from error

    async def _look_around(self) -> Seen:
        status = await self._read(Standing())
        timeline = await self._newest(status.revision)
        found = await look_for_undecided(self._read, timeline, status.watermark, status.now, self._elsewhere)
        nodes = await self._read(Nodes())
        there = [row for row in nodes if row.left_at is None and status.now - row.beat_at < self._silence_max]
        oldest = found.oldest
        return Seen(
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
        """The timeline, up to that revision: the node's, if it has come so far."""
        theirs = self._node_timeline()
        if theirs is not None and theirs.revision >= self._timeline.revision:
            self._timeline = theirs
        if self._timeline.revision < revision:
            self._timeline = self._timeline.extended(*await news_since(self._read, self._timeline))
        return self._timeline

    def _paused(self, timeline: Timeline, now: int) -> int:
        """How many jobs are paused. Those that never were are not looked at again until the timeline changes."""
        revision, jobs = self._pausing
        if revision != timeline.revision:
            jobs = tuple(
                job for job in timeline.jobs if any(one.kind is EntryKind.PAUSE for one in timeline.entries(job))
            )
            self._pausing = timeline.revision, jobs
        return sum(_is_paused(timeline, job, now) for job in jobs)


def _is_paused(timeline: Timeline, job: JobNumber, now: int) -> bool:
    try:
        stretch = timeline.in_force(job, now)
    except ItineraryError:
        return False  # it cannot be read, and is quarantined
    return stretch is not None and isinstance(stretch.standing, Paused)
