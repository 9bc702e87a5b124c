"""What a task is told of the run before its own: the store says it, so a restart and a replay change nothing (X9)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from itinerary import ExecutionContext, Itinerary, every
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("X9")

Told = dict[datetime, datetime | None]


def hourly(app: Itinerary) -> Told:
    told: Told = {}

    @app.job(every("1h"), recovery="execute_all")
    async def report(ctx: ExecutionContext) -> None:
        told[ctx.scheduled_at] = ctx.last_run_at

    return told


@pytest.mark.parametrize("crash", [False, True])
def test_the_first_run_after_a_restart_is_told_of_the_last_run_before_it(
    app: Itinerary,
    start_node: Begin,
    crash: bool,
) -> None:
    told = hourly(app)
    run = start_node(app)
    run.advance(hours=2)
    run.down("3h", crash=crash)
    run.advance(hours=2)
    instants = sorted(told)
    assert len(instants) == 7
    assert [told[instant] for instant in instants] == [None, *instants[:-1]]


def test_a_replay_is_told_of_the_run_before_its_own_instant(app: Itinerary, start_node: Begin) -> None:
    told = hourly(app)
    run = start_node(app)
    run.advance(hours=4)
    first, second, third, fourth = sorted(told)
    told.clear()
    for past in reversed(run.history("report")[:2]):
        run.call(run.node.wait(run.call(run.node.replay(past.report.occurrence))))
    assert told == {second: first, first: None}
    run.advance(hours=1)
    assert told[fourth + timedelta(hours=1)] == fourth
    assert third not in told


def test_a_run_that_is_taken_over_after_a_crash_is_told_the_same_again(app: Itinerary, start_node: Begin) -> None:
    told: list[tuple[datetime, int, datetime | None]] = []

    @app.job(every("1h"), on_orphan="rerun", execution_timeout="2h", task_timeout="2h")
    async def report(ctx: ExecutionContext) -> None:
        told.append((ctx.scheduled_at, ctx.attempt, ctx.last_run_at))
        await asyncio.sleep(600)

    run = start_node(app)
    run.advance(hours=2, minutes=5)
    run.down("10m", crash=True)
    run.advance(minutes=20)
    (first, *_), (second, attempt, before), (again, next_attempt, before_again) = told
    assert (second, before) == (first + timedelta(hours=1), first)
    assert (again, before_again) == (second, first)
    assert (attempt, next_attempt) == (1, 2)
