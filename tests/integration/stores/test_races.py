"""Eight who want the same ten thousand occurrences: each has one winner, and nobody hears of an error (D5)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from itinerary.model.queries import ByKeyQuery, DecidedQuery, StoreStatusQuery
from itinerary.model.rows import JobNumber, Key, NodeNumber
from itinerary.model.writes import ClaimRequest
from itinerary.stores import open_store
from itinerary.stores.store import EngineStore
from tests.contracts.stores.desk import Desk
from tests.integration.stores.conftest import Places
from tests.integration.stores.nursery import Nursery
from tests.integration.stores.racing import race, wanted_in
from tests.integration.stores.scale import IS_FULL, SEED, dice

pytestmark = pytest.mark.spec("D5")

ROUNDS, IDS = (100, 10_000) if IS_FULL else (3, 2_000)
RACERS = 8


@asynccontextmanager
async def _racers(url: str) -> AsyncIterator[list[EngineStore]]:
    """Eight stores with a connection each; a file that one process has open is raced for by tasks of that one."""
    async with AsyncExitStack() as stack:
        if url.startswith("postgres"):
            from itinerary.stores.postgres import PostgresEngine  # noqa: PLC0415

            engines = [PostgresEngine(url, connections=1) for _ in range(RACERS)]
            yield [await stack.enter_async_context(EngineStore(engine)) for engine in engines]
        else:
            yield [await stack.enter_async_context(open_store(url))] * RACERS


async def _check(store: EngineStore, wanted: Sequence[ClaimRequest], won: dict[NodeNumber, list[Key]]) -> None:
    all_won = [key for keys in won.values() for key in keys]
    assert len(all_won) == len(wanted)
    assert set(all_won) == {item.key for item in wanted}
    there = await store.read(DecidedQuery(wanted[0].key.instant, wanted[-1].key.instant + 1))
    assert len(there) == len(wanted)
    for node, keys in won.items():
        rows = await store.read(ByKeyQuery(tuple(keys)))
        assert {row.owner for row in rows.values()} <= {node}


@pytest.mark.parametrize("places", ["sqlite", "lmdb", "postgres"], indirect=True)
def test_of_eight_who_want_the_same_occurrences_each_has_one_winner(places: Places) -> None:
    async def main() -> None:
        async with _racers(places()) as stores:
            desk = Desk(stores[0], stores[0]._engine)
            job = await desk.job()
            nodes = [await desk.node(f"{number}") for number in range(RACERS)]
            for number in range(ROUNDS):
                wanted = wanted_in(number, job, IDS)
                chances = [dice(number, racer) for racer in range(RACERS)]
                won = await asyncio.gather(
                    *[race(*who) for who in zip(stores, nodes, [wanted] * RACERS, chances, strict=True)]
                )
                await _check(stores[0], wanted, dict(zip(nodes, won, strict=True)))

    asyncio.run(main())


def _race_in_a_loop(
    store: EngineStore, wanted: list[ClaimRequest], node: NodeNumber, chance: random.Random
) -> list[Key]:
    return asyncio.run(race(store, node, wanted, chance))


async def _from_threads(
    racing: Callable[[NodeNumber, random.Random], list[Key]], racers: Sequence[tuple[NodeNumber, random.Random]]
) -> list[list[Key]]:
    return await asyncio.gather(*[asyncio.to_thread(racing, *racer) for racer in racers])


def test_eight_event_loops_in_threads_of_their_own_win_each_occurrence_once(tmp_path: Path) -> None:
    """The same on SQLite, from eight threads: a store may be asked from any loop."""

    async def prepare(store: EngineStore) -> tuple[JobNumber, list[NodeNumber]]:
        desk = Desk(store, store._engine)
        return await desk.job(), [await desk.node(f"{number}") for number in range(RACERS)]

    with asyncio.Runner() as runner:
        store = open_store(f"sqlite:///{tmp_path}/store")
        runner.run(store.open())
        job, nodes = runner.run(prepare(store))
        for number in range(max(1, ROUNDS // 10)):
            wanted = wanted_in(number, job, IDS)
            chances = [dice(number, racer) for racer in range(RACERS)]

            racing = partial(_race_in_a_loop, store, wanted)
            won = runner.run(_from_threads(racing, list(zip(nodes, chances, strict=True))))
            runner.run(_check(store, wanted, dict(zip(nodes, won, strict=True))))
        runner.run(store.close())


@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
def test_processes_that_want_the_same_occurrences_win_each_once(places: Places, nursery: Nursery) -> None:
    url = places()
    processes, count = 4, IDS

    async def prepare() -> tuple[JobNumber, list[NodeNumber]]:
        async with open_store(url) as store:
            desk = Desk(store, store._engine)
            return await desk.job(), [await desk.node(f"{number}") for number in range(processes)]

    async def check(wanted: list[ClaimRequest], won: dict[NodeNumber, list[Key]]) -> None:
        async with open_store(url) as store:
            await _check(store, wanted, won)
            assert (await store.read(StoreStatusQuery())).revision == 1

    job, nodes = asyncio.run(prepare())
    for number in range(max(1, ROUNDS // 10)):
        lives = [
            nursery.born("race", url, node=node, job=job, round_number=number, count=count, seed=f"{SEED} {node}")
            for node in nodes
        ]
        for life in lives:
            life.word("ready")
        for life in lives:
            life.say(go=True)
        won = {node: [Key(*key) for key in life.word("won")] for node, life in zip(nodes, lives, strict=True)}
        assert [life.end() for life in lives] == [0] * processes
        asyncio.run(check(wanted_in(number, job, count), won))
