"""What is due and undecided is seen in the store, whatever the nodes say."""

from __future__ import annotations

import pytest

from itinerary.errors import StoreError
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.rows import EntryKind
from itinerary.model.settings import Settings
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.observe.health import PROGRESS_MAX, progress_of
from itinerary.observe.store_status import StoreStatus, StoreStatusReader
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import World, played


def lookout(world: World) -> StoreStatusReader:
    return StoreStatusReader(EngineStore(world.engine.engine).read, lambda: None, Settings().node_heartbeat_interval)


async def seen(world: World) -> StoreStatus:
    return await lookout(world).look()


@pytest.mark.spec("U8", "progress")
@pytest.mark.spec("U7", "oldest undecided")
def test_while_a_node_runs_nothing_is_undecided_for_long_and_without_one_everything_is() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("10s"))
        async with world.running(world.node()):
            await world.sleep_until(125)
            found = await seen(world)
            assert found.undecided_for < 10 * SECOND
            assert progress_of(found).ok
            assert found.nodes == 1
        await world.sleep_until(190)
        found = await seen(world)
        assert found.nodes == 0
        assert 55 * SECOND <= found.undecided_for < 70 * SECOND
        await world.sleep_until(200)
        verdict = progress_of(await seen(world))
        assert not verdict.ok
        assert "etl:17746993" in verdict.why
        assert "due and undecided for" in verdict.why

    played(story)


@pytest.mark.spec("U8", "progress")
def test_what_was_claimed_by_a_node_that_hangs_is_undecided() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("1m"))
        async with world.dying(world.node()):
            await world.sleep_until(55)  # it has claimed the next one
        await world.sleep_until(60 + PROGRESS_MAX // SECOND)
        found = await seen(world)
        assert found.oldest is not None
        assert found.oldest.status == "prerun"
        assert not progress_of(found).ok

    played(story)


@pytest.mark.spec("U8", "progress")
def test_what_waits_for_its_turn_is_decided_and_counted_as_waiting() -> None:
    async def story(world: World) -> None:
        overrides = Overrides(overlap=Overlap.QUEUE)
        await world.register("slow", world.task(1_000), schedule=every("10s"), overrides=overrides)
        async with world.running(world.node()):
            await world.sleep_until(120)
            found = await seen(world)
            assert found.in_queue >= 10
            assert progress_of(found).ok

    played(story)


@pytest.mark.spec("U7", "paused")
def test_paused_jobs_are_counted_as_long_as_they_are() -> None:
    async def story(world: World) -> None:
        for name in ("one", "two"):
            await world.register(name, world.task(), schedule=every("1h"))
        look = lookout(world)
        assert (await look.look()).paused == 0
        entry = TimelineEntryRequest(job="one", kind=EntryKind.PAUSE, request="pause", by="test")
        await world.store.amend([entry])
        await world.sleep_until(10)
        assert (await look.look()).paused == 1
        await world.store.amend([TimelineEntryRequest(job="one", kind=EntryKind.RESUME, request="resume", by="test")])
        await world.sleep_until(20)
        assert (await look.look()).paused == 0

    played(story)


def test_a_store_that_is_away_is_an_error_and_not_an_answer() -> None:
    async def story(world: World) -> None:
        world.engine.is_down = True
        with pytest.raises(StoreError, match="is away"):
            await StoreStatusReader(world.store.read, lambda: None, SECOND).look()
        world.engine.is_down, world.engine.takes = False, 60.0
        with pytest.raises(StoreError, match="has not answered for 5 s"):
            await StoreStatusReader(world.store.read, lambda: None, SECOND).look()

    played(story)
