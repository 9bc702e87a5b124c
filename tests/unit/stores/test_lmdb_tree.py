"""What is particular to rows in a tree of keys: subtrees, homes, and names that are longer than a key may be."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from itinerary.errors import SchemaError
from itinerary.stores.engine import T, Work
from itinerary.stores.lmdb import LmdbEngine
from itinerary.stores.lmdb.layout import HOME, PLACES
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.tables import ATTEMPTS, EVENTS, JOBS, OCCURRENCES, SHARES, TASKS, TRANSITIONS, Table
from tests.contracts.stores.samples import sample

FAMILY: tuple[Table[Any], ...] = (TRANSITIONS, ATTEMPTS, TASKS, OCCURRENCES)
LONG = "\N{KEY}" * 254


class Store:
    """An LMDB engine and one in memory, which are asked the same."""

    def __init__(self, path: Path, runner: asyncio.Runner) -> None:
        self.engine = LmdbEngine(path, sync=False)
        self.memory = MemoryEngine()
        self.runner = runner

    def same(self, work: Work[T]) -> T:
        answer = self.runner.run(self.engine.write(work))
        assert answer == self.runner.run(self.memory.write(work))
        return answer

    def keys(self) -> list[bytes]:
        return self.runner.run(self.engine.read(lambda tx: list(tx._txn.cursor().iternext(values=False))))  # type: ignore[attr-defined]

    def tree(self) -> list[bytes]:
        """All but the schema number and the counters."""
        return [key for key in self.keys() if b"/" in key and not key.startswith(b"counter/")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with asyncio.Runner() as runner:
        store = Store(tmp_path / "store", runner)
        runner.run(store.engine.open())
        yield store
        runner.run(store.engine.close())


def grow(store: Store, job: int, instant: int) -> int:
    """An occurrence with tasks, attempts and transitions; its number."""
    (row,) = store.same(lambda tx: tx.add(OCCURRENCES, [sample(OCCURRENCES, job=job, instant=instant)]))
    store.same(lambda tx: tx.put(TASKS, [sample(TASKS, ref=row.ref, place=place) for place in (0, 1)]))
    attempts = [sample(ATTEMPTS, ref=row.ref, place=place, number=number) for place in (0, 1) for number in (1, 2)]
    store.same(lambda tx: tx.put(ATTEMPTS, attempts))
    store.same(lambda tx: tx.put(TRANSITIONS, [sample(TRANSITIONS, ref=row.ref, sequence=n) for n in range(3)]))
    return row.ref


@pytest.mark.spec("D4")
def test_a_subtree_is_deleted_in_one_transaction_and_leaves_nothing(store: Store) -> None:
    kept = grow(store, 1, 100)
    before = store.tree()
    gone = grow(store, 1, 200)
    assert sum(HOME.key((1, gone)) in key for key in store.tree()) == 10
    store.same(_removal(gone))
    assert store.tree() == before
    store.same(_removal(kept))
    assert store.tree() == []


@pytest.mark.spec("D4")
def test_a_subtree_whose_deletion_is_undone_stands_whole(store: Store) -> None:
    ref = grow(store, 1, 100)
    before = store.keys()

    def broken(tx: Any) -> None:
        _removal(ref)(tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.runner.run(store.engine.write(broken))
    assert store.keys() == before
    assert len(store.same(lambda tx: tx.scan(ATTEMPTS, (ref,), limit=10))) == 4


def test_a_list_of_jobs_steps_over_their_history(store: Store) -> None:
    store.same(lambda tx: tx.add(JOBS, [sample(JOBS, name=name) for name in "abc"]))
    for job in (1, 3, 9):
        for instant in range(5):
            grow(store, job, instant)
    for newest_first in (False, True):
        jobs = store.same(lambda tx, first=newest_first: tx.scan(JOBS, limit=10, newest_first=first))  # type: ignore[misc]
        assert [job.number for job in jobs] == ([3, 2, 1] if newest_first else [1, 2, 3])
    store.same(lambda tx: tx.scan(JOBS, low=(2,), high=(3,), limit=10))


def test_tasks_and_attempts_are_told_apart_in_both_directions(store: Store) -> None:
    refs = [grow(store, job, 5) for job in (2, 1)]
    for table in (TASKS, ATTEMPTS, TRANSITIONS):
        for newest_first in (False, True):
            for prefix in ((), (refs[0],), (refs[1], 0), (refs[1], 1)):
                store.same(lambda tx, t=table, p=prefix, n=newest_first: tx.scan(t, p, limit=9, newest_first=n))  # type: ignore[misc]


def test_rows_below_an_occurrence_that_is_not_there_move_when_it_comes(store: Store) -> None:
    store.same(lambda tx: tx.put(TASKS, [sample(TASKS, ref=1, place=3, name="early")]))
    assert HOME.key((0, 1)) + PLACES["tasks"].path.key((3,)) in store.tree()
    ref = grow(store, 8, 100)
    assert ref == 1
    assert len(store.same(lambda tx: tx.scan(TASKS, (1,), limit=10))) == 3
    assert all(key.startswith((HOME.key((8, 1)), b"ref/", b"name/")) for key in store.tree())


def test_rows_stay_when_only_their_occurrence_is_removed(store: Store) -> None:
    ref = grow(store, 1, 100)
    store.same(lambda tx: tx.remove(OCCURRENCES, [(ref,)]))
    assert len(store.same(lambda tx: tx.scan(TRANSITIONS, (ref,), limit=10))) == 3
    assert store.same(lambda tx: tx.scan(OCCURRENCES, limit=10)) == []


def test_a_number_is_not_given_out_twice_though_its_row_is_gone_and_the_store_was_closed(store: Store) -> None:
    ref = grow(store, 1, 100)
    store.same(_removal(ref))
    store.runner.run(store.engine.close())
    store.runner.run(store.engine.open())
    assert grow(store, 1, 100) == ref + 1


@pytest.mark.spec("D4")
def test_names_of_255_four_byte_characters_are_told_apart_and_in_order(store: Store) -> None:
    names = [LONG + last for last in "zcbyax"] + [LONG, "a", "\N{KEY}", LONG[:40], LONG[:41], "zzz"]
    jobs = [sample(JOBS, name=name) for name in names]
    assert len(store.same(lambda tx: tx.add(JOBS, jobs))) == len(names)
    assert store.same(lambda tx: tx.add(JOBS, jobs)) == []
    assert len(store.same(lambda tx: tx.named(JOBS, [(name,) for name in names]))) == len(names)
    listed = [job.name for job in store.same(lambda tx: tx.scan(JOBS, limit=100, by_name=True))]
    assert listed == sorted(names)
    for newest_first in (False, True):
        for limit in (1, 3, 100):
            for low in ((), (LONG,), (LONG + "b",), (LONG + "bb",)):
                for high in ((), (LONG + "y",), (LONG + "yy",), ("zzz",)):
                    store.same(_scan(low, high, limit, newest_first))
                    store.same(lambda tx, b=(low, high, limit): tx.names(JOBS, low=b[0], high=b[1], limit=b[2]))  # type: ignore[misc]


def test_a_name_that_changes_leads_to_its_row_and_the_old_one_nowhere(store: Store) -> None:
    (job,) = store.same(lambda tx: tx.add(JOBS, [sample(JOBS, name=LONG + "a")]))
    store.same(lambda tx: tx.put(JOBS, [msgspec.structs.replace(job, name=LONG + "b")]))
    found = store.same(lambda tx: tx.named(JOBS, [(LONG + "a",), (LONG + "b",)]))
    assert list(found) == [(LONG + "b",)]


def test_two_long_texts_in_one_key_are_scanned_by_the_numbers_behind_them(store: Store) -> None:
    events = [
        sample(EVENTS, stream=LONG + stream, partition=LONG + partition, sequence=sequence)
        for stream in "ba"
        for sequence, partition in enumerate("cab")
    ]
    store.same(lambda tx: tx.add(EVENTS, events))
    store.same(lambda tx: tx.scan(EVENTS, limit=4))
    store.same(lambda tx: tx.scan(EVENTS, (LONG + "a",), low=(LONG + "b",), limit=10))
    store.same(lambda tx: tx.scan(EVENTS, (LONG + "a",), low=(1,), by_name=True, limit=10))
    store.same(lambda tx: tx.remove(EVENTS, [(LONG + "a",)]))
    assert len(store.same(lambda tx: tx.scan(EVENTS, limit=10))) == 3


def test_shares_of_a_long_name_are_removed_with_it_and_no_others(store: Store) -> None:
    store.same(lambda tx: tx.put(SHARES, [sample(SHARES, name=LONG + n, ref=ref) for n in "ab" for ref in range(5)]))
    store.same(lambda tx: tx.remove(SHARES, [(LONG + "a",)]))
    assert len(store.same(lambda tx: tx.scan(SHARES, limit=100))) == 5


@pytest.mark.parametrize("seed", range(5))
def test_occurrences_that_come_change_and_go_at_random_are_as_in_memory(store: Store, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test's dice
    for _ in range(150):
        store.same(_something(dice))
    for table in FAMILY:
        store.same(lambda tx, t=table: tx.scan(t, limit=10_000))  # type: ignore[misc]
        store.same(lambda tx, t=table: tx.remove(t, [()]))  # type: ignore[misc]
    assert store.tree() == []


def test_a_value_that_is_no_row_is_reported_as_damage(store: Store) -> None:
    key = PLACES["jobs"].path.key((1,))
    store.runner.run(store.engine.write(lambda tx: tx._txn.put(key, b"\x93\x01\x02\x03")))  # type: ignore[attr-defined]
    with pytest.raises(SchemaError, match="damaged at b'job/"):
        store.runner.run(store.engine.read(lambda tx: tx.get(JOBS, [(1,)])))


def _removal(ref: int) -> Callable[[Any], None]:
    def remove(tx: Any) -> None:
        for table in FAMILY:
            tx.remove(table, [(ref,)])

    return remove


def _scan(low: Any, high: Any, limit: int, newest_first: bool) -> Callable[[Any], Any]:
    return lambda tx: tx.scan(JOBS, low=low, high=high, limit=limit, newest_first=newest_first, by_name=True)


def _something(dice: random.Random) -> Callable[[Any], Any]:
    ref, job, place = dice.randrange(1, 12), dice.randrange(3), dice.randrange(3)
    table = dice.choice(FAMILY)
    match dice.choice(["add", "task", "remove", "attempt", "scan"]):
        case "add":
            row = sample(OCCURRENCES, job=job, instant=dice.randrange(50))
            return lambda tx: tx.add(OCCURRENCES, [row])
        case "task":
            return lambda tx: tx.put(TASKS, [sample(TASKS, ref=ref, place=place), sample(TASKS, ref=ref, place=9)])
        case "remove":
            return lambda tx: tx.remove(table, [(ref,)])
        case "attempt":
            return lambda tx: tx.put(ATTEMPTS, [sample(ATTEMPTS, ref=ref, place=place, number=job)])
    return lambda tx: tx.scan(table, low=(ref,), high=(ref + 4,), limit=5, newest_first=job == 1)
