"""The partitions that this node holds, and their state (E8, protocol rule 29).

    round       renew held leases · take free or expired ones of the own share     every third of a lease
                give back partitions that belong to another node's share
    catch up    read new events of the log and fold them                           before every decision
    append      under the lease; if refused, another node holds the partition,     and everything about it is dropped

Only the store checks a lease, in the transaction that appends. A node that was frozen may believe in its old leases:
the store refuses its first write, and the node drops the partition.

New events are read once for all partitions, from the last number that is known. A partition that was just taken is read
from its beginning. That may take long and must not delay a renewal, so a round does not do it.

**Which nodes are present** is a question of leases too. Each node that works for a record scheduler holds a seat: a
lease in a small log of its own, `<desk>/seats`. A node that does not renew its seat does not count as present, and its
share goes to the others. Free seats are used again, so the number of seats is the largest number of nodes at one time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from itinerary.model.events import Lease, NewEvent
from itinerary.model.queries import EventsQuery, PartitionsQuery, StreamsQuery
from itinerary.model.rows import EventRow, NodeNumber, PartitionRow
from itinerary.model.writes import Refusal
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.membership import WorkerMembership, present
from itinerary.records.partition_assignment import share_of
from itinerary.records.projection import Projection
from itinerary.records.store_retry import RecordStoreRetry
from itinerary.records.zone_lookup import ZoneLookup
from itinerary.schedules.durations import SECOND
from itinerary.schedules.zones import Zone

__all__ = ["Holding", "PartitionLeases"]

_PAGE: Final = 2_000
_ROUNDS_PER_LEASE: Final = 3
_SOON: Final = SECOND // 20
"""The time after the end of another node's lease at which this node tries to take it."""


class Holding:
    """A partition that this node holds."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.zone: Zone | None = None
        """None: unknown yet. Until then, nothing of the partition is scheduled (see `zone_lookup`)."""
        self.known = Projection(lease.partition)
        self.is_caught_up = False
        self.is_leaving = False
        """True if another node should hold the partition. This node gives it back once no delivery is in progress."""
        self.in_hand = 0
        """The number of deliveries in progress."""

    @property
    def partition(self) -> str:
        return self.lease.partition


class PartitionLeases:
    """The partitions of one record scheduler that this node holds."""

    def __init__(
        self,
        stream: str,
        environment: RecordsEnvironment,
        outage: RecordStoreRetry,
        lease_for: int,
        *,
        zone_of: Callable[[str], Zone],
        on_lost: Callable[[Holding], None],
    ) -> None:
        """Create an empty set of partitions.

        Args:
            stream: The name of the record scheduler and its log.
            ground: The store, the clock and the log of the node.
            outage: The retries of store calls.
            lease_for: The length of a lease in microseconds.
            zone_of: Returns the time zone of a partition.
            on_lost: Called with each partition that this node no longer holds.
        """
        self._stream, self._environment, self._outage, self._lease_for = stream, environment, outage, lease_for
        self._on_lost = on_lost
        self.zones = ZoneLookup(stream, environment, zone_of)
        self._seats = WorkerMembership(f"{stream}/seats", environment, outage, lease_for)
        self._held: dict[str, Holding] = {}
        self._one_at_a_time = asyncio.Lock()
        self._is_closed = False
        self._shared: tuple[object, frozenset[str]] = None, frozenset()
        self._all: frozenset[str] = frozenset()
        self.has_unknown = False
        """True if there are events of a partition that the last round did not know."""
        self.taken = 0
        """The number of partitions taken since the start."""
        self._sequence: int | None = None
        """The number up to which all events of caught-up partitions are folded."""

    def __iter__(self) -> Iterator[Holding]:
        return iter(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def knows(self, partition: str) -> bool:
        """True if the last round knew the partition, held by any node."""
        return partition in self._all

    def holds(self, holding: Holding) -> bool:
        """True if this node still holds the partition, as far as the node knows."""
        return self._held.get(holding.partition) is holding

    # -- leases ------------------------------------------------------------------------------------------------------

    async def round(self) -> float:
        """Renew, take and give back partitions. Return the seconds until the next round."""
        async with self._one_at_a_time:
            return self._lease_for / SECOND if self._is_closed else await self._round()

    async def _round(self) -> float:
        environment = self._environment
        seats = await self._seats.sit_down()
        rows = await self._outage.ask(lambda: environment.store.read(PartitionsQuery(self._stream)), "read partitions")
        now = environment.clock.now()
        mine = self._share(present(seats, now), [row.partition for row in rows])
        for holding in self._held.values():
            holding.is_leaving = holding.partition not in mine
        leaving = [one for one in self._held.values() if one.is_leaving and not one.in_hand]
        for holding in leaving:
            self._drop(holding)
        wanted = {*self._held, *(row.partition for row in rows if self._is_to_be_taken(row, mine, now))}
        wanted -= {holding.partition for holding in leaving}
        if wanted:
            self._take_in(await self._leased(wanted, self._lease_for), wanted)
        if leaving:
            await self._leased([holding.partition for holding in leaving], 0)
            await self._outage.ask(lambda: environment.store.notify([self.topic]), "tell of partitions")
            environment.log.info("records.partitions_given_back", desk=self._stream, count=len(leaving))
        return self._next_round([*rows, *seats], now)

    @property
    def topic(self) -> str:
        """The topic of the notification that partitions were given back."""
        return f"partitions/{self._stream}"

    async def give_back(self) -> None:
        """Give all partitions back for good when the node ends."""
        self._is_closed = True
        async with self._one_at_a_time:
            await self._give_back()

    async def _give_back(self) -> None:
        partitions = list(self._held)
        for holding in list(self._held.values()):
            self._drop(holding)
        store = self._environment.store
        if partitions:
            await store.lease(self._environment.node, self._stream, partitions, 0)
        await self._seats.stand_up()
        if partitions:
            await store.notify([self.topic])

    def _share(self, members: set[NodeNumber], partitions: list[str]) -> frozenset[str]:
        """Return the partitions that this node should hold. Computed again only if nodes or partitions changed."""
        asked = frozenset(members), partitions
        if asked != self._shared[0]:
            self._shared = asked, share_of(self._environment.node, members, partitions)
            self._all, self.has_unknown = frozenset(partitions), False
        return self._shared[1]

    async def _leased(self, partitions: Collection[str], lease_for: int) -> list[Lease]:
        environment = self._environment
        return await self._outage.ask(
            lambda: environment.store.lease(environment.node, self._stream, partitions, lease_for), "lease partitions"
        )

    def _is_to_be_taken(self, row: PartitionRow, mine: Collection[str], now: int) -> bool:
        return row.partition in mine and (row.holder in (None, self._environment.node) or row.lease_until <= now)

    def _take_in(self, leases: Sequence[Lease], wanted: Collection[str]) -> None:
        taken = {lease.partition: lease for lease in leases}
        for partition in wanted:
            holding, lease = self._held.get(partition), taken.get(partition)
            if lease is None:
                if holding is not None:
                    self._lost(holding)
            elif holding is not None and lease.fence <= holding.lease.fence + 1:
                holding.lease = lease  # no other node had the lease in between
            else:
                if holding is not None:
                    self._lost(holding)
                self._held[partition] = Holding(lease)
                self.taken += 1
                self._environment.log.info(
                    "records.partition_taken", desk=self._stream, partition=partition, fence=lease.fence
                )

    def _lost(self, holding: Holding) -> None:
        self._environment.log.warning(
            "records.partition_lost",
            desk=self._stream,
            partition=holding.partition,
            fence=holding.lease.fence,
            hint="another node has it now; what was in hand here counts for nothing",
        )
        self._drop(holding)

    def _drop(self, holding: Holding) -> None:
        del self._held[holding.partition]
        self.zones.drop(holding)
        self._on_lost(holding)

    def _next_round(self, rows: Sequence[PartitionRow], now: int) -> float:
        usual = self._lease_for // _ROUNDS_PER_LEASE
        ends = [row.lease_until - now + _SOON for row in rows if row.holder != self._environment.node]
        return min([usual, *(end for end in ends if end > _SOON)]) / SECOND

    # -- the log -----------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read and fold all committed events of the partitions that this node holds."""
        await self.zones.look_up(list(self._held.values()))
        if self._sequence is None:
            rows = await self._outage.ask(
                lambda: self._environment.store.read(StreamsQuery(self._stream)), "read the log"
            )
            self._sequence = rows[0].last if rows else 0
        while page := await self._page(self._sequence):
            self._fold_all(page)
            self._sequence = page[-1].sequence
            if len(page) < _PAGE:
                break
        for holding in list(self._held.values()):
            while not holding.is_caught_up and self.holds(holding):
                page = await self._page(holding.known.sequence, holding.partition)
                self._fold(holding, page)
                holding.is_caught_up = len(page) < _PAGE

    async def _page(self, after: int, partition: str | None = None) -> Sequence[EventRow]:
        query = EventsQuery(self._stream, after, partition, _PAGE)
        return await self._outage.ask(lambda: self._environment.store.read(query), "read the log")

    def _fold_all(self, page: Sequence[EventRow]) -> None:
        by_partition: dict[str, list[EventRow]] = {}
        for row in page:
            by_partition.setdefault(row.partition, []).append(row)
        for partition, rows in by_partition.items():
            holding = self._held.get(partition)
            if not self.knows(partition):
                self.has_unknown = True
            if holding is not None and holding.is_caught_up:
                self._fold(holding, rows)

    def _fold(self, holding: Holding, rows: Sequence[EventRow]) -> None:
        for error in holding.known.fold(rows):
            self._environment.log.error(
                "records.event_unreadable",
                desk=self._stream,
                partition=holding.partition,
                error=str(error),
                hint="it is passed over",
            )

    async def append(self, holding: Holding, events: Sequence[NewEvent], what: str) -> list[int] | None:
        """Append events as the holder of the partition.

        Returns:
            The numbers of the events; None if another node holds the partition now and nothing was written.
        """
        while self.holds(holding):
            lease = holding.lease
            answer = await self._outage.ask(
                lambda: self._environment.store.append(self._stream, holding.partition, events, lease),  # noqa: B023 - awaited in this iteration
                what,
            )
            if not isinstance(answer, Refusal):
                return answer
            assert answer is Refusal.LOST, "records that were queued live here"
            if self.holds(holding) and holding.lease == lease:
                self._lost(holding)
        return None
