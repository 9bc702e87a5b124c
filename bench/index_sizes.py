"""The scheduled run index at every size and window that its design document lists.

    build     10 to 1,000,000 runs, from columns and from plain pairs, with the memory that a build takes
    query     windows of a minute, an hour and a day, and results of 10 to 10,000 runs, at each size of the index
    peek      at each size of the index
    loop      a scheduler's loop: a query each second, a rebuild every 30 seconds, 600,000 and 1,000,000 runs

Builds are measured in CPU time, because other processes of the machine do not change that.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median, quantiles
from time import perf_counter, process_time

import numpy as np

from bench.harness import Result, timed
from itinerary.core import JobTable, ScheduledRunIndex, ScheduledRuns

__all__ = [
    "BUILDS",
    "INDEXES",
    "LOOPS",
    "RESULTS",
    "WINDOWS",
    "answers",
    "builds",
    "label",
    "loops",
    "peeks",
    "plain_pairs",
    "windows",
]

SECOND = 1_000_000
EPOCH = 1_800_000_000 * SECOND
JOBS = 10_000
HOUR = 3_600
DAY = 24 * HOUR
BUILDS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
INDEXES = (1_000, 10_000, 100_000, 1_000_000)
WINDOWS = {"1min": 60, "1h": HOUR, "1d": DAY}
RESULTS = (10, 100, 1_000, 10_000)
LOOPS = (600_000, 1_000_000)
LOOP_SECONDS = 120
REBUILD_EVERY = 30


def label(count: int) -> str:
    """A short name of a number: 10, 1k, 100k, 1m."""
    for unit, letter in ((1_000_000, "m"), (1_000, "k")):
        if count >= unit:
            return f"{count // unit}{letter}"
    return str(count)


def runs_of(count: int, seconds: int) -> ScheduledRuns:
    """Make runs of 10,000 jobs, at random over so many seconds."""
    dice = np.random.default_rng(count)
    jobs = JobTable(f"job-{number:05}" for number in range(JOBS))
    return ScheduledRuns(jobs, dice.integers(0, JOBS, count), EPOCH + dice.integers(0, seconds, count) * SECOND)


def plain_pairs(runs: ScheduledRuns) -> list[tuple[str, int]]:
    """Make (job, instant) pairs of columns, in the order of the columns."""
    return list(zip([runs.jobs[number] for number in runs.numbers.tolist()], runs.instants.tolist(), strict=True))


def builds(sizes: Sequence[int] = BUILDS) -> Iterator[Result]:
    """Build an index of each size, from columns and from plain pairs."""
    for size in sizes:
        runs = runs_of(size, HOUR)
        pairs = plain_pairs(runs)
        expected = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
        wrong = ScheduledRunIndex(pairs).query(EPOCH, EPOCH + HOUR * SECOND) != expected
        del expected
        name = label(size)
        columns_ms = _cpu_ms(partial(ScheduledRunIndex, runs), size)
        pairs_ms = _cpu_ms(partial(ScheduledRunIndex, pairs), size)
        yield Result("index", f"build_{name}_cpu_ms", columns_ms, "ms")
        yield Result("index", f"build_{name}_from_pairs_cpu_ms", pairs_ms, "ms", differing=int(wrong))
        peak = _peak_bytes(partial(ScheduledRunIndex, pairs)) / size
        yield Result("index", f"build_{name}_from_pairs_peak_bytes_per_run", peak, "bytes")


def windows(sizes: Sequence[int] = INDEXES) -> Iterator[Result]:
    """Query windows of a minute, an hour and a day in a day of runs, at each size of the index."""
    for size in sizes:
        index = ScheduledRunIndex(runs_of(size, DAY))
        for name, seconds in WINDOWS.items():
            moments = _moments(DAY - seconds)
            yield Result("index", f"query_{name}_of_{label(size)}_us", _query_us(index, moments, seconds), "µs")


def answers(sizes: Sequence[int] = INDEXES) -> Iterator[Result]:
    """Query 10 to 10,000 runs, at each size of the index that has so many."""
    for size in sizes:
        for found in (found for found in RESULTS if found <= size):
            seconds = size // found
            base = runs_of(size, HOUR)
            instants = EPOCH + np.arange(size, dtype=np.int64) // found * SECOND
            index = ScheduledRunIndex(ScheduledRuns(base.jobs, base.numbers, instants))
            moments = _moments(seconds - 1)
            wrong = sum(len(index.query(moment, moment + SECOND)) != found for moment in moments)
            taken = _query_us(index, moments, 1)
            measure = f"query_{label(found)}_runs_of_{label(size)}_us"
            yield Result("index", measure, taken, "µs", differing=wrong)


def peeks(sizes: Sequence[int] = INDEXES) -> Iterator[Result]:
    """Peek at each size of the index."""
    calls = range(100_000)
    for size in sizes:
        index = ScheduledRunIndex(runs_of(size, HOUR))
        taken = timed(partial(_peek_each, index, calls), 5) / len(calls) * 1e6
        yield Result("index", f"peek_of_{label(size)}_us", taken, "µs")


def loops(sizes: Sequence[int] = LOOPS, seconds: int = LOOP_SECONDS) -> Iterator[Result]:
    """Run two minutes of a scheduler's loop without its waits: a query each second, a rebuild every 30 seconds."""
    for size in sizes:
        pairs = plain_pairs(runs_of(size, HOUR))
        index, queries, rebuilds = ScheduledRunIndex(), list[float](), list[float]()
        for second in range(seconds):
            begun = perf_counter()
            if second % REBUILD_EVERY == 0:
                index.swap(pairs)
                rebuilds.append(perf_counter() - begun)
                begun = perf_counter()
            index.query(EPOCH + second * SECOND, EPOCH + (second + REBUILD_EVERY) * SECOND)
            queries.append(perf_counter() - begun)
        cuts = quantiles(queries, n=100)
        for percentile in (50, 95, 99):
            yield Result("index", f"loop_{label(size)}_query_p{percentile}_ms", cuts[percentile - 1] * 1e3, "ms")
        yield Result("index", f"loop_{label(size)}_rebuild_max_ms", max(rebuilds) * 1e3, "ms")


def _moments(seconds: int) -> list[int]:
    """Begin 200 windows at random within so many seconds."""
    return [EPOCH + int(second) * SECOND for second in np.random.default_rng(1).integers(0, max(seconds, 1), 200)]


def _query_us(index: ScheduledRunIndex, moments: Sequence[int], seconds: int) -> float:
    return timed(partial(_query_each, index, moments, seconds * SECOND), 5) / len(moments) * 1e6


def _query_each(index: ScheduledRunIndex, moments: Sequence[int], length: int) -> None:
    for moment in moments:
        index.query(moment, moment + length)


def _peek_each(index: ScheduledRunIndex, calls: range) -> None:
    for _ in calls:
        index.peek()


def _cpu_ms(work: Callable[[], object], size: int) -> float:
    """Take the median CPU time of several builds: more of them of a small index, whose builds are short."""
    rounds = 9
    each = max(1, 10_000 // size)
    work()
    gc.collect()
    taken = []
    for _ in range(rounds):
        begun = process_time()
        for _ in range(each):
            work()
        taken.append((process_time() - begun) / each * 1e3)
    return median(taken)


def _peak_bytes(work: Callable[[], object]) -> int:
    """Measure the most memory that a build holds at one time."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
