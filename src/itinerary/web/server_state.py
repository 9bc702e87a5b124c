"""What all requests share: the store, what is known of the jobs, and the node that this is the web server of.

    store       a connection of its own; for stores that a process opens only once, the node's
    view        the timeline, taken over from the node when it starts, and read on from there
    trouble     since when the store cannot be reached, and why
    backfills   those that go on while nobody waits for them
    books       desks whose logs were read, and how far
    heavy       worker processes, for requests whose cost the caller chooses
    audits      windows that were audited
    trail       what people have changed
    finder      finds occurrences by their ids

The store may go away at any time. Whoever reads it then gets a StoreError, and the house remembers since when; as soon
as one read succeeds, there is no trouble any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from itinerary.api.running_node import RunningNode
from itinerary.config.configuration import Configuration
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreError, StoreUnavailable
from itinerary.model.rows import JobRow
from itinerary.observe.node_probe import Watched
from itinerary.operations.operator import Operator
from itinerary.ports import Store
from itinerary.read.run_lookup import Finder
from itinerary.read.snapshot import Ground
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import packaged_zone_data
from itinerary.schedules.custom import has_registered_kinds
from itinerary.stores.store import EngineStore
from itinerary.stores.urls import is_opened_once, open_store
from itinerary.web.access import Caller
from itinerary.web.actions.backfills import Backfills
from itinerary.web.audits import Audits
from itinerary.web.background import Background
from itinerary.web.change_log import Trail
from itinerary.web.heavy.pool import HeavyWork
from itinerary.web.job_lookup import JobsKnown
from itinerary.web.poller import Rounds
from itinerary.web.record_log_cache import Books
from itinerary.web.run_policy import permit_of

__all__ = ["House", "Trouble"]

_FRESH_FOR: Final = 0.5
"""Seconds for which what was read of the timeline and the time serves other requests, too."""
_ANSWERS_WITHIN: Final = 5.0
_REST_FOR: Final = 1.0
"""Seconds for which a store that is away is not asked again: who looks meanwhile is told at once."""


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _is_of_this_process(node: RunningNode, store: str) -> bool:
    """True if only this process can do heavy work: it has the store, the zone data or a kind of schedule alone."""
    return is_opened_once(store) or node.rules.zone_data is not packaged_zone_data() or has_registered_kinds()


class Trouble(msgspec.Struct, frozen=True):
    """The store cannot be reached."""

    since: datetime
    why: str


class House:
    """Made when the node has started, in any thread; used on the web server's loop."""

    def __init__(
        self,
        node: RunningNode,
        configuration: Configuration,
        wall: Callable[[], datetime] = _wall_clock,
        answers_within: float = _ANSWERS_WITHIN,
        log: Any = None,
    ) -> None:
        """`answers_within`: seconds after which a store that has not answered is away, for those who look. `log` is
        the log of the node."""
        log = structlog.stdlib.get_logger() if log is None else log
        self._answers_within = answers_within
        self.node, self.configuration = node, configuration
        self.watched: Watched = node.watched
        """The node, seen from outside; also in the moment between the end of the node and the end of the pages."""
        self.trouble: Trouble | None = None
        self.background = Background()
        self.backfills = Backfills(self.background)
        self.books = Books()
        self.heavy = HeavyWork(
            configuration.store,
            configuration.settings,
            zone_data=node.rules.zone_data,
            view=self.view,
            is_in_process=_is_of_this_process(node, configuration.store),
            log=log,
        )
        self.audits = Audits(self.background, self.heavy)
        self.trail = Trail()
        self.finder = Finder()
        self._wall = wall
        self._own: EngineStore | None = None
        self._view: StoreView | None = None
        self._read_at = self._rest_until = float("-inf")
        self._lock = asyncio.Lock()
        self._known = JobsKnown()
        self.rounds = Rounds(self.ground, lambda: self.watched)
        """What is looked at a little at a time."""

    async def view(self, *, fresh: bool = False) -> StoreView:
        """The timeline and the time, not older than half a second; `fresh`: read now. Raises StoreError."""
        async with self._lock:
            if self.trouble is not None and time.monotonic() < self._rest_until:
                raise StoreUnavailable(self.trouble.why)
            asked_at = self._wall()
            try:
                async with self.answering():
                    if self._view is None:
                        self._view = StoreView(await self._opened(), self.watched.timeline() or Timeline())
                    if fresh or time.monotonic() - self._read_at > _FRESH_FOR:
                        await self._view.read()
                        self._read_at = time.monotonic()
            except StoreError as error:
                self._trouble_with(error, asked_at)
                raise
            self.trouble = None
            return self._view

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """A store may wait long for a server that is away; people are told sooner. Raises StoreUnavailable then."""
        try:
            async with asyncio.timeout(self._answers_within):
                yield
        except TimeoutError:
            raise StoreUnavailable(f"it has not answered for {self._answers_within:g} s") from None

    async def store(self) -> Store:
        """The store itself. Raises StoreError if it cannot be reached."""
        await self.view()
        assert self._view is not None, "it has just been read"
        return self._view.store

    async def ground(self) -> Ground:
        """What there is to look at, as of now. Raises StoreError."""
        view = await self.view()
        return Ground(view.store, view.timeline, view.status)

    async def operator(self, caller: Caller) -> Operator:
        """Act for a caller: changes are kept with its name, and its scope bounds them. Raises StoreError."""
        view = await self.view(fresh=True)
        return Operator(view.store, view, caller.name, permit_of(caller.scope))

    def failed(self, error: StoreError) -> None:
        """A read of the store has failed somewhere else."""
        self._trouble_with(error, self._wall())
        self._read_at = float("-inf")

    def job_of_id(self, identity: UUID, timeline: Timeline) -> JobRow | None:
        """The job that has this id."""
        return self._known.of_id(identity, timeline)

    def job_of_name(self, name: str, timeline: Timeline) -> JobRow | None:
        """The job that has this name."""
        return self._known.of_name(name, timeline)

    async def close(self) -> None:
        """End what goes on, and let go of the store."""
        await self.background.close()
        await self.heavy.close()
        if self._own is not None:
            await self._own.close()

    async def _opened(self) -> Store:
        url = self.configuration.store
        if is_opened_once(url):
            return self.node.lent_store()
        store = open_store(url)
        try:
            await store.open()
        except BaseException:
            await store.close()
            raise
        self._own = store
        return store

    def _trouble_with(self, error: StoreError, since: datetime) -> None:
        """`since`: the trouble is not older than that, if it is new."""
        why = str(error) if self.trouble is None else self.trouble.why
        self.trouble = Trouble(since if self.trouble is None else self.trouble.since, why)
        self._rest_until = time.monotonic() + _REST_FOR
