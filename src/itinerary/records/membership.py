"""The nodes that work for a record scheduler: each node holds a seat, which is a lease like any other (E8).

Only the balance of partitions depends on this. A node that is alive but does not renew its seat does not count. The
other nodes count a new node from their next round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from itinerary.errors import NodeError
from itinerary.model.queries import PartitionsQuery
from itinerary.model.rows import NodeNumber, PartitionRow
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.store_retry import RecordStoreRetry

__all__ = ["WorkerMembership", "present"]

_SEATS_MAX: Final = 1_000


def present(seats: Sequence[PartitionRow], now: int) -> set[NodeNumber]:
    """Return the nodes that hold a seat."""
    return {row.holder for row in seats if row.holder is not None and row.lease_until > now}


class WorkerMembership:
    """The seats of one record scheduler. This node holds one of them."""

    def __init__(self, stream: str, environment: RecordsEnvironment, outage: RecordStoreRetry, lease_for: int) -> None:
        self._stream, self._environment, self._outage, self._lease_for = stream, environment, outage, lease_for
        self._mine: str | None = None

    async def sit_down(self) -> Sequence[PartitionRow]:
        """Take a seat or renew it. Return all seats as they were just before."""
        store = self._environment.store
        rows = await self._outage.ask(lambda: store.read(PartitionsQuery(self._stream)), "read seats")
        now = self._environment.clock.now()
        free = [row.partition for row in rows if row.holder is None or row.lease_until <= now]
        for seat in dict.fromkeys([*([] if self._mine is None else [self._mine]), *free, *map(str, range(_SEATS_MAX))]):
            if await self._is_taken(seat):
                self._mine = seat
                return rows
        raise NodeError(f"all {_SEATS_MAX} seats of {self._stream} are taken, and more nodes are not allowed")

    async def stand_up(self) -> None:
        """Give the seat back when the node ends."""
        seat, self._mine = self._mine, None
        if seat is not None:
            await self._environment.store.lease(self._environment.node, self._stream, [seat], 0)

    async def _is_taken(self, seat: str) -> bool:
        environment = self._environment
        leases = await self._outage.ask(
            lambda: environment.store.lease(environment.node, self._stream, [seat], self._lease_for), "take a seat"
        )
        return bool(leases)
