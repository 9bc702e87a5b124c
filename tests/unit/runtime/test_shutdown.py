"""How a node ends: no new work, give back, do with what runs what its job says, write everything, leave (R9)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from itinerary.core.loop.messages import StatisticsAsked
from itinerary.core.loop.replies import LoopStatistics
from itinerary.model.overrides import Overrides
from itinerary.model.policies import OnShutdown, Overlap, Retry
from itinerary.model.queries import NodesQuery, StatisticsQuery
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.runtime.node import NodeResult
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, Queueing, World, played

CANCEL = Overrides(on_shutdown=OnShutdown.CANCEL)
RERUN = Overrides(on_shutdown=OnShutdown.RERUN)


@pytest.mark.spec("R9")
def test_with_nothing_to_do_it_ends_at_once_and_says_that_it_leaves() -> None:
    async def story(world: World) -> None:
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(10.3)
            node.shut_down("SIGTERM")
            assert await run == NodeResult(0, None)
            assert world.loop.time() < 11.4
        (row,) = await world.store.read(NodesQuery())
        assert row.left_at is not None
        assert world.log.said("node.shutting_down") == [{"why": "SIGTERM", "running": 0}]
        assert world.log.said("node.ended") == [{"node": "a", "unfinished": 0}]

    played(story)


@pytest.mark.spec("R9", "release")
def test_what_has_not_started_is_given_back_at_once_and_another_node_starts_it_on_time() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(0.1), schedule=every("1h", start="2026-03-28T12:01:00Z"))

        async def stubborn(ctx: Any) -> None:
            try:
                await asyncio.sleep(1_000.0)
            except asyncio.CancelledError:
                await asyncio.sleep(9.0)  # almost as long as it may

        schedule = every("1h", start="2026-03-28T12:00:50Z")
        await world.register("stubborn", stubborn, schedule=schedule, overrides=CANCEL)
        first, second = world.node("first"), world.node("second")
        async with world.running(first) as run:
            await world.sleep_until(53.0)
            (row,) = await world.rows("tick")
            assert (row.status, row.owner) == (OccurrenceState.PRERUN, first.number)
            async with world.running(second):
                await world.sleep_until(55.0)
                first.shut_down()
                await world.sleep_until(55.5)
                assert not run.done(), "it still waits for the stubborn one"
                (row,) = await world.rows("tick")
                assert row.owner is None
                await world.sleep_until(62.0)
                (row,) = await world.rows("tick")
                assert row.status is OccurrenceState.COMPLETED
                assert row.started_at is not None
                assert row.started_at - row.instant <= SECOND, "nobody waits for takeover_after"
                assert world.began == ["tick 1"]

    played(story)


@pytest.mark.spec("R9", "release")
@pytest.mark.spec("R9", "the store is away")
def test_what_could_not_be_given_back_at_once_is_given_back_before_it_leaves() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1h", start="2026-03-28T12:01:00Z"))
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(55.0)
            world.engine.is_down = True
            node.shut_down()
            await asyncio.sleep(2.0)
            world.engine.is_down = False
            assert await run == NodeResult(0, None)
        (row,) = await world.rows("tick")
        assert (row.status, row.owner) == (OccurrenceState.PRERUN, None)

    played(story)


@pytest.mark.spec("R9", "cancel")
def test_what_is_cancelled_has_the_reason_and_its_end_is_written_before_the_node_leaves() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(1_000.0), overrides=CANCEL)
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            node.shut_down()
            assert await run == NodeResult(0, None)
            assert world.loop.time() < 12.0
        (row,) = await world.rows("long")
        assert (row.status, row.reason) == (OccurrenceState.CANCELLED, "node a was shut down")
        detail = await world.detail(row)
        assert [one.status for one in detail.attempts] == [TaskState.CANCELLED]
        assert node.backlog == (0, 0)

    played(story)


@pytest.mark.spec("R9", "cancel")
@pytest.mark.spec("X4", "ignores cancellation")
def test_one_that_ignores_its_cancellation_is_given_up_after_the_kill_grace_and_the_node_ends() -> None:
    async def story(world: World) -> None:
        may_end = asyncio.Event()

        async def deaf(ctx: Any) -> None:
            while not may_end.is_set():
                try:
                    await asyncio.sleep(1.0)
                except asyncio.CancelledError:
                    continue

        await world.register("deaf", deaf, overrides=CANCEL)
        node = world.node(kill_grace=4 * SECOND)
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            node.shut_down()
            await world.sleep_until(13.5)
            assert not run.done()
            assert await run == NodeResult(0, None)
            assert world.loop.time() < 17.0
        (row,) = await world.rows("deaf")
        assert row.status is OccurrenceState.CANCELLED
        (attempt,) = (await world.detail(row)).attempts
        assert attempt.error == "cancelled, and given up: node a was shut down"
        may_end.set()
        await asyncio.sleep(2.0)

    played(story)


@pytest.mark.spec("R9", "non-zero")
def test_what_has_not_ended_after_the_grace_period_is_counted_and_left_to_others() -> None:
    async def story(world: World) -> None:
        async def slow_to_end(ctx: Any) -> None:
            try:
                await asyncio.sleep(1_000.0)
            except asyncio.CancelledError:
                await asyncio.sleep(20.0)

        await world.register("stubborn", slow_to_end, overrides=CANCEL)
        node = world.node(kill_grace=600 * SECOND, shutdown_grace_period=5 * SECOND)
        async with world.running(node) as run:
            await world.sleep_until(5.0)
            node.shut_down()
            assert await run == NodeResult(1, None)
            assert 10.0 <= world.loop.time() < 13.0
        (row,) = await world.rows("stubborn")
        assert row.status is OccurrenceState.TERMINATING
        assert row.owner == node.number
        (gone,) = await world.store.read(NodesQuery())
        assert gone.left_at is not None, "so others rescue it at once"
        await asyncio.sleep(30.0)

    played(story)


@pytest.mark.spec("R9", "no new work")
def test_nothing_new_is_begun_while_it_ends() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1s"), overrides=Overrides(overlap=Overlap.ALLOW))

        async def slow_to_end(ctx: Any) -> None:
            try:
                await asyncio.sleep(1_000.0)
            except asyncio.CancelledError:
                await asyncio.sleep(8.0)

        await world.register("stubborn", slow_to_end, overrides=CANCEL)
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(20.5)
            node.shut_down()
            before = len(world.began)
            assert await run == NodeResult(0, None)
            assert world.loop.time() > 28.0
            assert len(world.began) == before
        for row in await world.rows("tick"):
            assert row.status is OccurrenceState.COMPLETED or row.owner is None, row

    played(story)


@pytest.mark.spec("R9", "the next start")
def test_the_next_start_goes_on_where_the_last_one_ended() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("5s"), overrides=Overrides(overlap=Overlap.ALLOW))
        for at in (21.0, 48.0, 77.0):
            async with world.running(world.node()):
                await world.sleep_until(at)
            await asyncio.sleep(8.0)
        async with world.running(world.node()):
            await world.sleep_until(101.0)
        rows = await world.rows("tick")
        done = [(row.instant - EPOCH) // SECOND for row in rows if row.status is OccurrenceState.COMPLETED]
        assert done == list(range(0, 101, 5))
        assert len(world.began) == len(done), "each of them once"

    played(story)


@pytest.mark.spec("R9", "flush")
def test_statistics_are_flushed_at_the_end() -> None:
    async def story(world: World) -> None:
        node = world.node(stats_flush_interval=3_600 * SECOND, stats_flush_threshold=10_000)
        async with world.running(node):
            await world.sleep_until(60.0)
            assert node.number is not None
            assert await world.store.read(StatisticsQuery(node.number)) == []
        assert len(await world.store.read(StatisticsQuery(node.number))) >= 58
        assert node.backlog == (0, 0)

    played(story)


@pytest.mark.spec("R9", "a second signal")
def test_asked_a_second_time_it_ends_at_once_and_leaves_everything_as_it_lies() -> None:
    async def story(world: World) -> None:
        async def slow_to_end(ctx: Any) -> None:
            try:
                await asyncio.sleep(1_000.0)
            except asyncio.CancelledError:
                await asyncio.sleep(0.2)
                raise

        await world.register("long", slow_to_end)
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            node.shut_down()
            node.shut_down()
            await asyncio.wait([run])
            assert run.cancelled()
            assert world.loop.time() < 12.5
        (row,) = await world.rows("long")
        assert row.status in (OccurrenceState.RUNNING, OccurrenceState.TERMINATING)
        (gone,) = await world.store.read(NodesQuery())
        assert gone.left_at is None

    played(story)


@pytest.mark.spec("R9", "a second signal")
def test_a_start_that_waits_for_its_store_can_be_ended_too() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task())
        await world.sleep_until(300.0)
        world.engine.takes = 0.1
        node = world.node()
        start = asyncio.create_task(node.start())
        await world.until(lambda: bool(world.log.said("index.rebuilt")))
        world.engine.is_down = True
        await asyncio.sleep(60.0)
        assert not start.done(), "its recovery waits"
        node.shut_down()
        await asyncio.sleep(1.0)
        node.shut_down()
        await asyncio.wait([start])
        assert start.cancelled()

    played(story)


@pytest.mark.spec("R9", "before it runs")
def test_one_that_is_shut_down_before_it_runs_ends_as_soon_as_it_does() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1s"))
        node = world.node()
        await node.start()
        node.shut_down()
        await asyncio.sleep(0)
        assert await node.run() == NodeResult(0, None)
        assert world.began == []

    played(story)


@pytest.mark.spec("R9", "the store is away")
def test_without_its_store_it_waits_the_grace_period_and_leaves_without_a_word() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(1_000.0))
        node = world.node(shutdown_grace_period=20 * SECOND)
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            world.engine.is_down = True
            node.shut_down()
            ended = await run
            assert ended.unfinished == 1, "its end could not be written"
            assert 30.0 <= world.loop.time() < 40.0
        (left,) = world.log.said("node.left_without_a_word")
        assert left["error"], "it says why"
        world.engine.is_down = False

    played(story)


@pytest.mark.spec("R9", "the store is away")
def test_what_could_not_be_written_at_first_is_written_when_the_store_is_back_in_time() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(1_000.0))
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            world.engine.is_down = True
            node.shut_down()
            await asyncio.sleep(15.0)
            assert not run.done()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(run), 0.1)
            world.engine.is_down = False
            assert await run == NodeResult(0, None)
        (row,) = await world.rows("long")
        assert row.status is OccurrenceState.CANCELLED

    played(story)


@pytest.mark.spec("L6", "a node that ends")
def test_it_answers_while_it_ends() -> None:
    async def story(world: World) -> None:
        async def slow_to_end(ctx: Any) -> None:
            try:
                await asyncio.sleep(1_000.0)
            except asyncio.CancelledError:
                await asyncio.sleep(5.0)

        await world.register("long", slow_to_end)
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            node.shut_down()
            await asyncio.sleep(1.0)
            found: LoopStatistics = await node.ask(StatisticsAsked)
            assert found.active == 1
            await run

    played(story)


# -- on_shutdown -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("R9", "finish")
def test_what_runs_finishes_by_default_and_the_node_waits_for_it() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(25.0), tasks=("first", "second"), schedule=every("1h"))
        node = world.node(shutdown_grace_period=60 * SECOND)
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            node.shut_down()
            assert await run == NodeResult(0, None)
            assert 50.0 <= world.loop.time() < 53.0
        (row,) = await world.rows("long")
        assert row.status is OccurrenceState.COMPLETED
        assert len(world.began) == 2

    played(story)


@pytest.mark.spec("R9", "finish")
def test_what_does_not_finish_in_time_is_cancelled_and_its_end_is_written_even_if_it_does_not_listen() -> None:
    async def story(world: World) -> None:
        may_end = asyncio.Event()

        async def deaf(ctx: Any) -> None:
            while not may_end.is_set():
                try:
                    await asyncio.sleep(1.0)
                except asyncio.CancelledError:
                    continue

        await world.register("deaf", deaf)
        node = world.node()
        async with world.running(node) as run:
            await world.sleep_until(10.0)
            node.shut_down()
            assert await run == NodeResult(0, None)
            assert 40.0 <= world.loop.time() < 43.0
        (row,) = await world.rows("deaf")
        assert (row.status, row.reason) == (OccurrenceState.CANCELLED, "node a was shut down")
        may_end.set()
        await asyncio.sleep(2.0)

    played(story)


@pytest.mark.spec("R9", "rerun")
def test_what_is_to_run_again_is_run_by_another_node_within_two_seconds_while_the_first_still_ends() -> None:
    async def story(world: World) -> None:
        async def work(ctx: Any) -> None:
            world.began.append(f"{ctx.node} {ctx.attempt}")
            await asyncio.sleep(1_000.0 if ctx.node == "first" else 1.0)

        await world.register("again", work, schedule=every("1h"), overrides=RERUN)
        await world.register("slow", world.task(25.0), schedule=every("1h"))
        first, second = world.node("first"), world.node("second")
        async with world.running(first) as run:
            await world.until(lambda: "first 1" in world.began)
            async with world.running(second):
                await world.sleep_until(10.0)
                first.shut_down()
                await world.until(lambda: "second 2" in world.began, within=2.0)
                assert not run.done(), "it waits for the slow one"
                await asyncio.sleep(3.0)
                (row,) = await world.rows("again")
                assert row.status is OccurrenceState.COMPLETED
                assert await run == NodeResult(0, None)
        assert [one.status for one in (await world.detail(row)).attempts] == [TaskState.CANCELLED, TaskState.SUCCESS]

    played(story)


@pytest.mark.spec("R9", "rerun")
@pytest.mark.spec("R9", "the next start")
@pytest.mark.parametrize("away_for", [1.0, 7_200.0, 90 * 86_400.0])
def test_what_is_to_run_again_is_run_by_the_next_start_however_late_that_is(away_for: float) -> None:
    async def story(world: World) -> None:
        schedule = every("1h", start="2026-03-28T12:00:00Z", end="2026-03-28T12:00:01Z")
        overrides = Overrides(on_shutdown=OnShutdown.RERUN, execution_timeout="1h", retry=Retry(0))
        await world.register("again", world.task(5.0), schedule=schedule, overrides=overrides)
        async with world.running(world.node()):
            await world.until(lambda: bool(world.began))
        (row,) = await world.rows("again")
        assert (row.status, row.owner) == (OccurrenceState.RETRYING, None)
        await asyncio.sleep(away_for)
        async with world.running(world.node()):
            await world.until(lambda: len(world.began) == 2)
            await asyncio.sleep(8.0)
        (row,) = await world.rows("again")
        assert row.status is OccurrenceState.COMPLETED
        assert world.began == ["again 1", "again 2"]

    played(story)


@pytest.mark.spec("R9", "rerun")
def test_the_overlap_slot_stays_with_what_is_to_run_again() -> None:
    async def story(world: World) -> None:
        schedule = every("10s", end="2026-03-28T12:00:20Z")
        overrides = Overrides(on_shutdown=OnShutdown.RERUN, overlap=Overlap.QUEUE)
        await world.register("again", world.task(15.0), schedule=schedule, overrides=overrides)
        async with world.running(world.node()):
            await world.until(lambda: bool(world.began))
            await world.sleep_until(11.0)
        async with world.running(world.node()):
            await world.until(lambda: len(world.began) == 4, within=100.0)
            await asyncio.sleep(20.0)
        rows = await world.rows("again")
        assert {row.status for row in rows} == {OccurrenceState.COMPLETED}
        ends = [(row.started_at, row.ended_at) for row in rows]
        assert all(ended <= started for (_, ended), (started, _) in pairwise(ends)), ends  # type: ignore[operator]  # all have both
        assert world.began == ["again 1", "again 2", "again 1", "again 1"]

    played(story)


@pytest.mark.spec("R9", "the store is away")
def test_what_could_not_be_given_back_for_lack_of_a_store_is_run_by_the_next_start_all_the_same() -> None:
    async def story(world: World) -> None:
        await world.register("again", world.task(5.0), schedule=every("1h"), overrides=RERUN)
        node = world.node(shutdown_grace_period=12 * SECOND)
        async with world.running(node) as run:
            await world.until(lambda: bool(world.began))
            node.shut_down()
            await world.until(lambda: bool(world.log.said("occurrence.given_back")))
            world.engine.is_down = True
            await run
        world.engine.is_down = False
        async with world.running(world.node()):
            await world.until(lambda: len(world.began) == 2, within=120.0)
            await asyncio.sleep(8.0)
        (row,) = await world.rows("again")
        assert row.status is OccurrenceState.COMPLETED

    played(story)


@pytest.mark.spec("R9", "release")
@pytest.mark.parametrize("policy", list(OnShutdown))
def test_a_run_whose_function_was_not_called_is_run_by_another_node(policy: OnShutdown) -> None:
    """The measured case: it was started, and its function had not been called when the signal came."""

    async def story(world: World) -> None:
        overrides = Overrides(on_shutdown=policy, on_orphan="leave")  # type: ignore[arg-type]  # as people write it
        schedule = every("1h", start="2026-03-28T12:00:10Z")
        await world.register("tick", world.task(1.0), schedule=schedule, overrides=overrides)
        first, second = world.node("first", Queueing(world)), world.node("second")
        async with world.running(first) as run:
            await world.until(lambda: bool(world.log.said("queued")))
            async with world.running(second):
                first.shut_down()
                await world.until(lambda: world.began == ["tick 2"])
                await asyncio.sleep(3.0)
                assert await run == NodeResult(0, None)
        (row,) = await world.rows("tick")
        assert row.status is OccurrenceState.COMPLETED
        attempts = (await world.detail(row)).attempts
        assert [one.status for one in attempts] == [TaskState.CANCELLED, TaskState.SUCCESS]
        assert attempts[0].error == "cancelled before its function was called: node first was shut down"

    played(story)
