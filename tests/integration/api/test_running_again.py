"""Replay and backfill, on a node that runs (R4, D1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from itinerary import ExecutionContext, Itinerary, cron
from itinerary.api import Backfill
from itinerary.errors import ConfigError, NodeError, WindowError
from itinerary.model import Kind, OccurrenceState, TaskState
from itinerary.model.ids import job_id, replay_id
from itinerary.model.queries import ByRefQuery
from itinerary.stores import open_store
from tests.hours import HOUR, HOURLY, LAST_HOUR
from tests.integration.api.conftest import run

MakeApp = Callable[[], Itinerary]
NEVER = cron("0 0 29 2 *")
S = OccurrenceState


def three_tasks(make_app: MakeApp, seen: list[tuple[str, int, bool]]) -> Itinerary:
    app = make_app()
    etl = app.job("etl", NEVER)

    @etl.task
    async def extract(ctx: ExecutionContext) -> None:
        seen.append(("extract", ctx.version, ctx.is_replay))

    @etl.task
    async def load(ctx: ExecutionContext) -> None:
        seen.append(("load", ctx.version, ctx.is_replay))

    @etl.task
    async def tidy(ctx: ExecutionContext) -> None:
        seen.append(("tidy", ctx.version, ctx.is_replay))

    return app


@pytest.mark.spec("R4", "replay")
@pytest.mark.spec("D1", "replay")
def test_a_replay_is_a_new_occurrence_linked_to_the_old_one_with_its_reason(make_app: MakeApp) -> None:
    seen: list[tuple[str, int, bool]] = []

    async def program() -> None:
        app = three_tasks(make_app, seen)
        async with app.running() as node:
            first = await app["etl"].trigger()
            original = await node.wait(first)
            again = await node.replay(first.id, reason="API fixed")
            report = await node.wait(again)
            assert (report.kind, report.replay_of, report.outcome) == (Kind.REPLAY, original.occurrence, S.COMPLETED)
            assert report.scheduled_at == original.scheduled_at
            assert report.reason == "API fixed"
            assert again.id == replay_id(job_id("etl"), first.id, 1)
            third = await node.replay(first, key="twice")
            assert await node.replay(first, key="twice") == third
            assert third.id == replay_id(job_id("etl"), first.id, 2)
            await node.wait(third)

    run(program())
    assert [name for name, _, is_replay in seen if is_replay] == ["extract", "load", "tidy"] * 2


@pytest.mark.spec("R4", "named tasks")
def test_named_tasks_are_run_again_and_the_others_are_not(make_app: MakeApp) -> None:
    seen: list[tuple[str, int, bool]] = []

    async def program() -> None:
        app = three_tasks(make_app, seen)
        async with app.running() as node:
            first = await app["etl"].trigger()
            await node.wait(first)
            one = await node.wait(await node.replay(first, tasks=["load"]))
            assert [(task.name, task.status) for task in one.tasks] == [("load", TaskState.SUCCESS)]
            two = await node.wait(await node.replay(first, tasks=["tidy", "extract"]))
            assert [task.name for task in two.tasks] == ["extract", "tidy"]
            with pytest.raises(ConfigError, match="has no task 'laod' in version 1; it has extract, load, tidy"):
                await node.replay(first, tasks=["laod"])

    run(program())
    assert [name for name, _, is_replay in seen if is_replay] == ["load", "extract", "tidy"]


@pytest.mark.spec("R4", "the version it uses")
@pytest.mark.spec("R6", "what runs keeps its version")
def test_a_replay_uses_the_version_of_the_original_or_the_one_in_force_now(make_app: MakeApp) -> None:
    seen: list[tuple[str, int, bool]] = []

    async def program() -> None:
        app = three_tasks(make_app, seen)
        async with app.running() as node:
            first = await app["etl"].trigger()
            await node.wait(first)
            diff = await app.update("etl", from_version=1, task_timeout="1m")
            assert (diff.version, diff.added, diff.removed) == (2, (), ())
            assert (await node.wait(await node.replay(first))).job_version == 1
            assert (await node.wait(await node.replay(first, version="current"))).job_version == 2
            with pytest.raises(ConfigError, match="version: 'newest' is unknown"):
                await node.replay(first, version="newest")  # type: ignore[arg-type]  # what is refused

    run(program())


@pytest.mark.spec("R4", "subject to overlap")
def test_a_replay_that_finds_its_job_running_waits_for_its_turn(make_app: MakeApp) -> None:
    app = make_app()
    begun, proceed = asyncio.Event(), asyncio.Event()

    @app.job(NEVER)
    async def work() -> None:
        begun.set()
        await proceed.wait()

    async def program() -> None:
        async with app.running() as node:
            proceed.set()
            first = await app["work"].trigger()
            await node.wait(first)
            proceed.clear()
            begun.clear()
            second = await app["work"].trigger()
            await begun.wait()
            with pytest.raises(NodeError, match="is running, and has not ended"):
                await node.replay(second)
            again = await node.replay(first)
            proceed.set()
            await node.wait(second)
            assert (await node.wait(again)).outcome is S.COMPLETED

    run(program())


@pytest.mark.spec("R4", "backfill")
@pytest.mark.spec("D1", "backfill")
def test_a_backfill_runs_what_nothing_ran_for_in_order_and_then_nothing_is_left(make_app: MakeApp, store: str) -> None:
    seen: list[datetime] = []
    app = make_app()

    @app.job(HOURLY)
    async def hourly(ctx: ExecutionContext) -> None:
        seen.append(ctx.scheduled_at)

    told: list[Backfill] = []

    async def program() -> None:
        async with app.running():
            end = LAST_HOUR - HOUR
            start = end - 5 * HOUR
            expected = [start + n * HOUR for n in range(5)]
            dry = await app["hourly"].backfill(start, end, dry_run=True)
            assert (list(dry.instants), dry.created, dry.is_dry, seen) == (expected, 0, True, [])
            done = await app["hourly"].backfill(
                start, end, max_active=2, reason="before our time", progress=told.append
            )
            assert (done.created, done.ended, done.left, done.looked_at) == (5, {S.COMPLETED: 5}, 0, 5)
            assert seen == expected
            assert [sum(one.ended.values()) for one in told][-1] == 5
            assert (await app["hourly"].backfill(start, end)).instants == ()
            again = await app["hourly"].backfill(start, end, which="all", key="once more")
            assert (again.created, again.ended) == (5, {S.COMPLETED: 5})
            same = await app["hourly"].backfill(start, end, which="all", key="once more")
            assert (same.created, same.ended) == (0, {S.COMPLETED: 5})
            assert seen == expected * 2
            with pytest.raises(ConfigError, match="which is to come"):
                await app["hourly"].backfill(start, end + timedelta(days=1))
            with pytest.raises(ConfigError, match="ends before it starts"):
                await app["hourly"].backfill(end, start)
            with pytest.raises(ConfigError, match="max_active"):
                await app["hourly"].backfill(start, end, max_active=0)
            with pytest.raises(WindowError, match="more than 100000 instants"):
                await app["hourly"].backfill(datetime(2000, 1, 1, tzinfo=UTC), end)

    run(program())

    async def kinds() -> None:
        async with open_store(store) as opened:
            rows = (await opened.read(ByRefQuery(tuple(range(1, 12))))).values()  # type: ignore[arg-type]  # numbers of rows
        by_kind = [row.kind for row in rows if row.kind is not Kind.SCHEDULED]
        assert by_kind.count(Kind.BACKFILL) == 5, "there was no row"
        assert by_kind.count(Kind.REPLAY) == 5, "and now there is one"

    run(kinds())


@pytest.mark.spec("R4", "backfill: failed")
def test_a_backfill_of_what_failed_runs_that_again_and_nothing_else(make_app: MakeApp) -> None:
    app = make_app()
    breaks = True
    seen: list[datetime] = []

    @app.job(HOURLY)
    async def hourly(ctx: ExecutionContext) -> None:
        seen.append(ctx.scheduled_at)
        if breaks and ctx.scheduled_at.hour % 2:
            raise ValueError("an odd hour")

    async def program() -> None:
        nonlocal breaks
        async with app.running():
            end = LAST_HOUR - HOUR
            start = end - 4 * HOUR
            first = await app["hourly"].backfill(start, end)
            assert first.ended == {S.COMPLETED: 2, S.FAILED: 2}
            breaks = False
            failed = await app["hourly"].backfill(start, end, which="failed")
            assert failed.ended == {S.COMPLETED: 2}
            assert {instant.hour % 2 for instant in failed.instants} == {1}
            assert (await app["hourly"].backfill(start, end, which="failed")).instants == ()

    run(program())
    assert len(seen) == 6
