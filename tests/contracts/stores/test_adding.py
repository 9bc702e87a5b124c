"""Create if absent: of all who want the same key or name, exactly one gets it (D5)."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from itinerary.stores.engine import Engine
from itinerary.stores.tables import (
    ACTIVE,
    EVENTS,
    JOBS,
    OCCURRENCES,
)
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.samples import active, add, event, everything, keys_of, occurrence, sample

pytestmark = pytest.mark.spec("D4")


@pytest.mark.spec("D5")
def test_add_tells_what_was_new_from_what_was_there(store: Opened) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active((1, 2))))
    other = sample(ACTIVE, job=1, ref=2, due_at=99)
    created = store.write(lambda tx: tx.add(ACTIVE, [*active((1, 3)), other, *active((1, 1))]))
    assert keys_of(ACTIVE, created) == [(1, 1), (1, 3)]
    assert everything(store, ACTIVE) == active((1, 1), (1, 2), (1, 3)), "what was there is left alone"


@pytest.mark.spec("D5")
def test_of_two_rows_with_one_key_in_one_batch_the_first_is_created(store: Opened) -> None:
    first, second = (sample(ACTIVE, job=1, ref=1, due_at=due) for due in (5, 4))
    assert store.write(lambda tx: tx.add(ACTIVE, [first, second])) == [first]
    assert everything(store, ACTIVE) == [first]


@pytest.mark.spec("D5")
def test_a_name_that_is_taken_is_as_good_as_a_key(store: Opened) -> None:
    there = event("s", "a", 1)
    store.write(lambda tx: tx.add(EVENTS, [there]))
    new = [event("s", "b", 1), event("s", "b", 2), event("s", "c", 2), event("t", "b", 1)]
    created = store.write(lambda tx: tx.add(EVENTS, new))
    assert keys_of(EVENTS, created) == [("s", "b", 2), ("t", "b", 1)]
    assert len(everything(store, EVENTS)) == 3


@pytest.mark.spec("D5")
def test_numbers_are_given_out_in_the_order_of_names(store: Opened) -> None:
    rows = [occurrence(instant, ref=77) for instant in (30, 10, 20)]
    created = store.write(lambda tx: tx.add(OCCURRENCES, rows))
    assert [row.instant for row in created] == [10, 20, 30]
    refs = [row.ref for row in created]
    assert refs == sorted(set(refs))
    assert everything(store, OCCURRENCES) == created


@pytest.mark.spec("D5")
def test_a_race_for_a_name_has_one_winner_whatever_the_number_says(store: Opened) -> None:
    (first,) = store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(10, ref=1)]))
    batch = [occurrence(10, ref=5), occurrence(20, ref=1, priority=1), occurrence(20, ref=2, priority=2), occurrence(5)]
    created = store.write(lambda tx: tx.add(OCCURRENCES, batch))
    assert [(row.instant, row.priority) for row in created] == [(5, 0), (20, 1)]
    assert len({first.ref, *(row.ref for row in created)}) == 3
    assert len(everything(store, OCCURRENCES)) == 3


def test_a_number_is_never_given_out_twice_even_when_its_row_is_gone(store: Opened) -> None:
    seen: set[int] = set()
    for _ in range(3):
        created = store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a"), sample(JOBS, name="b")]))
        numbers = {row.number for row in created}
        assert len(numbers) == 2
        assert not numbers & seen
        seen |= numbers
        store.write(lambda tx: tx.remove(JOBS, [(row.number,) for row in created]))  # noqa: B023 - run before the next


@pytest.mark.spec("D5")
def test_of_many_who_add_the_same_names_each_name_has_one_winner(engine: Engine) -> None:
    names = [f"job {number:03}" for number in range(40)]

    async def race() -> list[list[str]]:
        async with engine:
            rows = [sample(JOBS, name=name) for name in names]
            orders = [rows[start:] + rows[:start] for start in range(0, 40, 2)]
            created = await asyncio.gather(*(engine.write(partial(add, JOBS, order)) for order in orders))
            return [[row.name for row in mine] for mine in created]

    won = asyncio.run(race())
    assert sorted(name for mine in won for name in mine) == names
