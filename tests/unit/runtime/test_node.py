"""A node, put together: how it starts, what it answers, and that it does not outlive any of its organs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from itinerary.core.loop.messages import (
    JobChanged,
    OccurrenceAsked,
)
from itinerary.core.loop.replies import ActiveOccurrence
from itinerary.errors import ConfigError, NodeError, SchemaError, StoreUnavailable
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.queries import NodesQuery, StatisticsQuery
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.test_orchestrators import Puppet
from tests.unit.runtime.world import EPOCH, World, played

# -- start -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L4", "required")
@pytest.mark.spec("L11", "check settings")
def test_settings_that_would_lose_runs_stop_the_start_and_name_both_values() -> None:
    with pytest.raises(ConfigError, match=r"index_rebuild_interval \(10m\).*lookahead_window \(5m\)"):
        Settings(index_rebuild_interval=600 * SECOND, lookahead_window=300 * SECOND)


@pytest.mark.spec("L4", "recommended")
def test_settings_that_only_make_work_late_are_warned_about_at_the_start() -> None:
    async def story(world: World) -> None:
        async with world.running(world.node(grace_period=SECOND, pre_schedule_interval=SECOND // 2)):
            pass
        warnings = [line["what"] for line in world.log.said("settings.questionable")]
        assert len(warnings) == 2
        assert "grace_period (1s)" in warnings[0]
        assert "pre_schedule_interval (500ms)" in warnings[1]

    played(story)


@pytest.mark.spec("L11", "twice")
def test_starting_a_node_twice_is_an_error_even_at_the_same_time() -> None:
    async def story(world: World) -> None:
        world.engine.takes = 0.1
        node = world.node()
        first, second = await asyncio.gather(node.start(), node.start(), return_exceptions=True)
        assert first is None
        assert isinstance(second, NodeError)
        with pytest.raises(NodeError, match="started already"):
            await node.start()
        assert len(await world.store.read(NodesQuery())) == 1
        run = asyncio.create_task(node.run())
        await asyncio.sleep(1.0)
        with pytest.raises(NodeError, match="runs already"):
            await node.run()
        node.shut_down()
        await run
        with pytest.raises(NodeError, match="has run"):
            await node.run()

    for seed in (1, 2, 3):
        played(story, seed=seed)


@pytest.mark.spec("L11", "order")
def test_a_node_that_has_not_been_started_does_not_run() -> None:
    async def story(world: World) -> None:
        with pytest.raises(NodeError, match="start it first"):
            await world.node().run()

    played(story)


@pytest.mark.spec("L11", "the first index")
def test_without_a_store_there_is_no_start() -> None:
    async def story(world: World) -> None:
        world.engine.is_down = True
        with pytest.raises(StoreUnavailable):
            await world.node().start()

    played(story)


@pytest.mark.spec("L11", "the first index")
def test_if_the_first_index_cannot_be_built_the_start_fails_and_nothing_stays_open() -> None:
    async def story(world: World) -> None:
        puppet = Puppet()
        node = world.node(executor=puppet)
        world.engine.takes = 0.1
        start = asyncio.create_task(node.start())
        await world.until(lambda: node.number is not None)
        world.engine.is_down = True
        await asyncio.sleep(1.0)
        world.engine.is_down = False
        with pytest.raises(StoreUnavailable):
            await start
        assert puppet.is_closed
        (row,) = await world.store.read(NodesQuery())
        assert row.left_at is not None, "nobody has to find out by its silence"

    played(story)


@pytest.mark.spec("L11", "order")
@pytest.mark.spec("R1")
def test_what_was_due_while_nobody_was_there_runs_after_the_start() -> None:
    async def story(world: World) -> None:
        overrides = Overrides(overlap=Overlap.ALLOW)
        await world.register("tick", world.task(), overrides=overrides)
        await world.sleep_until(190.0)
        async with world.running(world.node()):
            await asyncio.sleep(20.0)
        rows = await world.rows("tick")
        assert [((row.instant - EPOCH) // SECOND, row.status) for row in rows] == [
            (second, OccurrenceState.COMPLETED) for second in (0, 60, 120, 180)
        ]
        assert [row.is_recovery for row in rows] == [True, True, True, False]

    played(story)


@pytest.mark.spec("L11", "one job's failing recovery")
def test_one_jobs_failing_recovery_is_reported_and_the_rest_start() -> None:
    async def story(world: World) -> None:
        await world.enter("nonsense", '{"schedule": {"cron": "61 * * * *"}}')
        await world.register("tick", world.task())
        await world.sleep_until(45.0)
        async with world.running(world.node()):
            await asyncio.sleep(80.0)
        assert [line["job"] for line in world.log.said("job.quarantined")] == ["nonsense"]
        assert {row.status for row in await world.rows("tick")} == {OccurrenceState.COMPLETED}

    played(story)


@pytest.mark.spec("L11", "recovery fails")
def test_a_recovery_that_fails_is_reported_and_tried_again_while_the_node_runs() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), overrides=Overrides(overlap=Overlap.ALLOW))
        await world.sleep_until(190.0)
        node = world.node()
        real = node._elsewhere
        fails = True

        async def elsewhere(function: Any, *arguments: Any) -> Any:
            if fails and function is next:  # the next step of a sweep
                raise SchemaError("what is there makes no sense")
            return await real(function, *arguments)

        node._elsewhere = elsewhere
        await node.start()
        fails = False
        assert world.log.said("recovery.failed")[0]["error"] == "what is there makes no sense"
        run = asyncio.create_task(node.run())
        await asyncio.sleep(20.0)
        assert len(await world.rows("tick")) == 4
        node.shut_down()
        await run

    played(story)


# -- the loop --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L3")
@pytest.mark.spec("O2")
def test_each_occurrence_is_claimed_ahead_of_its_instant_and_starts_in_it() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(0.5))
        async with world.running(world.node()):
            await world.sleep_until(55.0)
            (row,) = [row for row in await world.rows("tick") if row.instant == EPOCH + 60 * SECOND]
            assert (row.status, row.started_at) == (OccurrenceState.PRERUN, None)
            assert EPOCH + 49 * SECOND <= row.created_at <= EPOCH + 51 * SECOND
            await world.sleep_until(301.0)
        assert [row.started_at for row in await world.rows("tick")] == [row.instant for row in await world.rows("tick")]

    played(story)


@pytest.mark.spec("L3", "at least every loop interval")
@pytest.mark.spec("L10")
def test_with_nothing_to_do_the_loop_turns_every_second_and_that_is_on_record() -> None:
    async def story(world: World) -> None:
        node = world.node(loop_interval=SECOND)
        async with world.running(node):
            await world.sleep_until(120.0)
        assert node.number is not None
        rows = await world.store.read(StatisticsQuery(node.number))
        assert len(rows) >= 118
        gaps = {(later.at - earlier.at) // SECOND for earlier, later in pairwise(rows)}
        assert gaps == {1}
        assert {row.node for row in rows} == {node.number}
        assert sum(row.iterations for row in rows) >= 118

    played(story)


@pytest.mark.spec("L12")
def test_a_job_that_is_registered_while_a_node_runs_is_run_by_it() -> None:
    async def story(world: World) -> None:
        async with world.running(world.node()):
            await world.sleep_until(5.2)
            await world.register("tick", world.task(), schedule=every("10s"))
            await world.sleep_until(10.5)
            assert world.began == ["tick 1"]
        assert "the timeline has changed" in [line["why"] for line in world.log.said("index.rebuilt")]

    played(story)


@pytest.mark.spec("O6")
@pytest.mark.spec("L3", "clean up")
def test_what_is_over_leaves_memory_when_its_grace_period_has_passed_and_its_rows_stay() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1h", start="2026-03-28T12:01:00Z"))
        node = world.node(grace_period=30 * SECOND)
        async with world.running(node):
            await world.sleep_until(61.0)
            (row,) = await world.rows("tick")
            assert row.status is OccurrenceState.COMPLETED
            known: ActiveOccurrence | None = await node.ask(lambda reply: OccurrenceAsked(row.ref, reply))
            assert known is not None
            await world.sleep_until(89.5)
            assert await node.ask(lambda reply: OccurrenceAsked(row.ref, reply)) is not None
            await world.sleep_until(91.5)
            assert await node.ask(lambda reply: OccurrenceAsked(row.ref, reply)) is None
            assert [one.ref for one in await world.rows("tick")] == [row.ref]

    played(story)


# -- organs ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L1", "no organ is missed")
@pytest.mark.parametrize(
    "organ", ["_claimer", "_syncer", "_orchestrators", "_watcher", "builder", "_sweeper", "_rescuer"]
)
def test_a_component_that_fails_for_a_reason_nobody_foresaw_ends_the_node_with_that_error(organ: str) -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(30.0))
        node = world.node()
        await node.start()

        async def fails() -> None:
            await asyncio.sleep(61.0)
            raise ZeroDivisionError(organ)

        getattr(node, organ).run = fails
        with pytest.raises(ExceptionGroup) as raised:
            await node.run()
        assert raised.group_contains(ZeroDivisionError, match=organ)
        assert world.loop.time() < 65.0

    played(story)


@pytest.mark.spec("D7")
def test_a_schema_that_has_moved_on_ends_the_node() -> None:
    async def story(world: World) -> None:
        async with world.running(world.node()) as run:
            await asyncio.sleep(12.0)
            world.engine.broken_by = SchemaError("newer than this program")
            await asyncio.wait([run])
            world.engine.broken_by = None
        error = run.exception()
        assert isinstance(error, ExceptionGroup)
        assert error.split(SchemaError)[1] is None, "that, and nothing else"

    played(story)


@pytest.mark.spec("L1")
def test_a_message_that_comes_again_changes_nothing() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(30.0)
            rebuilt = len(world.log.said("index.rebuilt"))
            await node.inbox.send(JobChanged(1))
            await asyncio.sleep(1.0)
            assert len(world.log.said("index.rebuilt")) == rebuilt

    played(story)
