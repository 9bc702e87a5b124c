"""`swap`: rows that are as they should be are changed, and the others are not, however many there are."""

from __future__ import annotations

import pytest

from itinerary.model.states import OccurrenceState
from itinerary.stores.tables import OCCURRENCES, OVERLAP_SLOTS, Values
from itinerary.stores.transaction import ConditionalUpdate
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.samples import everything, occurrence, sample

pytestmark = pytest.mark.spec("D4")

FREE = {"ref": None, "has_queue": False}


def filled(store: Opened, count: int, **values: object) -> list[Values]:
    """So many slots, and their keys."""
    rows = [
        sample(OVERLAP_SLOTS, job=job, **{"ref": None, "fence": 0, "has_queue": False, **values})
        for job in range(count)
    ]
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, rows))
    return [(job,) for job in range(count)]


@pytest.mark.parametrize("count", [1, 5, 700])
def test_all_that_are_as_they_should_be_are_changed_each_with_its_own_value(store: Opened, count: int) -> None:
    keys = filled(store, count)
    swap = ConditionalUpdate(FREE, {"fence": 1}, each={"ref": [1_000 + job for (job,) in keys]})
    assert list(store.write(lambda tx: tx.swap(OVERLAP_SLOTS, keys, swap))) == keys
    assert [(row.job, row.ref, row.fence) for row in everything(store, OVERLAP_SLOTS)] == [
        (job, 1_000 + job, 1) for job in range(count)
    ]


@pytest.mark.parametrize("count", [3, 700])
def test_those_that_are_not_stay_as_they_are_and_each_gets_its_own_value_all_the_same(
    store: Opened, count: int
) -> None:
    keys = filled(store, count)
    store.write(lambda tx: tx.put(OVERLAP_SLOTS, [sample(OVERLAP_SLOTS, job=1, ref=7, fence=3, has_queue=True)]))
    swap = ConditionalUpdate(FREE, {"fence": 1}, each={"ref": [1_000 + job for (job,) in keys]})
    changed = store.write(lambda tx: tx.swap(OVERLAP_SLOTS, keys, swap))
    assert list(changed) == [key for key in keys if key != (1,)]
    rows = {row.job: (row.ref, row.fence, row.has_queue) for row in everything(store, OVERLAP_SLOTS)}
    assert rows == {job: (1_000 + job, 1, False) for job in range(count)} | {1: (7, 3, True)}


def test_what_is_not_there_is_not_made(store: Opened) -> None:
    keys = filled(store, 2)
    assert (
        list(store.write(lambda tx: tx.swap(OVERLAP_SLOTS, [*keys, (99,)], ConditionalUpdate(FREE, {"fence": 5}))))
        == keys
    )
    assert [(row.job, row.fence) for row in everything(store, OVERLAP_SLOTS)] == [(0, 5), (1, 5)]
    assert list(store.write(lambda tx: tx.swap(OVERLAP_SLOTS, [], ConditionalUpdate(FREE, {"fence": 6})))) == []


def test_where_none_is_as_it_should_be_nothing_is_changed(store: Opened) -> None:
    keys = filled(store, 3, ref=7)
    swap = ConditionalUpdate(FREE, {"fence": 5}, each={"ref": [1, 2, 9]})
    assert list(store.write(lambda tx: tx.swap(OVERLAP_SLOTS, keys, swap))) == []
    assert [(row.ref, row.fence) for row in everything(store, OVERLAP_SLOTS)] == [(7, 0)] * 3


@pytest.mark.parametrize("own", [[10, 11, 12], [10, 12, 11], [-1, 0, 1], [5, None, 7], [None, None, None]])
def test_values_of_each_are_its_own_however_they_lie_to_the_keys(store: Opened, own: list[int | None]) -> None:
    keys = filled(store, 3, ref=99)
    store.write(lambda tx: tx.swap(OVERLAP_SLOTS, keys, ConditionalUpdate({"ref": 99}, {}, each={"ref": own})))
    assert [row.ref for row in everything(store, OVERLAP_SLOTS)] == own


def test_states_nothing_and_bounds_are_compared_and_nothing_can_be_set(store: Opened) -> None:
    prerun, running = OccurrenceState.PRERUN, OccurrenceState.RUNNING
    rows = [
        occurrence(10, 1, status=prerun, owner=4, due_at=10),
        occurrence(20, 2, status=prerun, owner=4, due_at=20),
        occurrence(10, 3, status=prerun, owner=None, due_at=10),
        occurrence(10, 4, status=running, owner=4, due_at=10),
        occurrence(10, 5, status=prerun, owner=4, due_at=10, started_at=0),
    ]
    created = store.write(lambda tx: tx.add(OCCURRENCES, rows))
    keys = sorted((row.ref,) for row in created)
    was = {"status": prerun, "owner": 4, "started_at": None}
    swap = ConditionalUpdate(was, {"status": running, "reason": None, "started_at": 15}, up_to={"due_at": 15})
    (changed,) = store.write(lambda tx: tx.swap(OCCURRENCES, keys, swap))
    by_job = {row.job: row for row in everything(store, OCCURRENCES)}
    assert changed == (by_job[1].ref,)
    assert (by_job[1].status, by_job[1].started_at, by_job[1].reason) == (running, 15, None)
    assert [by_job[job].status for job in (2, 3, 4, 5)] == [prerun, prerun, running, prerun]


def test_what_was_swapped_is_what_the_same_transaction_and_the_next_one_find(store: Opened) -> None:
    keys = filled(store, 3)
    store.write(lambda tx: tx.lock(OVERLAP_SLOTS, keys))  # who remembers rows knows these by now
    store.write(lambda tx: tx.swap(OVERLAP_SLOTS, keys, ConditionalUpdate(FREE, {"fence": 1}, each={"ref": [5, 6, 7]})))
    store.write(lambda tx: tx.swap(OVERLAP_SLOTS, keys[1:], ConditionalUpdate({"fence": 1}, {"fence": 2})))
    found = store.write(lambda tx: tx.lock(OVERLAP_SLOTS, keys))
    assert [(row.ref, row.fence) for row in found.values()] == [(5, 1), (6, 2), (7, 2)]


def test_a_swap_is_undone_with_its_transaction(store: Opened) -> None:
    keys = filled(store, 3)
    before = everything(store, OVERLAP_SLOTS)

    def fails(tx: object) -> None:
        tx.swap(OVERLAP_SLOTS, keys, ConditionalUpdate(FREE, {"fence": 9}))  # type: ignore[attr-defined]  # a transaction
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        store.write(fails)
    assert everything(store, OVERLAP_SLOTS) == before
    assert [row.fence for row in store.write(lambda tx: tx.lock(OVERLAP_SLOTS, keys)).values()] == [0, 0, 0]
