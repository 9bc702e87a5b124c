"""Heartbeats of orchestrators: one resets, some are missed, too many orphan (O4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.core.loop.commands import Follow, Forget
from itinerary.core.loop.messages import AttemptsReported, Heartbeats, OccurrenceAsked
from itinerary.core.loop.replies import ActiveOccurrence
from itinerary.model.attempts import AttemptKey, Ended, Succeeded
from itinerary.model.rows import Ref
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.runtime.node import Node
from itinerary.schedules import every
from tests.unit.runtime.world import World, played


async def running(world: World, node: Node) -> Ref:
    """An occurrence that has just started and runs for an hour; its number."""
    await world.sleep_until(10.0)
    await asyncio.sleep(0.001)
    (row,) = await world.rows("long")
    assert row.status is OccurrenceState.RUNNING
    return row.ref


async def misses(node: Node, ref: Ref) -> int:
    shown: ActiveOccurrence = await node.ask(lambda reply: OccurrenceAsked(ref, reply))
    return shown.misses


async def long_job(world: World) -> None:
    await world.register("long", world.task(3_600.0), schedule=every("1h", start="2026-03-28T12:00:10Z"))


@pytest.mark.spec("O4", "resets")
def test_while_its_orchestrator_is_there_an_occurrence_runs_for_as_long_as_it_takes() -> None:
    async def story(world: World) -> None:
        await long_job(world)
        node = world.node()
        async with world.running(node):
            ref = await running(world, node)
            await world.sleep_until(300.0)
            assert await misses(node, ref) <= 1
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.RUNNING

    played(story)


@pytest.mark.spec("O4", "missed")
def test_one_miss_for_each_whole_interval_and_any_heartbeat_resets() -> None:
    async def story(world: World) -> None:
        await long_job(world)
        node = world.node()
        async with world.running(node):
            ref = await running(world, node)
            node._orchestrators.carry_out(Forget([ref]))
            await world.sleep_until(19.9)
            assert await misses(node, ref) == 0
            await world.sleep_until(20.1)
            assert await misses(node, ref) == 1
            await world.sleep_until(39.0)
            assert await misses(node, ref) == 2
            await node.inbox.send(Heartbeats([ref]))
            await asyncio.sleep(0.1)
            assert await misses(node, ref) == 0
            await world.sleep_until(65.0)
            assert await misses(node, ref) == 2
            node._orchestrators.carry_out(Follow([ref]))
            await world.sleep_until(200.0)
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.RUNNING

    played(story)


@pytest.mark.spec("O4", "orphaned")
def test_after_three_misses_it_is_orphaned_with_when_it_was_last_seen_and_its_work_is_ended() -> None:
    async def story(world: World) -> None:
        ended: list[float] = []

        async def long(ctx: Any) -> None:
            try:
                await asyncio.sleep(3_600.0)
            finally:
                ended.append(world.loop.time())

        await world.register("long", long, schedule=every("1h", start="2026-03-28T12:00:10Z"))
        node = world.node()
        async with world.running(node):
            ref = await running(world, node)
            shown: ActiveOccurrence = await node.ask(lambda reply: OccurrenceAsked(ref, reply))
            seen_at = shown.last_heartbeat_at
            node._orchestrators.carry_out(Forget([ref]))
            await world.sleep_until(39.5)
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.RUNNING
            await world.sleep_until(46.5)
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.ORPHANED
            assert row.reason is not None
            assert str(seen_at) in row.reason
            assert [attempt.status for attempt in (await world.detail(row)).attempts] == [TaskState.FAILED]
            assert len(ended) == 1
            (line,) = world.log.said("occurrence.orphaned")
            assert (line["occurrence"], line["last_seen"]) == (ref, seen_at)

    played(story)


@pytest.mark.spec("O4", "a late result")
def test_a_late_result_of_an_orphan_is_logged_and_changes_nothing() -> None:
    async def story(world: World) -> None:
        await long_job(world)
        node = world.node()
        async with world.running(node):
            ref = await running(world, node)
            node._orchestrators.carry_out(Forget([ref]))
            await world.sleep_until(46.5)
            before = await world.detail((await world.rows("long"))[0])
            assert before.row.status is OccurrenceState.ORPHANED
            late = Ended(AttemptKey(ref, 0, 1), Succeeded('"too late"'))
            await node.inbox.send(AttemptsReported([late]))
            await asyncio.sleep(5.0)
            assert await world.detail((await world.rows("long"))[0]) == before
            assert [line["attempt"] for line in world.log.said("attempt.late_report")][-1] == (ref, 0, 1)

    played(story)
