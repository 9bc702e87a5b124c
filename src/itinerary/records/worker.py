"""A record scheduler on one node: its cycles, its partitions, its handlers.

    a tick of the engine's jobs, or a call by hand
        └─► cycle:  catch up with the log ─► decide, partition by partition ─► append under the leases ─► catch up
                                                                                        └─► delivery, to the handlers
    in parallel, until the node ends: rounds of leases

**Three jobs, all nodes (E9).** The cycles are jobs of the engine. An occurrence of a job runs on one node, but the
partitions are spread over all nodes. So the node that runs the occurrence notifies the others through the store, and
each node runs the cycle for its own partitions. A cycle that is notified twice finds nothing to do.

**Backpressure (E6).** A cycle that stops because the queue is long resumes when the queue is short again, until its
next instant would be due. So if the job is paused by that time, the cycle does not resume either.

**Only a tick decides.** After taking a partition, the node reads it at once and delivers the batches in its queue. New
and due records wait for a tick, since an operator may have stopped the jobs.

After a crash, some events are appended and others are not. The next cycle, on any node, reads which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from itinerary.model.events import NewEvent
from itinerary.model.queries import PAGE_MAX, EventsQuery
from itinerary.model.rows import EventRow
from itinerary.model.stalled import StalledPartition
from itinerary.records.append import appended
from itinerary.records.batches import CycleCounts
from itinerary.records.cycle import Backpressure, Cycle, due_callbacks, due_pickups, due_verifications, interval_of
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.delivery import Delivery
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.event_types import RecordQueued, VerificationTriggered, fields_of
from itinerary.records.metrics import RecordMetrics
from itinerary.records.partition_leases import Holding, PartitionLeases
from itinerary.records.quiet_hours import is_quiet
from itinerary.records.store_retry import RecordStoreRetry
from itinerary.schedules.durations import SECOND
from itinerary.stores.ledger import stream_topic

__all__ = ["ALL_CYCLES", "RecordWorker", "cycle_topic"]

ALL_CYCLES: Final = frozenset(Cycle)
_QUEUEING: Final = frozenset({Cycle.PICKUP, Cycle.CALLBACKS})
_AT_ONCE: Final = 64
"""The number of partitions that are appended to at the same time."""
_LOOK_AGAIN_AFTER: Final = 5.0
"""The seconds after which a reader of a log checks for new events without a notification."""
_PASSES_MAX: Final = 10_000


def cycle_topic(desk: str, cycle: Cycle) -> str:
    """Return the topic of the notification that a cycle is due."""
    return f"cycle/{desk}/{cycle.value}"


class RecordWorker:
    """A record scheduler on one node. All methods are called on the engine's loop."""

    def __init__(self, desk: DeskDeclaration, environment: RecordsEnvironment) -> None:
        self.name, self._settings, self._environment = desk.name, desk.settings, environment
        self.figures = RecordMetrics()
        self._is_asked = asyncio.Event()
        self._outage = RecordStoreRetry(
            desk.name,
            environment.clock,
            environment.log,
            self.figures,
            alert=self._alert,
            on_over=self._is_asked.set,
            slow_after=environment.slow_after,
        )
        self._delivery = Delivery(desk.name, environment, desk.settings, desk, self._outage, on_done=self._has_room)
        self._holdings = PartitionLeases(
            desk.name,
            environment,
            self._outage,
            desk.settings.lease_for,
            zone_of=desk.zone_of,
            on_lost=self._delivery.drop,
        )
        self._delivery.holdings = self._holdings
        self.figures.count_stalled = lambda: len(self.stalled)
        self._pressure = Backpressure(desk.settings)
        self._lock = asyncio.Lock()
        self._asked: set[Cycle] = set()
        self._going_on: set[Cycle] = set()
        self._ticking: set[Cycle] = set()
        """The cycles that a job is about to run here. The node ignores its own notification of them."""
        self._is_round_due = asyncio.Event()
        self._held_back: set[Cycle] = set()
        """Cycles that stopped because of pressure."""
        self._goes_on_until: dict[Cycle, int] = {}
        self._first_of_a_pass = 0
        self._has_started = self._is_ending = False
        self.cancelled: list[str] = []
        """The deliveries still in progress at the end of the node's grace period."""
        self._hooks, self._telling = tuple(desk.alert_hooks), set[asyncio.Task[None]]()
        self._news = asyncio.Event()
        """Set when events were appended, and then replaced by a new one."""

    # -- calls from outside ------------------------------------------------------------------------------------------

    def handle(self, topics: Collection[str]) -> None:
        """Handle notifications from the store."""
        if self._holdings.topic in topics:
            self._is_round_due.set()
        if stream_topic(self.name) in topics:
            self._news.set()
            self._news = asyncio.Event()
        if self._has_started and not self._is_ending:
            told = {cycle for cycle in Cycle if cycle_topic(self.name, cycle) in topics} - self._ticking
            if told:
                self._asked |= told
                self._is_asked.set()

    async def tick(self, cycle: Cycle) -> CycleCounts:
        """Run a cycle that is due by a job: notify all nodes, and run it here."""
        self._ticking.add(cycle)
        try:
            await self._environment.store.notify([cycle_topic(self.name, cycle)])
            return await self.cycle({cycle}) if self._has_started else CycleCounts()
        finally:
            self._ticking.discard(cycle)

    async def append(self, event: NewEvent, partition: str | None) -> int:
        """Append a producer's event and return its number."""
        number = await appended(self._environment.store, self.name, event, partition)
        if partition is not None and not self._holdings.knows(partition):
            self._is_round_due.set()  # a new partition must be assigned to a node
        return number

    async def page(self, after: int) -> list[EventRow]:
        """Return the next events after a number. Wait until there are some."""
        while True:
            news = self._news
            rows = await self._environment.store.read(EventsQuery(self.name, after, None, PAGE_MAX))
            if rows:
                return list(rows)
            try:
                async with asyncio.timeout(_LOOK_AGAIN_AFTER):
                    await news.wait()
            except TimeoutError:
                continue  # a notification may be lost during a store outage

    async def drained(self) -> None:
        """Wait until no delivery is pending or in progress."""
        await self._delivery.drained()

    def now(self) -> int:
        """Return the store's time, as this node knows it."""
        return self._environment.clock.now()

    @property
    def partitions(self) -> list[str]:
        """The partitions that this node holds."""
        return sorted(holding.partition for holding in self._holdings)

    @property
    def stalled(self) -> list[StalledPartition]:
        """The partitions that are not scheduled because of an unknown time zone. May be read from any thread."""
        return self._holdings.zones.stalled

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Hold partitions and run cycles until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hold(), name=f"{self.name} partitions")
                group.create_task(self._run_cycles(), name=f"{self.name} cycles")
        finally:
            self._holdings.zones.close()

    async def _hold(self) -> None:
        while True:
            before = self._holdings.taken
            wait = await self._holdings.round()
            if self._holdings.taken != before:
                self._is_asked.set()
            try:
                async with asyncio.timeout(wait):
                    await self._is_round_due.wait()
            except TimeoutError:
                pass
            self._is_round_due.clear()

    async def _run_cycles(self) -> None:
        await asyncio.sleep(self._settings.startup_delay / SECOND)
        self._has_started = True
        while True:
            asked, self._asked = self._asked, set()
            going_on, self._going_on = self._going_on, set()
            if asked:
                await self.cycle(asked)
            await self._cycle(going_on)
            await self._is_asked.wait()
            self._is_asked.clear()

    def _has_room(self) -> None:
        """Resume the cycles that stopped because of pressure, if the queue is short enough."""
        if self._held_back and not self._is_ending and self._delivery.records_left < self._settings.queue_low:
            now = self._environment.clock.elapsed()
            self._going_on |= {cycle for cycle in self._held_back if now < self._goes_on_until.get(cycle, 0)}
            self._is_asked.set()

    def _alert(self, message: str) -> None:
        """Call the alert hooks of the program without waiting for them."""
        for hook in self._hooks:
            task = asyncio.get_running_loop().create_task(self._told(hook, message))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _told(self, hook: Callable[[str], Any], message: str) -> None:
        try:
            await self._environment.call(hook, message)
        except Exception as error:  # noqa: BLE001 - an error in a hook of the program changes nothing here
            why = f"{type(error).__name__}: {error}"
        else:
            return
        self._environment.log.error("records.alert_hook_failed", desk=self.name, error=why)

    def in_hand(self) -> list[str]:
        """Return the names of the deliveries in progress. May be called from any thread."""
        return self._delivery.in_hand()

    async def end(self, grace: float) -> None:
        """Start nothing new, wait up to `grace` seconds for the handlers, and give back all partitions."""
        self._is_ending = True
        self.cancelled = await self._delivery.end(grace)
        self._outage.close()
        await self._holdings.give_back()

    # -- a cycle -----------------------------------------------------------------------------------------------------

    async def cycle(self, cycles: Collection[Cycle] = ALL_CYCLES) -> CycleCounts:
        """Run the given cycles once, for the partitions that this node holds."""
        now = self._environment.clock.elapsed()
        self._goes_on_until |= {cycle: now + interval_of(cycle, self._settings) for cycle in _QUEUEING & {*cycles}}
        return await self._cycle(cycles)

    async def _cycle(self, cycles: Collection[Cycle]) -> CycleCounts:
        async with self._lock:
            begun = self._environment.clock.elapsed()
            if not len(self._holdings):
                await self._holdings.round()
            await self._catch_up()
            if self._holdings.has_unknown:
                await self._holdings.round()
                await self._catch_up()
            done = CycleCounts()
            for _ in range(_PASSES_MAX):
                emitted = await self._pass(cycles)
                if emitted == CycleCounts():
                    break
                done += emitted
                await self._catch_up()
            if cycles:
                self._count(cycles, done, self._environment.clock.elapsed() - begun)
            return done

    async def _catch_up(self) -> None:
        await self._holdings.catch_up()
        for holding in self._holdings:
            if holding.is_caught_up and not holding.is_leaving:
                self._delivery.take_in(holding)

    async def _pass(self, cycles: Collection[Cycle]) -> CycleCounts:
        """Decide once for each partition, and append the events."""
        now = self._environment.clock.now()
        queue_size = sum(holding.known.queue_size for holding in self._holdings)
        decided: list[tuple[Holding, list[NewEvent]]] = []
        for holding in self._in_turn():
            events = self._decided(holding, cycles, now, queue_size)
            if events:
                queue_size += sum(event.kind == "RecordQueued" for event in events)
                decided.append((holding, events))
        has_room = self._pressure.room(queue_size) > 0
        self._held_back = self._held_back - {*cycles} if has_room else self._held_back | (_QUEUEING & {*cycles})
        done = CycleCounts()
        for first in range(0, len(decided), _AT_ONCE):
            some = decided[first : first + _AT_ONCE]
            for emitted in await asyncio.gather(*[self._emitted(*one) for one in some]):
                done += emitted
        return done

    def _in_turn(self) -> list[Holding]:
        """Return the ready partitions, in rotation: under pressure, each partition gets its turn."""
        ready = [one for one in self._holdings if one.is_caught_up and not one.is_leaving and one.zone is not None]
        if not ready:
            return []
        self._first_of_a_pass = first = (self._first_of_a_pass + 1) % len(ready)
        return ready[first:] + ready[:first]

    def _decided(self, holding: Holding, cycles: Collection[Cycle], now: int, queue_size: int) -> list[NewEvent]:
        assert holding.zone is not None, "others are not asked"
        known, settings = holding.known, self._settings
        events: list[NewEvent] = []
        if _QUEUEING & {*cycles} and not is_quiet(settings, holding.zone, now):
            if Cycle.PICKUP in cycles:
                events += due_pickups(known, settings, self._pressure.room(queue_size))
            if Cycle.CALLBACKS in cycles:
                room = self._pressure.room(queue_size + len(events))
                events += due_callbacks(known, now, settings, room)
        if Cycle.VERIFICATIONS in cycles:
            events += due_verifications(known, now)
        return events

    async def _emitted(self, holding: Holding, events: list[NewEvent]) -> CycleCounts:
        numbers = await self._holdings.append(holding, events, "append what was decided")
        if numbers is None:
            return CycleCounts()
        log, counts = self._environment.log, {"queued": 0, "requeued": 0, "triggered": 0}
        say = log.info  # looked up once: structlog creates a logger for each lookup
        for event, sequence in zip(events, numbers, strict=True):
            if sequence <= holding.known.sequence:  # folded before, so not to be decided again
                log.error("records.decided_again", desk=self.name, record=event.record, sequence=sequence)
                continue
            said = fields_of(event)
            if isinstance(said, RecordQueued):
                what = "requeued" if said.retry else "queued"
                say(f"records.{what}", desk=self.name, record=event.record, batch=said.batch, sequence=sequence)
            else:
                assert isinstance(said, VerificationTriggered), "cycles say nothing else"
                what, kind = "triggered", said.verification
                say("records.triggered", desk=self.name, record=event.record, verification=kind, sequence=sequence)
            counts[what] += 1
        return CycleCounts(**counts)

    def _count(self, cycles: Collection[Cycle], done: CycleCounts, took: int) -> None:
        figures = self.figures
        counts = {Cycle.PICKUP: done.queued, Cycle.CALLBACKS: done.requeued, Cycle.VERIFICATIONS: done.triggered}
        for cycle in cycles:
            figures.per_cycle[cycle], figures.duration[cycle] = counts[cycle], took
        known = [holding.known for holding in self._holdings]
        figures.queue_size = sum(one.queue_size for one in known)
        figures.callback_backlog = sum(one.callback_backlog for one in known)
        figures.verification_backlog = sum(one.verification_backlog for one in known)
        self._environment.log.info(
            "records.cycle",
            desk=self.name,
            cycles=sorted(cycles),
            queued=done.queued,
            requeued=done.requeued,
            triggered=done.triggered,
            queue=figures.queue_size,
            took=took / SECOND,
            is_paused=self._pressure.is_paused,
        )
