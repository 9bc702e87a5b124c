"""The record scheduler of a simulated world: records, their producers, and their handlers.

    producers ──► the log ──► a record worker on each node, for its leased partitions ──► handlers
                                                                                             │
    the world's own log of the handlers' batches, and how each one ended  ◄──────────────────┘

In some worlds, each node also runs a record scheduler, as a program with `app.records(…)` does: the real record worker,
with the node's store and the node's clock. Its leases expire while the node is frozen or cut off. Other nodes then take
over its partitions, and its delayed calls arrive after that. Producers write to the store directly, as operators do. A
producer without an answer repeats its event with the same key.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from random import Random
from typing import Any, Final

import msgspec

from itinerary.errors import StoreError
from itinerary.model.rows import NodeNumber
from itinerary.model.writes import Refusal
from itinerary.ports import Clock, Store
from itinerary.records.batches import Record, RecordBatch
from itinerary.records.cycle import Cycle
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.event_types import ANY_CHECK, produced
from itinerary.records.service import RecordsService
from itinerary.records.settings import DeskSettings
from itinerary.records.worker import RecordWorker
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.transaction import Transaction
from itinerary.testing.processes import Process
from tests.simulation.world.clock import SimulatedStoreClock
from tests.simulation.world.history import EventHistory
from tests.simulation.world.rng import dice_for, one_of, spread

__all__ = [
    "DESK",
    "Handled",
    "HandlerEnd",
    "ProducedEvent",
    "RecordsAtWork",
    "SimulatedDesk",
    "SimulatedHandlers",
    "draw_desk",
]

DESK: Final = "folio"
_LONGEST: Final = 7_200.0
"""The longest lease, in seconds: it expires, and some cycles follow, before a healed world must finish."""
_HEALED: Final = 0.01
"""The duration of a handler when the world heals, in seconds."""


class ProducedEvent(msgspec.Struct, frozen=True):
    """A producer's event for a record, at a time."""

    at: float
    """Seconds since the start of the day."""
    kind: str
    record: str
    partition: str
    key: str
    fields: dict[str, int] = {}
    times: int = 1
    """The number of appends. A producer repeats the event after a lost answer."""

    def append(self, tx: Transaction) -> None:
        """Append the event to the log."""
        event = produced(self.kind, self.record, self.fields, self.key)
        answer = ledger.append_events(tx, DESK, self.partition, [event], None)
        assert not isinstance(answer, Refusal), "a record lives in one partition"


class SimulatedDesk(msgspec.Struct, frozen=True, kw_only=True):
    """A record scheduler of a seed."""

    settings: DeskSettings
    cycle_every: float
    """The seconds from one cycle to the next."""
    takes: tuple[float, float]
    """The shortest and the longest duration of a handler, in seconds."""
    fails: float
    """The probability that a handler raises."""
    said: tuple[ProducedEvent, ...]

    def __str__(self) -> str:
        """Return the record scheduler as one line."""
        settings = msgspec.json.encode(self.settings).decode()
        records = len({one.record for one in self.said})
        return f"desk: {records} records, {len(self.said)} events, a cycle every {self.cycle_every:.0f} s, {settings}"


def draw_desk(dice: Random, heartbeat: float, begins_at: int, lasts: float) -> SimulatedDesk:
    """Return a random record scheduler. Its leases last about as long as the silence after which a node counts as dead.

    Args:
        dice: The random generator.
        heartbeat: The heartbeat interval, in seconds.
        begins_at: The start of the day.
        lasts: The length of the day, in seconds.
    """
    lease_for = min(heartbeat * spread(dice, 0.7, 6.0), _LONGEST)
    high = one_of(dice, (3, 10, 1_000))
    settings = DeskSettings(
        schedule_interval=round(heartbeat * 6 * SECOND),
        callback_check_interval=round(heartbeat * 2 * SECOND),
        verification_check_interval=round(heartbeat * 12 * SECOND),
        startup_delay=round(heartbeat * SECOND * dice.random()),
        batch_size_max=one_of(dice, (1, 3, 10)),
        enable_early_morning_skip=False,
        queue_high=high,
        queue_low=high // 2 + 1,
        lease_for=round(lease_for * SECOND),
        handlers_max=one_of(dice, (1, 2, 4)),
        handler_timeout=round(heartbeat * SECOND * spread(dice, 1.0, 20.0)),
    )
    partitions = [f"hotel-{number}" for number in range(one_of(dice, (1, 2, 5)))]
    said: list[ProducedEvent] = []
    for number in range(one_of(dice, (5, 15, 40))):
        said += _life_of(dice, f"F-{number}", one_of(dice, partitions), begins_at, lasts)
    return SimulatedDesk(
        settings=settings,
        cycle_every=min(heartbeat * spread(dice, 0.5, 4.0), _LONGEST / 2),
        takes=(0.1, heartbeat * spread(dice, 0.1, 3.0)),
        fails=one_of(dice, (0.0, 0.1, 0.4)),
        said=tuple(sorted(said, key=lambda one: one.at)),
    )


def _life_of(dice: Random, record: str, partition: str, begins_at: int, lasts: float) -> list[ProducedEvent]:
    """Return the events of one record: creation, callbacks, a verification, completion."""
    at = dice.random() * lasts * 0.7

    def said(kind: str, number: int, after: float, **times: float) -> ProducedEvent:
        fields = {name: begins_at + round(seconds * SECOND) for name, seconds in times.items()}
        repeats = one_of(dice, (1, 1, 2))
        return ProducedEvent(at + after, kind, record, partition, f"{kind}/{record}/{number}", fields, repeats)

    found = [said("RecordCreated", 0, 0.0)]
    found += [
        said("CallbackScheduled", number, 1.0 + number, target_time=at + dice.random() * (lasts - at))
        for number in range(one_of(dice, (0, 0, 1, 3)))
    ]
    if dice.random() < 0.3:
        found.append(said("VerificationScheduled", 0, 9.0, check_time=at + dice.random() * (lasts - at)))
    if dice.random() < 0.2:
        found.append(said("RecordCompleted", 0, dice.random() * (lasts * 0.9 - at)))
    return found


class HandlerEnd(StrEnum):
    """The end of a handler."""

    RETURNED = "returned"
    RAISED = "raised"
    CANCELLED = "cancelled"
    """The partition was lost, the handler took too long, or the node ended."""


class Handled:
    """A batch that a handler really received."""

    __slots__ = ("attempt", "batch", "began_at", "ending", "partition", "process", "records")

    def __init__(self, batch: RecordBatch, process: Process, began_at: int) -> None:
        self.batch, self.partition, self.attempt = batch.id, batch.partition, batch.attempt
        self.records = tuple((record.id, record.times_queued) for record in batch)
        self.process, self.began_at = process, began_at
        self.ending: HandlerEnd | None = None
        """The end of the handler. None: its process crashed, or it still runs."""


class SimulatedHandlers:
    """The handlers of a world, and their log."""

    def __init__(self, seed: int, desk: SimulatedDesk, clock: SimulatedStoreClock, history: EventHistory) -> None:
        self._seed, self.desk, self._clock, self._history = seed, desk, clock, history
        self.handled: list[Handled] = []
        self.is_healing = False

    def at_work(self, store: Store, node: NodeNumber, clock: Clock, log: Any, process: Process) -> RecordsAtWork:
        """Return the record scheduler of one node."""

        async def work(batch: RecordBatch) -> None:
            await self._work(batch, process)

        async def verify(record: Record) -> str:
            return f"{record.id} is fine"

        declared = DeskDeclaration(DESK, self.desk.settings, partition_by="hotel")
        declared.set_handler(work)
        declared.set_verification(ANY_CHECK, verify)
        worker = RecordWorker(declared, RecordsEnvironment(store, node, clock, log, call=_called))
        return RecordsAtWork(worker, RecordsService(store, log, [worker]), self.desk.cycle_every)

    async def _work(self, batch: RecordBatch, process: Process) -> None:
        handled = Handled(batch, process, self._clock())
        self.handled.append(handled)
        self._history.note(process.incarnation, "handles", f"batch {batch.id} attempt {batch.attempt}")
        dice = dice_for(self._seed, "handler", batch.partition, batch.id, batch.attempt)
        takes, fails = spread(dice, *self.desk.takes), dice.random() < self.desk.fails
        try:
            await asyncio.sleep(_HEALED if self.is_healing else takes)
        except asyncio.CancelledError:
            handled.ending = HandlerEnd.CANCELLED
            raise
        if fails and not self.is_healing:
            handled.ending = HandlerEnd.RAISED
            raise ValueError("it was to be")
        handled.ending = HandlerEnd.RETURNED


class RecordsAtWork:
    """The record scheduler of one node, from its start to its end."""

    def __init__(self, worker: RecordWorker, service: RecordsService, cycle_every: float) -> None:
        self._worker, self._service, self._cycle_every = worker, service, cycle_every
        self._end: asyncio.Task[list[str]] | None = None

    async def run(self) -> None:
        """Hold partitions, run cycles and deliver batches until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._service.run(), name="records")
            group.create_task(self._tick(), name="records ticking")

    async def _tick(self) -> None:
        """Start each cycle at its interval, in place of the engine's jobs."""
        while True:
            await asyncio.sleep(self._cycle_every)
            for cycle in Cycle:
                with suppress(StoreError):  # a real occurrence would fail
                    await self._worker.tick(cycle)

    def end(self, grace: float) -> asyncio.Task[list[str]]:
        """Let the handlers finish and release the partitions. Later calls return the same task."""
        if self._end is None:
            self._end = asyncio.get_running_loop().create_task(self._service.end(grace), name="records' end")
        return self._end


async def _called(function: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function of the program, without a thread."""
    answer = function(argument)
    return await answer if inspect.isawaitable(answer) else answer
