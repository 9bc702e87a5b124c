"""The watchdog: says who blocks the loop of the tasks, once, and when it is over."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.runtime.watchdog import Watchdog
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played


@pytest.mark.spec("X4", "a blocked loop is noticed")
def test_a_blockade_is_named_once_when_it_is_noticed_and_once_when_it_is_over() -> None:
    async def story(world: World) -> None:
        def blocked_for() -> tuple[int, str | None]:
            since = round(world.loop.time() * SECOND) - 10 * SECOND
            return (since, "etl/crunch, attempt 1") if 0 < since < 30 * SECOND else (0, None)

        task = asyncio.create_task(Watchdog(blocked_for, world.log).run())
        await asyncio.sleep(60.0)
        task.cancel()
        (blocked,) = world.log.said("loop.blocked")
        assert (blocked["task"], blocked["seconds"]) == ("etl/crunch, attempt 1", 2)
        assert "await" in blocked["hint"]
        assert world.log.said("loop.free_again") == [{"task": "etl/crunch, attempt 1", "seconds": 29}]

    played(story)


@pytest.mark.spec("X4", "a blocked loop is noticed")
def test_a_loop_that_is_busy_for_a_moment_is_nobodys_concern() -> None:
    async def story(world: World) -> None:
        task = asyncio.create_task(Watchdog(lambda: (2 * SECOND - 1, "etl/crunch"), world.log).run())
        await asyncio.sleep(60.0)
        task.cancel()
        assert world.log.lines == []

    played(story)


@pytest.mark.spec("X4", "a blocked loop is noticed")
def test_two_blockades_are_told_apart() -> None:
    async def story(world: World) -> None:
        def blocked_for() -> tuple[int, str | None]:
            return (5 * SECOND, f"job {world.loop.time() // 10:.0f}") if world.loop.time() % 10 < 5 else (0, None)

        task = asyncio.create_task(Watchdog(blocked_for, world.log).run())
        await asyncio.sleep(19.5)
        task.cancel()
        assert [line["task"] for line in world.log.said("loop.blocked")] == ["job 0", "job 1"]
        assert [line["task"] for line in world.log.said("loop.free_again")] == ["job 0", "job 1"]

    played(story)
