"""A desk for records on every store: from the log to the handlers, and taken over by another node (E1, E8, E10)."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from itinerary.model.queries import EventsQuery, PartitionsQuery
from itinerary.records.batches import CycleCounts, RecordBatch
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.event_types import produced
from itinerary.records.service import RecordsService
from itinerary.records.settings import read_desk_settings
from itinerary.records.worker import RecordWorker
from itinerary.runtime.clock import StoreClock
from tests.contracts.stores.desk import Desk, told

HOTELS = [f"hotel {number}" for number in range(12)]


async def called(function: Callable[[Any], Any], argument: Any) -> Any:
    answer = function(argument)
    return await answer if inspect.isawaitable(answer) else answer


async def clerk_at(desk: Desk, handled: list[str]) -> RecordWorker:
    """A node with a desk, on a store whose clock is its own."""
    settings = {"enable_early_morning_skip": False, "startup_delay": 0, "batch_size_max": 7}
    declared = DeskDeclaration("folio", read_desk_settings(settings), partition_by="hotel")

    def work(batch: RecordBatch) -> None:
        handled.extend(record.id for record in batch)

    declared.set_handler(work)
    declared.set_verification("email", lambda record: f"{record.id} is fine")
    clock = StoreClock()
    clock.observe(await desk.now())
    silent = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))
    return RecordWorker(declared, RecordsEnvironment(desk.store, await desk.node(), clock, silent, call=called))


async def say(desk: Desk, kind: str, **fields: Any) -> None:
    for hotel in HOTELS:
        records = [f"{hotel}, folio {number}" for number in range(10)]
        events = [produced(kind, record, fields, f"{kind} of {record}") for record in records]
        assert isinstance(await desk.store.append("folio", hotel, events), list)


@pytest.mark.spec("E1")
@pytest.mark.spec("E10")
@told
async def test_records_of_many_partitions_are_handled_called_back_and_verified_once(desk: Desk) -> None:
    handled: list[str] = []
    clerk = await clerk_at(desk, handled)
    await say(desk, "RecordCreated", data={"guest": "Ada"})
    assert await clerk.cycle() == CycleCounts(queued=120)
    await clerk.drained()
    await say(desk, "CallbackScheduled", target_time=await desk.now() - 1)
    await say(desk, "VerificationScheduled", check_time=await desk.now() - 1, verification="email")
    assert await clerk.cycle() == CycleCounts(requeued=120, triggered=120)
    await clerk.drained()
    assert await clerk.cycle() == CycleCounts()
    assert set(Counter(handled).values()) == {2}
    assert len(Counter(handled)) == 120
    kinds = Counter(row.kind for row in await desk.store.read(EventsQuery("folio")))
    assert kinds["RecordQueued"] == kinds["RecordPickedUp"] == 240
    assert kinds["VerificationTriggered"] == kinds["VerificationCompleted"] == 120
    await clerk.end(1.0)


@pytest.mark.spec("E8")
@told
async def test_a_node_that_ends_leaves_everything_to_the_next_one_which_reads_the_log_and_does_nothing_twice(
    desk: Desk,
) -> None:
    handled: list[str] = []
    first = await clerk_at(desk, handled)
    await say(desk, "RecordCreated")
    await first.cycle()
    await first.drained()
    await first.end(1.0)
    assert {row.holder for row in await desk.store.read(PartitionsQuery("folio"))} == {None}
    second = await clerk_at(desk, handled)
    assert await second.cycle() == CycleCounts()
    await second.drained()
    assert len(second.partitions) == 12
    assert set(Counter(handled).values()) == {1}
    await second.end(1.0)


@pytest.mark.spec("E9")
@told
async def test_two_nodes_share_the_partitions_and_a_tick_on_one_runs_the_cycle_on_both(desk: Desk) -> None:
    handled: list[str] = []
    clerks = [await clerk_at(desk, handled) for _ in range(2)]
    await say(desk, "RecordCreated")
    for clerk in clerks * 2:
        await clerk._holdings.round()  # each has heard of the other
    assert [len(clerk.partitions) for clerk in clerks] == [6, 6]
    services = [RecordsService(desk.store, structlog.get_logger(), [clerk]) for clerk in clerks]
    tasks = [asyncio.create_task(service.run()) for service in services]
    await asyncio.sleep(0.5)
    done = await clerks[0].tick(next(iter(clerks[0].figures.per_cycle)))
    assert done == CycleCounts(queued=60)
    async with asyncio.timeout(60):
        while len(handled) < 120:  # noqa: ASYNC110 - another node, of which only the store tells
            await asyncio.sleep(0.05)
    for service, task in zip(services, tasks, strict=True):
        await service.end(1.0)
        task.cancel()
    await asyncio.wait(tasks)
    assert set(Counter(handled).values()) == {1}
