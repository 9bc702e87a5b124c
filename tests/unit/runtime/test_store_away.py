"""A node whose store does not answer: it starts nothing, keeps what runs, loses nothing, and says so (N5, L7, L8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap, Recovery, RecoveryPolicy
from itinerary.model.rows import Key, NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest, OwnerWrite, Refused, Written
from itinerary.runtime.node import NodeResult
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

BESIDE_EACH_OTHER = Overrides(overlap=Overlap.ALLOW)
FOR_A_MINUTE = every("1s", end="2026-03-28T12:01:00Z")


async def check_rows(world: World, job: str, until: int) -> None:
    """Each instant has one row, which completed, in one attempt, by a trail without a doubled line."""
    rows = await world.due(job)
    assert [(row.instant - EPOCH) // SECOND for row in rows] == list(range(until))
    for row in rows:
        assert row.status is OccurrenceState.COMPLETED, row
        detail = await world.detail(row)
        assert [attempt.number for attempt in detail.attempts] == [1]
        states = [line.after.value for line in detail.transitions]
        assert states == ["prerun", "pending", "running", "completed"], states


@pytest.mark.spec("N5")
@pytest.mark.spec("L7", "the store is away for five minutes")
def test_with_the_store_away_for_five_minutes_nothing_starts_what_runs_goes_on_and_nothing_is_lost() -> None:
    async def story(world: World) -> None:
        finished: list[float] = []

        async def long() -> None:
            await asyncio.sleep(200.0)
            finished.append(world.loop.time())

        schedule = every("1s", end="2026-03-28T12:06:30Z")
        await world.register("tick", world.task(3.0), schedule=schedule, overrides=BESIDE_EACH_OTHER)
        await world.register("long", long, schedule=every("1h", start="2026-03-28T12:00:10Z"))
        async with world.running(world.node(max_concurrent_jobs=500)):
            await world.sleep_until(30.5)
            assert len(world.began) == 31
            world.engine.is_down = True
            await world.sleep_until(330.5)
            assert len(world.began) == 31, "nothing new"
            assert finished == [210.0], "what runs goes on"
            world.engine.is_down = False
            await world.sleep_until(400.5)
        await check_rows(world, "tick", until=391)
        assert Counter(world.began) == Counter({"tick 1": 391}), "each of them once"
        (row,) = await world.rows("long")
        assert row.status is OccurrenceState.COMPLETED
        assert row.ended_at is not None
        assert not world.log.said("node.takes_no_work")
        assert not world.log.said("occurrence.lost")
        assert not world.log.said("clock.doubted")

    played(story)


@pytest.mark.spec("N5", "recovery")
@pytest.mark.spec("R1", "while it runs")
@pytest.mark.spec("R2", "one after another")
def test_what_nobody_could_claim_while_the_store_was_away_is_recovered_and_not_taken_for_an_overlap() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(5.0), schedule=every("1m"))
        async with world.running(world.node()):
            await world.sleep_until(30.0)
            world.engine.is_down = True
            await world.sleep_until(340.0)
            world.engine.is_down = False
            await world.sleep_until(400.0)
        rows = await world.due("tick")
        assert [(row.instant - EPOCH) // SECOND for row in rows] == list(range(0, 400, 60))
        assert {row.status for row in rows} == {OccurrenceState.COMPLETED}
        assert [row.is_recovery for row in rows] == [False, True, True, True, True, True, False]
        assert Counter(world.began) == Counter({"tick 1": 7}), "each of them once"
        assert world.log.said("occurrences.left_to_the_sweep")

    played(story)


@pytest.mark.spec("N5", "recovery")
@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize(
    ("recovery", "becomes"),
    [
        (Recovery.EXECUTE_ALL, ["completed"] * 9),
        (Recovery.EXECUTE_LAST, ["missed"] * 9),
        (Recovery.MARK_AS_MISSED, ["missed"] * 9),
    ],
)
def test_what_was_claimed_before_the_store_was_away_goes_through_the_recovery_strategy(
    recovery: Recovery, becomes: Sequence[str]
) -> None:
    async def story(world: World) -> None:
        overrides = Overrides(recovery=RecoveryPolicy(recovery))
        await world.register("tick", world.task(0.1), schedule=every("1s"), overrides=overrides)
        async with world.running(world.node()):
            await world.sleep_until(20.5)
            world.engine.is_down = True
            await world.sleep_until(120.5)
            world.engine.is_down = False
            await world.sleep_until(160.5)
        rows = [row for row in await world.due("tick") if 21 * SECOND <= row.instant - EPOCH < 30 * SECOND]
        assert [row.status.value for row in rows] == becomes
        assert all(row.is_recovery for row in rows)
        started = [row for row in await world.due("tick") if row.started_at is not None]
        assert len(world.began) == len(started), "each of them once"

    played(story)


@pytest.mark.spec("N5", "recovery")
@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
@pytest.mark.parametrize("lasts", [33.0, 41.0, 60.0])
def test_after_the_store_was_away_beyond_the_grace_period_instants_run_in_order(lasts: float, overlap: Overlap) -> None:
    async def story(world: World) -> None:
        ran: list[int] = []

        async def work(ctx: Any) -> None:
            ran.append(round(ctx.scheduled_at.timestamp()) - EPOCH // SECOND)
            await asyncio.sleep(0.2)

        await world.register("tick", work, schedule=every("2s"), overrides=Overrides(overlap=overlap))
        async with world.running(world.node()):
            await world.sleep_until(20.5)
            world.engine.is_down = True
            await world.sleep_until(20.5 + lasts)
            world.engine.is_down = False
            await world.sleep_until(120.5)
        assert ran == sorted(set(ran))
        assert set(range(22, 50, 2)) <= set(ran)

    played(story)


@pytest.mark.spec("N5", "slow")
def test_a_store_that_takes_a_second_for_everything_makes_nothing_twice_and_loses_nothing() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(0.5), schedule=FOR_A_MINUTE, overrides=BESIDE_EACH_OTHER)
        world.engine.takes, world.engine.answers_after = 0.4, 0.6
        node = world.node()
        async with world.running(node):
            await world.sleep_until(60.5)
            world.engine.takes = world.engine.answers_after = 0.0
            await world.sleep_until(70.5)
        await check_rows(world, "tick", until=61)
        assert Counter(world.began) == Counter({"tick 1": 61})

    played(story)


@pytest.mark.spec("N2", "lost answers")
@pytest.mark.parametrize("seed", range(3))
def test_answers_that_are_lost_again_and_again_start_nothing_twice(seed: int) -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(0.5), schedule=FOR_A_MINUTE, overrides=BESIDE_EACH_OTHER)

        async def lose() -> None:
            while True:
                world.engine.answers_lost = 1
                await asyncio.sleep(0.37)

        node = world.node()
        async with world.running(node):
            await world.sleep_until(0.1)
            loser = asyncio.create_task(lose())
            await world.sleep_until(60.5)
            loser.cancel()
            world.engine.answers_lost = 0
            await world.sleep_until(80.5)
        assert Counter(world.began) == Counter({"tick 1": 61})
        await check_rows(world, "tick", until=61)

    played(story, seed=seed)


async def burst(world: World, count: int, takes: float) -> None:
    """So many jobs, all due ten seconds after the beginning."""
    for number in range(count):
        await world.register(f"burst{number}", world.task(takes), schedule=every("1h", start="2026-03-28T12:00:10Z"))


@pytest.mark.spec("L8")
def test_over_the_bound_it_takes_no_work_and_says_so_and_takes_work_again_when_all_is_written() -> None:
    async def story(world: World) -> None:
        await burst(world, 60, takes=5.0)
        await world.register("tick", world.task(), schedule=every("1s", start="2026-03-28T12:01:00Z"))
        node = world.node(max_buffered_updates=50, max_concurrent_jobs=100)
        async with world.running(node):
            await world.sleep_until(12.0)
            world.engine.is_down = True
            await world.sleep_until(20.0)
            (line,) = world.log.said("node.takes_no_work")
            assert (line["unwritten"], line["max_buffered_updates"]) == (60, 50)
            assert node.backlog[0] == 60
            world.engine.is_down = False
            await world.sleep_until(30.0)
            assert len(world.log.said("node.takes_work_again")) == 1
            await world.sleep_until(65.5)
        for number in range(60):
            assert [row.status for row in await world.rows(f"burst{number}")] == [OccurrenceState.COMPLETED]
        assert world.began.count("tick 1") >= 5

    played(story)


@pytest.mark.spec("L8", "it stops")
def test_over_the_bound_for_a_minute_it_stops_with_an_error_that_says_why() -> None:
    async def story(world: World) -> None:
        await burst(world, 60, takes=5.0)
        node = world.node(max_buffered_updates=50, max_concurrent_jobs=100)
        async with world.running(node) as run:
            await world.sleep_until(12.0)
            world.engine.is_down = True
            ended = await run
            world.engine.is_down = False
            assert ended == NodeResult(
                60,
                "60 updates could not be written for 60 s, and 50 are allowed (max_buffered_updates); "
                "is the store reachable?",
            )
            assert 75.0 <= world.loop.time() <= 82.0
        for number in range(60):
            (row,) = await world.rows(f"burst{number}")
            assert row.status is OccurrenceState.RUNNING, "its end was never written, and nobody says that it was"

    played(story)


@pytest.mark.spec("L8", "no new work")
def test_over_the_bound_nothing_is_begun_though_it_is_due() -> None:
    """Writes fail and the rest of the store answers: what is due could be started, if the node took work."""

    async def story(world: World) -> None:
        await burst(world, 60, takes=5.0)
        await world.register("tick", world.task(), schedule=every("1s"), overrides=BESIDE_EACH_OTHER)
        node = world.node(max_buffered_updates=50, max_concurrent_jobs=200)
        async with world.running(node):
            await world.sleep_until(12.5)
            real = node._syncer._store.write
            is_back = asyncio.Event()

            async def write(owner: NodeNumber, changes: Sequence[OwnerWrite]) -> list[Written | Refused]:
                await is_back.wait()
                return await real(owner, changes)

            node._syncer._store.write = write  # type: ignore[method-assign]  # a store that is slow to write
            await world.sleep_until(15.5)
            assert world.log.said("node.takes_no_work")
            before = world.began.count("tick 1")
            await world.sleep_until(40.5)
            assert world.began.count("tick 1") == before
            is_back.set()
            await world.sleep_until(60.5)
        rows = await world.due("tick")
        assert {row.status for row in rows} == {OccurrenceState.COMPLETED}
        assert len(rows) == world.began.count("tick 1") == 61

    played(story)


@pytest.mark.spec("N2", "a claim that nobody heard of")
def test_a_node_starts_what_an_earlier_try_claimed_for_it_without_its_hearing_of_that() -> None:
    """Simulation seed 92: a claim was made and never answered, and the timeline had moved on when it was repeated.

    The row belonged to a living node that did not know it. With no other node there, it was never started.
    """

    async def story(world: World) -> None:
        job = await world.register("tick", world.task(), schedule=every("1h"))
        node = world.node()
        async with world.running(node):
            await world.sleep_until(60.0)
            instant = EPOCH + 60 * SECOND
            assert node.number is not None
            await world.store.claim(node.number, None, [ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant)])
            await world.until(lambda: world.began.count("tick 1") == 2)
            (_, unheard) = await world.due("tick")
            assert (unheard.instant, unheard.owner, unheard.fence) == (instant, node.number, 1)
            await world.sleep_until(120.0)
            assert world.began.count("tick 1") == 2, "once"
            assert [row.status for row in await world.due("tick")] == [OccurrenceState.COMPLETED] * 2

    played(story)
