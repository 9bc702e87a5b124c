"""Getting ready goes through everything once, and leaves nothing."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from itinerary.model.queries import ActiveQuery, JobsQuery, NodesQuery, StoreStatusQuery
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.engine import Engine
from itinerary.stores.ledger.claim import THE_ONE
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ALL, OCCURRENCES, SWEEP
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import Desk, told


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


@pytest.mark.spec("N6", "a clock that is behind")
@told
async def test_a_store_gets_ready_though_its_clock_is_behind_what_was_swept(desk: Desk) -> None:
    await desk.job()

    def swept_ahead(tx: Transaction) -> None:
        row = tx.lock(SWEEP, [THE_ONE])[THE_ONE]
        tx.put(SWEEP, [replace(row, watermark=tx.now() + 10 * SECOND)])

    await desk.engine.write(swept_ahead)
    await desk.store.get_ready()
    with pytest.raises(ledger.WarmedUp):
        await desk.engine.write(lambda tx: ledger.warm_up(tx, 3))


@pytest.mark.parametrize("count", [1, 3, 853])
def test_a_test_node_goes_from_the_claim_to_the_end_and_is_undone_on_every_store(engine: Engine, count: int) -> None:
    async def story() -> None:
        store = EngineStore(engine)
        await store.open()
        seen: list[int] = []

        def start_node(tx: Transaction) -> None:
            try:
                ledger.warm_up(tx, count)
            finally:
                seen.append(sum(row.status == "completed" for row in tx.scan(OCCURRENCES, limit=10_000)))

        with pytest.raises(ledger.WarmedUp):
            await engine.write(start_node)
        assert seen == [2 * count]  # plainly, and the long way
        assert (await store.read(StoreStatusQuery())).revision == 0
        assert [await store.read(query) for query in (JobsQuery(), NodesQuery(), ActiveQuery())] == [[], [], []]
        await store.close()

    asyncio.run(story())
