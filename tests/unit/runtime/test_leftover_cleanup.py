"""What executors leave behind is removed when the store says that it may, and never before (K3, protocol rule 28)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.attempts import AttemptKey, Leftover
from itinerary.model.ids import OccurrenceId, job_id
from itinerary.model.states import FINAL
from itinerary.runtime.leftover_cleanup import KEEP_FOR, LOOK_INTERVAL, LeftoverCleanup
from itinerary.runtime.node import Node
from tests.unit.runtime.pods import ClusterExecutor, VirtualCluster, register_pods
from tests.unit.runtime.world import World, played

OTHERS = OccurrenceId(UUID(int=7))


class Leaves(ClusterExecutor):
    """An executor that has left these behind."""

    left: Sequence[Leftover] = ()

    def __init__(self, world: World, cluster: VirtualCluster) -> None:
        super().__init__(cluster, CoroutineExecutor(world.registry, loop=world.loop))
        self.removed: list[tuple[str, str, str]] = []

    async def left_behind(self) -> Sequence[Leftover]:
        return self.left

    async def remove(self, leftovers: Sequence[Leftover]) -> None:
        self.removed += [one.handle for one in leftovers]


async def lived(world: World, takes: float, until_over: bool) -> tuple[Leaves, Node, AttemptKey, OccurrenceId]:
    executor = Leaves(world, VirtualCluster(takes=takes))
    await register_pods(world)
    node = world.node("a", executor)
    await node.start()
    task = asyncio.get_running_loop().create_task(node.run())

    async def is_there() -> bool:
        rows = await world.rows("job")
        return bool(rows) and (rows[0].status in FINAL if until_over else rows[0].status == "running")

    await world.until(is_there, within=600.0)
    (row, *_) = await world.rows("job")
    node.shut_down()
    await asyncio.wait([task])
    return executor, node, AttemptKey(row.ref, 0, 1), row.key.id(job_id("job"))


def found(key: AttemptKey, occurrence: OccurrenceId, name: str, over_for: int | None) -> Leftover:
    return Leftover(key, occurrence, ("jobs", name, "u1"), over_for is not None, over_for or 0)


@pytest.mark.spec("K3", "removal")
def test_a_finished_pod_goes_after_an_hour_and_those_of_others_stay() -> None:
    async def story(world: World) -> None:
        executor, node, key, occurrence = await lived(world, 1.0, until_over=True)
        remover = LeftoverCleanup(executor, world.store, lambda: node.builder.timeline, lambda: True, world.log)
        executor.left = [
            found(key, occurrence, "fresh", KEEP_FOR - 1),
            found(key, occurrence, "old", KEEP_FOR),
            found(key, OTHERS, "another installation's", KEEP_FOR),
            found(key._replace(number=2), occurrence, "unknown attempt", KEEP_FOR),
            found(key._replace(ref=key.ref + 1_000), occurrence, "unknown occurrence", KEEP_FOR),  # type: ignore[arg-type]  # a number like it
            found(key, occurrence, "still runs", None),
        ]
        await remover.look()
        assert [name for _, name, _ in executor.removed] == ["old", "still runs"]

    played(story)


@pytest.mark.spec("K3", "removal")
def test_nothing_is_removed_while_its_end_is_not_durable() -> None:
    async def story(world: World) -> None:
        executor, node, key, occurrence = await lived(world, 100.0, until_over=False)
        remover = LeftoverCleanup(executor, world.store, lambda: node.builder.timeline, lambda: True, world.log)
        executor.left = [found(key, occurrence, "runs", None), found(key, occurrence, "over", 2 * KEEP_FOR)]
        await remover.look()
        assert executor.removed == []

    played(story)


@pytest.mark.spec("K3", "removal")
def test_a_node_looks_every_minute_and_a_store_that_is_away_is_asked_again() -> None:
    async def story(world: World) -> None:
        _, _, key, occurrence = await lived(world, 1.0, until_over=True)
        executor = Leaves(world, VirtualCluster())
        executor.left = [found(key, occurrence, "old", KEEP_FOR)]
        async with world.running(world.node("b", executor)):
            world.engine.is_down = True
            await asyncio.sleep(LOOK_INTERVAL * 1.5)
            assert executor.removed == []
            world.engine.is_down = False
            await asyncio.sleep(LOOK_INTERVAL * 2.5)
        assert ("jobs", "old", "u1") in executor.removed

    played(story)
