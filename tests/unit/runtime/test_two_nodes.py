"""Two nodes on one store: what one leaves, the other does, and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

BESIDE_EACH_OTHER = Overrides(overlap=Overlap.ALLOW)


@pytest.mark.spec("N1")
@pytest.mark.parametrize("seed", range(3))
def test_two_nodes_run_each_instant_once(seed: int) -> None:
    async def story(world: World) -> None:
        schedule = every("1s", end="2026-03-28T12:00:40Z")
        for number in range(10):
            await world.register(f"tick{number}", world.task(0.2), schedule=schedule, overrides=BESIDE_EACH_OTHER)
        world.engine.takes = world.engine.answers_after = 0.002
        first, second = world.node("first"), world.node("second")
        async with world.running(first), world.running(second):
            await world.sleep_until(50.0)
        for number in range(10):
            rows = await world.rows(f"tick{number}")
            assert [(row.instant - EPOCH) // SECOND for row in rows] == list(range(41))
            assert {row.status for row in rows} == {OccurrenceState.COMPLETED}
        assert Counter(world.began) == Counter({f"tick{number} 1": 41 for number in range(10)})

    played(story, seed=seed)


@pytest.mark.spec("N3", "shared")
def test_five_nodes_share_the_load_and_hardly_ever_race() -> None:
    async def story(world: World) -> None:
        ran_on: Counter[str] = Counter()

        async def work(ctx: Any) -> None:
            ran_on[ctx.node] += 1

        schedule = every("1s", start="2026-03-28T12:00:30Z", end="2026-03-28T12:01:30Z")
        for number in range(50):
            await world.register(f"tick{number}", work, schedule=schedule)
        nodes = [world.node(f"node {number}") for number in range(5)]
        async with AsyncExitStack() as running:
            for node in nodes:
                await running.enter_async_context(world.running(node))
            await world.sleep_until(100.0)
        assert sum(ran_on.values()) == 50 * 61
        assert all(0.8 <= ran_on[node.name] / (10 * 61) <= 1.2 for node in nodes), ran_on
        assert sum(line["count"] for line in world.log.said("occurrences.lost_to_others")) < 50, "at most once"

    played(story)


@pytest.mark.spec("N3", "without the code")
def test_one_that_lacks_the_code_of_a_job_does_not_make_it_late() -> None:
    async def story(world: World) -> None:
        await world.register("everywhere", world.task(), schedule=every("1s"))
        await world.register("special", world.task(), schedule=every("1s"))
        able = world.node("able")
        unable = world.node("unable", knows=lambda definition: "special" not in str(definition.tasks))
        async with world.running(unable), world.running(able):
            await world.sleep_until(60.0)
        for name in ("everywhere", "special"):
            lateness = [row.started_at - row.due_at for row in await world.rows(name) if row.started_at is not None]
            assert len(lateness) >= 55
            assert max(lateness) <= SECOND // 10
        owners = {row.owner for row in await world.rows("everywhere")}
        assert owners >= {able.number, unable.number}, "they share what both can do"

    played(story)


@pytest.mark.spec("N3")
def test_when_one_dies_the_other_orphans_what_it_ran_and_runs_what_it_had_claimed() -> None:
    async def story(world: World) -> None:
        schedule = every("1s", end="2026-03-28T12:01:00Z")
        await world.register("tick", world.task(0.2), schedule=schedule, overrides=BESIDE_EACH_OTHER)
        await world.register("long", world.task(250.0), schedule=every("1h", start="2026-03-28T12:00:05Z"))
        first, second = world.node("first"), world.node("second")
        async with world.running(first) as run:
            await world.sleep_until(10.5)
            (row,) = await world.rows("long")
            assert (row.status, row.owner) == (OccurrenceState.RUNNING, first.number)
            async with world.running(second):
                await world.sleep_until(20.5)
                first.abandon()
                await asyncio.wait([run])
                await world.sleep_until(24.0)
                (row,) = await world.rows("long")
                assert row.status is OccurrenceState.RUNNING, "it may only be slow"
                await world.sleep_until(45.0)
                (row,) = await world.rows("long")
                assert row.status is OccurrenceState.ORPHANED
                await world.sleep_until(75.0)
        ticks = await world.rows("tick")
        assert [(row.instant - EPOCH) // SECOND for row in ticks] == list(range(61))
        assert {row.status for row in ticks} <= {OccurrenceState.COMPLETED, OccurrenceState.ORPHANED}
        assert sum(row.status is OccurrenceState.ORPHANED for row in ticks) <= 1, "what ran in that very moment"
        assert Counter(world.began) == Counter({"tick 1": 61, "long 1": 1})
        for row in ticks:
            assert row.started_at is not None
            assert 0 <= row.started_at - row.instant <= 4 * SECOND, "taken over after two seconds"

    played(story)


@pytest.mark.spec("N5", "after an outage")
def test_after_an_outage_of_the_store_no_node_is_declared_dead() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(250.0), schedule=every("1h", start="2026-03-28T12:00:05Z"))
        nodes = [world.node(f"node {number}") for number in range(3)]
        async with world.running(nodes[0]), world.running(nodes[1]), world.running(nodes[2]):
            await world.sleep_until(20.5)
            world.engine.is_down = True
            await world.sleep_until(120.5)
            world.engine.is_down = False
            await world.sleep_until(200.0)
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.RUNNING
            assert world.log.said("node.rescued") == []

    played(story)


@pytest.mark.spec("X1", "slots")
def test_what_has_no_slot_on_one_node_is_started_by_another_that_has() -> None:
    async def story(world: World) -> None:
        ran_on: list[str] = []

        async def work(ctx: Any) -> None:
            ran_on.append(ctx.node)
            await asyncio.sleep(30.0)

        for number in range(4):
            await world.register(f"job{number}", work, schedule=every("1h", start="2026-03-28T12:00:10Z"))
        small, large = world.node("small", max_concurrent_jobs=1), world.node("large", max_concurrent_jobs=10)
        async with world.running(small):
            await world.sleep_until(5.0)
            async with world.running(large):
                await world.sleep_until(20.0)
                assert Counter(ran_on) == Counter({"small": 1, "large": 3})
                await world.sleep_until(60.0)
        for number in range(4):
            assert [row.status for row in await world.rows(f"job{number}")] == [OccurrenceState.COMPLETED]

    played(story)
