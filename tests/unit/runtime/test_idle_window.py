"""A lull: what can be done at any time begins when the loop has nothing to do; but it does not wait for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.settings import Settings
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.idle_window import IdleWindow
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.index_builder import IndexBuilder
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, here, played


async def waited(world: World, lull: IdleWindow, *begins: tuple[float, float]) -> float:
    """For how many seconds somebody waits, while the loop says at these times that it has nothing to do for so long."""
    begun = world.loop.time()
    waits = asyncio.create_task(lull.comes())
    for at, seconds in begins:
        await asyncio.sleep(at - (world.loop.time() - begun))
        lull.begin(seconds)
    await waits
    return round(world.loop.time() - begun, 6)


@pytest.mark.spec("P4", "starts before what can wait")
def test_who_comes_in_a_lull_does_not_wait() -> None:
    async def story(world: World) -> None:
        lull = IdleWindow(world.elapsed)
        lull.begin(1.0)
        assert await waited(world, lull) == 0.0

    played(story)


@pytest.mark.spec("P4", "starts before what can wait")
def test_who_comes_while_the_loop_is_busy_waits_until_it_is_not() -> None:
    async def story(world: World) -> None:
        lull = IdleWindow(world.elapsed)
        lull.begin(0.0)
        assert await waited(world, lull, (0.2, 0.0), (0.4, 0.6)) == 0.4

    played(story)


@pytest.mark.spec("P4", "starts before what can wait")
def test_what_is_left_of_a_lull_must_be_long_enough() -> None:
    async def story(world: World) -> None:
        lull = IdleWindow(world.elapsed)
        lull.begin(0.5)
        await asyncio.sleep(0.4)
        assert await waited(world, lull, (0.1, 0.2), (0.3, 0.7)) == 0.3

    played(story)


@pytest.mark.spec("P4", "starts before what can wait")
def test_nobody_waits_for_longer_than_a_second_however_busy_the_loop_is() -> None:
    async def story(world: World) -> None:
        lull = IdleWindow(world.elapsed)
        assert await waited(world, lull, (0.3, 0.0), (0.6, 0.1)) == 1.0

    played(story)


class Asked:
    """A builder whose lull comes when the test says so."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.lull = asyncio.Event()
        clock = StoreClock(world.elapsed)
        clock.observe(world.now())
        self.builder = IndexBuilder(
            world.store,
            Settings(**settings),
            clock,
            Inbox(1_000, SECOND, world.log),
            PlanCache(Timeline()),
            elsewhere=here,
            log=world.log,
            lull=self._comes,
        )

    async def _comes(self) -> None:
        await self.lull.wait()


@pytest.mark.spec("P4", "starts before what can wait")
@pytest.mark.spec("I3", "rebuilt at once when jobs change")
def test_an_index_whose_time_has_come_waits_for_a_lull_and_one_that_is_wanted_at_once_does_not() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"))
        scene = Asked(world, index_rebuild_interval=60 * SECOND)
        running = asyncio.create_task(scene.builder.run())

        def built() -> list[str]:
            return [line["why"] for line in world.log.said("index.rebuilt")]

        await asyncio.sleep(61.0)
        assert built() == [], "its time has come, and it waits"
        scene.builder.rebuild("jobs have changed")
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.1)
        assert built() == ["jobs have changed"]
        await asyncio.sleep(61.0)
        scene.lull.set()
        await asyncio.sleep(0.1)
        assert built() == ["jobs have changed", "its time has come"]
        running.cancel()
        await asyncio.wait([running])

    played(story)
