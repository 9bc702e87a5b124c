"""Pods outlive their nodes (K4): what is adopted, what is created, what is ended first; on nodes in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.definition import Requirement
from itinerary.model.policies import Mode, OnOrphan, Retry
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import FINAL, OccurrenceState, TaskState
from itinerary.model.writes import CancelRequest
from tests.unit.runtime.pods import POD, ClusterExecutor, VirtualCluster, register_pods
from tests.unit.runtime.world import World, played

S = OccurrenceState


def node(world: World, name: str, cluster: VirtualCluster, **how: Any) -> Any:
    settings = how.pop("settings", {})
    return world.node(
        name, ClusterExecutor(cluster, CoroutineExecutor(world.registry, loop=world.loop), **how), **settings
    )


async def only(world: World) -> OccurrenceRow:
    rows = [row for row in await world.rows("job") if row.instant < world.now() + 60_000_000]
    assert len(rows) == 1
    return rows[0]


async def is_in(world: World, *states: OccurrenceState) -> bool:
    rows = await world.rows("job")
    return bool(rows) and rows[0].status in states


async def trail(world: World) -> str:
    detail = await world.detail(await only(world))
    return " ".join(line.after for line in detail.transitions)


async def until_over(world: World) -> None:
    await world.until(lambda: is_in(world, *FINAL), within=600.0)


@pytest.mark.spec("K2", "states")
def test_the_states_follow_the_pod() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster()
        await register_pods(world)
        async with world.running(node(world, "a", cluster)):
            await until_over(world)
        assert await trail(world) == "prerun pending container_creating running completed"
        (attempt,) = (await world.detail(await only(world))).attempts
        assert attempt.status is TaskState.SUCCESS

    played(story)


@pytest.mark.spec("K2", "states")
@pytest.mark.spec("O3", "pods")
@pytest.mark.parametrize("mode", list(Mode))
def test_a_pod_whose_requirement_is_met_is_created_before_it_runs(tmp_path: Path, mode: Mode) -> None:
    async def story(world: World) -> None:
        cluster, is_met = VirtualCluster(), tmp_path / "ready"
        is_met.touch()
        requirement = Requirement(file=str(is_met))
        await register_pods(world, ("first", POD), ("second", POD), requires=(requirement,), mode=mode)
        async with world.running(node(world, "a", cluster)):
            await until_over(world)
        before = "prerun pending condition_pending condition_running container_creating running"
        assert (await trail(world)).startswith(before)

    played(story)


@pytest.mark.spec("K4")
@pytest.mark.spec("N3", "pods")
@pytest.mark.parametrize("on_orphan", list(OnOrphan))
@pytest.mark.parametrize("away_for", [0.5, 7_200.0], ids=["another node at once", "nobody for two hours"])
@pytest.mark.parametrize("state", [S.CONTAINER_CREATING, S.RUNNING])
def test_a_pod_of_a_dead_node_is_adopted_and_followed_to_its_end(
    state: OccurrenceState, away_for: float, on_orphan: OnOrphan
) -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(creating=30.0, takes=30.0)
        await register_pods(world, on_orphan=on_orphan)
        async with world.dying(node(world, "a", cluster)):
            await world.until(lambda: is_in(world, state))
            await asyncio.sleep(1.0)
        found = await only(world)
        await asyncio.sleep(away_for)
        async with world.running(node(world, "b", cluster)):
            await until_over(world)
        row = await only(world)
        assert (row.status, len((await world.detail(row)).attempts)) == (S.COMPLETED, 1)
        assert row.fence > found.fence
        assert list(cluster.made.values()) == [1], "no pod is created twice"

    played(story)


@pytest.mark.spec("K4", "no pod on takeover")
def test_a_pod_that_was_not_created_before_its_node_died_is_created_under_the_same_name() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster()
        await register_pods(world)
        async with world.dying(node(world, "a", cluster, is_cut_off=True)):
            await world.until(lambda: is_in(world, S.CONTAINER_CREATING))
        assert not cluster.made
        async with world.running(node(world, "b", cluster)):
            await until_over(world)
        row = await only(world)
        assert (row.status, len((await world.detail(row)).attempts)) == (S.COMPLETED, 1)
        assert list(cluster.made.values()) == [1]

    played(story)


@pytest.mark.spec("N2", "pods")
def test_a_pod_that_ran_and_was_removed_while_nobody_looked_is_not_created_again() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(takes=100.0)
        await register_pods(world)
        async with world.dying(node(world, "a", cluster)):
            await world.until(lambda: is_in(world, S.RUNNING))
        await asyncio.sleep(1.0)
        cluster.delete(next(iter(cluster.pods)))
        async with world.running(node(world, "b", cluster)):
            await until_over(world)
        assert (await only(world)).status is S.FAILED
        assert list(cluster.made.values()) == [1]

    played(story)


@pytest.mark.spec("R9", "pods")
def test_a_node_that_is_shut_down_leaves_its_pods_to_the_next() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(takes=100.0)
        await register_pods(world)
        async with world.running(node(world, "a", cluster)) as task:
            await world.until(lambda: is_in(world, S.RUNNING))
        assert task.result().unfinished == 0
        assert not cluster.deleted
        async with world.running(node(world, "b", cluster)):
            await until_over(world)
        assert (await only(world)).status is S.COMPLETED
        assert list(cluster.made.values()) == [1]

    played(story)


@pytest.mark.spec("O5", "pods")
@pytest.mark.parametrize("state", [S.CONTAINER_CREATING, S.RUNNING])
def test_a_cancelled_pod_is_ended_only_when_that_is_durable(state: OccurrenceState) -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(creating=5.0, takes=100.0)
        await register_pods(world)
        seen: list[asyncio.Task[OccurrenceRow]] = []
        mine = node(world, "a", cluster, on_stop=lambda: seen.append(asyncio.create_task(only(world))))
        async with world.running(mine):
            await world.until(lambda: is_in(world, state))
            world.engine.takes = 0.5
            await world.store.control(None, [CancelRequest((await only(world)).ref, "anna")])
            await until_over(world)
        assert [(await one).status for one in seen] == [S.TERMINATING]
        assert (await only(world)).status is S.CANCELLED
        assert (await trail(world)).endswith(f"{state} terminating cancelled")
        assert len(cluster.deleted) == 1

    played(story)


@pytest.mark.spec("K2", "errors")
def test_a_pod_that_nothing_can_come_of_is_ended_and_has_failed_for_that() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster()
        cluster.trouble = "its image cannot be pulled"
        await register_pods(world, retry=Retry(1, "5s"))
        async with world.running(node(world, "a", cluster)):
            await until_over(world)
        row = await only(world)
        attempts = (await world.detail(row)).attempts
        assert [(one.status, one.error) for one in attempts] == [(TaskState.FAILED, cluster.trouble)] * 2
        assert row.status is S.FAILED
        assert not cluster.pods

    played(story)


@pytest.mark.spec("X4", "pods")
def test_a_pod_over_its_time_is_deleted_and_tried_again_under_another_name() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(takes=100.0)
        await register_pods(world, task_timeout="5s", retry=Retry(1, "5s"))
        async with world.running(node(world, "a", cluster)):
            await until_over(world)
        attempts = (await world.detail(await only(world))).attempts
        assert [one.status for one in attempts] == [TaskState.TIMEOUT] * 2
        assert list(cluster.made.values()) == [1, 1]

    played(story)


@pytest.mark.spec("K4", "task timeout across nodes")
def test_a_pod_that_was_over_its_time_when_its_node_died_is_ended_by_the_next() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(takes=100.0)
        await register_pods(world, task_timeout="5s")
        async with world.dying(node(world, "a", cluster)):
            await world.until(lambda: is_in(world, S.TERMINATING))
        async with world.running(node(world, "b", cluster)):
            await until_over(world)
        (attempt,) = (await world.detail(await only(world))).attempts
        assert attempt.status is TaskState.TIMEOUT
        assert not cluster.pods

    played(story)


@pytest.mark.spec("K4", "beside other tasks")
@pytest.mark.parametrize(("on_orphan", "outcome"), [(OnOrphan.LEAVE, S.ORPHANED), (OnOrphan.RERUN, S.COMPLETED)])
def test_what_ran_on_the_node_is_lost_and_nothing_is_orphaned_before_its_pods_have_ended(
    on_orphan: OnOrphan, outcome: OccurrenceState
) -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(takes=60.0)

        async def main(ctx: Any) -> None:
            world.began.append(f"{ctx.attempt}")
            await asyncio.sleep(1_000.0 if ctx.attempt == 1 else 0.0)

        python = {"python": world.registry.register(main, "world:main")}
        await register_pods(world, ("here", python), ("there", POD), on_orphan=on_orphan, mode=Mode.PARALLEL)
        async with world.dying(node(world, "a", cluster)):
            await world.until(lambda: is_in(world, S.RUNNING))
            await asyncio.sleep(2.0)
        async with world.running(node(world, "b", cluster)):
            await until_over(world)
        assert (await only(world)).status is outcome
        assert list(cluster.made.values()) == [1]
        assert len(cluster.deleted) == (1 if on_orphan is OnOrphan.LEAVE else 0)
        assert world.began == (["1"] if on_orphan is OnOrphan.LEAVE else ["1", "2"])

    played(story)


@pytest.mark.spec("K4", "store away")
def test_a_node_that_cannot_reach_the_store_does_not_give_up_its_pods() -> None:
    async def story(world: World) -> None:
        cluster = VirtualCluster(takes=120.0)
        await register_pods(world, on_orphan=OnOrphan.RERUN)
        async with world.running(node(world, "a", cluster)):
            await world.until(lambda: is_in(world, S.RUNNING))
            world.engine.is_down = True
            await asyncio.sleep(60.0)
            world.engine.is_down = False
            await until_over(world)
        row = await only(world)
        assert (row.status, len((await world.detail(row)).attempts)) == (S.COMPLETED, 1)

    played(story)
