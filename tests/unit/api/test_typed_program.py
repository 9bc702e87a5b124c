"""A program with types, as a user writes it: `mypy --strict` reads this file too, and that is the test of the types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_type

import pytest

from itinerary import ExecutionContext, Itinerary, Job, OccurrenceReport, Retry, RunningNode, RunReference, cron, every
from itinerary.model import Occurrence

app = Itinerary(store="memory:", name="typed", grace_period="1m", max_concurrent_jobs=5)


@app.job(
    cron("0 5 * * 1-5", tz="America/New_York"), overlap="skip", recovery="execute_last", retry=Retry(3, "30s", 2.0)
)
async def nightly(ctx: ExecutionContext) -> int:
    return ctx.attempt


etl = app.job("etl", every("15m"), mode="parallel", failure="fail_fast", task_timeout="5m")


@etl.task
def extract(ctx: ExecutionContext) -> str:
    return ctx.job


@etl.task(retry=Retry(10, "1m", 2.0), executor="process")
def crunch(ctx: ExecutionContext) -> None: ...


@etl.on_start
def greet(occurrence: Occurrence) -> None: ...


@etl.on_complete
async def notify(report: OccurrenceReport) -> None: ...


async def ask(node: RunningNode) -> None:
    handle = app["etl"]
    await handle.pause(reason="migration")
    run = await handle.trigger(key="once", task_timeout="1m", priority=3)
    assert_type(run, RunReference)
    assert_type(await node.wait(run), OccurrenceReport)
    assert_type(await handle.is_running(), bool)
    async for ctx in handle:
        assert_type(ctx, ExecutionContext)


def ask_and_wait(node: RunningNode) -> None:
    assert_type(app.blocking(node.wait("etl:1767225600")), OccurrenceReport)


@pytest.mark.spec("U1", "fully typed")
def test_a_decorated_function_keeps_its_type() -> None:
    job: Job = etl
    function: Callable[[ExecutionContext], Awaitable[int]] = nightly
    plain: Callable[[ExecutionContext], str] = extract
    assert (job.name, function.__name__, plain.__name__) == ("etl", "nightly", "extract")
    assert [one.name for one in app] == ["nightly", "etl"]
