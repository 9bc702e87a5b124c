"""Records: from the log to the queue, and what a cycle costs beside a short log and a long one.

A desk on SQLite, one node and one partition. What is measured is what the engine's jobs set off: a cycle. Its handler
does nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import resource
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import structlog

from bench.harness import Result
from bench.places import opened, place
from itinerary.model.events import NewEvent
from itinerary.ports import Store
from itinerary.records.cycle import Cycle
from itinerary.records.declaration import ONE_PARTITION, DeskDeclaration
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.event_types import produced
from itinerary.records.settings import read_desk_settings
from itinerary.records.worker import RecordWorker
from itinerary.runtime.clock import StoreClock

__all__ = ["run"]

PICKUPS = 50_000
SHORT, LONG = 10_000, 1_000_000
NEW = 100
"""New records, due callbacks and due verifications in each cycle that is timed."""
CYCLES = 30
CHUNK = 5_000
STREAM = "bench"


def run(*, quick: bool) -> Iterator[Result]:
    """How many, and how long."""
    with place("sqlite") as url:
        yield from asyncio.run(_rates(url, PICKUPS // 10 if quick else PICKUPS))
    for size in (SHORT, LONG // 10 if quick else LONG):
        with place("sqlite") as url:
            yield from asyncio.run(_cost(url, size))


async def _rates(url: str, count: int) -> list[Result]:
    """First without a handler, so that nothing else is done meanwhile; then with one, by the next node."""
    async with opened(url) as store:
        await _create(store, [f"F-{number}" for number in range(count)])
        clerk = await _clerk(store, has_handler=False)
        await clerk.cycle(())  # it has read what there is, as a desk that runs has
        begun = perf_counter()
        done = await clerk.cycle({Cycle.PICKUP})
        queued_in = perf_counter() - begun
        assert done.queued == count
        successor = await _clerk(store, clerk)
        begun = perf_counter()
        await successor.cycle(())
        await successor.drained()
        handled_in = perf_counter() - begun
        await successor.end(0.0)
    return [
        Result("records", "pickups_per_s", count / queued_in, "/s", more_is_better=True),
        Result("records", "handled_per_s", count / handled_in, "/s", more_is_better=True),
    ]


async def _cost(url: str, size: int) -> list[Result]:
    name = f"{size // 1_000_000}m" if size >= 1_000_000 else f"{size // 1_000}k"
    async with opened(url) as store:
        clerk = await _clerk(store)
        for first in range(0, size, 10 * CHUNK):
            await _create(store, [f"F-{number}" for number in range(first, min(first + 10 * CHUNK, size))])
            await clerk.cycle({Cycle.PICKUP})
            await clerk.drained()
        took = []
        for turn in range(CYCLES):
            await _say_something(store, turn, clerk)
            begun = perf_counter()
            done = await clerk.cycle()
            took.append(perf_counter() - begun)
            assert (done.queued, done.requeued, done.triggered) == (NEW, NEW, NEW)
            await clerk.drained()
        before, begun = _memory(), perf_counter()
        successor = await _clerk(store, clerk)
        await successor.cycle(())
        replayed_in = perf_counter() - begun
    return [
        Result("records", f"cycle_ms_{name}", median(took) * 1_000, "ms"),
        Result("records", f"replay_s_{name}", replayed_in, "s"),
        Result("records", f"replay_bytes_per_record_{name}", (_memory() - before) * 1_024 / size, "B"),
    ]


async def _say_something(store: Store, turn: int, clerk: RecordWorker) -> None:
    now = clerk.now()
    old = [f"F-{number}" for number in range(turn * NEW, turn * NEW + NEW)]
    await _create(store, [f"N-{turn}-{number}" for number in range(NEW)])
    for kind, field in (("CallbackScheduled", "target_time"), ("VerificationScheduled", "check_time")):
        await _append(store, [produced(kind, record, {field: now}, f"{kind} {turn} {record}") for record in old])


async def _create(store: Store, records: Sequence[str]) -> None:
    data: dict[str, Any] = {"data": {"guest": "Ada Lovelace", "room": 12, "nights": 3}}
    await _append(store, [produced("RecordCreated", record, data, f"created {record}") for record in records])


async def _append(store: Store, events: Sequence[NewEvent]) -> None:
    for first in range(0, len(events), CHUNK):
        await store.append(STREAM, ONE_PARTITION, events[first : first + CHUNK])


async def _clerk(store: Store, predecessor: RecordWorker | None = None, *, has_handler: bool = True) -> RecordWorker:
    """A node with the desk, which holds the one partition."""
    if predecessor is not None:
        await predecessor.end(0.0)
    settings = {"enable_early_morning_skip": False, "queue_high": 1_000_000, "handlers_max": 16}
    desk = DeskDeclaration(STREAM, read_desk_settings(settings))
    if has_handler:
        desk.set_handler(_nothing)
    desk.set_verification("check", _nothing)
    clock = StoreClock()
    clock.observe((await store.beat(await store.join("clock", "clock", "{}"))).now)
    number = await store.join(f"bench {id(desk)}", "bench", "{}")
    silent = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))
    return RecordWorker(desk, RecordsEnvironment(store, number, clock, silent, call=_called))


async def _nothing(_: object) -> None:
    pass


async def _called(function: Callable[[Any], Any], argument: Any) -> Any:
    answer = function(argument)
    return await answer if inspect.isawaitable(answer) else answer


def _memory() -> int:
    """The most that this process has used, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
