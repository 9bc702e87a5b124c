"""The partitions that this node holds, and what it knows of them (E8, protocol rule 29).

    round       who is there, which partitions, and which of them should be mine?  every third of a lease
                renew those that are held · take those that are free or run out · give back what is another's share
    catch up    read what is new in the log, and fold it                           before anything is decided
    append      under the lease; refused: the partition is another's now           and everything about it is dropped

A lease is looked at nowhere but in the store, in the transaction that appends. A node that was frozen may believe in
its leases for as long as it likes: its first write is refused, and it lets go.

What is new is read once for all partitions, from the number up to which everything is known. A partition that has just
been taken is read from its beginning, since nothing is known of it. Renewing must not wait for that, so it is not done
in a round.

**Who is there** is a question of leases too. Each node that works at a desk holds a seat: a lease in a small log of its
own, `<desk>/seats`. Whoever does not renew it is not there, whatever its process is busy with, and its share is shared
out. A seat that is free is used again, so there are never more of them than there were nodes at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from itinerary.model.events import Lease, NewEvent
from itinerary.model.queries import Events, Partitions, Streams
from itinerary.model.rows import EventRow, NodeNumber, PartitionRow
from itinerary.model.writes import Refusal
from itinerary.records.environment import Ground
from itinerary.records.membership import Seats, present
from itinerary.records.partition_assignment import share_of
from itinerary.records.projection import Projection
from itinerary.records.store_retry import Outage
from itinerary.records.zone_lookup import ZoneLookup
from itinerary.schedules.durations import SECOND
from itinerary.schedules.zones import Zone

__all__ = ["Holding", "Holdings"]

_PAGE: Final = 2_000
_ROUNDS_PER_LEASE: Final = 3
_SOON: Final = SECOND // 20
"""How long after a lease has run out somebody tries to take it."""


class Holding:
    """A partition that this node holds."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.zone: Zone | None = None
        """None: not known yet; until then nothing of the partition is scheduled (see `zone_lookup`)."""
        self.known = Projection(lease.partition)
        self.is_caught_up = False
        self.is_leaving = False
        """It is another node's share, and is given back when nothing of it is in hand."""
        self.in_hand = 0
        """How much of it handlers have."""

    @property
    def partition(self) -> str:
        return self.lease.partition


class Holdings:
    """All of them, of one desk."""

    def __init__(
        self,
        stream: str,
        ground: Ground,
        outage: Outage,
        lease_for: int,
        *,
        zone_of: Callable[[str], Zone],
        on_lost: Callable[[Holding], None],
    ) -> None:
        """`on_lost` is told of each that is not held any more."""
        self._stream, self._ground, self._outage, self._lease_for = stream, ground, outage, lease_for
        self._on_lost = on_lost
        self.zones = ZoneLookup(stream, ground, zone_of)
        self._seats = Seats(f"{stream}/seats", ground, outage, lease_for)
        self._held: dict[str, Holding] = {}
        self._one_at_a_time = asyncio.Lock()
        self._is_closed = False
        self._shared: tuple[object, frozenset[str]] = None, frozenset()
        self._all: frozenset[str] = frozenset()
        self.has_unknown = False
        """Whether there are events of a partition that the last round had not heard of."""
        self.taken = 0
        """How many have been taken, ever."""
        self._sequence: int | None = None
        """Up to which everything of those that are caught up is known."""

    def __iter__(self) -> Iterator[Holding]:
        return iter(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def knows(self, partition: str) -> bool:
        """Whether the last round has heard of a partition, whoever holds it."""
        return partition in self._all

    def holds(self, holding: Holding) -> bool:
        """Whether it is still held, as far as is known here."""
        return self._held.get(holding.partition) is holding

    # -- leases ------------------------------------------------------------------------------------------------------

    async def round(self) -> float:
        """Renew, take and give back. Returns in how many seconds the next round is due."""
        async with self._one_at_a_time:
            return self._lease_for / SECOND if self._is_closed else await self._round()

    async def _round(self) -> float:
        ground = self._ground
        seats = await self._seats.sit_down()
        rows = await self._outage.ask(lambda: ground.store.read(Partitions(self._stream)), "read partitions")
        now = ground.clock.now()
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
            await self._outage.ask(lambda: ground.store.tell([self.topic]), "tell of partitions")
            ground.log.info("records.partitions_given_back", desk=self._stream, count=len(leaving))
        return self._next_round([*rows, *seats], now)

    @property
    def topic(self) -> str:
        """What is told when partitions are given back."""
        return f"partitions/{self._stream}"

    async def give_back(self) -> None:
        """Let go of everything, for good: the node ends."""
        self._is_closed = True
        async with self._one_at_a_time:
            await self._give_back()

    async def _give_back(self) -> None:
        partitions = list(self._held)
        for holding in list(self._held.values()):
            self._drop(holding)
        store = self._ground.store
        if partitions:
            await store.lease(self._ground.node, self._stream, partitions, 0)
        await self._seats.stand_up()
        if partitions:
            await store.tell([self.topic])

    def _share(self, members: set[NodeNumber], partitions: list[str]) -> frozenset[str]:
        """What should be this node's; worked out anew only if somebody or something has come or gone."""
        asked = frozenset(members), partitions
        if asked != self._shared[0]:
            self._shared = asked, share_of(self._ground.node, members, partitions)
            self._all, self.has_unknown = frozenset(partitions), False
        return self._shared[1]

    async def _leased(self, partitions: Collection[str], lease_for: int) -> list[Lease]:
        ground = self._ground
        return await self._outage.ask(
            lambda: ground.store.lease(ground.node, self._stream, partitions, lease_for), "lease partitions"
        )

    def _is_to_be_taken(self, row: PartitionRow, mine: Collection[str], now: int) -> bool:
        return row.partition in mine and (row.holder in (None, self._ground.node) or row.lease_until <= now)

    def _take_in(self, leases: Sequence[Lease], wanted: Collection[str]) -> None:
        taken = {lease.partition: lease for lease in leases}
        for partition in wanted:
            holding, lease = self._held.get(partition), taken.get(partition)
            if lease is None:
                if holding is not None:
                    self._lost(holding)
            elif holding is not None and lease.fence <= holding.lease.fence + 1:
                holding.lease = lease  # nobody else had it meanwhile
            else:
                if holding is not None:
                    self._lost(holding)
                self._held[partition] = Holding(lease)
                self.taken += 1
                self._ground.log.info(
                    "records.partition_taken", desk=self._stream, partition=partition, fence=lease.fence
                )

    def _lost(self, holding: Holding) -> None:
        self._ground.log.warning(
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
        ends = [row.lease_until - now + _SOON for row in rows if row.holder != self._ground.node]
        return min([usual, *(end for end in ends if end > _SOON)]) / SECOND

    # -- the log -----------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Know everything that has been committed by now, of all partitions that are held."""
        await self.zones.look_up(list(self._held.values()))
        if self._sequence is None:
            rows = await self._outage.ask(lambda: self._ground.store.read(Streams(self._stream)), "read the log")
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
        query = Events(self._stream, after, partition, _PAGE)
        return await self._outage.ask(lambda: self._ground.store.read(query), "read the log")

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
            self._ground.log.error(
                "records.event_unreadable",
                desk=self._stream,
                partition=holding.partition,
                error=str(error),
                hint="it is passed over",
            )

    async def append(self, holding: Holding, events: Sequence[NewEvent], what: str) -> list[int] | None:
        """Append events as the partition's scheduler; None: it is another's by now, and nothing is written."""
        while self.holds(holding):
            lease = holding.lease
            answer = await self._outage.ask(
                lambda: self._ground.store.append(self._stream, holding.partition, events, lease),  # noqa: B023 - awaited in this turn
                what,
            )
            if not isinstance(answer, Refusal):
                return answer
            assert answer is Refusal.LOST, "records that were queued live here"
            if self.holds(holding) and holding.lease == lease:
                self._lost(holding)
        return None
