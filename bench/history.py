"""History: page one of a job's history, what is active, and what an occurrence takes from its claim to its end.

All of it beside a thousand old occurrences, and beside five million.

The old ones are what a store is full of: final, spread over 10,000 jobs, every twentieth of them the same job's. Both
stores are there at the same time, and what takes a while is done on one and on the other in turn: a machine that is
shared is a third slower in one minute than in the next, which is more than what is looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.harness import Result
from bench.lives import EPOCH, live, registered, wanted_at
from bench.places import DURABLE, opened, place, settle
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ActiveQuery, HistoryQuery
from itinerary.model.rows import JobNumber, Key, NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND

__all__ = ["run"]

JOBS = 10_000
FULL = 5_000_000
ACTIVE = 100
PAGE = 50
OF_ONE = 20
"""Every so many are one job's, so that it has a whole page when there are a thousand in all, and the same is read."""
CHUNK = 10_000
ROUNDS = 9


def run(*, quick: bool) -> Iterator[Result]:
    """Each durable store, nearly empty and full."""
    full = 100_000 if quick else FULL
    for kind in DURABLE:
        with place(kind) as few, place(kind) as many:
            yield from asyncio.run(_measured(kind, few, many, full))


class _Shelf(NamedTuple):
    """A store with some history in it, and a node that may write there."""

    title: str
    store: Store
    node: NodeNumber
    revision: int
    jobs: list[JobNumber]


async def _measured(kind: str, few: str, many: str, full: int) -> list[Result]:
    results: list[Result] = []
    async with opened(few) as small, opened(many) as large:
        shelves = [
            await _shelf("1k", small, 1_000),
            await _shelf("5m" if full == FULL else f"{full // 1_000}k", large, full),
        ]
        for url in (few, many):
            settle(url)
        for shelf in shelves:
            results += [
                Result("history", f"{kind}_page_ms_{shelf.title}", await _page(shelf.store, shelf.jobs[0]), "ms"),
                Result("history", f"{kind}_active_ms_{shelf.title}", await _active(shelf.store), "ms"),
            ]
        taken: list[list[float]] = [[] for _ in shelves]
        for number in range(ROUNDS):
            for shelf, own in zip(shelves, taken, strict=True):
                own.append(await _lives(shelf, number))
        results += [
            Result("history", f"{kind}_lifecycle_per_s_{shelf.title}", JOBS / median(own), "/s", more_is_better=True)
            for shelf, own in zip(shelves, taken, strict=True)
        ]
    return results


async def _shelf(title: str, store: Store, count: int) -> _Shelf:
    node = await store.join("bench", "bench", "{}")
    jobs, revision = await registered(store, JOBS)
    await _fill(store, revision, jobs, count)
    await store.claim(node, revision, wanted_at(EPOCH + 10_000_000 * SECOND, jobs[:ACTIVE]))
    return _Shelf(title, store, node, revision, jobs)


async def _fill(store: Store, revision: int, jobs: list[JobNumber], upto: int) -> None:
    """Create final occurrences, in the order of time: of all jobs each second, and of the first in between."""
    for first in range(0, upto, CHUNK):
        wanted = []
        for number in range(first, min(first + CHUNK, upto)):
            second, place_in = divmod(number, JOBS)
            is_one = number % OF_ONE == 0
            job = jobs[0] if is_one else jobs[place_in]
            instant = EPOCH + (second * 1_000 + is_one * (place_in // OF_ONE)) * SECOND
            wanted.append(ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant, OccurrenceState.MISSED))
        await store.claim(None, revision, wanted)


async def _page(store: Store, job: JobNumber) -> float:
    page = await store.read(HistoryQuery(job, limit=PAGE))
    assert len(page.rows) == PAGE
    return await _median(partial(store.read, HistoryQuery(job, limit=PAGE)))


async def _active(store: Store) -> float:
    assert len(await store.read(ActiveQuery())) == ACTIVE
    return await _median(partial(store.read, ActiveQuery()))


async def _median(ask: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds."""
    taken = []
    for _ in range(50):
        begun = perf_counter()
        await ask()
        taken.append(perf_counter() - begun)
    return median(taken) * 1e3


async def _lives(shelf: _Shelf, number: int) -> float:
    """How many seconds one occurrence of each job takes: claimed, started and finished."""
    wanted = wanted_at(EPOCH + (20_000_000 + number) * SECOND, shelf.jobs)
    begun = perf_counter()
    await live(shelf.store, shelf.node, shelf.revision, wanted, at_once=2)
    return perf_counter() - begun
