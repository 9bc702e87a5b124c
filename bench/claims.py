"""Claims: one process that claims, starts and finishes; and several that race for the same occurrences.

A lifecycle is three durable transactions for a batch of 512: a row, a slot, a task run, an attempt and the lines of
audit that it does not say itself. As in a process that is a node, Python's collector of cyclic garbage is relaxed
before anything is measured. In a race every process wants all of 100,000 occurrences, and each must have exactly one
winner.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from collections import Counter
from collections.abc import Iterator
from statistics import median
from time import perf_counter

from bench.harness import Result
from bench.lives import BATCH, EPOCH, live, registered, wanted_at
from bench.places import DURABLE, opened, place
from itinerary.model.rows import JobNumber
from itinerary.ports import Store
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules.durations import SECOND

__all__ = ["run"]

JOBS = 10_000
AT_ONCE = 4
"""Batches on their way, as many as a node has."""
RACERS = (1, 2, 4)


def run(*, quick: bool) -> Iterator[Result]:
    """Each store alone, then with racers."""
    rounds = 3 if quick else 10
    for kind in ("memory", *DURABLE):
        with place(kind) as url:
            per_second, cpu = asyncio.run(_lifecycles(url, rounds))
        yield Result("claims", f"{kind}_lifecycle_per_s", per_second, "/s", more_is_better=True)
        yield Result("claims", f"{kind}_cpu_s_per_1000", cpu, "s")
    occurrences = 20_000 if quick else 100_000
    for kind in DURABLE:
        for racers in RACERS:
            yield from _race(kind, racers, occurrences)


async def _lifecycles(url: str, rounds: int) -> tuple[float, float]:
    """How many a second (the median of some rounds of 10,000), and this process's CPU for a thousand."""
    async with opened(url) as store:
        node = await store.join("bench", "bench", "{}")
        jobs, revision = await registered(store, JOBS)
        await live(store, node, revision, wanted_at(EPOCH, jobs), at_once=AT_ONCE)
        relax_collector()
        used, taken = _cpu(), []
        for number in range(1, rounds + 1):
            wanted = wanted_at(EPOCH + number * SECOND, jobs)
            begun = perf_counter()
            await live(store, node, revision, wanted, at_once=AT_ONCE)
            taken.append(perf_counter() - begun)
        return JOBS / median(taken), (_cpu() - used) / (rounds * JOBS) * 1_000


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _race(kind: str, racers: int, occurrences: int) -> Iterator[Result]:
    """Racers are processes; on LMDB, which is one node's, they are tasks of one."""
    seconds = occurrences // JOBS
    with place(kind) as url:
        jobs, revision = asyncio.run(_prepared(url))
        begun = perf_counter()
        if kind == "lmdb":
            won = asyncio.run(_together(url, jobs, revision, seconds, racers))
        else:
            spawn = multiprocessing.get_context("spawn")
            with spawn.Pool(racers) as pool:
                won = pool.starmap(_raced, [(url, jobs, revision, seconds, number) for number in range(racers)])
        taken = perf_counter() - begun
    winners = Counter(ref for refs in won for ref in refs)
    wrong = occurrences - len(winners) + sum(count > 1 for count in winners.values())
    yield Result("claims", f"{kind}_race_{racers}_per_s", occurrences / taken, "/s", more_is_better=True)
    yield Result("claims", f"{kind}_race_winners_wrong", wrong, f"of {occurrences} ({racers})")


async def _prepared(url: str) -> tuple[list[JobNumber], int]:
    async with opened(url) as store:
        return await registered(store, JOBS)


def _raced(url: str, jobs: list[JobNumber], revision: int, seconds: int, number: int) -> list[int]:
    return asyncio.run(_claimed(url, jobs, revision, seconds, number))


async def _claimed(url: str, jobs: list[JobNumber], revision: int, seconds: int, number: int) -> list[int]:
    async with opened(url) as store:
        return await _claim_all(store, jobs, revision, seconds, number)


async def _together(url: str, jobs: list[JobNumber], revision: int, seconds: int, racers: int) -> list[list[int]]:
    async with opened(url) as store:
        racing = [_claim_all(store, jobs, revision, seconds, number) for number in range(racers)]
        return await asyncio.gather(*racing)


async def _claim_all(store: Store, jobs: list[JobNumber], revision: int, seconds: int, number: int) -> list[int]:
    node = await store.join(f"racer {number}", "bench", "{}")
    won: list[int] = []
    for second in range(seconds):
        wanted = wanted_at(EPOCH + second * SECOND, jobs)
        for first in range(0, len(wanted), BATCH):
            claimed = await store.claim(node, revision, wanted[first : first + BATCH])
            assert isinstance(claimed, list)
            won += [one.ref for one in claimed]
    return won
