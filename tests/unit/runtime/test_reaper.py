"""The reaper: what is over its time and that nobody ends, and lines that nobody calls; on real nodes (N4, X6, X7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.core.loop.timers import TimerQueue
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.overrides import Overrides
from itinerary.model.policies import OnOrphan, Overlap, Retry
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.runtime.node import Node
from itinerary.schedules import Schedule, every
from itinerary.schedules.durations import SECOND
from itinerary.stores.tables import OVERLAP_SLOTS
from itinerary.stores.transaction import Transaction
from tests.unit.runtime.world import World, played

LONG = 100_000.0
JOB = "job"


def once_at(seconds: int) -> Schedule:
    return every("24h", start=f"2026-03-28T12:00:{seconds:02}Z")


async def row_of(world: World, name: str = JOB) -> OccurrenceRow:
    return (await world.due(name))[0]


def loses_sight(node: Node) -> None:
    """Let a node go on, and say that it is there, but forget what it runs."""
    scheduler = node.scheduler._scheduler
    scheduler.live.clear()
    scheduler.by_ref.clear()
    scheduler.alarms = TimerQueue()


async def ran_over_its_time(world: World, **rest: Any) -> OccurrenceRow:
    """One whose node lives and has lost sight of it, as another node finds it when it is over its time."""
    overrides = rest.pop("overrides", Overrides(execution_timeout="1m"))
    await world.register(JOB, world.task(LONG), schedule=once_at(10), overrides=overrides, **rest)
    silent = world.node("a")
    async with world.dying(silent):
        await world.until(lambda: bool(world.began))
        await asyncio.sleep(1.0)
        loses_sight(silent)
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=300.0)
    return await row_of(world)


async def has_ended(world: World) -> bool:
    return (await row_of(world)).ended_at is not None


@pytest.mark.spec("N4")
def test_what_its_node_has_lost_sight_of_is_asked_to_end_and_then_reaped_and_its_job_is_free_again() -> None:
    async def story(world: World) -> None:
        row = await ran_over_its_time(world)
        assert row.status is OccurrenceState.FAILED_STALE
        assert row.started_at is not None
        assert row.ended_at is not None
        assert row.cancelled_by == "the reaper: over its time", "its node was asked first"
        ran_for = row.ended_at - row.started_at
        assert 80 * SECOND <= ran_for <= (60 + 10 + 30 + 10 + 2) * SECOND, "timeout, grace, a look, and grace again"
        assert row.reason == "over its time: nobody ended it within 1m10s of its start"
        (attempt,) = (await world.detail(row)).attempts
        assert (attempt.status, attempt.error) == (TaskState.TIMEOUT, row.reason)
        (task,) = (await world.detail(row)).tasks
        assert task.status is TaskState.TIMEOUT

        def slot(tx: Transaction) -> Any:
            return tx.get(OVERLAP_SLOTS, [(row.job,)])[row.job,].ref

        assert await world.engine.engine.read(slot) is None

    played(story)


@pytest.mark.spec("N4")
def test_what_its_node_looks_after_is_never_the_reapers() -> None:
    async def story(world: World) -> None:
        await world.register(JOB, world.task(LONG), schedule=once_at(10), overrides=Overrides(execution_timeout="1m"))
        async with world.running(world.node("a")), world.running(world.node("b")):
            await world.until(lambda: has_ended_as_due(world), within=300.0)
        row = await row_of(world)
        assert (row.status, row.cancelled_by) == (OccurrenceState.FAILED, None)

    async def has_ended_as_due(world: World) -> bool:
        return bool(await world.due(JOB)) and await has_ended(world)

    played(story)


@pytest.mark.spec("X7", "reaped")
def test_hooks_hear_of_what_is_reaped_on_the_node_that_reaps_it() -> None:
    async def story(world: World) -> None:
        told: list[str] = []

        async def hook(report: Any) -> None:
            told.append(f"{report.outcome} {report.tasks[0].status}")

        name = world.registry.register(hook, "world:hook")
        row = await ran_over_its_time(world, on_complete=(name,))
        assert row.status is OccurrenceState.FAILED_STALE
        assert told == ["failed_stale timeout"]

    played(story)


@pytest.mark.spec("X7", "orphaned")
def test_hooks_hear_of_what_is_orphaned_on_another_node() -> None:
    async def story(world: World) -> None:
        told: list[str] = []

        async def hook(report: Any) -> None:
            told.append(f"{report.outcome} {report.tasks[0].status} {report.reason}")

        name = world.registry.register(hook, "world:hook")
        await world.register(JOB, world.task(LONG), schedule=once_at(10), on_complete=(name,))
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(world.began))
        assert told == []
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=60.0)
        assert (await row_of(world)).status is OccurrenceState.ORPHANED
        assert told == ["orphaned failed node a is gone, and nobody knows how far it came"]

    played(story)


@pytest.mark.spec("X7", "orphaned")
def test_hooks_hear_of_what_is_orphaned_before_its_first_task() -> None:
    async def story(world: World) -> None:
        told: list[str] = []

        async def hook(report: Any) -> None:
            told.append(f"{report.outcome} {report.tasks[0].status}")

        async def unmet(_: Any) -> bool:
            return False

        async def act(_: Any) -> None:
            world.began.append("acts")
            await asyncio.sleep(LONG)

        names = [world.registry.register(what, f"world:{what.__name__}") for what in (hook, unmet, act)]
        requirement = Requirement(python=names[1], on_unmet=Unmet.ACT, action=names[2])
        await world.register(JOB, world.task(), schedule=once_at(10), requires=(requirement,), on_complete=(names[0],))
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(world.began))
        async with world.running(world.node("b")):
            await world.until(lambda: has_ended(world), within=60.0)
        assert (await row_of(world)).status is OccurrenceState.ORPHANED
        assert told == ["orphaned skipped"]

    played(story)


@pytest.mark.spec("X7", "orphaned")
@pytest.mark.parametrize("dies", [False, True], ids=["its node lives on", "its node dies while the hook runs"])
def test_hooks_hear_of_what_is_orphaned_since_its_orchestrator_fell_silent(dies: bool) -> None:
    async def story(world: World) -> None:
        told: list[str] = []

        async def hook(report: Any) -> None:
            told.append(f"{report.outcome} {report.tasks[0].status}")
            assert report.reason.startswith("no heartbeat since ")
            if dies and len(told) == 1:
                await asyncio.sleep(LONG)

        name = world.registry.register(hook, "world:hook")
        await world.register(JOB, world.task(LONG), schedule=once_at(10), on_complete=(name,))
        silent = world.node("a")
        async with world.dying(silent):
            await world.until(lambda: bool(world.began))
            await asyncio.sleep(1.0)
            silent._orchestrators._followed.clear()
            await world.until(lambda: bool(told))
            if not dies:
                await world.until(lambda: has_ended(world))
        if dies:
            assert (await row_of(world)).status is OccurrenceState.RUNNING, "its hook has not returned"
            async with world.running(world.node("b")):
                await world.until(lambda: has_ended(world))
        row = await row_of(world)
        assert row.status is OccurrenceState.ORPHANED
        assert (row.reason or "").startswith("no heartbeat since ")
        assert told == ["orphaned failed"] * (2 if dies else 1), "at least once, and once if no node dies"

    played(story)


@pytest.mark.spec("X7", "orphaned")
def test_an_orphan_whose_code_no_node_has_says_that_its_hooks_were_not_called() -> None:
    async def story(world: World) -> None:
        told: list[str] = []
        name = world.registry.register(lambda _: told.append("told"), "world:hook")
        overrides = Overrides(execution_timeout="1m")
        await world.register(JOB, world.task(LONG), schedule=once_at(10), overrides=overrides, on_complete=(name,))
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(world.began))
        async with world.running(world.node("b", knows=lambda _: False)):
            await world.until(lambda: has_ended(world), within=600.0)
        row = await row_of(world)
        assert row.status is OccurrenceState.ORPHANED
        assert (row.reason or "").startswith("node a is gone, and nobody knows how far it came; over its time: ")
        assert (row.reason or "").endswith(
            "; on_complete was not called: no node that has the code of the job took it over"
        )
        assert told == []

    played(story)


@pytest.mark.spec("X6", "a line that nobody called")
def test_one_that_stands_in_line_for_a_slot_that_nobody_is_in_is_called() -> None:
    """No end leaves a line uncalled; so the slot is emptied behind everybody's back."""

    async def story(world: World) -> None:
        schedule = every("10s", start="2026-03-28T12:00:10Z", end="2026-03-28T12:00:20Z")
        await world.register(JOB, world.task(LONG), schedule=schedule, overrides=Overrides(overlap=Overlap.QUEUE))
        async with world.running(world.node("a")):
            await world.sleep_until(25.0)
            first, second = await world.rows(JOB)
            assert second.status is OccurrenceState.QUEUED

            def empty(tx: Transaction) -> None:
                (slot,) = tx.lock(OVERLAP_SLOTS, [(first.job,)]).values()
                tx.save(OVERLAP_SLOTS, [replace(slot, ref=None)], ("ref",))

            await world.engine.engine.write(empty)
            await world.until(lambda: len(world.began) == 2, within=40.0)
            assert world.log.said("line.called") == [{"occurrence": second.ref, "job": second.job}]

    played(story)


@pytest.mark.spec("N4")
def test_one_that_ran_out_of_time_while_everybody_was_gone_is_not_reaped_but_rescued() -> None:
    """It did not run for two hours: its node was dead. Which of the two it is, is known after one timeout."""

    async def story(world: World) -> None:
        async def main(ctx: Any) -> None:
            world.began.append(f"{ctx.job} {ctx.attempt}")
            await asyncio.sleep(LONG if ctx.attempt == 1 else 1.0)

        overrides = Overrides(execution_timeout="1m", on_orphan=OnOrphan.RERUN, retry=Retry(0))
        await world.register(JOB, main, schedule=once_at(10), overrides=overrides)
        async with world.dying(world.node("a")):
            await world.until(lambda: bool(world.began))
        await asyncio.sleep(7_200.0)
        async with world.running(world.node("b", reaper_interval=SECOND)):
            await world.until(lambda: has_ended(world), within=60.0)
        row = await row_of(world)
        assert row.status is OccurrenceState.COMPLETED, row.reason
        assert world.began == ["job 1", "job 2"]

    played(story)
