"""Event logs, and the leases on their partitions (protocol rule 29, E1, E8).

An append locks the row of its partition and checks the fence there. Then it locks the row of the stream and takes the
next numbers from it. So numbers have no gaps and commit in order: a reader that has seen 2 has seen 1. A serial column
would commit out of order, and a fence check in the WHERE of the insert would accept a stale holder.

A record lives in one partition, that of its first event. Two partitions have two schedulers, and both would queue the
record. A cause of the ledger's own, `home/` plus the record name, refers to the first event and so to the partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from itinerary.model.events import Lease, NewEvent
from itinerary.model.rows import EventRow, IdempotencyKeyRow, NodeNumber, PartitionRow, StreamRow
from itinerary.model.writes import Refusal
from itinerary.stores.tables import EVENTS, IDEMPOTENCY_KEYS, PARTITIONS, STREAMS
from itinerary.stores.transaction import Transaction

__all__ = ["append_events", "homes_of", "lease_partitions", "notify", "stream_topic"]

_HOME: Final = "home/"


def stream_topic(stream: str) -> str:
    """Return the topic for the followers of a stream."""
    return f"stream/{stream}"


def notify(tx: Transaction, topics: Collection[str]) -> None:
    """Notify the watchers of these topics."""
    tx.gate()
    tx.notify(sorted(topics))


def append_events(
    tx: Transaction, stream: str, partition: str, events: Sequence[NewEvent], lease: Lease | None
) -> list[int] | Refusal:
    """Append the events that are new, and return the numbers of all.

    Args:
        tx: The transaction.
        stream: The stream to append to.
        partition: The partition of all these events.
        events: The events. An event with a known cause is not appended again.
        lease: The lease of a record scheduler; None for a producer.

    Returns:
        The numbers of the events. A refusal if the lease is lost, or if a record lives in another partition.
    """
    assert not any(event.cause.startswith(_HOME) for event in events), "that beginning is the ledger's own"
    tx.gate()
    row = _locked_partitions(tx, stream, [partition])[stream, partition]
    if lease is not None and (row.holder, row.fence) != (lease.holder, lease.fence):
        return Refusal.LOST
    if not events:
        return []
    if not tx.get(STREAMS, [(stream,)]):
        tx.add(STREAMS, [StreamRow(stream)])
    last = tx.lock(STREAMS, [(stream,)])[stream,].last
    # Under the lock of the stream, because another partition may just have written the same cause.
    known = _known(tx, stream, [event.cause for event in events])
    fresh = list({event.cause: event for event in events if event.cause not in known}.values())
    if fresh:
        numbered = list(enumerate(fresh, start=last + 1))
        homes = _new_homes(tx, stream, partition, numbered) if lease is None else []
        if homes is None:
            return Refusal.ELSEWHERE
        now = tx.now()
        tx.insert(
            EVENTS,
            [
                EventRow(stream, partition, number, event.kind, event.record, now, event.data, event.by)
                for number, event in numbered
            ],
        )
        tx.insert(
            IDEMPOTENCY_KEYS, [IdempotencyKeyRow(stream, event.cause, number) for number, event in numbered] + homes
        )
        tx.save(STREAMS, [StreamRow(stream, last + len(fresh))], ("last",))
        tx.notify([stream_topic(stream)])
        known |= {event.cause: number for number, event in numbered}
    return [known[event.cause] for event in events]


def _known(tx: Transaction, stream: str, causes: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the events with these causes."""
    return {row.cause: row.sequence for row in tx.get(IDEMPOTENCY_KEYS, {(stream, cause) for cause in causes}).values()}


def _new_homes(
    tx: Transaction, stream: str, partition: str, numbered: Sequence[tuple[int, NewEvent]]
) -> list[IdempotencyKeyRow] | None:
    """Return the home rows for records without an event; None if another record lives in a different partition."""
    first: dict[str, int] = {}
    for number, event in numbered:
        first.setdefault(event.record, number)
    where = homes_of(tx, stream, first)
    if any(home != partition for home in where.values()):
        return None
    return [
        IdempotencyKeyRow(stream, _HOME + record, number) for record, number in first.items() if record not in where
    ]


def homes_of(tx: Transaction, stream: str, records: Collection[str]) -> dict[str, str]:
    """Return the partitions of those records that have an event."""
    firsts = _known(tx, stream, [_HOME + record for record in records])
    events = tx.named(EVENTS, [(stream, number) for number in set(firsts.values())])
    return {cause.removeprefix(_HOME): events[stream, number].partition for cause, number in firsts.items()}


def lease_partitions(
    tx: Transaction, node: NodeNumber, stream: str, partitions: Collection[str], lease_for: int
) -> list[Lease]:
    """Acquire or renew leases on partitions that are free, expired, or leased by this node.

    A lease from another holder, or an expired one, gets a higher fence.

    Args:
        tx: The transaction.
        node: The node that wants the leases.
        stream: The stream of the partitions.
        partitions: The wanted partitions.
        lease_for: The duration of the leases; 0 releases them.

    Returns:
        The leases that the node holds afterwards.
    """
    tx.gate()
    now = tx.now()
    rows = _locked_partitions(tx, stream, partitions)
    mine = []
    for row in rows.values():
        if lease_for == 0 and row.holder == node:
            mine.append(replace(row, holder=None, lease_until=0))
        elif lease_for > 0 and row.holder == node and row.lease_until > now:
            mine.append(replace(row, lease_until=now + lease_for))
        elif lease_for > 0 and (row.holder is None or row.lease_until <= now):
            mine.append(replace(row, holder=node, fence=row.fence + 1, lease_until=now + lease_for))
    tx.save(PARTITIONS, mine, ("holder", "fence", "lease_until"))
    return [Lease(row.partition, node, row.fence, row.lease_until) for row in mine if row.holder == node]


def _locked_partitions(
    tx: Transaction, stream: str, partitions: Collection[str]
) -> dict[tuple[str, ...], PartitionRow]:
    keys = [(stream, partition) for partition in sorted(set(partitions))]
    if len(tx.get(PARTITIONS, keys)) < len(keys):
        tx.add(PARTITIONS, [PartitionRow(*key) for key in keys])
    return tx.lock(PARTITIONS, keys)
