"""A job that changes while a node runs: what has begun goes on as it was, what follows is as it is now (R6–R8, D10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.jobs.declaration import DeclarationContext
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import NOTHING
from itinerary.model.policies import UpdatePolicy
from itinerary.model.rows import EntryKind, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.task import Task
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.job_updates import DefinitionChange, Updates
from itinerary.read.timeline_view import NodeView, StoreView
from itinerary.runtime.node import Node
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

S = OccurrenceState


def updates(world: World, node: Node) -> Updates:
    rules = DeclarationContext(world.registry, NOTHING, {})
    return Updates(world.store, NodeView(world.store, node), "anna", rules, lambda: UpdatePolicy.IMMEDIATE)


def told(rows: list[OccurrenceRow]) -> list[tuple[int, OccurrenceState, int]]:
    return [((row.instant - EPOCH) // SECOND, row.status, row.version) for row in rows]


async def define(world: World, from_version: int, *names: str, takes: float = 0.0) -> None:
    """A version of `etl` with these tasks, entered from elsewhere."""

    async def work(ctx: Any) -> None:
        world.began.append(f"{ctx.task} {ctx.version}")
        await asyncio.sleep(takes)

    python = world.registry.register(work, f"world:etl.after_{from_version}")
    tasks = tuple(
        Task(id=task_id(job_id("etl"), name), name=name, order=place, definition={"python": python})
        for place, name in enumerate(names)
    )
    body = to_json(Definition(schedule=every("1m").to_json(), tasks=tasks)).decode()
    view = await StoreView.of(world.store)
    entry = TimelineEntryRequest(
        job="etl",
        kind=EntryKind.VERSION,
        request=f"from {from_version}",
        by="anna",
        from_version=from_version,
        body=body,
    )
    (answer,) = await world.store.amend([entry], judge_by(view.timeline))
    assert isinstance(answer, EntryAccepted)


@pytest.mark.spec("R8")
def test_a_new_task_is_in_every_later_occurrence_and_a_removed_one_keeps_its_history() -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract")
        async with world.running(world.node()):
            await world.sleep_until(55)
            await define(world, 1, "extract", "load")  # with the next occurrence claimed already
            await world.sleep_until(115)
            await define(world, 2, "load")
            await world.sleep_until(125)
            assert world.began == ["extract 1", "extract 2", "load 2", "load 3"]
            rows = await world.due("etl")
            assert told(rows) == [(0, S.COMPLETED, 1), (60, S.COMPLETED, 2), (120, S.COMPLETED, 3)]
            tasks = [[task.name for task in (await world.detail(row)).tasks] for row in rows]
            assert tasks == [["extract"], ["extract", "load"], ["load"]]

    played(story)


@pytest.mark.spec("R8")
@pytest.mark.spec("R6", "what runs keeps its version")
def test_what_runs_finishes_with_the_tasks_that_it_began_with() -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract", "load", takes=20)
        async with world.running(world.node()):
            await world.sleep_until(5)
            await define(world, 1, "other")
            await world.sleep_until(65)
            assert world.began == ["extract 1", "load 1", "other 2"]

    played(story)


@pytest.mark.spec("R8")
def test_a_changed_configuration_needs_no_rescheduling() -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract")
        node = world.node()
        async with world.running(node):
            await world.sleep_until(55)
            (before,) = [row for row in await world.rows("etl") if row.instant == EPOCH + 60 * SECOND]
            diff = await updates(world, node).update("etl", DefinitionChange(options={"task_timeout": "7s"}))
            assert (diff.added, diff.removed) == ((), ())
            await world.sleep_until(65)
            (after,) = [row for row in await world.rows("etl") if row.instant == EPOCH + 60 * SECOND]
            assert (after.ref, after.fence, after.version) == (before.ref, before.fence, 2)
            assert (await world.detail(after)).config.count('"7s"') or "7000000" in (await world.detail(after)).config

    played(story)


@pytest.mark.spec("R7", "one that a later version restores runs again")
def test_what_an_update_takes_away_is_cancelled_and_runs_when_another_restores_it() -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract")
        node = world.node()
        async with world.running(node):
            await world.sleep_until(55)
            await updates(world, node).update("etl", DefinitionChange(schedule=every("7h"), from_version=1))
            assert told(await world.rows("etl"))[-1] == (60, S.CANCELLED, 1)
            await updates(world, node).update("etl", DefinitionChange(to_version=1, from_version=2))
            await world.sleep_until(65)
            row = (await world.due("etl"))[-1]
            assert (row.status, row.version) == (S.COMPLETED, 3)
            assert row.started_at is not None
            assert row.started_at - row.instant <= SECOND, "it is nobody's, and found by the next look for work"

    played(story)


@pytest.mark.spec("R7", "graceful")
def test_a_graceful_update_runs_the_next_old_instant_and_then_the_new_ones() -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract")
        node = world.node()
        async with world.running(node):
            await world.sleep_until(30)
            await updates(world, node).update("etl", DefinitionChange(schedule=every("25s"), policy="graceful"))
            await world.sleep_until(130)
            assert told(await world.due("etl")) == [
                (0, S.COMPLETED, 1),
                (60, S.COMPLETED, 1),
                (75, S.COMPLETED, 2),
                (100, S.COMPLETED, 2),
                (125, S.COMPLETED, 2),
            ]

    played(story)


@pytest.mark.spec("D10", "a stale index starts nothing of it")
@pytest.mark.parametrize("before", [5.0, 0.01, 0.0001], ids=["in time", "hardly", "in the last moment"])
def test_a_stale_index_starts_nothing_of_a_removed_job(before: float) -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract")
        node = world.node()
        async with world.running(node):
            await world.sleep_until(60 - before)
            somebody = StatusChanges(world.store, await StoreView.of(world.store), "ben")
            await somebody.remove("etl", "moved elsewhere")
            await world.sleep_until(200)
            rows = [(at, status) for at, status, _ in told(await world.due("etl"))]
            assert rows == [(0, S.COMPLETED), (60, S.CANCELLED)]
            assert world.began == ["extract 1"]

    played(story)


@pytest.mark.spec("D10", "the same name continues its versions")
def test_a_removed_job_that_is_registered_again_goes_on_with_its_next_version() -> None:
    async def story(world: World) -> None:
        await define(world, 0, "extract")
        node = world.node()
        async with world.running(node):
            await world.sleep_until(30)
            await StatusChanges(world.store, NodeView(world.store, node), "anna").remove("etl", None)
            await world.sleep_until(90)
            await define(world, 1, "extract")
            await world.sleep_until(125)
            rows = await world.due("etl")
            assert told(rows) == [(0, S.COMPLETED, 1), (120, S.COMPLETED, 2)]
            assert len({row.job for row in rows}) == 1

    played(story)
