"""Rows in and out: what is written comes back, under its key and its name, until it is removed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.states import OccurrenceState
from itinerary.stores.tables import (
    ACTIVE,
    JOBS,
    LIMITS,
    OCCURRENCES,
    OVERLAP_SLOTS,
    SHARES,
    WAITING,
    Values,
)
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.samples import active, everything, keys_of, occurrence, sample

pytestmark = pytest.mark.spec("D4")


# -- rows in and out --------------------------------------------------------------------------------------------------


def test_a_row_comes_back_as_it_was_written(store: Opened) -> None:
    row = occurrence(
        -(2**63),
        2**62,
        request="ключ 🗝 'quoted' \"twice\" \\ \n\t\x01",
        version=2**63 - 1,
        is_recovery=True,
        status=OccurrenceState.RUNNING,
        owner=None,
        started_at=0,
        reason="",
    )
    (created,) = store.write(lambda tx: tx.add(OCCURRENCES, [row]))
    (read,) = store.read(lambda tx: tx.get(OCCURRENCES, [(created.ref,)])).values()
    assert read == created == msgspec.structs.replace(row, ref=created.ref)
    assert read.is_recovery is True
    assert read.kind is Kind.SCHEDULED
    assert read.status is OccurrenceState.RUNNING


@pytest.mark.parametrize("recent", [b"", b"\x00", bytes(range(256)) * 20])
def test_bytes_come_back_as_they_were_written(store: Opened, recent: bytes) -> None:
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, [sample(OVERLAP_SLOTS, job=7, recent=recent)]))
    (read,) = everything(store, OVERLAP_SLOTS)
    assert read.recent == recent
    assert type(read.recent) is bytes


def test_many_rows_at_once_are_all_there(store: Opened) -> None:
    rows = [sample(ACTIVE, job=number % 7, ref=number, due_at=number) for number in range(1_111)]
    created = store.write(lambda tx: tx.add(ACTIVE, rows))
    assert created == sorted(rows, key=ACTIVE.key_of)
    assert everything(store, ACTIVE) == created
    found = store.read(lambda tx: tx.get(ACTIVE, keys_of(ACTIVE, rows)))
    assert found == {ACTIVE.key_of(row): row for row in rows}


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"version": 2},
        {"owner": None},
        {"reason": "another"},
        {"details": None},
        {"is_recovery": True},
        {"status": OccurrenceState.SKIPPED},
        {"instant": 6},
    ],
    ids=lambda odd: "".join(odd) or "nothing",
)
def test_of_many_rows_with_the_same_values_each_is_as_it_was_written(store: Opened, odd: dict[str, Any]) -> None:
    rows = [occurrence(5, job, version=1, owner=3, details="all", reason="same") for job in range(100)]
    rows[70] = msgspec.structs.replace(rows[70], **odd)
    created = store.write(lambda tx: tx.add(OCCURRENCES, rows))
    assert sorted((msgspec.structs.replace(row, ref=0) for row in created), key=lambda row: row.job) == rows
    assert everything(store, OCCURRENCES) == sorted(created, key=OCCURRENCES.key_of)

    def change_all(tx: Transaction) -> list[Any]:
        locked = tx.lock(OCCURRENCES, keys_of(OCCURRENCES, created)).values()
        changed = [msgspec.structs.replace(row, version=9, owner=4, details=None, reason="new") for row in locked]
        changed[70] = msgspec.structs.replace(changed[70], **{name: odd[name] for name in odd if name != "instant"})
        tx.save(OCCURRENCES, changed, ["version", "owner", "details", "reason", "is_recovery", "status"])
        return changed

    changed = store.write(change_all)
    assert everything(store, OCCURRENCES) == changed != created


@pytest.mark.parametrize(
    "odd", [{}, {"recent": b""}, {"has_queue": True}, {"ref": 7}], ids=lambda odd: "".join(odd) or "nothing"
)
def test_many_rows_with_the_same_values_are_put_over_others(store: Opened, odd: dict[str, Any]) -> None:
    first = [sample(OVERLAP_SLOTS, job=job, ref=job, fence=job, recent=bytes([job])) for job in range(0, 100, 2)]
    store.write(lambda tx: tx.insert(OVERLAP_SLOTS, first))
    second = [sample(OVERLAP_SLOTS, job=job, fence=1, recent=b"\x00\xff") for job in range(100)]
    second[70] = msgspec.structs.replace(second[70], **odd)
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, second))
    assert everything(store, OVERLAP_SLOTS) == second


def test_nothing_asked_is_nothing_done(store: Opened) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.put(ACTIVE, [])
        tx.save(ACTIVE, [], ["due_at"])
        tx.remove(ACTIVE, [])
        tx.notify([])
        return [tx.add(ACTIVE, []), tx.add(JOBS, []), tx.get(ACTIVE, []), tx.lock(ACTIVE, []), tx.named(JOBS, [])]

    assert store.write(work) == [[], [], {}, {}, {}]


def test_what_is_not_there_is_left_out(store: Opened) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active((1, 1), (1, 3))))
    wanted = [(1, 3), (1, 2), (1, 1), (2, 1)]
    assert list(store.read(lambda tx: tx.get(ACTIVE, wanted))) == [(1, 3), (1, 1)]
    assert list(store.write(lambda tx: tx.lock(ACTIVE, wanted))) == [(1, 1), (1, 3)], "in the order of keys"


def test_a_row_is_found_by_its_name(store: Opened) -> None:
    store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(5), occurrence(6), occurrence(6, 2)]))
    names = [(6, 2, Kind.SCHEDULED, ""), (5, 1, Kind.SCHEDULED, ""), (5, 1, Kind.TRIGGER, "")]
    found = store.read(lambda tx: tx.named(OCCURRENCES, names))
    assert [(name, row.instant, row.job) for name, row in found.items()] == [(names[0], 6, 2), (names[1], 5, 1)]


def test_a_transaction_sees_what_it_has_written(store: Opened) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.add(ACTIVE, active((1, 1), (1, 2)))
        tx.remove(ACTIVE, [(1, 1)])
        tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=2, due_at=5)])
        return [tx.get(ACTIVE, [(1, 1)]), *tx.scan(ACTIVE, limit=10)]

    assert store.write(work) == [{}, sample(ACTIVE, job=1, ref=2, due_at=5)]


def test_time_stands_still_in_a_transaction_and_is_not_before_the_last(store: Opened) -> None:
    first, again = store.write(lambda tx: (tx.now(), tx.now()))
    assert first == again
    assert store.write(lambda tx: tx.now()) >= first > 0


def test_the_gate_lets_work_pass_alone_and_together(store: Opened) -> None:
    def work(tx: Transaction) -> int:
        tx.gate(exclusive=True)
        return len(tx.add(ACTIVE, active((1, 1))))

    assert store.write(work) == 1

    def look(tx: Transaction) -> int:
        tx.gate()
        return len(tx.scan(ACTIVE, limit=5))

    assert store.read(look) == 1


# -- put, save, remove ------------------------------------------------------------------------------------------------


def test_rows_that_are_known_to_be_new_are_inserted(store: Opened) -> None:
    rows = active((1, 1), (1, 2), (2, 1))
    store.write(lambda tx: tx.insert(ACTIVE, rows))
    store.write(lambda tx: tx.insert(ACTIVE, []))
    assert everything(store, ACTIVE) == rows


def test_put_writes_over_what_is_there(store: Opened) -> None:
    slots = [sample(OVERLAP_SLOTS, job=job, ref=job, fence=1) for job in range(5)]
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, slots))
    changed = [sample(OVERLAP_SLOTS, job=3, fence=2), sample(OVERLAP_SLOTS, job=9, ref=9)]
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, changed))
    assert everything(store, OVERLAP_SLOTS) == [slots[0], slots[1], slots[2], changed[0], slots[4], changed[1]]


def test_put_can_take_a_value_away_and_bring_one(store: Opened) -> None:
    both = [sample(OVERLAP_SLOTS, job=1, ref=5), sample(OVERLAP_SLOTS, job=2, ref=None)]
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, both))
    swapped = [sample(OVERLAP_SLOTS, job=1, ref=None), sample(OVERLAP_SLOTS, job=2, ref=7)]
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, swapped))
    assert everything(store, OVERLAP_SLOTS) == swapped


def test_rows_that_are_nothing_but_a_key_can_be_put_again(store: Opened) -> None:
    rows = [sample(WAITING, due_at=1, ref=1), sample(WAITING, due_at=1, ref=2)]
    store.write(lambda tx: tx.put(WAITING, rows))
    store.write(lambda tx: tx.put(WAITING, rows))
    store.write(lambda tx: tx.put(LIMITS, [sample(LIMITS, name="api")]))
    assert everything(store, WAITING) == rows
    assert everything(store, LIMITS) == [sample(LIMITS, name="api")]


def test_save_changes_the_named_columns(store: Opened) -> None:
    created = store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(n, owner=3, reason="old") for n in range(300)]))
    changed = [
        msgspec.structs.replace(
            row,
            status=OccurrenceState.RUNNING,
            is_recovery=True,
            started_at=row.instant if row.instant % 2 else None,
            owner=None,
        )
        for row in created
    ]
    columns = ["status", "is_recovery", "started_at", "owner"]

    def work(tx: Transaction) -> None:
        tx.lock(OCCURRENCES, [(row.ref,) for row in changed])
        tx.save(OCCURRENCES, changed, columns)

    store.write(work)
    assert everything(store, OCCURRENCES) == changed


def test_save_of_part_of_a_composite_key_table_leaves_its_neighbours(store: Opened) -> None:
    rows = active((1, 1), (1, 2), (2, 1))
    store.write(lambda tx: tx.add(ACTIVE, rows))
    changed = sample(ACTIVE, job=1, ref=2, due_at=5)

    def work(tx: Transaction) -> None:
        tx.lock(ACTIVE, [(1, 2)])
        tx.save(ACTIVE, [changed], ["due_at"])

    store.write(work)
    assert everything(store, ACTIVE) == [rows[0], changed, rows[2]]


@pytest.mark.parametrize(
    ("prefixes", "left"),
    [
        ([(1,)], [(2, 1), (2, 2), (3, 1)]),
        ([(1, 2), (2, 1), (9, 9)], [(1, 1), (1, 10), (2, 2), (3, 1)]),
        ([(2,), (1, 1), (2, 2)], [(1, 2), (1, 10), (3, 1)]),
        ([()], []),
        ([(1, 1), ()], []),
        ([], [(1, 1), (1, 2), (1, 10), (2, 1), (2, 2), (3, 1)]),
    ],
)
def test_remove_deletes_everything_below_its_prefixes(
    store: Opened, prefixes: list[Values], left: list[tuple[int, int]]
) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active((1, 1), (1, 2), (1, 10), (2, 1), (2, 2), (3, 1))))
    store.write(lambda tx: tx.remove(ACTIVE, prefixes))
    assert keys_of(ACTIVE, everything(store, ACTIVE)) == left


def test_a_prefix_of_text_is_a_whole_column_and_not_the_beginning_of_one(store: Opened) -> None:
    rows = [sample(SHARES, name=name, ref=1) for name in ("a", "ab", "a b", "b")]
    store.write(lambda tx: tx.add(SHARES, rows))
    store.write(lambda tx: tx.remove(SHARES, [("a",)]))
    assert [row.name for row in everything(store, SHARES)] == ["a b", "ab", "b"]


def test_a_removed_rows_name_is_free_again(store: Opened) -> None:
    (created,) = store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a")]))
    store.write(lambda tx: tx.remove(JOBS, [(created.number,)]))
    assert store.read(lambda tx: tx.named(JOBS, [("a",)])) == {}
    assert len(store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a")]))) == 1
