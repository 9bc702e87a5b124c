"""Time that is skipped makes no difference: a story comes out as if the node had lived through each second (U11)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from itinerary import ExecutionContext, Itinerary, Retry, cron, every
from itinerary.testing import TestNode
from itinerary.testing.time_control import ClockControl

pytestmark = pytest.mark.spec("U11", "skipping")

LOOKS = 10.0
"""A node looks around every second or five; where some of that is skipped, it finds things a little sooner or later."""


def busy() -> Itinerary:  # noqa: C901 - a list of jobs
    app = Itinerary()

    async def takes(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @app.job(every("7m", jitter="3m"))
    async def jittered() -> None:
        await takes(1.5)

    @app.job(every("20m"), overlap="queue", task_timeout="2h", execution_timeout="3h")
    async def queued(ctx: ExecutionContext) -> None:
        await takes(1500 if ctx.scheduled_at.hour == 0 else 3)

    @app.job(every("15m"), overlap="replace", task_timeout="2h", execution_timeout="2h")
    async def replaced() -> None:
        await takes(1000)

    @app.job(cron("5 * * * *"), retry=Retry(3, "2m", 2.0, jitter=0.5), task_timeout="1m")
    async def retried(ctx: ExecutionContext) -> None:
        if ctx.attempt < 3:
            await takes(90 if ctx.attempt == 1 else 0)
            raise OSError("again")

    several = app.job("several", cron("30 * * * *"), mode="parallel", failure="continue", execution_timeout="10m")

    @several.task
    async def first() -> None:
        await takes(45)

    @several.task
    def second() -> None:
        raise ValueError("always")

    @several.task
    async def third() -> None:
        await asyncio.Event().wait()

    waiting = app.job("waiting", cron("10 * * * *"))

    def is_ready(ctx: ExecutionContext) -> str:
        return "run" if ctx.started_at.minute >= 25 else "wait"

    waiting.requires(python=is_ready, on_unmet="wait", every="4m", deadline="30m")

    @waiting.task
    async def wait() -> None: ...

    @app.job(every("1m"))
    async def paused() -> None: ...

    return app


def lived(*, skips: bool, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    with monkeypatch.context() as patched:
        if not skips:
            patched.setattr(ClockControl, "_skip", lambda self, target: None)
        with closing(TestNode(busy())) as run:
            run.pause("paused", until=datetime(2026, 1, 1, 1, 59, 30, tzinfo=UTC))
            run.advance(hours=1, minutes=17)
            run.trigger("retried")
            run.advance(minutes=13)
            run.down("11m", crash=True)
            run.advance(hours=1)
            run.down("3m")
            run.advance(minutes=30)
            assert not [line for line in run.logs if line.event in ("clock.jumped", "inbox.full", "index.not_rebuilt")]
            return {job.name: [told(one.report) for one in run.history(job.name)] for job in run.app}


def told(report: Any) -> tuple[tuple[Any, ...], list[float]]:
    """What came of an occurrence, and all times in it; but for when a sweep came by that noted what a pause skipped."""
    tasks = [(task.name, str(task.status), *(str(one.status) for one in task.attempts)) for task in report.tasks]
    attempts = [attempt for task in report.tasks for attempt in task.attempts]
    times = [moment for one in (report, *attempts) for moment in (one.started_at, one.ended_at)]
    what = str(report.kind), report.scheduled_at, str(report.outcome), tasks, [moment is None for moment in times]
    is_swept = report.outcome == "skipped" and report.job == "paused"
    return what, [moment.timestamp() for moment in times if moment is not None and not is_swept]


def test_a_story_with_skipped_time_is_the_same_as_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = lived(skips=True, monkeypatch=monkeypatch)
    slow = lived(skips=False, monkeypatch=monkeypatch)
    assert quick.keys() == slow.keys()
    for job, rows in quick.items():
        assert [what for what, _ in rows] == [what for what, _ in slow[job]], job
        for (what, times), (_, others) in zip(rows, slow[job], strict=True):
            assert times == pytest.approx(others, rel=0, abs=LOOKS), what


def test_a_pause_of_a_job_each_second_does_not_keep_time_from_being_skipped() -> None:
    app = Itinerary()

    @app.job(every("1s"))
    async def paused() -> None: ...

    @app.job(cron("0 12 1 * *"))
    async def monthly() -> None: ...

    with closing(TestNode(app)) as run:
        run.pause("paused")
        run.advance(days=59)
        assert run.history("monthly").statuses == ["completed", "completed"]
        assert set(run.history("paused").statuses) == {"skipped"}
        assert len(run.history("paused")) < 1500


def test_time_ends_where_schedules_do() -> None:
    app = Itinerary()

    @app.job(cron("0 0 1 1 *"))
    async def yearly() -> None: ...

    with closing(TestNode(app, start="2197-06-01")) as run:
        assert [one.at.year for one in run.upcoming()] == [2198, 2199]
        run.advance_to("2199-12-31")
        assert len(run.history("yearly")) == 2
        assert run.upcoming() == []


def test_what_runs_is_heard_of_though_time_goes_in_small_leaps() -> None:
    app = Itinerary()

    @app.job(cron("1 0 1 1 *"), task_timeout="20m")
    async def long() -> None:
        for _ in range(100):
            await asyncio.sleep(6)

    with closing(TestNode(app)) as run:
        run.advance(minutes=12)
        assert run.history("long").statuses == ["completed"]
