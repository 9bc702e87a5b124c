"""What those who carry out requests see of the timeline and of time, and whom they tell.

    NodeView     in a program that runs a node: its timeline, its clock; and it hears of everything at once
    StoreView    without a node, as on the command line: what the store says, read when it is needed

Whatever is asked is durable before anybody is told (protocol rule 25). A node that is not told finds out by itself,
soon.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from itinerary.core.loop.messages import CancelRequested, ConfigurationUpdated, WorkOffered
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import NotThere
from itinerary.model.queries import ByRef, Standing, Status
from itinerary.model.rows import JobNumber, JobRow, NodeNumber, OccurrenceRow, Ref
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.runtime.node import Node
from itinerary.schedules.durations import SECOND
from itinerary.schedules.suggestions import did_you_mean
from itinerary.stores.paging import news_since

__all__ = ["NodeView", "StoreView", "View", "instead_of"]


def instead_of(name: str, names: Collection[str]) -> str:
    """What to tell somebody who names a job that there is not: the name that was perhaps meant."""
    none = "it has none: start a node that declares some, or name another store"
    return did_you_mean(name, names, otherwise="see `itinerary jobs`" if names else none)


class View(ABC):
    """The timeline, the time, and somebody to tell."""

    def __init__(self) -> None:
        self._numbers: dict[str, JobNumber] = {}

    @property
    @abstractmethod
    def timeline(self) -> Timeline:
        """As far as it has been read. It never changes, so any thread may look at it."""

    @abstractmethod
    def now(self) -> int:
        """The store's time, as far as it is known here."""

    @property
    @abstractmethod
    def node(self) -> NodeNumber | None:
        """The node that asks, if one does."""

    @abstractmethod
    async def read(self) -> None:
        """Read what has been entered since the last time."""

    async def changed(self, why: str) -> None:  # noqa: ARG002 - for those who have a node to tell
        """The timeline has been changed from here."""
        await self.read()

    async def offer(self, refs: Sequence[Ref]) -> None:  # noqa: B027 - nodes find them by themselves
        """There are occurrences that anybody may start."""

    async def cancelled(self, ref: Ref, by: str) -> None:  # noqa: B027 - its owner has mail
        """Somebody wants an occurrence to end, and that is written."""

    async def adjusted(self, row: OccurrenceRow, overrides: str, adjustments: int) -> None:  # noqa: B027 - its owner has mail
        """A run that has not started was given other overrides, and that is written. `row` is as it was before."""

    def job(self, name: str) -> JobRow:
        """The job of that name, from any thread. Raises NotThere where there is none."""
        timeline = self.timeline
        number = self._numbers.get(name)
        if number is None:
            self._numbers = {row.name: row.number for row in timeline.jobs.values()}  # numbers are for ever
            number = self._numbers.get(name)
        if number is None:
            raise NotThere(f"there is no job {shown(name)} in the store; {instead_of(name, self._numbers)}")
        return timeline.jobs[number]


class NodeView(View):
    """What a node knows."""

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
        rows = await self._store.read(ByRef(tuple(refs)))
        await self._node.inbox.deliver(WorkOffered(list(rows.values())))

    async def cancelled(self, ref: Ref, by: str) -> None:
        await self._node.inbox.deliver(CancelRequested(ref, by))

    async def adjusted(self, row: OccurrenceRow, overrides: str, adjustments: int) -> None:
        if row.owner == self._node.number:
            await self._node.inbox.deliver(ConfigurationUpdated(row.ref, overrides, adjustments))


class StoreView(View):
    """What a store says. Open it with `StoreView.of`, or begin with a timeline that somebody else has read."""

    def __init__(self, store: Store, timeline: Timeline | None = None) -> None:
        super().__init__()
        self.store = store
        self._timeline = Timeline() if timeline is None else timeline
        self._status, self._told_at = Status(0, 0, 0), 0.0

    @classmethod
    async def of(cls, store: Store) -> StoreView:
        """A view that has been read once."""
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
        """How far the store was when it was last read."""
        return self._status

    @property
    def node(self) -> NodeNumber | None:
        return None

    async def read(self) -> None:
        entries, jobs = await news_since(self.store.read, self._timeline)
        if entries:
            self._timeline = self._timeline.extended(entries, jobs)
        self._status, self._told_at = await self.store.read(Standing()), time.monotonic()
