"""`on_orphan = rerun`: work that may run twice is run again, never in two places at a time (N3, protocol rule 18)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.errors import StoreUnavailable
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Mode, OnOrphan, OnShutdown, Retry
from itinerary.model.retries import LOST_MAX
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.runtime.node import Node
from itinerary.schedules import Schedule, every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played

LONG = 100_000.0
JOB = "job"
RERUN = Overrides(on_orphan=OnOrphan.RERUN)


def once_at(seconds: int) -> Schedule:
    return every("24h", start=f"2026-03-28T12:00:{seconds:02}Z")


async def row_of(world: World, name: str = JOB) -> OccurrenceRow:
    return (await world.due(name))[0]


async def has_ended(world: World) -> bool:
    return (await row_of(world)).ended_at is not None


class Places:
    """A task that knows where it runs, and since when until when; it takes a hundred seconds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ran: list[tuple[str, float, float]] = []

    async def main(self, ctx: Any) -> None:
        began = self.world.loop.time()
        try:
            await asyncio.sleep(100.0)
        finally:
            self.ran.append((f"{ctx.node} {ctx.attempt}", began, self.world.loop.time()))


def cut_off(node: Node) -> None:
    """From now on the store does not hear this node."""

    async def nobody(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("memory: is away")

    class Away:
        url = "memory:"

        def __getattr__(self, name: str) -> Any:
            return nobody

    away = Away()
    for part in (node._claimer, node._syncer, node._sweeper, node._rescuer, node._reaper, node._watcher, node.builder):
        part._store = away


@pytest.mark.spec("N3", "rerun")
@pytest.mark.spec("N5", "rerun work gives way")
def test_a_node_that_is_cut_off_ends_its_rerun_work_before_another_runs_it_and_keeps_the_rest() -> None:
    async def story(world: World) -> None:
        places, others = Places(world), Places(world)
        await world.register(JOB, places.main, schedule=once_at(10), overrides=RERUN)
        await world.register("other", others.main, schedule=once_at(10))
        first = world.node("a")
        async with world.dying(first):
            await world.sleep_until(12.0)
            async with world.running(world.node("b")):
                await world.sleep_until(20.0)
                cut_off(first)
                await world.until(lambda: has_ended(world), within=300.0)
            (lost, began, ended), (again, began_again, _) = places.ran
            assert (lost, again) == ("a 1", "b 2")
            assert began < ended < began_again, "it never ran in two places"
            assert ended <= 35.0, "within a timeout of the last heartbeat"
            assert [where for where, _, _ in others.ran] == ["a 1"], "the other job was left to run"
            assert others.ran[0][2] - others.ran[0][1] == pytest.approx(100.0)
            row = await row_of(world)
            assert row.status is OccurrenceState.COMPLETED
            assert [attempt.status for attempt in (await world.detail(row)).attempts] == [
                TaskState.FAILED,
                TaskState.SUCCESS,
            ]

    played(story)


@pytest.mark.spec("N5", "rerun work gives way")
def test_alone_in_an_outage_a_node_gives_way_and_runs_it_again_itself_when_the_store_is_back() -> None:
    async def story(world: World) -> None:
        places = Places(world)
        await world.register(JOB, places.main, schedule=once_at(10), overrides=RERUN)
        async with world.running(world.node("a")):
            await world.sleep_until(20.0)
            world.engine.is_down = True
            await world.sleep_until(80.0)
            assert [where for where, _, _ in places.ran] == ["a 1"]
            assert len(world.log.said("occurrence.gave_way")) == 1
            world.engine.is_down = False
            await world.until(lambda: has_ended(world), within=300.0)
        row = await row_of(world)
        assert (row.status, row.fence) == (OccurrenceState.COMPLETED, 1), "it was its own all the time"
        assert [where for where, _, _ in places.ran] == ["a 1", "a 2"]

    played(story)


@pytest.mark.spec("N5", "after an outage")
def test_a_database_outage_of_a_minute_orphans_nothing_that_still_runs() -> None:
    async def story(world: World) -> None:
        jobs = [f"job{number:02}" for number in range(6)]
        for name in jobs:
            await world.register(name, world.task(100.0), schedule=once_at(10))
        async with world.running(world.node("a")), world.running(world.node("b")), world.running(world.node("c")):
            await world.sleep_until(30.0)
            world.engine.is_down = True
            await world.sleep_until(90.0)
            world.engine.is_down = False
            await world.sleep_until(200.0)
        rows = [await row_of(world, name) for name in jobs]
        assert [row.status for row in rows] == [OccurrenceState.COMPLETED] * 6
        assert sorted(world.began) == [f"{name} 1" for name in jobs], "each began once"

    played(story)


@pytest.mark.spec("N3", "within 5 s")
def test_what_a_dead_node_had_claimed_and_not_started_begins_on_another_within_five_seconds_of_its_instant() -> None:
    async def story(world: World) -> None:
        jobs = [f"job{number:02}" for number in range(20)]
        for name in jobs:
            await world.register(name, world.task(), schedule=once_at(20))
        dead = world.node("a")
        await dead.start()
        task = world.loop.create_task(dead.run())
        await world.sleep_until(15.0)
        rows = [(await world.rows(name))[0] for name in jobs]
        assert {row.owner for row in rows} == {dead.number}
        async with world.running(world.node("b")):
            await world.sleep_until(17.0)
            task.cancel()
            await asyncio.wait([task])
            await world.sleep_until(30.0)
        for name in jobs:
            row = await row_of(world, name)
            assert row.status is OccurrenceState.COMPLETED
            assert row.started_at is not None
            assert row.started_at - row.instant <= 5 * SECOND

    played(story)


@pytest.mark.spec("N3", "rerun")
def test_a_task_that_takes_its_node_down_with_it_is_not_run_again_for_ever() -> None:
    async def story(world: World) -> None:
        await world.register(JOB, world.task(LONG), schedule=once_at(10), overrides=RERUN)
        for life in range(LOST_MAX + 1):
            await die(world, lambda life=life: len(world.began) > life)
        async with world.running(world.node("last")):
            await world.until(lambda: has_ended(world), within=120.0)
        row = await row_of(world)
        assert row.status is OccurrenceState.ORPHANED
        assert len(world.began) == LOST_MAX + 1

    async def die(world: World, when: Any) -> None:
        async with world.dying(world.node("poisoned")):
            await world.until(when, within=120.0)

    played(story)


def deaf(world: World) -> Any:
    """A task that takes a minute and does not hear when it is asked to end, the first time that it runs."""

    async def work(ctx: Any) -> None:
        world.began.append(f"{ctx.task} {ctx.attempt}")
        until = world.loop.time() + (60.0 if len(world.began) == 1 else 0.0)
        while (left := until - world.loop.time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue

    return work


async def is_ending(world: World) -> bool:
    return (await row_of(world)).status is OccurrenceState.TERMINATING


@pytest.mark.spec("N3", "rerun")
def test_what_was_being_ended_by_a_shutdown_when_its_node_died_is_run_again_with_all_of_its_tasks() -> None:
    async def story(world: World) -> None:
        overrides = Overrides(on_orphan=OnOrphan.RERUN, mode=Mode.SEQUENTIAL, on_shutdown=OnShutdown.CANCEL)
        await world.register(JOB, deaf(world), schedule=once_at(10), overrides=overrides, tasks=("first", "second"))
        node = world.node("a")
        async with world.dying(node):
            await world.until(lambda: bool(world.began))
            node.shut_down("a deployment")
            await world.until(lambda: is_ending(world))
            await asyncio.sleep(1.0)
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=120.0)
            await asyncio.sleep(60.0)
        row = await row_of(world)
        assert row.status is OccurrenceState.COMPLETED
        assert world.began == ["first 1", "first 2", "second 1"]
        assert [task.status for task in (await world.detail(row)).tasks] == [TaskState.SUCCESS] * 2

    played(story)


@pytest.mark.spec("N3", "rerun")
def test_what_was_being_ended_by_its_timeout_when_its_node_died_has_failed() -> None:
    async def story(world: World) -> None:
        overrides = Overrides(on_orphan=OnOrphan.RERUN, mode=Mode.SEQUENTIAL, execution_timeout="20s")
        await world.register(JOB, deaf(world), schedule=once_at(10), overrides=overrides, tasks=("first", "second"))
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(world.began))
            await world.until(lambda: is_ending(world), within=60.0)
            await asyncio.sleep(1.0)
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=120.0)
            await asyncio.sleep(60.0)
        row = await row_of(world)
        assert (row.status, row.reason) == (OccurrenceState.FAILED, "execution timeout")
        assert world.began == ["first 1"]

    played(story)


@pytest.mark.spec("X3", "lost attempts")
def test_an_attempt_that_was_lost_with_its_node_is_none_of_the_retries() -> None:
    async def story(world: World) -> None:
        async def main(ctx: Any) -> None:
            world.began.append(f"{ctx.job} {ctx.attempt}")
            if ctx.attempt == 1:
                await asyncio.sleep(LONG)
            raise ValueError("it fails")

        overrides = Overrides(on_orphan=OnOrphan.RERUN, retry=Retry(1, "10s"))
        await world.register(JOB, main, schedule=once_at(10), overrides=overrides)
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(world.began))
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=120.0)
        row = await row_of(world)
        assert row.status is OccurrenceState.FAILED
        assert world.began == ["job 1", "job 2", "job 3"], (
            "the first was lost, the second failed, the third was its retry"
        )

    played(story)


@pytest.mark.spec("N3", "rerun")
def test_what_is_run_again_has_the_version_and_the_configuration_that_it_began_with() -> None:
    async def story(world: World) -> None:
        ran: list[str] = []

        async def old(ctx: Any) -> None:
            ran.append(f"version {ctx.version}, attempt {ctx.attempt}")
            await asyncio.sleep(LONG if ctx.attempt == 1 else 0.0)

        async def new(_: Any) -> None:
            ran.append("the new one")

        await world.register(JOB, old, schedule=once_at(10), overrides=RERUN)
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(ran))
            await world.register(JOB, new, schedule=once_at(50), overrides=Overrides(), from_version=1)
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=120.0)
        row = await row_of(world)
        assert row.status is OccurrenceState.COMPLETED
        assert [line for line in ran if line.startswith("version")] == ["version 1, attempt 1", "version 1, attempt 2"]

    played(story)
