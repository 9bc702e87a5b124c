"""Tasks that return, raise and print a hundred megabytes, all at once on one node, which goes on as if they did not.

Nothing is measured in seconds here. What a task hands over must not be copied, let alone encoded, before its size is
known: so the node's memory does not grow by even one of those values, however many tasks hand one over.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from itinerary.executors.outcomes import ERROR_MAX
from itinerary.executors.output import OUTPUT_MAX
from itinerary.model.overrides import Overrides
from itinerary.model.queries import Detail, NodesQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState
from tests.integration.runtime import hostile
from tests.integration.runtime.scene import TICK, Scene, on_stage, playing

IN_PROCESS: Final = Overrides(executor="process")
RETURNING: Final = ("async returns", "thread returns", "process returns")
RAISING: Final = ("async raises", "thread raises", "process raises")
PRINTING: Final = ("process prints", "command prints", "command prints bytes")
_HALF: Final = hostile.HUGE // 2

_SHELL: Final = f"head -c {hostile.HUGE} /dev/zero | tr '\\0' z"


class Aftermath(NamedTuple):
    """What was left when it was over."""

    details: dict[str, Detail]
    ticks: list[OccurrenceRow]
    beats: int
    grown_by: int


def declare(scene: Scene, soon: object) -> None:
    scene.job("async returns", "async_returns_much", soon)
    scene.job("thread returns", "returns_much", soon)
    scene.job("process returns", "returns_much", soon, IN_PROCESS)
    scene.job("async raises", "async_raises_much", soon)
    scene.job("thread raises", "raises_much", soon)
    scene.job("process raises", "raises_much", soon, IN_PROCESS)
    scene.job("process prints", "prints_much", soon, IN_PROCESS)
    scene.job("command prints", {"shell": ["/bin/sh", "-c", _SHELL]}, soon)
    scene.job("command prints bytes", {"shell": ["head", "-c", str(hostile.HUGE), "/dev/urandom"]}, soon)


async def story(tmp_path: Path) -> Aftermath:
    names = (*RETURNING, *RAISING, *PRINTING)
    hostile.huge()
    async with playing(tmp_path) as scene:
        declare(scene, await scene.soon())
        await scene.register()
        async with on_stage(scene):
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            await scene.ended(*names)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            beats = (await scene.store.read(NodesQuery()))[0].counter

            async def beats_on() -> bool:
                return (await scene.store.read(NodesQuery()))[0].counter > beats

            await scene.until(beats_on)
            details = {name: await scene.detail(name) for name in names}
        return Aftermath(details, await scene.rows(TICK), beats, peak - before)


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    try:
        return asyncio.run(story(tmp_path_factory.mktemp("huge")))
    finally:
        hostile._made.clear()


@pytest.mark.spec("X4", "other work starts on time")
def test_no_copy_is_made_of_what_tasks_hand_over(aftermath: Aftermath) -> None:
    assert aftermath.grown_by < _HALF, f"{aftermath.grown_by / 2**20:.0f} MB"


@pytest.mark.spec("X10", "result")
@pytest.mark.parametrize("job", RETURNING)
def test_a_huge_result_is_not_kept_and_its_task_has_succeeded(job: str, aftermath: Aftermath) -> None:
    assert aftermath.details[job].row.status is OccurrenceState.COMPLETED
    assert [task.result for task in aftermath.details[job].tasks] == [None]


@pytest.mark.parametrize("job", RAISING)
def test_of_a_huge_error_the_beginning_and_the_end_are_kept(job: str, aftermath: Aftermath) -> None:
    assert aftermath.details[job].row.status is OccurrenceState.FAILED
    (attempt,) = aftermath.details[job].attempts
    assert attempt.error is not None
    assert len(attempt.error) <= ERROR_MAX
    assert "Error" in attempt.error
    assert "left out" in attempt.error


@pytest.mark.spec("Q4", "output")
@pytest.mark.parametrize("job", PRINTING)
def test_of_huge_output_the_end_is_kept(job: str, aftermath: Aftermath) -> None:
    assert aftermath.details[job].row.status is OccurrenceState.COMPLETED
    (attempt,) = aftermath.details[job].attempts
    assert attempt.output is not None
    assert OUTPUT_MAX // 2 < len(attempt.output.encode()) <= OUTPUT_MAX
    assert "bytes before this are not kept" in attempt.output.partition("\n")[0]


@pytest.mark.spec("X4", "other work starts on time")
def test_meanwhile_the_other_job_starts_each_second_in_order_and_the_heart_beats_on(aftermath: Aftermath) -> None:
    ticks = aftermath.ticks
    seconds = [tick.instant // 1_000_000 for tick in ticks]
    assert seconds == list(range(seconds[0], seconds[0] + len(ticks)))
    started = [tick.started_at for tick in ticks if tick.started_at is not None]
    assert started == sorted(started)
    assert aftermath.beats > 0
