"""Clocks that are set while a node runs: nothing is lost, nothing doubled, and it is on record (N6)."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.queries import NodesQuery
from itinerary.model.states import OccurrenceState
from itinerary.runtime.clock_jumps import WAS_SET, WENT_BACK, ClockJumps
from itinerary.runtime.suspend_detection import SLEPT, STOPPED
from itinerary.schedules import cron, every
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import T, Work
from itinerary.testing.processes import Process, in_process
from tests.unit.runtime.world import EPOCH, World, played

HOUR = 3_600
BESIDE_EACH_OTHER = Overrides(overlap=Overlap.ALLOW)


async def on_record(world: World) -> list[tuple[int, str]]:
    """By how much, and why, time has jumped for the last node: the log and the store say the same."""
    logged = [(line["by_microseconds"], line["why"]) for line in world.log.said("clock.jumped")]
    (node, *_) = await world.store.read(NodesQuery())
    about: dict[str, Any] = json.loads(node.about)
    kept = about.get("clock_jumps", {"count": 0, "last": []})
    assert kept["count"] == len(kept["last"])
    assert all(EPOCH <= jump["at"] <= world.now() for jump in kept["last"])
    assert [(jump["by"], jump["why"]) for jump in kept["last"]] == logged
    return logged


async def instants(world: World, job: str) -> list[int]:
    """The seconds of a job's instants that completed; every row must have."""
    due = await world.due(job)
    assert {row.status for row in due} <= {OccurrenceState.COMPLETED}, Counter(row.status for row in due)
    return [(row.instant - EPOCH) // SECOND for row in due]


@pytest.mark.spec("N6", "ahead")
def test_when_the_stores_clock_is_set_ahead_what_was_jumped_over_runs_once() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"), overrides=BESIDE_EACH_OTHER)
        async with world.running(world.node()):
            await world.sleep_until(30.5)
            world.store_ahead = 300 * SECOND
            await world.sleep_until(60.5)
        assert await instants(world, "tick") == list(range(0, 361, 10))
        assert len(world.began) == 37
        assert await on_record(world) == [(300 * SECOND, WAS_SET)]
        assert "the clock has jumped" in [line["why"] for line in world.log.said("index.rebuilt")]

    played(story)


@pytest.mark.spec("N6", "back")
def test_when_the_stores_clock_is_set_back_nothing_runs_twice_and_nothing_early() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"), overrides=BESIDE_EACH_OTHER)
        async with world.running(world.node()):
            await world.sleep_until(100.5)
            assert len(world.began) == 11
            world.store_ahead = -60 * SECOND
            await world.sleep_until(155.5)
            assert len(world.began) == 11, "it is 95.5 again, and all of that has run"
            await world.sleep_until(181.5)
        assert await instants(world, "tick") == list(range(0, 121, 10))
        assert len(world.began) == 13
        assert await on_record(world) == [(-60 * SECOND, WAS_SET)]

    played(story)


@pytest.mark.spec("N6", "ahead")
def test_when_the_stores_clock_is_set_ahead_by_an_hour_all_of_it_is_made_up_for_once_and_in_order() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        async with world.running(world.node()):
            await world.sleep_until(90.5)
            world.store_ahead = HOUR * SECOND
            await world.sleep_until(130.5)
        assert await instants(world, "tick") == list(range(0, HOUR + 121, 60))
        rows = await world.due("tick")
        begun = [row.started_at or 0 for row in rows]
        assert begun == sorted(begun), "recovery goes in order, and what is due now behind it"
        assert len(world.began) == len(rows)
        assert await on_record(world) == [(HOUR * SECOND, WAS_SET)]

    played(story)


@pytest.mark.spec("N6", "back")
def test_when_the_stores_clock_is_set_back_by_an_hour_that_hour_is_not_run_again() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        await world.sleep_until(HOUR - 30)
        async with world.running(world.node()):
            await world.sleep_until(HOUR + 90.5)
            before = len(world.began)
            world.store_ahead = -HOUR * SECOND
            await world.sleep_until(2 * HOUR + 60.0)
            assert len(world.began) == before, "all of that hour has run"
            await world.sleep_until(2 * HOUR + 150.5)
        assert await instants(world, "tick") == list(range(0, HOUR + 121, 60))
        assert len(world.began) == before + 1
        assert await on_record(world) == [(-HOUR * SECOND, WAS_SET)]

    played(story)


@pytest.mark.spec("N6", "a machine that slept")
def test_what_came_due_while_the_machine_slept_runs_once_each_when_it_wakes() -> None:
    """CLOCK_BOOTTIME goes on during sleep, and so does the store; CLOCK_MONOTONIC does not, and timers go by that."""

    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        node, slept = world.node(awake=world.elapsed), 0
        node.clock._elapsed = lambda: world.elapsed() + slept
        async with world.running(node):
            await world.sleep_until(90.5)
            slept = world.store_ahead = HOUR * SECOND
            await world.sleep_until(130.5)
        assert await instants(world, "tick") == list(range(0, HOUR + 121, 60))
        assert len(world.began) == HOUR // 60 + 3
        ((by, why),) = await on_record(world)
        assert abs(by - HOUR * SECOND) <= SECOND
        assert why == SLEPT
        assert "the clock has jumped" in [line["why"] for line in world.log.said("index.rebuilt")]

    played(story)


@pytest.mark.spec("N6", "a machine that slept")
def test_what_is_due_after_the_machine_woke_is_on_time_since_the_index_is_rebuilt_at_once() -> None:
    """The timer of the next index had stood still with all others: for most of a minute nothing was seen coming."""

    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"), overrides=BESIDE_EACH_OTHER)
        node, slept = world.node(awake=world.elapsed), 0
        node.clock._elapsed = lambda: world.elapsed() + slept
        async with world.running(node):
            await world.sleep_until(65.5)  # just after an index was built
            slept = world.store_ahead = HOUR * SECOND
            await world.sleep_until(115.5)
        rows = [row for row in await world.due("tick") if row.instant > EPOCH + (HOUR + 70) * SECOND]
        assert len(rows) == 4
        assert {(row.started_at or 0) - row.instant < SECOND for row in rows} == {True}

    played(story)


@pytest.mark.spec("N6", "a machine that slept")
def test_where_no_clock_counts_sleep_the_stores_is_ahead_when_the_machine_wakes_and_that_is_on_record() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        async with world.running(world.node(awake=world.elapsed)):
            await world.sleep_until(90.5)
            world.store_ahead = HOUR * SECOND
            await world.sleep_until(130.5)
        assert await instants(world, "tick") == list(range(0, HOUR + 121, 60))
        assert len(world.began) == HOUR // 60 + 3
        assert await on_record(world) == [(HOUR * SECOND, WAS_SET)]

    played(story)


@pytest.mark.spec("N6", "a process that was stopped")
@pytest.mark.parametrize("seconds", [4, 8, 60])
def test_a_process_that_was_stopped_has_lost_and_doubled_nothing_and_says_so(seconds: int) -> None:
    """SIGSTOP: all clocks go on, and what was due meanwhile happens when it goes on. A few seconds are not told of."""

    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"), overrides=BESIDE_EACH_OTHER)
        node, process = world.node(awake=world.elapsed), Process("a", 1)

        async def live() -> None:
            async with world.running(node) as running:
                await running

        with in_process(process):
            life = world.loop.create_task(live())
        await world.sleep_until(45.5)
        world.loop.freeze(process)
        await world.sleep_until(45.5 + seconds)
        assert len(world.began) == 5
        world.loop.thaw(process)
        await world.sleep_until(151.5)
        with in_process(process):
            world.loop.call_soon(node.shut_down)
        await life
        assert await instants(world, "tick") == list(range(0, 151, 10))
        assert len(world.began) == 16
        stood_still = await on_record(world)
        assert [why for _, why in stood_still] == ([STOPPED] if seconds > 5 else [])
        assert all(abs(by - seconds * SECOND) <= SECOND for by, _ in stood_still)

    played(story)


@pytest.mark.spec("N6", "a process that was stopped")
def test_only_the_last_few_jumps_are_kept_and_all_are_counted() -> None:
    jumps = ClockJumps()
    for number in range(25):
        jumps.note(number, number * SECOND, WAS_SET)
    assert jumps.count == 25
    assert [jump.at for jump in jumps.last] == list(range(15, 25))


@pytest.mark.spec("N6", "a night on which clocks change")
@pytest.mark.parametrize("jumps", [0, HOUR, -HOUR])
def test_the_night_on_which_summer_time_begins_loses_and_doubles_nothing(jumps: int) -> None:
    """At 01:00 UTC it becomes 03:00 in Berlin. Somebody sets the machine's clock by hand, as if that were needed."""

    async def story(world: World) -> None:
        await world.register("hourly", world.task(), schedule=cron("0 * * * *", tz="Europe/Berlin"))
        await world.register("nightly", world.task(), schedule=cron("30 2 * * *", tz="Europe/Berlin"))
        await world.sleep_until(13 * HOUR - 600.0)
        node, ahead = world.node(), 0
        node.clock._elapsed = lambda: world.elapsed() + ahead
        async with world.running(node):
            await world.sleep_until(13 * HOUR + 5.0)
            ahead = jumps * SECOND
            await world.sleep_until(14 * HOUR + 60.0)
        assert await instants(world, "hourly") == [hour * HOUR for hour in range(15)]
        assert await instants(world, "nightly") == [13 * HOUR], (
            "half past two is not there: once, at the first moment after"
        )
        assert len(world.began) == 16
        assert [by for by, _ in await on_record(world)] == ([-jumps * SECOND] if jumps else [])

    played(story)


@pytest.mark.spec("N6", "a night on which clocks change")
@pytest.mark.parametrize("jumps", [0, HOUR, -HOUR])
def test_the_night_on_which_summer_time_ends_loses_and_doubles_nothing(jumps: int) -> None:
    """At 01:00 UTC it is 02:00 in Berlin for the second time. Somebody sets the store's clock by hand as well."""

    async def story(world: World) -> None:
        night = int((datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp() * SECOND - EPOCH) // SECOND)
        await world.sleep_until(night - HOUR - 600.0)
        await world.register("hourly", world.task(), schedule=cron("0 * * * *", tz="Europe/Berlin"))
        await world.register("nightly", world.task(), schedule=cron("30 2 * * *", tz="Europe/Berlin"))
        async with world.running(world.node()):
            await world.sleep_until(night + 5.0)
            world.store_ahead = jumps * SECOND
            await world.sleep_until(night + 2 * HOUR - jumps + 60.0)
        assert await instants(world, "hourly") == [night + hour * HOUR for hour in range(-1, 3)]
        assert await instants(world, "nightly") == [night - 1_800], "half past two is there twice, and runs once"
        assert len(world.began) == 5
        assert [by for by, _ in await on_record(world)] == ([jumps * SECOND] if jumps else [])

    played(story)


@pytest.mark.spec("N6", "the node's own clock")
@pytest.mark.parametrize("by", [300 * SECOND, -300 * SECOND])
def test_when_the_nodes_own_clock_jumps_everything_goes_on_at_the_stores_time(by: int) -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"), overrides=BESIDE_EACH_OTHER)
        node, ahead = world.node(), 0
        node.clock._elapsed = lambda: world.elapsed() + ahead
        async with world.running(node):
            await world.sleep_until(30.5)
            ahead = by
            await world.sleep_until(81.5)
        rows = await world.rows("tick")
        assert await instants(world, "tick") == list(range(0, 81, 10))
        assert len(world.began) == 9
        for row in rows:
            if row.started_at is not None:
                assert 0 <= row.started_at - row.instant <= 2 * SECOND
        assert await on_record(world) == [(-by, WAS_SET if by > 0 else WENT_BACK)]

    played(story)


@pytest.mark.spec("N6", "the node's own clock")
def test_what_runs_when_the_nodes_own_clock_goes_back_has_no_more_time_than_before() -> None:
    async def story(world: World) -> None:
        overrides = Overrides(task_timeout="20s")
        await world.register(
            "long", world.task(1_000.0), schedule=every("24h", start="2026-03-28T12:00:10Z"), overrides=overrides
        )
        node, ahead = world.node(), 0
        node.clock._elapsed = lambda: world.elapsed() + ahead
        async with world.running(node):
            await world.sleep_until(15.0)
            ahead = -7 * 24 * 3_600 * SECOND
            await world.sleep_until(40.0)
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.FAILED

    played(story)


@pytest.mark.spec("N6", "what runs")
@pytest.mark.parametrize("by", [3_600 * SECOND, -3_600 * SECOND])
def test_what_runs_when_a_clock_is_set_is_neither_orphaned_nor_over_its_time(by: int) -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(100.0), schedule=every("24h", start="2026-03-28T12:00:10Z"))
        async with world.running(world.node()):
            await world.sleep_until(30.5)
            world.store_ahead = by
            await world.sleep_until(120.0)
        (row,) = await world.rows("long")
        assert row.status is OccurrenceState.COMPLETED, row.reason

    played(story)


@pytest.mark.spec("O4", "a node that stood still")
def test_a_node_that_stood_still_does_not_orphan_its_own_work_when_it_goes_on() -> None:
    """A laptop that slept for an hour: the node's clock went on, and nothing of the node did."""

    async def story(world: World) -> None:
        await world.register("long", world.task(100.0), schedule=every("24h", start="2026-03-28T12:00:10Z"))
        node, slept = world.node(), 0
        node.clock._elapsed = lambda: world.elapsed() + slept
        async with world.running(node):
            await world.sleep_until(30.5)
            slept = world.store_ahead = 120 * SECOND
            await world.sleep_until(115.0)
        (row,) = await world.rows("long")
        assert row.status is OccurrenceState.COMPLETED, row.reason

    played(story)


@pytest.mark.spec("N6", "doubt")
def test_nothing_is_begun_while_nobody_knows_what_time_it_is_and_the_store_is_not_overrun_with_questions() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"), overrides=BESIDE_EACH_OTHER)
        node, is_confused, asked = world.node(), False, 0
        real = world.engine.engine.write

        async def write(work: Work[T]) -> T:
            nonlocal asked
            asked += 1
            world.store_ahead = asked * 10 * SECOND if is_confused else 0  # no two measurements agree
            return await real(work)

        world.engine.engine.write = write  # type: ignore[method-assign]  # a store whose clock is broken
        async with world.running(node):
            await world.sleep_until(38.5)
            is_confused, asked = True, 0
            await world.sleep_until(45.5)
            assert node.clock.is_in_doubt
            assert len(world.began) == 4
            assert asked < 200
            is_confused = False
            await world.sleep_until(61.5)
        assert len(world.began) == 7

    played(story)
