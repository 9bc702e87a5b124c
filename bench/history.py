"""History: page one of a job's history, and what is active, beside a thousand old occurrences and five million.

The old ones are what a store is full of: final, spread over 10,000 jobs, every twentieth of them the same job's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter

from bench.harness import Result
from bench.lives import EPOCH, live, registered, wanted_at
from bench.places import DURABLE, opened, place
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Active, History
from itinerary.model.rows import JobNumber, Key, NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Wanted
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


def run(*, quick: bool) -> Iterator[Result]:
    """Each durable store, nearly empty and then full."""
    full = 100_000 if quick else FULL
    for kind in DURABLE:
        with place(kind) as url:
            yield from asyncio.run(_measured(kind, url, full))


async def _measured(kind: str, url: str, full: int) -> list[Result]:
    results = []
    async with opened(url) as store:
        node = await store.join("bench", "bench", "{}")
        jobs, revision = await registered(store, JOBS)
        since = await _fill(store, revision, jobs, 0, 1_000)
        instant = EPOCH + 10_000_000 * SECOND
        await store.claim(node, revision, wanted_at(instant, jobs[:ACTIVE]))
        few = "1k"
        results += [
            Result("history", f"{kind}_page_ms_{few}", await _page(store, jobs[0]), "ms"),
            Result("history", f"{kind}_active_ms_{few}", await _active(store), "ms"),
            Result("history", f"{kind}_lifecycle_per_s_{few}", await _rate(store, node, revision, jobs, 1), "/s"),
        ]
        await _fill(store, revision, jobs, since, full)
        many = "5m" if full == FULL else f"{full // 1_000}k"
        results += [
            Result("history", f"{kind}_page_ms_{many}", await _page(store, jobs[0]), "ms"),
            Result("history", f"{kind}_active_ms_{many}", await _active(store), "ms"),
            Result("history", f"{kind}_lifecycle_per_s_{many}", await _rate(store, node, revision, jobs, 2), "/s"),
        ]
    return results


async def _fill(store: Store, revision: int, jobs: list[JobNumber], since: int, upto: int) -> int:
    """Create final occurrences, in the order of time: of all jobs each second, and of the first in between."""
    for first in range(since, upto, CHUNK):
        wanted = []
        for number in range(first, min(first + CHUNK, upto)):
            second, place_in = divmod(number, JOBS)
            is_one = number % OF_ONE == 0
            job = jobs[0] if is_one else jobs[place_in]
            instant = EPOCH + (second * 1_000 + is_one * (place_in // OF_ONE)) * SECOND
            wanted.append(Wanted(Key(instant, job, Kind.SCHEDULED), 1, instant, OccurrenceState.MISSED))
        await store.claim(None, revision, wanted)
    return upto


async def _page(store: Store, job: JobNumber) -> float:
    page = await store.read(History(job, limit=PAGE))
    assert len(page.rows) == PAGE
    return await _median(partial(store.read, History(job, limit=PAGE)))


async def _active(store: Store) -> float:
    assert len(await store.read(Active())) == ACTIVE
    return await _median(partial(store.read, Active()))


async def _median(ask: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds."""
    taken = []
    for _ in range(50):
        begun = perf_counter()
        await ask()
        taken.append(perf_counter() - begun)
    return median(taken) * 1e3


async def _rate(store: Store, node: NodeNumber, revision: int, jobs: list[JobNumber], stage: int) -> float:
    taken = []
    for number in range(5):
        wanted = wanted_at(EPOCH + (20_000_000 * stage + number) * SECOND, jobs)
        begun = perf_counter()
        await live(store, node, revision, wanted, at_once=2)
        taken.append(perf_counter() - begun)
    return len(jobs) / median(taken)
