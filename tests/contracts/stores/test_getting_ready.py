"""Getting ready goes through everything once, and leaves nothing."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.model.queries import Active, Jobs, Nodes, Standing
from itinerary.stores import ledger
from itinerary.stores.base import Engine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ALL, OCCURRENCES
from itinerary.stores.transaction import Transaction


def contents(tx: Transaction) -> dict[str, list[object]]:
    return {table.title: list(tx.scan(table, limit=10_000)) for table in ALL}


def test_a_store_that_got_ready_holds_what_it_held_and_numbers_go_on_as_before(engine: Engine) -> None:
    async def story() -> None:
        store = EngineStore(engine)
        await store.open()
        first = await store.join("first", "first", "{}")
        before = await engine.read(contents)
        await store.get_ready()
        await store.get_ready()
        assert await engine.read(contents) == before
        assert await store.join("second", "second", "{}") == first + 1
        await store.close()

    asyncio.run(story())


@pytest.mark.parametrize("count", [1, 3, 853])
def test_a_rehearsal_goes_from_the_claim_to_the_end_and_is_undone_on_every_store(engine: Engine, count: int) -> None:
    async def story() -> None:
        store = EngineStore(engine)
        await store.open()
        seen: list[int] = []

        def rehearse(tx: Transaction) -> None:
            try:
                ledger.rehearse(tx, count)
            finally:
                seen.append(sum(row.status == "completed" for row in tx.scan(OCCURRENCES, limit=10_000)))

        with pytest.raises(ledger.Rehearsed):
            await engine.write(rehearse)
        assert seen == [count]
        assert (await store.read(Standing())).revision == 0
        assert [await store.read(query) for query in (Jobs(), Nodes(), Active())] == [[], [], []]
        await store.close()

    asyncio.run(story())
