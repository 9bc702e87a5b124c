"""Desks at work in virtual time: nodes that come, go, die and freeze, on one store that can be rough.

A node here is a clerk with a number of its own and the store's clock; the ticks of the engine's jobs are given by the
test, or by `ticking`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from itinerary.errors import StoreError
from itinerary.model.queries import EventsQuery
from itinerary.model.rows import EventRow
from itinerary.ports import Store
from itinerary.records.batches import RecordBatch
from itinerary.records.cycle import Cycle
from itinerary.records.declaration import ONE_PARTITION, DeskDeclaration, ZoneLike
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.event_types import produced, read_fields
from itinerary.records.service import RecordsService
from itinerary.records.settings import read_desk_settings
from itinerary.records.worker import RecordWorker
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import World

__all__ = ["Office", "StoreTime", "called"]


class StoreTime:
    """A node's clock, which is right."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> int:
        return self._world.now()

    def elapsed(self) -> int:
        return self._world.elapsed()


async def called(function: Callable[[Any], Any], argument: Any) -> Any:
    """A function of the program, on this loop."""
    answer = function(argument)
    return await answer if inspect.isawaitable(answer) else answer


class Office:
    """Several nodes that have the same desk."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        self.settings = {"enable_early_morning_skip": False, "startup_delay": 0, **settings}
        self.handled: list[tuple[str, int, list[str]]] = []
        """What handlers have had: partition, attempt, records."""
        self.verified: list[tuple[str, str]] = []
        self.alerts: list[str] = []
        self.handler: Callable[[RecordBatch], Any] = self._handle
        self.timezone: ZoneLike = None
        self._keys = 0

    async def _handle(self, batch: RecordBatch) -> None:
        self.handled.append((batch.partition, batch.attempt, [record.id for record in batch]))

    def _work(self, batch: RecordBatch) -> Any:
        return self.handler(batch)  # which may be another one by then

    def declared(self, **settings: Any) -> DeskDeclaration:
        desk = DeskDeclaration(
            "folio", read_desk_settings({**self.settings, **settings}), partition_by="hotel", timezone=self.timezone
        )
        desk.set_handler(self._work)
        for kind in ("email", "call"):
            desk.set_verification(kind, self._verifier(kind))
        desk.add_alert(self.alerts.append)
        return desk

    def _verifier(self, kind: str) -> Callable[[Any], Any]:
        async def verify(record: Any) -> str:
            self.verified.append((kind, record.id))
            return f"{kind} is fine"

        return verify

    async def worker(self, store: Store | None = None, **settings: Any) -> RecordWorker:
        """A node that has come; nothing of it runs yet."""
        number = await self.world.store.join(f"node {self._next()}", "node", "{}")
        environment = RecordsEnvironment(
            self.world.store if store is None else store,
            number,
            StoreTime(self.world),
            self.world.log,
            call=called,
        )
        return RecordWorker(self.declared(**settings), environment)

    @asynccontextmanager
    async def running(self, *clerks: RecordWorker, is_killed: bool = False) -> AsyncIterator[None]:
        """Clerks that run, each as a node of its own; afterwards they end gracefully, or are killed."""
        services = [RecordsService(worker._environment.store, self.world.log, [worker]) for worker in clerks]
        tasks = [asyncio.create_task(service.run()) for service in services]
        try:
            yield
            if not is_killed:
                for service in services:
                    await service.end(30.0)
        finally:
            for worker in clerks:
                self.bury(worker)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def bury(self, worker: RecordWorker) -> None:
        """Nothing of a process outlives it."""
        delivery = worker._delivery
        delivery._is_ending = True
        for timer in delivery._timers.values():
            timer.cancel()
        for task in delivery._in_hand:
            task.cancel()
        worker._outage.close()

    @asynccontextmanager
    async def ticking(self, worker: RecordWorker, each: float = 10.0) -> AsyncIterator[None]:
        """The engine's jobs, as far as a desk hears of them: all three cycles, every so many seconds."""

        async def tick() -> None:
            while True:
                await asyncio.sleep(each)
                for cycle in Cycle:
                    with suppress(StoreError):  # an occurrence of the engine would fail
                        await worker.tick(cycle)

        task = asyncio.create_task(tick())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    # -- the log -----------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._keys += 1
        return self._keys

    async def say(self, kind: str, *records: str, hotel: str = ONE_PARTITION, **fields: Any) -> None:
        """What producers say, past whatever is rough."""
        events = [produced(kind, record, fields, f"{self._next()}") for record in records]
        answer = await self.truth.append("folio", hotel, events)
        assert isinstance(answer, list)

    @property
    def truth(self) -> EngineStore:
        return EngineStore(self.world.engine.engine)

    async def log(self, *kinds: str) -> list[EventRow]:
        rows = await self.truth.read(EventsQuery("folio", limit=1_000_000))
        return [row for row in rows if not kinds or row.kind in kinds]

    async def queued(self) -> list[tuple[str, bool, int]]:
        """Every RecordQueued: record, retry, times."""
        rows = await self.log("RecordQueued")
        return [(row.record, said.retry, said.times) for row in rows for said in [read_fields(row)]]
