"""State that all requests share: the store, the jobs, and the node of this web server.

    store       its own connection; the node's connection for stores that a process opens only once
    view        the timeline, copied from the node at the start, and read on from there
    trouble     the start and cause of a store outage
    backfills   backfills in the background
    books       record schedulers with their logs, as far as they were read
    heavy       worker processes, for requests whose cost the caller chooses
    audits      audited windows
    trail       the change log
    finder      lookup of occurrences by their ids

A store outage may begin at any time. A read then raises StoreError, and this state remembers the start of the outage.
The first successful read ends it.
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
from itinerary.observe.node_probe import NodeProbe
from itinerary.operations.operator import Operator
from itinerary.ports import Store
from itinerary.read.run_lookup import RunLookup
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import packaged_zone_data
from itinerary.schedules.custom import has_registered_kinds
from itinerary.stores.store import EngineStore
from itinerary.stores.urls import is_opened_once, open_store
from itinerary.web.access import Caller
from itinerary.web.actions.backfills import ReceivedBackfills
from itinerary.web.audits import Audits
from itinerary.web.background import Background
from itinerary.web.change_log import ChangeLog
from itinerary.web.heavy.pool import HeavyWork
from itinerary.web.job_lookup import JobLookup
from itinerary.web.poller import Poller
from itinerary.web.record_log_cache import RecordLogCache
from itinerary.web.run_policy import permit_of

__all__ = ["ServerState", "StoreOutage"]

_FRESH_FOR: Final = 0.5
"""The seconds for which a read of the timeline and the time serves other requests, too."""
_ANSWERS_WITHIN: Final = 5.0
_REST_FOR: Final = 1.0
"""The seconds without reads after a failure: requests in this time fail at once."""


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _is_of_this_process(node: RunningNode, store: str) -> bool:
    """True if only this process can do heavy work: only it has the store, the zone data or a kind of schedule."""
    return is_opened_once(store) or node.rules.zone_data is not packaged_zone_data() or has_registered_kinds()


class StoreOutage(msgspec.Struct, frozen=True):
    """A store outage."""

    since: datetime
    why: str


class ServerState:
    """The shared state. Created in any thread after the start of the node; used on the web server's event loop."""

    def __init__(
        self,
        node: RunningNode,
        configuration: Configuration,
        wall: Callable[[], datetime] = _wall_clock,
        answers_within: float = _ANSWERS_WITHIN,
        log: Any = None,
    ) -> None:
        """Prepare the state.

        Args:
            node: The node of this web server.
            configuration: The settings of the node.
            wall: Returns the wall-clock time.
            answers_within: Seconds after which a store that has not answered counts as an outage.
            log: The log of the node.
        """
        log = structlog.stdlib.get_logger() if log is None else log
        self._answers_within = answers_within
        self.node, self.configuration = node, configuration
        self.watched: NodeProbe = node.watched
        """The node, seen from outside; also between the end of the node and the end of the pages."""
        self.trouble: StoreOutage | None = None
        self.background = Background()
        self.backfills = ReceivedBackfills(self.background)
        self.books = RecordLogCache()
        self.heavy = HeavyWork(
            configuration.store,
            configuration.settings,
            zone_data=node.rules.zone_data,
            view=self.view,
            is_in_process=_is_of_this_process(node, configuration.store),
            log=log,
        )
        self.audits = Audits(self.background, self.heavy)
        self.trail = ChangeLog()
        self.lookup = RunLookup()
        self._wall = wall
        self._own: EngineStore | None = None
        self._view: StoreView | None = None
        self._read_at = self._rest_until = float("-inf")
        self._lock = asyncio.Lock()
        self._known = JobLookup()
        self.rounds = Poller(self.snapshot, lambda: self.watched)
        """The poller."""

    async def view(self, *, fresh: bool = False) -> StoreView:
        """Return the timeline and the time, at most half a second old; `fresh`: read now. Raises StoreError."""
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
        """Limit the wait for the store, which may retry for longer than users wait. Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(self._answers_within):
                yield
        except TimeoutError:
            raise StoreUnavailable(f"it has not answered for {self._answers_within:g} s") from None

    async def store(self) -> Store:
        """Return the store itself. Raises StoreError if it cannot be reached."""
        await self.view()
        assert self._view is not None, "it has just been read"
        return self._view.store

    async def snapshot(self) -> StoreSnapshot:
        """Return a snapshot as of now. Raises StoreError."""
        view = await self.view()
        return StoreSnapshot(view.store, view.timeline, view.status)

    async def operator(self, caller: Caller) -> Operator:
        """Return an operator for a caller: changes carry its name, and its scope limits them. Raises StoreError."""
        view = await self.view(fresh=True)
        return Operator(view.store, view, caller.name, permit_of(caller.scope))

    def failed(self, error: StoreError) -> None:
        """Record a store read that failed elsewhere."""
        self._trouble_with(error, self._wall())
        self._read_at = float("-inf")

    def job_of_id(self, identity: UUID, timeline: Timeline) -> JobRow | None:
        """Return the job with this id."""
        return self._known.of_id(identity, timeline)

    def job_of_name(self, name: str, timeline: Timeline) -> JobRow | None:
        """Return the job with this name."""
        return self._known.of_name(name, timeline)

    async def close(self) -> None:
        """Stop background work, and close the store."""
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
        """Record a failure. `since`: the start of the outage, if it is new."""
        why = str(error) if self.trouble is None else self.trouble.why
        self.trouble = StoreOutage(since if self.trouble is None else self.trouble.since, why)
        self._rest_until = time.monotonic() + _REST_FOR
