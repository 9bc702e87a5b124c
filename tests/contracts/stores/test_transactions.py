"""What a transaction promises: together or not at all, told when it is committed, finished when it is closed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from itinerary.errors import UnwritableError
from itinerary.stores.engine import Engine
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.tables import (
    ACTIVE,
    ENTRIES,
    JOBS,
    NOTIFICATIONS,
    OVERLAP_SLOTS,
)
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.samples import active, add, everything, keys_of, sample

pytestmark = pytest.mark.spec("D4")


# -- together, or not at all ------------------------------------------------------------------------------------------


class Refused(Exception):
    """What a work raises to be undone."""


def test_nothing_stands_of_work_that_raises(store: Opened) -> None:
    before = active((1, 1), (1, 2), (2, 1))
    store.write(lambda tx: tx.add(ACTIVE, before))
    (job,) = store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="kept")]))

    def work(tx: Transaction) -> None:
        tx.add(ACTIVE, active((3, 1)))
        tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=1, due_at=99)])
        tx.lock(ACTIVE, [(1, 2)])
        tx.save(ACTIVE, [sample(ACTIVE, job=1, ref=2, due_at=99)], ["due_at"])
        tx.remove(ACTIVE, [(2,)])
        tx.remove(JOBS, [(job.number,)])
        tx.add(JOBS, [sample(JOBS, name="new")])
        tx.notify(["news"])
        raise Refused

    with pytest.raises(Refused):
        store.write(work)
    assert everything(store, ACTIVE) == before
    assert everything(store, JOBS) == [job]
    assert everything(store, NOTIFICATIONS) == []
    assert store.read(lambda tx: tx.named(JOBS, [("kept",), ("new",)])) == {("kept",): job}


def test_work_that_raises_takes_nothing_of_its_neighbours_with_it(engine: Engine) -> None:
    def work(number: int) -> Any:
        def add(tx: Transaction) -> int:
            tx.add(ACTIVE, active((number, 1)))
            if number % 3 == 0:
                raise Refused(number)
            return number

        return add

    async def all_at_once() -> tuple[list[Any], list[Any]]:
        async with engine:
            answers = await asyncio.gather(*(engine.write(work(n)) for n in range(30)), return_exceptions=True)
            return list(answers), await engine.read(lambda tx: tx.scan(ACTIVE, limit=100))

    answers, rows = asyncio.run(all_at_once())
    good = [number for number in range(30) if number % 3]
    assert [row.job for row in rows] == good
    assert [answer for answer in answers if isinstance(answer, int)] == good
    assert sorted(error.args[0] for error in answers if isinstance(error, Refused)) == list(range(0, 30, 3))


def test_two_who_change_the_same_row_do_not_lose_a_change(engine: Engine) -> None:
    def raise_it(tx: Transaction) -> None:
        (slot,) = tx.lock(OVERLAP_SLOTS, [(1,)]).values()
        tx.save(OVERLAP_SLOTS, [msgspec.structs.replace(slot, fence=slot.fence + 1)], ["fence"])

    async def many() -> int:
        async with engine:
            await engine.write(lambda tx: tx.put(OVERLAP_SLOTS, [sample(OVERLAP_SLOTS, job=1)]))
            await asyncio.gather(*(engine.write(raise_it) for _ in range(40)))
            (slot,) = await engine.read(lambda tx: tx.scan(OVERLAP_SLOTS, limit=2))
            return slot.fence

    assert asyncio.run(many()) == 40


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    "value",
    [{"request": "lone \ud800 surrogate"}, {"effective_from": 2**63}, {"effective_from": -(2**63) - 1}],
    ids=["surrogate", "too large", "too small"],
)
def test_a_value_that_cannot_be_kept_fails_its_own_work_alone(
    engine: Engine, value: dict[str, Any], count: int
) -> None:
    rows_with_it = [sample(ENTRIES, revision=1, line=line, job=line, **value) for line in range(count)]
    if isinstance(engine, MemoryEngine):
        pytest.skip("memory keeps whatever Python does")

    async def together() -> tuple[list[Any], list[Any]]:
        async with engine:
            works = [
                lambda tx: tx.put(ACTIVE, active((1, 1))),
                lambda tx: (tx.put(ACTIVE, active((2, 1))), tx.put(ENTRIES, rows_with_it)),
                lambda tx: tx.put(ACTIVE, active((3, 1))),
            ]
            answers = await asyncio.gather(*map(engine.write, works), return_exceptions=True)
            return list(answers), await engine.read(lambda tx: tx.scan(ACTIVE, limit=10))

    answers, rows = asyncio.run(together())
    assert [type(answer) for answer in answers] == [type(None), UnwritableError, type(None)]
    assert keys_of(ACTIVE, rows) == [(1, 1), (3, 1)]


# -- tell and watch ---------------------------------------------------------------------------------------------------


def test_telling_counts_up_its_topics(store: Opened) -> None:
    store.write(lambda tx: tx.notify(["b", "a"]))
    store.write(lambda tx: tx.notify(["a"]))
    assert [(row.topic, row.count) for row in everything(store, NOTIFICATIONS)] == [("a", 2), ("b", 1)]


def test_who_watches_hears_what_was_ever_told_and_then_what_is_new(engine: Engine) -> None:
    async def listen() -> list[frozenset[str]]:
        async with engine:
            await engine.write(lambda tx: tx.notify(["old", "older"]))
            heard = []
            async for topics in engine.watch():
                heard.append(topics)
                if len(heard) == 1:
                    await engine.write(lambda tx: tx.notify(["old"]))
                elif len(heard) == 2:
                    await engine.write(lambda tx: tx.notify(["new"]))
                else:
                    break
            return heard

    assert asyncio.run(listen()) == [{"old", "older"}, {"old"}, {"new"}]


# -- opening and closing ----------------------------------------------------------------------------------------------


def test_closing_finishes_what_was_asked_and_can_be_done_twice(engine: Engine) -> None:
    async def close_at_once() -> list[Any]:
        await engine.open()
        writes = [asyncio.ensure_future(engine.write(partial(add, ACTIVE, active((n, 1))))) for n in range(9)]
        await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        return list(await asyncio.gather(*writes))

    assert [len(created) for created in asyncio.run(close_at_once())] == [1] * 9


def test_a_caller_who_is_cancelled_leaves_the_store_as_good_as_it_was(engine: Engine) -> None:
    async def cancel_some() -> int:
        async with engine:
            writes = [asyncio.ensure_future(engine.write(partial(add, ACTIVE, active((n, 1))))) for n in range(20)]
            await asyncio.sleep(0)
            for write in writes[::2]:
                write.cancel()
            done = await asyncio.gather(*writes, return_exceptions=True)
            assert all(isinstance(created, list) for created in done[1::2])
            return len(await engine.write(lambda tx: tx.add(ACTIVE, active((99, 1)))))

    assert asyncio.run(cancel_some()) == 1
