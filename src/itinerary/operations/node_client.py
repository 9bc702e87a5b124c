"""Operations of a running node, on the node's event loop. All requests of users to a node pass through here.

Every change is durable before it is a message (protocol rule 25): a pause is a timeline entry, a trigger is a row, and
a cancellation is stored in its occurrence. Then the node is notified, so that it need not wait for its next poll. The
store records who asked, when and why (S12). The changes need no node, and other modules make them:

    job_changes   pause, resume, stop, start, remove, skip     job_updates   versions     run_requests   runs

All methods run on the node's event loop; `itinerary.node.thread` passes calls from other threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from itinerary.core.loop.events import OccurrenceEnded, OccurrenceStarted, SchedulerEvent
from itinerary.core.loop.messages import ActiveAsked, JobAsked, Message, OccurrenceAsked, StatisticsAsked
from itinerary.core.loop.replies import ActiveOccurrence, JobOverview, LoopStatistics
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import NotFoundError
from itinerary.jobs.declaration import DeclarationContext
from itinerary.model import queries
from itinerary.model.queries import DetailsQuery
from itinerary.model.report import OccurrenceReport
from itinerary.model.report_builder import report_of
from itinerary.model.rows import JobRow, Ref
from itinerary.model.states import FINAL
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.job_updates import Updates
from itinerary.operations.run_requests import RunRequests
from itinerary.ports import Store
from itinerary.read.run_lookup import RunLike, RunLookup
from itinerary.read.timeline_view import NodeView
from itinerary.runtime.node import Node

__all__ = ["NodeClient", "NodeStatistics"]

_LOOK_AGAIN_AFTER: Final = 1.0
"""Seconds between two reads while a caller waits for an occurrence that another node may end."""


class NodeStatistics(msgspec.Struct, frozen=True):
    """Statistics of a node: its loop, its inbox, and its unwritten updates (L6)."""

    loop: LoopStatistics
    sent: int
    received: int
    timeouts: int
    depth: int
    deepest: int
    unwritten_updates: int
    unwritten_statistics: int


class NodeClient:
    """The operations of one node, for users."""

    def __init__(self, store: Store, node: Node, by: str, rules: DeclarationContext) -> None:
        self._store, self._node = store, node
        self._view, self._lookup = NodeView(store, node), RunLookup()
        self._waiting: dict[Ref, set[asyncio.Event]] = {}
        self.changes = StatusChanges(store, self._view, by)
        self.updates = Updates(store, self._view, by, rules, lambda: node.settings.update_policy)
        self.requests = RunRequests(store, self._view, by, self._lookup)

    @property
    def timeline(self) -> Timeline:
        """The timeline that this node has read last. The value is immutable, so any thread may read it."""
        return self._view.timeline

    def now(self) -> int:
        """Return the store's time, as estimated here."""
        return self._view.now()

    def job(self, name: str) -> JobRow:
        """Return the job of that name. Any thread may call this. Raises NotFoundError if there is none."""
        return self._view.job(name)

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Handle the events of the loop: note new runs, and wake callers that wait for an ended one."""
        self._lookup.note([item for item in news if type(item) is OccurrenceStarted or type(item) is OccurrenceEnded])
        for item in news:
            if isinstance(item, OccurrenceEnded):
                for event in self._waiting.get(item.ref, ()):
                    event.set()

    async def is_running(self, name: str) -> bool:
        """True if an occurrence has started and is not final. The answer comes from the store, never from memory."""
        rows = await self._store.read(queries.ActiveQuery(self.job(name).number))
        return any(row.started_at is not None for row in rows)

    async def wait(self, wanted: RunLike) -> OccurrenceReport:
        """Wait until an occurrence has ended, and return its report. Raises NotFoundError if it is no longer kept."""
        run = await self._lookup.find(self._store, self._view, wanted)
        event = asyncio.Event()
        self._waiting.setdefault(run.ref, set()).add(event)
        try:
            while True:
                event.clear()
                details = await self._store.read(DetailsQuery((run.ref,)))
                if not details:
                    raise NotFoundError(f"occurrence {run} is no longer kept: its history has been pruned")
                if details[0].row.status in FINAL:
                    return report_of(run.job, details[0])
                try:
                    async with asyncio.timeout(_LOOK_AGAIN_AFTER):
                        await event.wait()
                except TimeoutError:
                    continue  # another node may have ended it
        finally:
            self._waiting[run.ref].discard(event)
            if not self._waiting[run.ref]:
                del self._waiting[run.ref]

    async def active(self) -> list[ActiveOccurrence]:
        """Return the active occurrences of this node."""

        def asked(reply: asyncio.Future[list[ActiveOccurrence]]) -> Message:
            return ActiveAsked(reply)

        return await self._node.ask(asked)

    async def occurrence(self, wanted: RunLike) -> ActiveOccurrence | None:
        """Return this node's view of one occurrence; None if this node does not have it."""
        run = await self._lookup.find(self._store, self._view, wanted)

        def asked(reply: asyncio.Future[ActiveOccurrence | None]) -> Message:
            return OccurrenceAsked(run.ref, reply)

        return await self._node.ask(asked)

    async def status(self, name: str) -> JobOverview | None:
        """Return this node's view of one job; None if no version of the job is in force."""
        number = self.job(name).number

        def asked(reply: asyncio.Future[JobOverview | None]) -> Message:
            return JobAsked(number, reply)

        return await self._node.ask(asked)

    async def statistics(self) -> NodeStatistics:
        """Return the statistics of this node."""

        def asked(reply: asyncio.Future[LoopStatistics]) -> Message:
            return StatisticsAsked(reply)

        loop = await self._node.ask(asked)
        inbox, backlog = self._node.inbox.statistics, self._node.backlog
        return NodeStatistics(
            loop, inbox.sent, inbox.received, inbox.timeouts, inbox.depth, inbox.deepest, backlog[0], backlog[1]
        )
