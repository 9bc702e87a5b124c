"""Tasks in a test node: coroutines, threads, retries, overlap, timeouts, hooks, transactions (U11)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from itinerary import ExecutionContext, Itinerary, Retry, cron, every, once
from itinerary.errors import ClockError
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("U11")


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_what_a_coroutine_awaits_takes_the_time_of_the_clock(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1d"), task_timeout="40m")
    async def long() -> None:
        await asyncio.sleep(1800)

    run = start_node(app)
    run.advance(days=1)
    assert run.history("long").statuses == ["running"]
    run.advance(minutes=31)
    report = run.history("long").reports[0]
    assert report.outcome == "completed"
    assert report.duration is not None
    assert report.duration.total_seconds() == 1800


threads: list[threading.Thread] = []


def plain(ctx: ExecutionContext) -> str:
    threads.append(threading.current_thread())
    asyncio.run(asyncio.sleep(0))
    return ctx.job


def test_a_plain_function_runs_in_a_thread_and_takes_no_time(app: Itinerary, start_node: Begin) -> None:
    app.job(every("1h"))(plain)
    app.job(every("1h"), name="elsewhere", executor="process")(plain)
    app.job(every("1h"), name="in a pod", executor="pod", image="local/app:1")(plain)
    threads.clear()
    run = start_node(app)
    run.advance(hours=2)
    for name in ("plain", "elsewhere", "in a pod"):
        assert run.history(name).statuses == ["completed", "completed"]
    assert len(threads) == 6
    assert threading.current_thread() not in threads


def test_a_plain_function_that_waits_for_real_time_is_named(app: Itinerary, start_node: Begin) -> None:
    released = threading.Event()

    @app.job(every("1h"))
    def sleepy() -> None:
        released.wait()

    run = start_node(app, patience=0.05)
    try:
        with pytest.raises(ClockError, match=r"task 'sleepy' of job 'sleepy': has run for 0\.05 seconds of real time"):
            run.advance(hours=1)
    finally:
        released.set()


def test_a_coroutine_may_use_threads_and_a_task_may_ask_the_app(app: Itinerary, start_node: Begin) -> None:
    @app.job(cron("0 1 * * *"))
    async def first() -> str:
        await app["second"].trigger()
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    @app.job(cron("0 2 30 1 *"))
    def second() -> None:
        app.blocking(app["third"].trigger())

    @app.job(cron("0 2 30 1 *"))
    async def third() -> None: ...

    run = start_node(app)
    run.advance(hours=2)
    assert [run.history(job).statuses for job in ("first", "second", "third")] == [["completed"]] * 3


def test_time_passes_while_a_plain_function_waits_for_another_job(app: Itinerary, start_node: Begin) -> None:
    @app.job(cron("0 1 * * *"))
    def first() -> None:
        node = run.node
        report = app.blocking(node.wait(app.blocking(app["second"].trigger())))
        assert report.duration is not None
        assert report.duration.total_seconds() == 120

    @app.job(cron("0 2 30 1 *"))
    async def second() -> None:
        await asyncio.sleep(120)

    run = start_node(app)
    run.advance(hours=1, minutes=3)
    assert run.history("first").statuses == run.history("second").statuses == ["completed"]


def test_the_error_of_a_task_comes_with_its_traceback(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    def broken() -> None:
        raise ValueError("no rows")

    run = start_node(app)
    run.advance(hours=1)
    (error,) = run.history("broken").errors
    assert error.endswith("ValueError: no rows")
    assert "in broken" in error
    assert "failed" in repr(run.history("broken"))


def test_retries_wait_as_long_as_they_should(app: Itinerary, start_node: Begin) -> None:
    tries = []

    @app.job(cron("0 1 * * *"), retry=Retry(max_retries=3, retry_interval="1m", backoff_factor=2.0))
    async def stubborn(ctx: ExecutionContext) -> None:
        tries.append(ctx.started_at)
        if ctx.attempt < 4:
            raise OSError("not yet")

    run = start_node(app)
    run.advance(hours=2)
    assert [(later - tries[0]).total_seconds() for later in tries] == [0, 60, 180, 420]
    assert run.history("stubborn").statuses == ["completed"]
    assert run.history("stubborn")[0].attempts == 4


def test_overlap_is_decided_as_always(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"), overlap="skip", task_timeout="3h", execution_timeout="4h")
    async def slow() -> None:
        await asyncio.sleep(5400)

    run = start_node(app)
    run.advance(hours=4)
    assert run.history("slow").statuses == ["completed", "skipped", "running", "skipped"]
    assert (run.history("slow")[1].reason or "").startswith("overlaps occurrence")


def test_a_task_that_takes_a_week_keeps_everybody_else_on_time(app: Itinerary, start_node: Begin) -> None:
    @app.job(once("2026-01-01T00:30Z"), task_timeout="8d", execution_timeout="9d")
    async def long() -> None:
        for _ in range(7):
            await asyncio.sleep(86_400)

    @app.job(every("6h"), overlap="queue", task_timeout="10h", execution_timeout="10h", retry=Retry(1, "2h"))
    async def short(ctx: ExecutionContext) -> None:
        if ctx.scheduled_at.day == 2 and ctx.attempt == 1:
            raise OSError("not today")

    run = start_node(app)
    run.advance(days=8)
    (past,) = run.history("long")
    assert past.status == "completed"
    assert past.report.duration is not None
    assert past.report.duration.total_seconds() == 7 * 86_400
    history = run.history("short")
    assert history.statuses == ["completed"] * 32
    assert {one.report.tasks[0].retry_waits[0].total_seconds() for one in history if one.at.day == 2} == {7200}
    assert all(report.lateness is not None and report.lateness.total_seconds() == 0 for report in history.reports)
    assert not [line for line in run.logs if line.level in ("warning", "error")]


def test_a_task_over_its_time_is_a_timeout(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"), task_timeout="10m")
    async def endless() -> None:
        await asyncio.Event().wait()

    run = start_node(app)
    run.advance(minutes=71)
    (past,) = run.history("endless")
    assert past.status == "failed"
    assert past.report.tasks[0].attempts[0].status == "timeout"


def test_hooks_and_requirements_are_part_of_it(app: Itinerary, start_node: Begin, tmp_path: Path) -> None:
    told = []
    job = app.job("load", cron("0 1 * * *"))
    job.requires(file=str(tmp_path / "ready"), on_unmet="wait", every="5m", deadline="2h")

    @job.task
    async def load() -> None: ...

    @job.on_complete
    def notify(report: object) -> None:
        told.append(report)

    run = start_node(app)
    run.advance(hours=1, minutes=32)
    assert run.history("load").statuses == ["condition_pending"]
    (tmp_path / "ready").touch()
    run.advance(minutes=10)
    assert run.history("load").statuses == ["completed"]
    assert len(told) == 1


# -- transactions ------------------------------------------------------------------------------------------------------


def test_a_tasks_transaction_commits_with_its_success_or_not_at_all(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"), retry=Retry(1, "1m"))
    async def ledger(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("insert into ledger values (?)", [ctx.attempt])
            if ctx.attempt == 1:
                raise OSError("half way")

    @app.job(every("1h"))
    def plain(ctx: ExecutionContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into ledger values (?)", [len(tx.fetch("select * from ledger")) + 100])

    @app.job(cron("0 0 2 1 *"))
    async def endless(ctx: ExecutionContext) -> None:
        async with ctx.transaction(timeout=10):
            await asyncio.sleep(20)

    run = start_node(app)
    run.database.execute("create table ledger (attempt)")
    run.advance(hours=1, minutes=5)
    assert run.history("ledger").statuses == run.history("plain").statuses == ["completed"]
    assert run.database.execute("select * from ledger").fetchall() == [(100,), (2,)]
    run.advance_to_next("endless")
    run.advance(minutes=1)
    assert "took longer than 10 s" in run.history("endless").errors[0]
    run.down(minutes=1)
    assert run.database.execute("select count(*) from ledger").fetchone()[0] > 40
