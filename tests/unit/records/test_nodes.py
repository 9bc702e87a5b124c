"""Several nodes with one desk (E7, E8): who holds what, who takes over, and what the absence of the store does."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.model.events import NewEvent
from itinerary.model.queries import PartitionsQuery
from itinerary.model.rows import NodeNumber
from itinerary.model.writes import Refusal
from itinerary.records.partition_assignment import share_of
from itinerary.records.worker import RecordWorker
from tests.unit.records.office import Office
from tests.unit.runtime.world import World, played

HOTELS = [f"hotel {number}" for number in range(300)]


# -- shares ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E8")
@given(st.integers(0, 60), st.sets(st.integers(1, 1_000), min_size=1, max_size=7))
def test_every_partition_is_one_nodes_share_and_shares_differ_by_one_at_most(count: int, numbers: set[int]) -> None:
    nodes = [NodeNumber(number) for number in numbers]
    names = [f"partition {number}" for number in range(count)]
    shares = [share_of(node, nodes, names) for node in nodes]
    assert sorted(name for share in shares for name in share) == sorted(names)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.spec("E8")
def test_when_a_node_goes_most_of_what_the_others_have_stays_where_it_is() -> None:
    nodes = [NodeNumber(number) for number in (3, 7, 8, 12)]
    before = {node: share_of(node, nodes, HOTELS) for node in nodes}
    after = {node: share_of(node, nodes[:-1], HOTELS) for node in nodes[:-1]}
    moved = sum(len(before[node] - after[node]) for node in after)
    assert moved < 300 * 0.25, "and not all of them"


# -- leases ------------------------------------------------------------------------------------------------------------


async def holders(office: Office) -> Counter[int]:
    rows = await office.truth.read(PartitionsQuery("folio"))
    now = office.world.now()
    return Counter(row.holder for row in rows if row.holder is not None and row.lease_until > now)


async def open_hotels(office: Office) -> None:
    for hotel in HOTELS:
        await office.say("RecordCreated", f"first of {hotel}", hotel=hotel)


@pytest.mark.spec("E8")
def test_three_nodes_share_three_hundred_partitions_within_ten_percent() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        await open_hotels(office)
        clerks = [await office.worker() for _ in range(3)]
        async with office.running(*clerks), office.ticking(clerks[0]):
            await asyncio.sleep(31)
            shares = await holders(office)
            assert sum(shares.values()) == 300
            assert all(90 <= count <= 110 for count in shares.values()), shares
            assert len(office.handled) == 300

    played(story)


@pytest.mark.spec("E8")
def test_a_node_that_comes_is_given_its_share() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        await open_hotels(office)
        first, second = await office.worker(), None
        async with office.running(first):
            await asyncio.sleep(5)
            assert await holders(office) == {first._environment.node: 300}
            second = await office.worker()
            async with office.running(second):
                await asyncio.sleep(25)
                assert sorted((await holders(office)).values()) == [150, 150]
                await office.say("RecordCreated", *(f"later {number}" for number in range(50)), hotel="hotel 7")
                await first.cycle()
                await second.cycle()
                await first.drained()
                await second.drained()
            await asyncio.sleep(1)
            assert await holders(office) == {first._environment.node: 300}, "what is given back is taken at once"
        assert Counter(row.record for row in await office.log("RecordQueued")).most_common(1)[0][1] == 1

    played(story)


@pytest.mark.spec("E8")
def test_a_killed_nodes_partitions_are_served_by_the_others_within_its_lease_time() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        await open_hotels(office)
        clerks = [await office.worker() for _ in range(3)]
        victim, *others = clerks
        async with office.running(*others), office.ticking(others[0], each=1.0):
            async with office.running(victim, is_killed=True):
                await asyncio.sleep(25)
            killed_at = world.loop.time()
            abandoned = [row.partition for row in await office.truth.read(PartitionsQuery("folio")) if row.holder == 1]
            assert len(abandoned) == 100
            for hotel in abandoned:
                await office.say("RecordCreated", f"new of {hotel}", hotel=hotel)
            await world.until(lambda: _served(office, abandoned), within=60)
            assert world.loop.time() - killed_at <= 31, "its lease, and the second of a cycle"
            assert sorted((await holders(office)).values()) == [150, 150]

    played(story)


def _served(office: Office, partitions: list[str]) -> bool:
    served = {record for _, _, records in office.handled for record in records}
    return all(f"new of {partition}" in served for partition in partitions)


@pytest.mark.spec("E8")
def test_a_frozen_holder_that_wakes_is_refused_at_its_first_write_and_lets_go() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        frozen = await office.worker()
        await office.say("RecordCreated", "F-1", hotel="lisbon")
        await frozen._holdings.round()  # it holds it, and nothing of it moves from here on
        await frozen._holdings.catch_up()
        await asyncio.sleep(31)
        other = await office.worker()
        async with office.running(other):
            await other.cycle()
            await other.drained()
            assert [row.record for row in await office.log("RecordQueued")] == ["F-1"]
            before = len(await office.log())
            (holding,) = frozen._holdings
            event = NewEvent(kind="RecordQueued", record="F-1", cause="of the frozen one", data='{"batch":"x"}')
            answer = await office.truth.append("folio", "lisbon", [event], holding.lease)
            assert answer is Refusal.LOST
            assert (await frozen.cycle()).queued == 0
            await office.say("RecordCreated", "F-2", hotel="lisbon")
            assert await frozen._holdings.append(holding, [event], "append") is None
            assert frozen.partitions == []
            assert len(await office.log()) == before + 1
        assert world.log.said("records.partition_lost")[0]["partition"] == "lisbon"
        frozen._outage.close()

    played(story)


@pytest.mark.spec("E8")
def test_what_a_frozen_node_has_in_hand_is_cancelled_when_it_finds_out_that_it_lost_it() -> None:
    async def story(world: World) -> None:
        office, ends = Office(world), list[str]()

        async def work(batch: object) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        office.handler = work
        frozen = await office.worker()
        await office.say("RecordCreated", "F-1", hotel="lisbon")
        await frozen.cycle()
        await asyncio.sleep(31)
        other = await office.worker()
        async with office.running(other, is_killed=True):
            await asyncio.sleep(1)
            await office.say("RecordCreated", "F-2", hotel="lisbon")
            await frozen.cycle()  # this is its first write
            await frozen.drained()
        assert "cancelled" in ends
        assert frozen.partitions == []

    played(story)


@pytest.mark.spec("E8")
def test_a_node_that_runs_and_no_longer_renews_its_leases_is_not_counted_on() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        broken = await office.worker()
        for hotel in HOTELS[:10]:
            await office.say("RecordCreated", f"of {hotel}", hotel=hotel)
        await broken._holdings.round()
        other = await office.worker()
        async with office.running(other):
            await asyncio.sleep(31)
            assert len(other.partitions) == 10
            await asyncio.sleep(100)
            assert len(other.partitions) == 10, "and they stay where they are"
        broken._outage.close()

    played(story)


@pytest.mark.spec("E9")
def test_a_tick_on_one_node_is_heard_by_all_of_them() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        await open_hotels(office)
        clerks: list[RecordWorker] = [await office.worker() for _ in range(3)]
        async with office.running(*clerks), office.ticking(clerks[0], each=30.0):
            await asyncio.sleep(25)
            for hotel in HOTELS:
                await office.say("RecordCreated", f"second of {hotel}", hotel=hotel)
            await asyncio.sleep(6)
            assert sum(len(records) for _, _, records in office.handled) == 600
            assert all(worker.figures.per_cycle for worker in clerks)

    played(story)


@pytest.mark.spec("E4", "startup delay")
def test_a_node_runs_its_first_cycle_after_the_startup_delay() -> None:
    async def story(world: World) -> None:
        office = Office(world, startup_delay="5s")
        worker = await office.worker()
        await office.say("RecordCreated", "F-1")
        async with office.running(worker), office.ticking(worker, each=1.0):
            await asyncio.sleep(4.9)
            assert office.handled == []
            await asyncio.sleep(1.2)
            assert len(office.handled) == 1

    played(story)


# -- the store is away -------------------------------------------------------------------------------------------------


@pytest.mark.spec("E7")
def test_ten_minutes_without_the_store_are_one_alert_and_one_notice_and_work_goes_on_where_it_was() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        async with office.running(worker), office.ticking(worker):
            await office.say("RecordCreated", *(f"F-{number}" for number in range(120)))
            await asyncio.sleep(20)
            assert len(office.handled) == 3
            world.engine.is_down = True
            await office.say("RecordCreated", "late")
            await asyncio.sleep(600)
            tries = world.log.said("records.store_unavailable")
            world.engine.is_down = False
            await asyncio.sleep(61)
            assert office.handled[-1] == ("all", 1, ["late"])
        waits = [said["asked_again_in"] for said in tries if said["what"] == "read seats"]
        assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
        assert set(waits[7:]) == {60}
        assert len(world.log.said("records.outage")) == len(world.log.said("records.outage_over")) == 1
        assert world.log.said("records.outage_over")[0]["lasted"] >= 590
        assert [alert.partition(": ")[2][:26] for alert in office.alerts] == [
            "the event store has not an",
            "the event store answers ag",
        ]
        assert worker.figures.outages == 1
        assert len(await office.queued()) == 121

    played(story)


@pytest.mark.spec("E7")
def test_the_alert_comes_a_minute_after_the_first_failure_and_a_short_absence_has_none() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        async with office.running(worker):
            await asyncio.sleep(1)
            world.engine.is_down = True
            asked = asyncio.create_task(worker.cycle())
            await asyncio.sleep(25)
            assert office.alerts == []
            world.engine.is_down = False
            await asked
            await asyncio.sleep(5)
            assert office.alerts == []
            world.engine.is_down = True
            again = asyncio.create_task(worker.cycle())
            await asyncio.sleep(60.1)
            assert len(office.alerts) == 1
            world.engine.is_down = False
            await again
        assert len(office.alerts) == 2

    played(story)
