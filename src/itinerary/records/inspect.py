"""Read record schedulers from outside, from the store alone: no node is needed.

The store has no row with the state of a record scheduler: the length of its queue, for example, follows from its events
only. So every view folds the log from the beginning. A caller that reads repeatedly keeps a `DeskBook`, which continues
where it stopped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from itinerary.errors import RecordError
from itinerary.model.queries import (
    EventsQuery,
    NodesQuery,
    PartitionsQuery,
    RecordPartitionsQuery,
    StoreStatusQuery,
    StreamsQuery,
)
from itinerary.model.rows import EventRow, NodeNumber, NodeRow, PartitionRow
from itinerary.model.stalled import StalledPartition
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.records.batches import Event, event_of, instant_of
from itinerary.records.projection import Projection
from itinerary.stores.ledger import stream_topic

__all__ = ["DeskBook", "DeskSeen", "EventsPage", "PartitionSeen", "desks", "events_page", "followed", "partitions_of"]

_PAGE: Final = 5_000
_BOOK_PAGE: Final = 2_000
_LOOKED_AT_MAX: Final = 10_000
"""The number of events that are read to fill one filtered page. The next page continues from there."""
_STEP: Final = 1_000


class DeskSeen(msgspec.Struct, frozen=True):
    """A record scheduler that has a log."""

    desk: str
    sequence: int
    """The number of its last event."""
    partitions: int
    held: int
    """The number of partitions that a node holds now."""


class PartitionSeen(msgspec.Struct, frozen=True):
    """A partition of a record scheduler."""

    partition: str
    sequence: int
    """The number of its last event."""
    records: int
    new: int
    queue: int
    callbacks: int
    verifications: int
    holder: str | None
    """The name of the node that holds the partition."""
    fence: int
    lease_until: datetime | None
    stalled: str | None = None
    """The reason why the time zone is unknown, so not scheduled. None: scheduled, or held by no node."""


class EventsPage(msgspec.Struct, frozen=True):
    """A page of events of a log, the newest first."""

    events: tuple[Event, ...]
    next: int | None
    """The number before which the next page begins; None at the end."""


class DeskBook:
    """The partitions of a record scheduler, read incrementally. Not for concurrent use."""

    def __init__(self, desk: str) -> None:
        self._desk = desk
        self._known: dict[str, Projection] = {}
        self.sequence = 0
        """The number of the last event that was read."""

    async def read(self, store: Store, limit: int) -> None:
        """Read the events appended since the last call.

        Args:
            store: The store to read from.
            limit: About the maximum number of events to read.
        """
        upto = self.sequence + limit
        while self.sequence < upto and (
            page := await store.read(EventsQuery(self._desk, self.sequence, None, _BOOK_PAGE))
        ):
            for partition, rows in _by_partition(page).items():
                known = self._known.setdefault(partition, Projection(partition))
                known.fold(rows)
                known.arrived.clear()  # arrivals are for handlers, and there are none here
            self.sequence = page[-1].sequence

    async def partitions(self, store: Store) -> list[PartitionSeen]:
        """Return each partition, up to the last event that was read."""
        return await _all_seen(store, self._desk, self._known)


async def desks(store: Store) -> list[DeskSeen]:
    """Return all record schedulers that have a log."""
    now = await _now(store)
    found = []
    for stream in await store.read(StreamsQuery()):
        rows = await store.read(PartitionsQuery(stream.stream))
        held = sum(_is_held(row, now) for row in rows)
        found.append(DeskSeen(stream.stream, stream.last, len(rows), held))
    return found


async def partitions_of(store: Store, desk: str) -> list[PartitionSeen]:
    """Return each partition of a record scheduler, computed from its events."""
    if not await store.read(StreamsQuery(desk)):
        names = ", ".join(repr(row.stream) for row in await store.read(StreamsQuery())) or "none"
        raise RecordError(f"no desk {shown(desk)} has a log in this store; there are: {names}")
    known: dict[str, Projection] = {}
    after = 0
    while page := await store.read(EventsQuery(desk, after, None, _PAGE)):
        for partition, rows in _by_partition(page).items():
            known.setdefault(partition, Projection(partition)).fold(rows)
        after = page[-1].sequence
    return await _all_seen(store, desk, known)


async def events_page(
    store: Store,
    desk: str,
    *,
    before: int | None = None,
    partition: str | None = None,
    record: str | None = None,
    limit: int = 50,
) -> EventsPage:
    """Return a page of events, the newest first.

    Numbers have no gaps, so the search goes back in steps. If matching events are rare, a page may have few.

    Args:
        store: The store to read from.
        desk: The name of the record scheduler.
        before: Return events before this number; None: from the end.
        partition: Return events of this partition only.
        record: Return events of this record only.
        limit: The maximum number of events.
    """
    streams = await store.read(StreamsQuery(desk))
    end = 1 + (streams[0].last if streams else 0)
    end = end if before is None else min(end, before)
    if record is not None:
        partition = (await store.read(RecordPartitionsQuery(desk, (record,)))).get(record)
        if partition is None:
            return EventsPage((), None)
    step = limit if partition is None else _STEP
    found: list[EventRow] = []
    lowest = max(end - _LOOKED_AT_MAX, 1)
    while end > lowest and len(found) < limit:
        start = max(end - step, lowest)
        rows = await store.read(EventsQuery(desk, start - 1, partition, step))
        there = [row for row in rows if row.sequence < end and record in {None, row.record}]
        found += reversed(there)
        end = start
    shown_ones = found[:limit]
    following = shown_ones[-1].sequence if len(found) >= limit else end
    return EventsPage(tuple(event_of(row) for row in shown_ones), following if following > 1 else None)


async def followed(store: Store, desk: str, after: int, *, waits: bool) -> AsyncIterator[Sequence[EventRow]]:
    """Yield pages of events after a number.

    Args:
        store: The store to read from.
        desk: The name of the record scheduler.
        after: The number of the last event that the caller has.
        waits: True to wait for more events at the end of the log.
    """
    topic = stream_topic(desk)
    while page := await store.read(EventsQuery(desk, after, None, _PAGE)):
        yield page
        after = page[-1].sequence
    if not waits:
        return
    async for topics in store.watch():
        if topic not in topics:
            continue
        while page := await store.read(EventsQuery(desk, after, None, _PAGE)):
            yield page
            after = page[-1].sequence


def _by_partition(page: Sequence[EventRow]) -> dict[str, list[EventRow]]:
    found: dict[str, list[EventRow]] = {}
    for row in page:
        found.setdefault(row.partition, []).append(row)
    return found


async def _all_seen(store: Store, desk: str, known: Mapping[str, Projection]) -> list[PartitionSeen]:
    now = await _now(store)
    nodes = {row.number: row for row in await store.read(NodesQuery())}
    stalled = {
        (row.number, one.partition): one.error for row in nodes.values() for one in _stalled(row) if one.desk == desk
    }
    return [
        _seen(row, known.get(row.partition, Projection(row.partition)), nodes, stalled, now)
        for row in await store.read(PartitionsQuery(desk))
    ]


class _About(msgspec.Struct):
    """The part of a node's report about itself that concerns record schedulers."""

    stalled: list[StalledPartition] = msgspec.field(default_factory=list)


def _stalled(node: NodeRow) -> list[StalledPartition]:
    try:
        return msgspec.json.decode(node.about, type=_About).stalled
    except msgspec.MsgspecError:  # a node of another release
        return []


def _seen(
    row: PartitionRow,
    known: Projection,
    nodes: Mapping[NodeNumber, NodeRow],
    stalled: Mapping[tuple[NodeNumber, str], str],
    now: int,
) -> PartitionSeen:
    is_held, holder, why = _is_held(row, now), None, None
    if row.holder is not None and is_held:
        holder = nodes[row.holder].name if row.holder in nodes else f"node {row.holder}"
        why = stalled.get((row.holder, row.partition))
    return PartitionSeen(
        partition=row.partition,
        sequence=known.sequence,
        records=len(known),
        new=known.new_backlog,
        queue=known.queue_size,
        callbacks=known.callback_backlog,
        verifications=known.verification_backlog,
        holder=holder,
        fence=row.fence,
        lease_until=instant_of(row.lease_until) if is_held else None,
        stalled=None if why is None else f"its time zone is unknown: {why}",
    )


def _is_held(row: PartitionRow, now: int) -> bool:
    return row.holder is not None and row.lease_until > now


async def _now(store: Store) -> int:
    return (await store.read(StoreStatusQuery())).now
