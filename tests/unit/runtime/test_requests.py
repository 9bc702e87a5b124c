"""What people and others ask of a running node, and what it answers (L6, L12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.core.loop.messages import (
    ActiveAsked,
    CancelRequested,
    ConfigurationUpdated,
    OccurrenceAsked,
    StatisticsAsked,
)
from itinerary.core.loop.replies import ActiveOccurrence, LoopStatistics, RequestReply
from itinerary.errors import NodeError
from itinerary.model.rows import Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import AdjustRequest, CancelRequest, Refusal, Refused
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played


@pytest.mark.spec("O2", "configuration")
@pytest.mark.spec("L6", "update")
def test_a_configuration_that_is_updated_in_prerun_is_what_the_occurrence_starts_with() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(30.0))
        node = world.node()
        async with world.running(node):
            await world.sleep_until(55.0)
            row = (await world.rows("tick"))[-1]
            assert row.status is OccurrenceState.PRERUN
            await world.store.control(None, [AdjustRequest(row.ref, '{"task_timeout":"5s"}')])
            await world.sleep_until(80.0)
            (row,) = [one for one in await world.rows("tick") if one.ref == row.ref]
            assert (row.adjustments, row.status) == (1, OccurrenceState.FAILED)
            assert row.started_at == row.instant
            detail = await world.detail(row)
            assert [attempt.status.value for attempt in detail.attempts] == ["timeout"]
            assert '"task_timeout":5000000' in detail.config
            (answer,) = await world.store.control(None, [AdjustRequest(row.ref, '{"task_timeout":"1s"}')])
            assert isinstance(answer, Refused)
            assert answer.why is Refusal.LOST
            told: RequestReply = await node.ask(lambda reply: ConfigurationUpdated(row.ref, "{}", 2, reply))
            assert not told.done
            assert told.why

    played(story)


@pytest.mark.spec("L12", "cancel")
@pytest.mark.spec("O5")
def test_a_cancel_through_the_store_reaches_the_running_task_within_a_second() -> None:
    async def story(world: World) -> None:
        ended: list[str] = []

        async def long(ctx: Any) -> None:
            try:
                await asyncio.sleep(1_000.0)
            except asyncio.CancelledError:
                ended.append(ctx.job)
                raise

        await world.register("long", long)
        async with world.running(world.node()):
            await world.sleep_until(3.4)
            (row,) = await world.rows("long")
            assert row.status is OccurrenceState.RUNNING
            await world.store.control(None, [CancelRequest(row.ref, "anna: wrong data")])
            await world.sleep_until(4.4)
            assert ended == ["long"]
            await asyncio.sleep(0.5)
            row = next(one for one in await world.rows("long") if one.ref == row.ref)
            assert (row.status, row.reason) == (OccurrenceState.CANCELLED, "anna: wrong data")

    played(story)


@pytest.mark.spec("L6", "unknown")
def test_a_request_about_what_is_not_known_changes_nothing_and_is_told_why() -> None:
    async def story(world: World) -> None:
        node = world.node()
        async with world.running(node):
            told: RequestReply = await node.ask(lambda reply: CancelRequested(Ref(999), "anna", reply))
            assert told == RequestReply(done=False, why="it is not known here")
            assert await node.ask(lambda reply: OccurrenceAsked(Ref(999), reply)) is None
            assert world.log.said("request.refused")[0]["occurrence"] == 999

    played(story)


@pytest.mark.spec("L6", "statistics")
def test_it_says_how_it_is() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(30.0))
        node = world.node()
        async with world.running(node):
            await world.sleep_until(65.0)
            found: LoopStatistics = await node.ask(StatisticsAsked)
            active: list[ActiveOccurrence] = await node.ask(ActiveAsked)
            assert found.active == 1
            assert found.index_size == 10
            assert found.free_slots == 49
            assert [one.job for one in active] == ["long"]
            assert active[0].started_at == EPOCH + 60 * SECOND
            assert node.backlog == (0, node.backlog[1])
            assert node.inbox.statistics.received > 0

    played(story)


@pytest.mark.spec("L6", "a node that has ended")
def test_who_asks_a_node_that_ends_is_told_so_and_does_not_wait_for_ever() -> None:
    async def story(world: World) -> None:
        node = world.node()
        async with world.running(node) as run:
            await asyncio.sleep(1.0)
            run.cancel()
            question: asyncio.Task[Any] = asyncio.create_task(node.ask(StatisticsAsked))
            await asyncio.wait([run])
            with pytest.raises(NodeError, match="ended"):
                await question
            with pytest.raises(NodeError, match="ended"):
                await node.ask(StatisticsAsked)

    for seed in range(4):
        played(story, seed=seed)
