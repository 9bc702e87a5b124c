"""The scheduled run index: order, windows, emptiness, and readers that never see half a swap."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Barrier, Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.core import JobTable, ScheduledRunIndex, ScheduledRuns
from itinerary.errors import WindowError

SECOND = 1_000_000
NOON = 1_800_000_000 * SECOND

jobs = st.text("abcé-1", min_size=1, max_size=4)
instants = st.integers(-100, 100).map(lambda second: NOON + second * SECOND)
pairs = st.lists(st.tuples(jobs, instants), max_size=60)


@pytest.mark.spec("I1")
@given(pairs)
def test_runs_come_back_by_instant_and_then_by_job_id(runs: list[tuple[str, int]]) -> None:
    index = ScheduledRunIndex(runs)
    everything = index.query(NOON - 101 * SECOND, NOON + 101 * SECOND)
    assert everything == sorted(runs, key=lambda run: (run[1], run[0]))
    assert len(index) == len(runs)


@pytest.mark.spec("I2", "query")
@given(pairs, instants, instants)
def test_a_query_is_half_open(runs: list[tuple[str, int]], start: int, end: int) -> None:
    found = ScheduledRunIndex(runs).query(start, end)
    assert sorted(found) == sorted(run for run in runs if start <= run[1] < end)


@pytest.mark.spec("I2", "peek")
@given(pairs)
def test_peek_is_the_earliest_run(runs: list[tuple[str, int]]) -> None:
    earliest = min(runs, key=lambda run: (run[1], run[0]), default=None)
    assert ScheduledRunIndex(runs).peek() == earliest


@pytest.mark.spec("I2", "empty")
def test_an_empty_index_is_a_normal_case() -> None:
    index = ScheduledRunIndex()
    assert len(index) == 0
    assert index.peek() is None
    assert index.query(0, NOON) == []
    index.swap([("a", NOON)])
    assert index.peek() == ("a", NOON)
    index.swap([])
    assert index.peek() is None


@pytest.mark.spec("I2", "query")
def test_instants_may_be_datetimes_and_windows_need_not_be_whole_seconds() -> None:
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    index = ScheduledRunIndex([("a", at)])
    microseconds = int(at.timestamp()) * SECOND
    assert index.query(at, at.replace(microsecond=1)) == [("a", microseconds)]
    assert index.query(at.replace(microsecond=1), at.replace(minute=1)) == []


@pytest.mark.spec("I1", "immutable")
def test_a_built_index_does_not_change_with_the_arrays_it_was_built_from() -> None:
    table = JobTable(["a", "b"])
    numbers, instants_ = np.array([1, 0]), np.array([NOON, NOON])
    index = ScheduledRunIndex(ScheduledRuns(table, numbers, instants_))
    instants_ += SECOND
    numbers[:] = 0
    assert index.query(NOON, NOON + SECOND) == [("a", NOON), ("b", NOON)]


@pytest.mark.spec("I1", "bad input")
def test_what_cannot_be_indexed_is_refused_with_the_reason() -> None:
    table = JobTable(["a"])
    with pytest.raises(WindowError, match="whole second"):
        ScheduledRunIndex([("a", NOON + 1)])
    for nonsense in (NOON / 1, True, "noon", None):
        with pytest.raises(WindowError, match="is no instant"):
            ScheduledRunIndex([("a", NOON), ("b", nonsense)])  # type: ignore[list-item]
    with pytest.raises(WindowError, match="no time zone"):
        ScheduledRunIndex([("a", datetime(2026, 1, 1))])  # noqa: DTZ001 - the point of the test
    with pytest.raises(AssertionError, match="known jobs only"):
        ScheduledRuns(table, np.array([1]), np.array([NOON]))
    with pytest.raises(AssertionError, match="each number goes with an instant"):
        ScheduledRuns(table, np.array([0, 0]), np.array([NOON]))
    with pytest.raises(AssertionError, match="in the table twice"):
        JobTable(["a", "b", "a"])


@pytest.mark.spec("I1")
@given(st.lists(st.tuples(jobs, st.integers(-(10**11), 10**11).map(lambda second: second * SECOND)), max_size=40))
def test_runs_that_are_centuries_apart_come_back_in_order(runs: list[tuple[str, int]]) -> None:
    everything = ScheduledRunIndex(iter(runs)).query(-(10**17), 10**17 + SECOND)
    assert everything == sorted(runs, key=lambda run: (run[1], run[0]))


@contextmanager
def _counted_calls() -> Iterator[list[str]]:
    """Count the calls of Python functions and of built-in functions that this thread makes."""
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event in ("call", "c_call") else None)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.spec("P2", "pairs")
def test_an_index_of_more_pairs_takes_no_more_calls() -> None:
    """The cost of a build is its calls for each pair: a build has none, whatever the number of pairs."""

    def count(size: int) -> int:
        pairs = [(f"job-{number % 50:02}", NOON + number * SECOND) for number in range(size)]
        with _counted_calls() as calls:
            ScheduledRunIndex(pairs)
        return len(calls)

    assert count(20_000) == count(200)


@contextmanager
def _threads_switching_as_often_as_they_can() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.spec("I2", "swap")
def test_each_answer_equals_one_whole_snapshot_while_another_thread_swaps() -> None:
    """Snapshot n holds the same jobs at other instants, so an answer that mixed two of them would be recognised."""
    size, swaps, readers = 400, 300, 4
    table = JobTable(f"job-{n:04}" for n in range(size))
    snapshots = [
        ScheduledRuns(table, np.arange(size), np.full(size, NOON + n * SECOND, np.int64) + np.arange(size) % 7 * SECOND)
        for n in range(swaps)
    ]
    window = (NOON, NOON + (swaps + 10) * SECOND)
    whole = [ScheduledRunIndex(runs).query(*window) for runs in snapshots]
    number_of = {answer[0][1]: n for n, answer in enumerate(whole)}
    index, done, seen, wrong = ScheduledRunIndex(snapshots[0]), Event(), set[int](), list[object]()
    together = Barrier(readers + 1)

    def read() -> None:
        together.wait()
        while not done.is_set():
            answer = index.query(*window)
            number = number_of[answer[0][1]]
            seen.add(number)
            if answer != whole[number] or index.peek() is None or len(index) != size:
                wrong.append(answer)

    with _threads_switching_as_often_as_they_can():
        threads = [Thread(target=read) for _ in range(readers)]
        for thread in threads:
            thread.start()
        together.wait()
        for _ in range(3):
            for runs in snapshots:
                index.swap(runs)
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(seen) > 1, "the readers must have seen the index change"
