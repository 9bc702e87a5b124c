"""A node as a program has it: nothing that it does blocks the loop, it survives its restart, and it loses nothing."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from blockbuster import BlockingError, blockbuster_ctx

import itinerary
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.queries import NodesQuery
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.integration.runtime.scene import TICK, Scene, on_stage, playing

BESIDE_EACH_OTHER = Overrides(overlap=Overlap.ALLOW)


async def completed(scene: Scene, job: str, count: int) -> bool:
    rows = await scene.rows(job)
    return sum(row.status is OccurrenceState.COMPLETED for row in rows) >= count


@pytest.mark.spec("L2", "nothing blocks the loop")
def test_a_node_with_tasks_of_every_kind_never_blocks_the_loop_that_it_runs_on(tmp_path: Path) -> None:
    jobs = ("coroutine", "thread", "process", "command", TICK)

    async def story() -> None:
        async with playing(tmp_path) as scene:
            scene.job("coroutine", "async_tick", every("1s"), BESIDE_EACH_OTHER)
            scene.job("thread", "tick", every("1s"), BESIDE_EACH_OTHER)
            scene.job("process", "tick", every("1s"), Overrides(overlap=Overlap.ALLOW, executor="process"))
            scene.job("command", {"shell": ["true"]}, every("1s"), BESIDE_EACH_OTHER)
            await scene.register()
            async with on_stage(scene):
                with blockbuster_ctx(scanned_modules=["itinerary"]):  # what blocks a loop raises, if it is our own
                    for job in jobs:
                        await scene.until(partial(completed, scene, job, 2))
                    with pytest.raises(BlockingError):
                        _blocks()
            complaints = [line for line in scene.log.lines if line.level in ("warning", "error")]
            assert complaints == []
            for job in jobs:
                states = {row.status for row in await scene.rows(job)}
                assert states <= {OccurrenceState.COMPLETED, OccurrenceState.PRERUN, OccurrenceState.CANCELLED}

    asyncio.run(story())


def _blocks() -> None:
    """To see that the guard is awake: a call that blocks, as if it were our own."""
    exec(compile("import time; time.sleep(0.001)", f"{itinerary.__path__[0]}/blocks.py", "exec"))  # noqa: S102 - a line


@pytest.mark.spec("R9", "the next start")
def test_a_restart_on_the_same_file_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with playing(tmp_path) as scene:
            await scene.register()
            for runs in (2, 4):
                scene.flag.touch()
                async with on_stage(scene):
                    await scene.until(partial(completed, scene, TICK, runs))
            nodes = await scene.store.read(NodesQuery())
            assert len(nodes) == 2
            assert all(node.left_at is not None for node in nodes)
            rows = await scene.rows(TICK)
            seconds = [row.instant // SECOND for row in rows]
            assert seconds == list(range(seconds[0], seconds[0] + len(rows)))
            for row in rows:
                assert row.status in (OccurrenceState.COMPLETED, OccurrenceState.CANCELLED, OccurrenceState.PRERUN)
                assert row.status is not OccurrenceState.PRERUN or row.owner is None

    asyncio.run(story())
