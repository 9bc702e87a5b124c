"""A rehearsal: a real node on a clock that the test moves (U11)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import structlog

from itinerary import ExecutionContext, Itinerary, Retry, cron, every, iso8601, once
from itinerary.errors import ClockError, NodeError, UnknownZone
from itinerary.testing import Rehearsal

pytestmark = pytest.mark.spec("U11")

NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture
def app() -> Itinerary:
    return Itinerary()


@pytest.fixture
def rehearse() -> Iterator[Callable[..., Rehearsal]]:
    begun: list[Rehearsal] = []

    def begin(app: Itinerary, **options: object) -> Rehearsal:
        begun.append(Rehearsal(app, **options))  # type: ignore[arg-type]  # passed on as they come
        return begun[-1]

    yield begin
    for rehearsal in begun:
        rehearsal.close()


Begin = Callable[..., Rehearsal]


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_night_with_a_missing_hour_runs_each_job_once(app: Itinerary, rehearse: Begin) -> None:
    @app.job(cron("0 5 * * *", tz="America/New_York"))
    async def nightly_report() -> None: ...

    @app.job(cron("30 2 * * *", tz="America/New_York"))
    async def in_the_gap() -> None: ...

    run = rehearse(app, start="2026-03-08T00:00", tz="America/New_York")
    run.advance(days=1)
    assert run.history("nightly_report").statuses == ["completed"]
    assert run.history("in_the_gap").instants == [datetime(2026, 3, 8, 3, 0, tzinfo=NEW_YORK)]
    assert run.now == datetime(2026, 3, 9, tzinfo=NEW_YORK)


def test_a_day_is_one_of_the_calendar_and_an_hour_is_exact(app: Itinerary, rehearse: Begin) -> None:
    run = rehearse(app, start="2026-11-01T00:00", tz="America/New_York")
    run.advance(hours=24)
    assert run.now == datetime(2026, 11, 1, 23, 0, tzinfo=NEW_YORK)
    run.advance("1h")
    run.advance(weeks=1, days=-6, minutes=30)
    assert run.now == datetime(2026, 11, 3, 0, 30, tzinfo=NEW_YORK)


def test_what_is_due_at_the_moment_that_time_leads_to_has_happened_and_nothing_twice(
    app: Itinerary, rehearse: Begin
) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = rehearse(app, start="2026-01-01T00:00")
    run.advance_to("2026-01-01T01:00")
    assert len(run.history("hourly")) == 1
    run.advance(hours=1)
    run.advance(days=2)
    assert run.history("hourly").statuses == ["completed"] * 50


def test_a_hundred_days_of_an_hourly_job_are_whole(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = rehearse(app)
    run.advance(days=100)
    history = run.history("hourly")
    assert history.statuses == ["completed"] * 2400
    assert all(report.lateness is not None and report.lateness.total_seconds() == 0 for report in history.reports)
    assert not [line for line in run.logs if line.level in ("warning", "error")]


def test_time_goes_to_the_next_run(app: Itinerary, rehearse: Begin) -> None:
    @app.job(once("2026-12-31T23:59:00Z"))
    def fireworks() -> None: ...

    @app.job(iso8601("R/2026-01-31T09:00/P1M"))
    def invoices() -> None: ...

    run = rehearse(app)
    assert [(one.job, one.at.day) for one in run.upcoming("invoices", count=3)] == [
        ("invoices", 31),
        ("invoices", 28),
        ("invoices", 31),
    ]
    assert run.advance_to_next() == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert run.history("invoices").statuses == ["completed"]
    assert run.advance_to_next("fireworks") == run.now == datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    with pytest.raises(ClockError, match="job 'fireworks' is to run again"):
        run.advance_to_next("fireworks")


def test_time_does_not_go_back(app: Itinerary, rehearse: Begin) -> None:
    run = rehearse(app, start="2026-01-01T12:00")
    with pytest.raises(ClockError, match=r"shows 2026-01-01T12:00:00\+00:00 and cannot go back to 2026-01-01T11:00"):
        run.advance_to("2026-01-01T11:00")
    with pytest.raises(ClockError, match="cannot go back"):
        run.advance(days=-1)
    run.advance(0)


def test_a_zone_that_nobody_knows_is_refused_with_the_nearest(app: Itinerary, rehearse: Begin) -> None:
    with pytest.raises(UnknownZone, match="'Europe/Berlin'"):
        rehearse(app, tz="Europe/Berln")


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_what_a_coroutine_awaits_takes_the_time_of_the_clock(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1d"), task_timeout="40m")
    async def long() -> None:
        await asyncio.sleep(1800)

    run = rehearse(app)
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


def test_a_plain_function_runs_in_a_thread_and_takes_no_time(app: Itinerary, rehearse: Begin) -> None:
    app.job(every("1h"))(plain)
    app.job(every("1h"), name="elsewhere", executor="process")(plain)
    threads.clear()
    run = rehearse(app)
    run.advance(hours=2)
    assert run.history("plain").statuses == run.history("elsewhere").statuses == ["completed", "completed"]
    assert len(threads) == 4
    assert threading.current_thread() not in threads


def test_a_plain_function_that_waits_for_real_time_is_named(app: Itinerary, rehearse: Begin) -> None:
    released = threading.Event()

    @app.job(every("1h"))
    def sleepy() -> None:
        released.wait()

    run = rehearse(app, patience=0.05)
    try:
        with pytest.raises(ClockError, match=r"task 'sleepy' of job 'sleepy': has run for 0\.05 seconds of real time"):
            run.advance(hours=1)
    finally:
        released.set()


def test_a_coroutine_may_use_threads_and_a_task_may_ask_the_app(app: Itinerary, rehearse: Begin) -> None:
    @app.job(cron("0 1 * * *"))
    async def first() -> str:
        await app["second"].trigger()
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    @app.job(cron("0 2 30 1 *"))
    def second() -> None:
        app.blocking(app["third"].trigger())

    @app.job(cron("0 2 30 1 *"))
    async def third() -> None: ...

    run = rehearse(app)
    run.advance(hours=2)
    assert [run.history(job).statuses for job in ("first", "second", "third")] == [["completed"]] * 3


def test_time_passes_while_a_plain_function_waits_for_another_job(app: Itinerary, rehearse: Begin) -> None:
    @app.job(cron("0 1 * * *"))
    def first() -> None:
        node = run.node
        report = app.blocking(node.wait(app.blocking(app["second"].trigger())))
        assert report.duration is not None
        assert report.duration.total_seconds() == 120

    @app.job(cron("0 2 30 1 *"))
    async def second() -> None:
        await asyncio.sleep(120)

    run = rehearse(app)
    run.advance(hours=1, minutes=3)
    assert run.history("first").statuses == run.history("second").statuses == ["completed"]


def test_the_error_of_a_task_comes_with_its_traceback(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    def broken() -> None:
        raise ValueError("no rows")

    run = rehearse(app)
    run.advance(hours=1)
    (error,) = run.history("broken").errors
    assert error.endswith("ValueError: no rows")
    assert "in broken" in error
    assert "failed" in repr(run.history("broken"))


def test_retries_wait_as_long_as_they_should(app: Itinerary, rehearse: Begin) -> None:
    tries = []

    @app.job(cron("0 1 * * *"), retry=Retry(max_retries=3, retry_interval="1m", backoff_factor=2.0))
    async def stubborn(ctx: ExecutionContext) -> None:
        tries.append(ctx.started_at)
        if ctx.attempt < 4:
            raise OSError("not yet")

    run = rehearse(app)
    run.advance(hours=2)
    assert [(later - tries[0]).total_seconds() for later in tries] == [0, 60, 180, 420]
    assert run.history("stubborn").statuses == ["completed"]
    assert run.history("stubborn")[0].attempts == 4


def test_overlap_is_decided_as_always(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"), overlap="skip", task_timeout="3h", execution_timeout="4h")
    async def slow() -> None:
        await asyncio.sleep(5400)

    run = rehearse(app)
    run.advance(hours=4)
    assert run.history("slow").statuses == ["completed", "skipped", "running", "skipped"]
    assert (run.history("slow")[1].reason or "").startswith("overlaps occurrence")


def test_a_task_that_takes_a_week_keeps_everybody_else_on_time(app: Itinerary, rehearse: Begin) -> None:
    @app.job(once("2026-01-01T00:30Z"), task_timeout="8d", execution_timeout="9d")
    async def long() -> None:
        for _ in range(7):
            await asyncio.sleep(86_400)

    @app.job(every("6h"), overlap="queue", task_timeout="10h", execution_timeout="10h", retry=Retry(1, "2h"))
    async def short(ctx: ExecutionContext) -> None:
        if ctx.scheduled_at.day == 2 and ctx.attempt == 1:
            raise OSError("not today")

    run = rehearse(app)
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


def test_a_task_over_its_time_is_a_timeout(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"), task_timeout="10m")
    async def endless() -> None:
        await asyncio.Event().wait()

    run = rehearse(app)
    run.advance(minutes=71)
    (past,) = run.history("endless")
    assert past.status == "failed"
    assert past.report.tasks[0].attempts[0].status == "timeout"


def test_hooks_and_requirements_are_part_of_it(app: Itinerary, rehearse: Begin, tmp_path: Path) -> None:
    told = []
    job = app.job("load", cron("0 1 * * *"))
    job.requires(file=str(tmp_path / "ready"), on_unmet="wait", every="5m", deadline="2h")

    @job.task
    async def load() -> None: ...

    @job.on_complete
    def tell(report: object) -> None:
        told.append(report)

    run = rehearse(app)
    run.advance(hours=1, minutes=32)
    assert run.history("load").statuses == ["condition_pending"]
    (tmp_path / "ready").touch()
    run.advance(minutes=10)
    assert run.history("load").statuses == ["completed"]
    assert len(told) == 1


# -- fakes -------------------------------------------------------------------------------------------------------------


def with_commands(app: Itinerary) -> Itinerary:
    etl = app.job("etl", every("1h"), retry=Retry(2, "1m"))
    etl.shell("compress", ["gzip", "-9", "out.csv"])
    etl.http("announce", "https://example.org/hook", method="POST")
    return app


def test_a_command_is_not_run_by_a_test_which_is_told_what_to_do(app: Itinerary, rehearse: Begin) -> None:
    run = rehearse(with_commands(app))
    with pytest.raises(ClockError, match=r"run.fake\('etl/compress'\)"):
        run.advance(hours=1)


def test_fakes_stand_in_for_tasks(app: Itinerary, rehearse: Begin) -> None:
    run = rehearse(with_commands(app))
    compress = run.fake("compress", raises=[OSError("disk full"), None], takes="30s")
    announce = run.fake("etl/announce", does=lambda ctx: {"job": ctx.job})
    run.advance(hours=1, minutes=5)
    report = run.history("etl").reports[0]
    assert report.outcome == "completed"
    assert [len(task.attempts) for task in report.tasks] == [2, 1]
    assert [ctx.attempt for ctx in compress.calls] == [1, 2]
    assert report.started_at is not None
    assert [(ctx.started_at - report.started_at).total_seconds() for ctx in announce.calls] == [120]
    assert "OSError: disk full" in run.history("etl").errors[0]


def test_a_fake_says_which_task_it_could_be(app: Itinerary, rehearse: Begin) -> None:
    run = rehearse(with_commands(app))
    with pytest.raises(ClockError, match="did you mean 'etl/compress'"):
        run.fake("etl/compres")
    with pytest.raises(ClockError, match="several tasks; say which: etl/compress, etl/announce"):
        run.fake("etl")


@pytest.mark.parametrize("opens", ["connection", "process"])
def test_a_coroutine_that_wants_a_socket_is_told_that_there_is_none(
    app: Itinerary, rehearse: Begin, opens: str
) -> None:
    @app.job(every("1h"))
    async def outside() -> None:
        if opens == "connection":
            await asyncio.open_connection("127.0.0.1", 9)
        else:
            await asyncio.create_subprocess_exec("true")

    run = rehearse(app)
    with pytest.raises(ClockError, match="wants a socket, a signal or a child process"):
        run.advance(hours=1)
    assert run.history("outside").statuses == ["failed"]


# -- people ------------------------------------------------------------------------------------------------------------


def test_a_pause_skips_and_a_trigger_runs(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = rehearse(app)
    run.pause("hourly", reason="migration")
    run.advance(hours=2, minutes=30)
    run.resume("hourly")
    run.skip("hourly", run.upcoming("hourly", count=1)[0].at, reason="holiday")
    run.advance(hours=2)
    assert run.history("hourly").statuses == ["skipped", "skipped", "skipped", "completed"]
    triggered = run.trigger("hourly", reason="by hand")
    assert triggered.key.request == "trigger 1"
    assert [str(one.report.kind) for one in run.history("hourly")[-1:]] == ["trigger"]
    assert run.wait(triggered).outcome == "completed"
    assert run.call(run.node.wait(run.call(run.node.replay(triggered)))).outcome == "completed"


def test_handles_of_the_app_work_too(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None:
        await asyncio.sleep(600)

    run = rehearse(app)
    app.blocking(app["hourly"].pause(until=datetime(2026, 1, 1, 2, 30, tzinfo=UTC)))
    assert app["hourly"].is_paused
    run.advance(hours=3)
    assert run.history("hourly").statuses == ["skipped", "skipped", "running"]
    running = run.trigger("hourly", overlap="allow")
    assert run.cancel(running, reason="enough")
    assert run.wait(running).outcome == "cancelled"


def test_a_loop_over_occurrences_runs_beside_the_test(app: Itinerary, rehearse: Begin) -> None:
    ticks = app.job("ticks", every("1h"))
    seen: list[tuple[str, int]] = []

    async def follow() -> None:
        async for ctx in ticks:
            await asyncio.sleep(60)
            seen.append((ctx.job, ctx.scheduled_at.hour))

    run = rehearse(app)
    run.spawn(follow())
    run.advance(hours=3, minutes=2)
    assert seen == [("ticks", 1), ("ticks", 2), ("ticks", 3)]


# -- nodes that go and come --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_missed_while_nobody_was_there_is_recovered(app: Itinerary, rehearse: Begin, crash: bool) -> None:
    recovered = []

    @app.job(every("1h"))
    async def hourly(ctx: ExecutionContext) -> None:
        recovered.append(ctx.is_recovery)

    @app.job(every("1h"), recovery="execute_last")
    async def last() -> None: ...

    run = rehearse(app)
    run.advance(hours=1)
    run.down(hours=3, minutes=10, crash=crash)
    run.advance(minutes=10)
    assert run.history("hourly").statuses == ["completed"] * 4
    assert recovered == [False, True, True, True]
    assert run.history("last").statuses == ["completed", "missed", "missed", "completed"]


def test_what_a_killed_node_ran_is_orphaned_and_its_code_goes_no_further(app: Itinerary, rehearse: Begin) -> None:
    steps = []

    @app.job(every("1d"), task_timeout="20m")
    async def long() -> None:
        steps.append("begun")
        await asyncio.sleep(600)
        steps.append("ended")

    run = rehearse(app)
    run.advance(days=1, minutes=5)
    run.crash()
    assert not run.is_running
    with pytest.raises(ClockError, match="no node runs now"):
        run.trigger("long")
    run.start()
    run.advance(minutes=30)
    assert run.history("long").statuses == ["orphaned"]
    assert steps == ["begun"]


def test_a_graceful_end_cancels_what_runs(app: Itinerary, rehearse: Begin) -> None:
    ends = []

    @app.job(every("1d"))
    async def long() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    run = rehearse(app)
    run.advance(days=1)
    run.shut_down()
    assert run.history("long").statuses == ["cancelled"]
    assert ends == ["cancelled"]


# -- transactions ------------------------------------------------------------------------------------------------------


def test_a_tasks_transaction_commits_with_its_success_or_not_at_all(app: Itinerary, rehearse: Begin) -> None:
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

    run = rehearse(app)
    run.database.execute("create table ledger (attempt)")
    run.advance(hours=1, minutes=5)
    assert run.history("ledger").statuses == run.history("plain").statuses == ["completed"]
    assert run.database.execute("select * from ledger").fetchall() == [(100,), (2,)]
    run.advance_to_next("endless")
    run.advance(minutes=1)
    assert "took longer than 10 s" in run.history("endless").errors[0]
    run.down(minutes=1)
    assert run.database.execute("select count(*) from ledger").fetchone()[0] > 40


# -- what is kept, and what is not -------------------------------------------------------------------------------------


def test_what_tasks_and_node_log_is_kept(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    async def talking(ctx: ExecutionContext) -> None:
        ctx.log.info("building", rows=3)

    @app.job(every("1h"))
    def plain(ctx: ExecutionContext) -> None:
        ctx.log.warning("odd")

    before = list(structlog.get_config()["processors"])
    run = rehearse(app)
    structlog.get_logger().info("not of a task")
    run.advance(hours=1)
    (fields,) = run.logged("building")
    assert (fields["rows"], fields["job"], fields["attempt"]) == (3, "talking", 1)
    assert len(run.logged("odd")) == len(run.logged("node.started")) == 1
    assert not run.logged("not of a task")
    run.close()
    assert structlog.get_config()["processors"] == before


def test_two_apps_have_clocks_of_their_own(rehearse: Begin) -> None:
    one, two = Itinerary(), Itinerary()
    for app in (one, two):

        @app.job(every("1h"), name="hourly")
        async def hourly(ctx: ExecutionContext) -> None:
            ctx.log.info("here")

    first, second = rehearse(one), rehearse(two, start="2030-01-01")
    first.advance(hours=2)
    second.advance(hours=1)
    assert (len(first.history("hourly")), len(second.history("hourly"))) == (2, 1)
    assert (len(first.logged("here")), len(second.logged("here"))) == (2, 1)


def test_an_app_that_runs_a_node_is_not_rehearsed_meanwhile(app: Itinerary, rehearse: Begin) -> None:
    run = rehearse(app)
    with pytest.raises(NodeError, match="runs a node already"):
        rehearse(app)
    run.close()
    rehearse(app).advance(hours=1)


def test_nothing_is_left_of_a_rehearsal(app: Itinerary, rehearse: Begin) -> None:
    threads = set(threading.enumerate())
    ends = []

    @app.job(every("1h"))
    async def long() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ends.append("clean-up")

    @app.job(every("1h"))
    async def in_a_transaction(ctx: ExecutionContext) -> None:
        async with ctx.transaction():
            await asyncio.sleep(10)

    run = rehearse(app)
    run.advance(hours=1)
    run.spawn(asyncio.sleep(60))
    run.close()
    run.close()
    assert ends == ["clean-up"]
    assert not app.is_running
    assert set(threading.enumerate()) == threads
    with pytest.raises(ClockError, match="this rehearsal is over"):
        run.advance(hours=1)
    assert run.history("long").statuses == ["running"]
    assert "long" in run.describe()


def test_a_job_that_there_is_not_comes_with_the_nearest(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    async def nightly_report() -> None: ...

    run = rehearse(app)
    with pytest.raises(ClockError, match="no job 'nightly_reports' in this app; did you mean 'nightly_report'"):
        run.history("nightly_reports")
    with pytest.raises(ClockError, match="there are nightly_report"):
        run.trigger("x")


def test_a_task_cannot_move_the_clock(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    def meddling() -> None:
        run.advance(hours=1)

    run = rehearse(app)
    run.advance(hours=1)
    assert "ClockError: the clock is moved by the test" in run.history("meddling").errors[0]


def test_it_works_inside_a_coroutine(app: Itinerary, rehearse: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None:
        await asyncio.sleep(60)

    async def story() -> None:
        run = rehearse(app)
        run.advance(hours=1, minutes=2)
        await app["hourly"].pause()
        run.advance(hours=1)
        assert run.history("hourly").statuses == ["completed", "skipped"]
        run.close()

    asyncio.run(story())


def test_the_same_test_comes_out_the_same(rehearse: Begin) -> None:
    def story() -> list[str]:
        app, order = Itinerary(), list[str]()

        def plain(ctx: ExecutionContext) -> None:
            order.append(ctx.job)

        async def coroutine(ctx: ExecutionContext) -> None:
            order.append(ctx.job)

        for number in range(10):
            app.job(every("1h"), name=f"plain {number}")(plain)
            app.job(every("1h"), name=f"coroutine {number}")(coroutine)
        rehearse(app).advance(hours=3)
        return order

    first = story()
    assert len(first) == 60
    assert first == story()
