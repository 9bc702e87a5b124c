"""The scheduled run index: built from unsorted columns, queried, peeked at, and rebuilt under its readers.

The peer is what one would write without it: a sorted list of tuples and `bisect`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import quantiles
from threading import Event, Thread
from time import perf_counter

import numpy as np

from bench.harness import Result, timed
from bench.index_sizes import answers, builds, loops, peeks, windows
from itinerary.core import JobTable, ScheduledRunIndex, ScheduledRuns

__all__ = ["run"]

SECOND = 1_000_000
EPOCH = 1_800_000_000 * SECOND
JOBS = 10_000
PEER = "list+bisect"


def _runs(count: int, seconds: int) -> ScheduledRuns:
    """Runs of 10,000 jobs, spread at random over some seconds."""
    dice = np.random.default_rng(count)
    jobs = JobTable(f"job-{number:05}" for number in range(JOBS))
    instants = EPOCH + dice.integers(0, seconds, count) * SECOND
    return ScheduledRuns(jobs, dice.integers(0, JOBS, count), instants)


def _pairs(runs: ScheduledRuns) -> list[tuple[int, str]]:
    names = [runs.jobs[number] for number in runs.numbers.tolist()]
    return list(zip(runs.instants.tolist(), names, strict=True))


def run(*, quick: bool) -> Iterator[Result]:
    """Build three sizes beside the peer, then every size and window, then ask the largest beside the peer."""
    for label, count in (("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000)):
        runs = _runs(count, 3_600)
        ours = timed(partial(ScheduledRunIndex, runs), 20) * 1e3
        pairs = _pairs(runs)
        theirs = timed(partial(sorted, pairs), 1 if quick else 3) * 1e3
        expected = [(job, instant) for instant, job in sorted(pairs)]
        wrong = ScheduledRunIndex(runs).query(EPOCH, EPOCH + 3_600 * SECOND) != expected
        yield Result("index", f"build_{label}_ms", ours, "ms", PEER, theirs, differing=int(wrong))

    yield from builds()
    yield from windows()
    yield from answers()
    yield from peeks()
    yield from loops()
    yield from _questions(quick=quick)
    yield from _rebuilding(seconds=2 if quick else 10)


def _questions(*, quick: bool) -> Iterator[Result]:
    """A million runs, a hundred each second."""
    spread = _runs(1_000_000, 10_000)
    runs = ScheduledRuns(spread.jobs, spread.numbers, EPOCH + np.arange(1_000_000) // 100 * SECOND)
    index = ScheduledRunIndex(runs)
    seconds = np.random.default_rng(1).integers(0, 10_000, 1_000 if quick else 10_000)
    moments = (EPOCH + seconds * SECOND).tolist()

    def ours(start: int) -> Sequence[tuple[str, int]]:
        return index.query(start, start + SECOND)

    our_time = timed(partial(_ask_each, ours, moments), 5) / len(moments) * 1e6
    our_pairs_time = timed(partial(_ask_each, lambda start: list(ours(start)), moments), 5) / len(moments) * 1e6
    calls = range(100_000)
    yield Result("index", "peek_us", timed(lambda: [index.peek() for _ in calls], 5) / len(calls) * 1e6, "µs")
    yield Result("index", "bytes_per_run", index.nbytes / len(index), "bytes")

    pairs = sorted(_pairs(runs))

    def theirs(start: int) -> list[tuple[str, int]]:
        low, high = bisect_left(pairs, (start,)), bisect_left(pairs, (start + SECOND,))
        return [(job, instant) for instant, job in pairs[low:high]]

    their_time = timed(partial(_ask_each, theirs, moments), 5) / len(moments) * 1e6
    differing = sum(ours(start) != theirs(start) for start in moments)
    yield Result("index", "query_100_us", our_time, "µs", PEER, their_time, differing=differing)
    yield Result("index", "query_100_as_pairs_us", our_pairs_time, "µs", PEER, their_time)


def _ask_each(question: Callable[[int], object], moments: Sequence[int]) -> None:
    for moment in moments:
        question(moment)


def _rebuilding(seconds: float) -> Iterator[Result]:
    """600,000 runs rebuilt without a pause by one thread while this one asks for a second's worth, again and again."""
    runs = _runs(600_000, 3_600)
    index, done = ScheduledRunIndex(runs), Event()

    def rebuild() -> None:
        while not done.is_set():
            index.swap(runs)

    builder = Thread(target=rebuild)
    builder.start()
    waits, until, at = [], perf_counter() + seconds, EPOCH
    while (begun := perf_counter()) < until:
        index.query(at, at + SECOND)
        waits.append(perf_counter() - begun)
        at = EPOCH + (at - EPOCH + SECOND) % (3_600 * SECOND)
        done.wait(0.002)
    done.set()
    builder.join()
    yield Result("index", "query_p99_ms_while_rebuilding", quantiles(waits, n=100)[98] * 1e3, "ms")
