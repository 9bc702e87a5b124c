"""A node forgets what is older than it must be kept: by itself, in small steps, and only one node does (D8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from itinerary.model.overrides import Overrides
from itinerary.model.policies import Recovery, RecoveryPolicy
from itinerary.model.queries import JobsByNameQuery
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.model.settings import Settings
from itinerary.runtime.node import Node
from itinerary.runtime.pruner import PRUNE_INTERVAL, PRUNE_LOOK_INTERVAL, Pruner
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played

DAY = 86_400 * SECOND


ONE_MISSED = Overrides(recovery=RecoveryPolicy(Recovery.MARK_AS_MISSED))


async def fails(_: object) -> None:
    raise ValueError("no")


async def lived(world: World, **settings: Any) -> Node:
    """A node that worked for ten minutes, three days ago; and the one that runs now, a moment after its start."""
    await world.register("good", world.task(), schedule=every("1m"), overrides=ONE_MISSED)
    await world.register("bad", fails, schedule=every("1m"), overrides=ONE_MISSED)
    async with world.running(world.node("before")):
        await world.sleep_until(610)
    world.store_ahead += 3 * DAY
    return world.node("now", **settings)


async def kept(world: World, name: str) -> int:
    """How many of the ten minutes are left."""
    return len([row for row in await world.rows(name) if row.started_at and row.instant < world.now() - DAY])


@pytest.mark.spec("D8", "by itself")
@pytest.mark.spec("D8", "failures")
def test_a_node_forgets_by_itself_what_is_old_and_failures_later() -> None:
    async def story(world: World) -> None:
        async with world.running(await lived(world, keep_for=2 * DAY, keep_failed_for=4 * DAY)):
            assert (await kept(world, "good"), await kept(world, "bad")) == (11, 11)
            await world.sleep_until(620 + PRUNE_LOOK_INTERVAL)
            assert (await kept(world, "good"), await kept(world, "bad")) == (0, 11)
        (said,) = world.log.said("history.pruned")
        assert said["removed"] >= 11

    played(story)


@pytest.mark.spec("D8", "last run")
def test_what_is_forgotten_leaves_the_last_run_and_where_history_begins_on_the_job() -> None:
    async def story(world: World) -> None:
        node = await lived(world, keep_for=2 * DAY)
        async with world.running(node):
            last = max(row.instant for row in await world.rows("good") if row.started_at and row.ended_at)
            await world.sleep_until(630)
            await node._pruner.prune()
            job = (await world.store.read(JobsByNameQuery(("good",))))["good"]
            assert job.last_run_at == last
            assert job.history_floor > last

    played(story)


@pytest.mark.spec("D8", "one node")
def test_of_several_nodes_the_first_forgets_and_if_it_is_gone_the_next() -> None:
    async def story(world: World) -> None:
        first, second = world.node("a", keep_for=DAY), world.node("b", keep_for=DAY)
        async with world.running(second):
            async with world.running(first):
                await world.sleep_until(60)
                assert [node._roll.is_first for node in (first, second)] == [False, True]
            await world.sleep_until(120)
            assert second._roll.is_first

    played(story)


class Slow:
    """A store that takes a while for each step."""

    def __init__(self) -> None:
        self.rules: list[Retention] = []

    async def prune(self, rules: Retention, cursor: PruneCursor) -> Pruned:
        self.rules.append(rules)
        await asyncio.sleep(0.2)
        return Pruned(1_000, PruneCursor(job=cursor.job + 1) if cursor.job < 8 else None)


@pytest.mark.spec("D8", "yields")
def test_it_pauses_after_each_step_for_as_long_as_that_took_and_takes_new_settings_for_the_next_round() -> None:
    async def story(world: World) -> None:
        store = Slow()
        pruner = Pruner(store, Settings(), world, lambda: True, world.log)  # type: ignore[arg-type]  # all that it asks
        begun = world.loop.time()
        assert await pruner.prune() == 10_000
        assert world.loop.time() - begun == pytest.approx(10 * 0.4)
        assert world.log.said("history.pruned") == [{"removed": 10_000, "seconds": 4.0}]
        pruner.take_settings(Settings(keep_for=DAY, keep_max=5))
        await pruner.prune()
        assert (store.rules[-1].keep_for, store.rules[-1].keep_max) == (DAY, 5)

    played(story)


class Tidy:
    """A store with nothing to forget, which takes this long to see it, step by step."""

    def __init__(self, steps: Sequence[float]) -> None:
        self._steps = steps

    async def prune(self, _rules: Retention, cursor: PruneCursor) -> Pruned:
        place = max(cursor.job, 0)
        await asyncio.sleep(self._steps[place])
        return Pruned(0, PruneCursor(job=place + 1) if place + 1 < len(self._steps) else None)


@pytest.mark.spec("P5", "looking for what is to be forgotten")
@pytest.mark.parametrize(
    ("took", "pause"),
    [
        pytest.param(0.002, 2.0, id="a thousand times as long"),
        pytest.param(0.0, 0.01, id="never none at all"),
        pytest.param(0.05, 5.0, id="five seconds at most, so that a round ends"),
        pytest.param(6.0, 6.0, id="as long as ever where a step takes longer than that"),
    ],
)
def test_where_nothing_is_to_be_forgotten_it_looks_without_hurry(took: float, pause: float) -> None:
    async def story(world: World) -> None:
        store = Tidy([took] * 20)
        pruner = Pruner(store, Settings(), world, lambda: True, world.log)  # type: ignore[arg-type]  # all that it asks
        begun = world.loop.time()
        assert await pruner.prune() == 0
        assert world.loop.time() - begun == pytest.approx(20 * (took + pause))
        assert not world.log.said("history.pruned")

    played(story)


class Emptied:
    """A store from which all of a job's occurrences have gone, and the chapters that listed them are left."""

    async def prune(self, _rules: Retention, cursor: PruneCursor) -> Pruned:
        await asyncio.sleep(0.05)
        job = max(cursor.job, 0)
        return Pruned(0, PruneCursor(job=job + 1) if job < 19 else None, tidied=62)


@pytest.mark.spec("D8", "yields")
def test_it_is_in_a_hurry_as_long_as_there_is_anything_to_tidy_up() -> None:
    async def story(world: World) -> None:
        pruner = Pruner(Emptied(), Settings(), world, lambda: True, world.log)  # type: ignore[arg-type]  # all that it asks
        begun = world.loop.time()
        assert await pruner.prune() == 0
        assert world.loop.time() - begun == pytest.approx(20 * 0.1)

    played(story)


@pytest.mark.spec("D8", "by itself")
def test_the_first_round_is_a_minute_after_its_turn_has_come_and_the_next_an_hour_later() -> None:
    async def story(world: World) -> None:
        store = Slow()
        turns_at = 600.0
        pruner = Pruner(
            store,  # type: ignore[arg-type]  # all that it asks
            Settings(),
            world,
            lambda: world.loop.time() >= turns_at,
            world.log,
        )
        task = asyncio.create_task(pruner.run())
        await world.sleep_until(turns_at - 1)
        assert not store.rules, "another node does it"
        await world.sleep_until(turns_at + PRUNE_LOOK_INTERVAL + 10)
        assert len(store.rules) == 10
        await world.sleep_until(turns_at + PRUNE_INTERVAL)
        assert len(store.rules) == 10
        await world.sleep_until(turns_at + PRUNE_INTERVAL + 2 * PRUNE_LOOK_INTERVAL + 10)
        assert len(store.rules) == 20
        task.cancel()
        await asyncio.wait([task])

    played(story)
