"""A node that cannot keep up says so within half a minute: in its log, to those who watch, and in the store."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from itinerary.core.loop.events import FellBehind, SchedulerEvent
from itinerary.model.overload import Bottleneck, OverloadExtent
from itinerary.model.queries import NodesQuery
from itinerary.runtime.overload_monitor import CpuUsed, measure_cpu
from itinerary.runtime.store_use import StoreUse
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played

WITHIN = 30.0
"""Seconds in which a node has to say it."""


async def told(world: World) -> dict[str, Any] | None:
    """What the store knows of the node's trouble."""
    (row,) = await world.store.read(NodesQuery())
    about: dict[str, Any] = json.loads(row.about)
    return about.get("behind")


@pytest.mark.spec("N7")
@pytest.mark.spec("U8", "overload says so")
def test_a_node_without_slots_for_what_is_due_says_so_and_what_it_lacks() -> None:
    async def story(world: World) -> None:
        heard: list[OverloadExtent | None] = []

        def observe(news: Any) -> None:
            heard.extend(item.behind for item in news if isinstance(item, FellBehind))

        await world.register("long", world.task(takes=60.0), schedule=every("1h"))
        await world.register("tick", world.task(), schedule=every("2s"))
        node = world.node("a", max_concurrent_jobs=1, observer=observe)
        async with world.running(node):
            await world.until(lambda: "long 1" in world.began)
            began = world.loop.time()
            await world.until(lambda: bool(world.log.said("node.behind")), WITHIN)
            assert world.loop.time() - began <= WITHIN
            (said,) = world.log.said("node.behind")
            assert said["bottleneck"] == "slots"
            assert said["by_seconds"] >= 5
            assert said["waiting"] >= 3
            assert node.behind is not None
            assert heard[-1] == node.behind
            await world.until(lambda: world.loop.time() >= began + WITHIN)
            in_store = await told(world)
            assert in_store is not None
            assert in_store["bottleneck"] == "slots"
            assert len(world.log.said("node.behind")) == 1, "at a bounded rate"
            await world.until(lambda: bool(world.log.said("node.on_time_again")), 120.0)
            assert node.behind is None
            assert heard.count(None) == 1
            assert heard[-1] is None
            await world.until(lambda: world.loop.time() >= began + 120.0, 200.0)
            assert await told(world) is None

    played(story)


@pytest.mark.spec("N7")
@pytest.mark.spec("U8", "overload says so")
def test_a_node_whose_store_is_slow_names_the_store() -> None:
    async def story(world: World) -> None:
        for number in range(3):
            await world.register(f"tick{number}", world.task(), schedule=every("1s"))
        node = world.node("a")
        async with world.running(node):
            await world.sleep_until(5.0)
            assert not world.log.said("node.behind")
            world.engine.takes = 8.0
            await world.until(lambda: bool(world.log.said("node.behind")), WITHIN)
            assert world.log.said("node.behind")[0]["bottleneck"] == "store"
            world.engine.takes = 0.0
            await world.until(lambda: bool(world.log.said("node.on_time_again")), 300.0)

    played(story)


@pytest.mark.spec("N7")
@pytest.mark.spec("U8", "overload says so")
def test_a_node_that_keeps_up_says_nothing() -> None:
    async def story(world: World) -> None:
        heard: list[SchedulerEvent] = []
        for number in range(5):
            await world.register(f"tick{number}", world.task(takes=0.5), schedule=every("1s"))
        async with world.running(world.node("a", observer=heard.extend)):
            await world.sleep_until(90.0)
        assert not world.log.said("node.behind")
        assert not [item for item in heard if isinstance(item, FellBehind)]

    played(story)


def test_the_cpu_of_a_busy_thread_is_measured() -> None:
    async def measured() -> tuple[CpuUsed, CpuUsed]:
        before = await measure_cpu()
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        return before, await measure_cpu()

    before, after = asyncio.run(measured())
    assert after.thread - before.thread >= 0.04 * SECOND
    assert after.process - before.process >= 0.04 * SECOND


def test_calls_to_the_store_that_overlap_count_once() -> None:
    now = [0]
    use = StoreUse(lambda: now[0])
    with use.call():
        now[0] = 3
        with use.call():
            now[0] = 5
        assert use.total == 5, "the one in progress included"
        now[0] = 6
    now[0] = 10
    assert use.total == 6


def test_the_cause_is_unknown_where_nothing_was_used_up() -> None:
    assert OverloadExtent(0, 6 * SECOND, 2, Bottleneck.UNKNOWN).sentence.startswith(
        "6 s behind since 1970-01-01T00:00:00Z: the cause is unknown"
    )
