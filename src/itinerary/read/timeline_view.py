"""The timeline, the time, and the node to notify, for operations.

    NodeView     in a program with a node: the timeline and clock of the node, which is notified at once
    StoreView    without a node, as on the command line: the store, read when needed

Every change is durable before a notification (protocol rule 25). A node without a notification finds the change soon by
its own polling.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from itinerary.core.loop.messages import CancelRequested, ConfigurationUpdated, WorkOffered
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import NotFoundError
from itinerary.model.queries import ByRefQuery, Status, StoreStatusQuery
from itinerary.model.rows import JobNumber, JobRow, NodeNumber, OccurrenceRow, Ref
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.runtime.node import Node
from itinerary.schedules.durations import SECOND
from itinerary.schedules.suggestions import did_you_mean
from itinerary.stores.paging import news_since

__all__ = ["NodeView", "StoreView", "TimelineView", "instead_of"]


def instead_of(name: str, names: Collection[str]) -> str:
    """Return the hint for an unknown job name: the closest name, if any."""
    none = "it has none: start a node that declares some, or name another store"
    return did_you_mean(name, names, otherwise="see `itinerary jobs`" if names else none)


class TimelineView(ABC):
    """The timeline, the time, and the node to notify."""

    def __init__(self) -> None:
        self._numbers: dict[str, JobNumber] = {}

    @property
    @abstractmethod
    def timeline(self) -> Timeline:
        """The timeline that was read last. The value is immutable, so any thread may read it."""

    @abstractmethod
    def now(self) -> int:
        """Return the store's time, as estimated here."""

    @property
    @abstractmethod
    def node(self) -> NodeNumber | None:
        """The node of this program, if it runs one."""

    @abstractmethod
    async def read(self) -> None:
        """Read the entries since the last read."""

    async def changed(self, why: str) -> None:  # noqa: ARG002 - for views that notify a node
        """Handle a change of the timeline by this program."""
        await self.read()

    async def offer(self, refs: Sequence[Ref]) -> None:  # noqa: B027 - nodes find them by polling
        """Notify the node of occurrences without an owner."""

    async def cancelled(self, ref: Ref, by: str) -> None:  # noqa: B027 - the store notifies the owner
        """Notify the node that the cancellation of an occurrence is written."""

    async def adjusted(self, row: OccurrenceRow, overrides: str, adjustments: int) -> None:  # noqa: B027 - the store notifies the owner
        """Notify the node that new overrides of an unstarted run are written. `row` is the row before the change."""

    def job(self, name: str) -> JobRow:
        """Return the job of that name. Any thread may call this. Raises NotFoundError if there is none."""
        timeline = self.timeline
        number = self._numbers.get(name)
        if number is None:
            self._numbers = {row.name: row.number for row in timeline.jobs.values()}  # numbers never change
            number = self._numbers.get(name)
        if number is None:
            raise NotFoundError(f"there is no job {shown(name)} in the store; {instead_of(name, self._numbers)}")
        return timeline.jobs[number]


class NodeView(TimelineView):
    """The view of a node."""

    def __init__(self, store: Store, node: Node) -> None:
        super().__init__()
        self._store, self._node = store, node

    @property
    def timeline(self) -> Timeline:
        return self._node.builder.timeline

    def now(self) -> int:
        return self._node.clock.now()

    @property
    def node(self) -> NodeNumber | None:
        return self._node.number

    async def read(self) -> None:
        await self._node.builder.read()

    async def changed(self, why: str) -> None:
        await self.read()
        self._node.builder.rebuild(why)

    async def offer(self, refs: Sequence[Ref]) -> None:
        rows = await self._store.read(ByRefQuery(tuple(refs)))
        await self._node.inbox.deliver(WorkOffered(list(rows.values())))

    async def cancelled(self, ref: Ref, by: str) -> None:
        await self._node.inbox.deliver(CancelRequested(ref, by))

    async def adjusted(self, row: OccurrenceRow, overrides: str, adjustments: int) -> None:
        if row.owner == self._node.number:
            await self._node.inbox.deliver(ConfigurationUpdated(row.ref, overrides, adjustments))


class StoreView(TimelineView):
    """The view of a store. Make it with `StoreView.of`, or pass a timeline that was already read."""

    def __init__(self, store: Store, timeline: Timeline | None = None) -> None:
        super().__init__()
        self.store = store
        self._timeline = Timeline() if timeline is None else timeline
        self._status, self._told_at = Status(0, 0, 0), 0.0

    @classmethod
    async def of(cls, store: Store) -> StoreView:
        """Return a view that has read the store once."""
        view = cls(store)
        await view.read()
        return view

    @property
    def timeline(self) -> Timeline:
        return self._timeline

    def now(self) -> int:
        return self._status.now + int((time.monotonic() - self._told_at) * SECOND)

    @property
    def status(self) -> Status:
        """The status of the store at the last read."""
        return self._status

    @property
    def node(self) -> NodeNumber | None:
        return None

    async def read(self) -> None:
        entries, jobs = await news_since(self.store.read, self._timeline)
        if entries:
            self._timeline = self._timeline.extended(entries, jobs)
        self._status, self._told_at = await self.store.read(StoreStatusQuery()), time.monotonic()
