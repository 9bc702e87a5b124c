"""Looking at desks from outside, on a store: no node is needed.

Nothing that a desk is about is stored as a state: how long its queue is, say, can only be read off its events. So
looking at one folds its log, from the beginning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from itinerary.errors import RecordError
from itinerary.model.queries import Events, Nodes, Partitions, Standing, Streams
from itinerary.model.rows import EventRow, NodeNumber, PartitionRow
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.records.batches import instant_of
from itinerary.records.projection import Projection
from itinerary.stores.ledger import stream_topic

__all__ = ["DeskSeen", "PartitionSeen", "desks", "followed", "partitions_of"]

_PAGE: Final = 5_000


class DeskSeen(msgspec.Struct, frozen=True):
    """A desk that has a log."""

    desk: str
    sequence: int
    """The number of its last event."""
    partitions: int
    held: int
    """How many of them a node holds now."""


class PartitionSeen(msgspec.Struct, frozen=True):
    """A partition of a desk."""

    partition: str
    sequence: int
    """The number of its last event."""
    records: int
    new: int
    queue: int
    callbacks: int
    verifications: int
    holder: str | None
    """The node that holds it, by name."""
    fence: int
    lease_until: datetime | None


async def desks(store: Store) -> list[DeskSeen]:
    """All desks that have a log."""
    now = await _now(store)
    found = []
    for stream in await store.read(Streams()):
        rows = await store.read(Partitions(stream.stream))
        held = sum(_is_held(row, now) for row in rows)
        found.append(DeskSeen(stream.stream, stream.last, len(rows), held))
    return found


async def partitions_of(store: Store, desk: str) -> list[PartitionSeen]:
    """Each partition of a desk, as its events say that it is."""
    if not await store.read(Streams(desk)):
        known = ", ".join(repr(row.stream) for row in await store.read(Streams())) or "none"
        raise RecordError(f"no desk {shown(desk)} has a log in this store; there are: {known}")
    now, names = await _now(store), await _names(store)
    known_ones: dict[str, Projection] = {}
    after = 0
    while page := await store.read(Events(desk, after, None, _PAGE)):
        by_partition: dict[str, list[EventRow]] = {}
        for row in page:
            by_partition.setdefault(row.partition, []).append(row)
        for partition, rows in by_partition.items():
            known_ones.setdefault(partition, Projection(partition)).fold(rows)
        after = page[-1].sequence
    return [
        _seen(row, known_ones.get(row.partition, Projection(row.partition)), names, now)
        for row in await store.read(Partitions(desk))
    ]


async def followed(store: Store, desk: str, after: int, *, waits: bool) -> AsyncIterator[Sequence[EventRow]]:
    """Pages of a desk's events after a number; at the end of the log, wait for more."""
    topic = stream_topic(desk)
    while page := await store.read(Events(desk, after, None, _PAGE)):
        yield page
        after = page[-1].sequence
    if not waits:
        return
    async for topics in store.watch():
        if topic not in topics:
            continue
        while page := await store.read(Events(desk, after, None, _PAGE)):
            yield page
            after = page[-1].sequence


def _seen(row: PartitionRow, known: Projection, names: dict[NodeNumber, str], now: int) -> PartitionSeen:
    is_held = _is_held(row, now)
    holder = names.get(row.holder, f"node {row.holder}") if row.holder is not None and is_held else None
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
    )


def _is_held(row: PartitionRow, now: int) -> bool:
    return row.holder is not None and row.lease_until > now


async def _now(store: Store) -> int:
    return (await store.read(Standing())).now


async def _names(store: Store) -> dict[NodeNumber, str]:
    return {row.number: row.name for row in await store.read(Nodes())}
