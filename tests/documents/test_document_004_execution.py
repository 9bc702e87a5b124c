"""Document 004, execution: retries, strategies, the cascade, the ten steps, overlap, timeouts, the pool (X1 to X8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from itinerary import ExecutionContext, Itinerary, OccurrenceReport, Retry, cron, every
from itinerary.model.config import freeze
from itinerary.model.overrides import OverrideLevel
from itinerary.model.policies import Failure, Mode, OnShutdown, Overlap
from itinerary.model.reasons import Reason, ReasonKind, read_reason
from itinerary.model.rows import Ref
from itinerary.observe.metrics import METRICS
from itinerary.schedules.durations import SECOND
from itinerary.testing import TestNode
from tests.documents.clock import Clock

MIDNIGHT = cron("0 0 * * *")
START = "2026-01-01T12:00"
"""When the clock starts: twelve hours before the first midnight."""

Task = Callable[[], Coroutine[Any, Any, None]]


async def fails() -> None:
    """A task that never succeeds."""
    raise ConnectionError("the API is down")


async def works() -> None:
    """A task that succeeds at once."""


def takes(seconds: float) -> Task:
    """Return a task that succeeds after that time."""

    async def wait() -> None:
        await asyncio.sleep(seconds)

    return wait


def minutes(*counts: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(minutes=count) for count in counts)


def report_of_midnight(run: TestNode, job: str) -> OccurrenceReport:
    """Let the midnight of the job come, and wait for the end of that run."""
    run.advance_to_next(job)
    run.advance(hours=23)
    return run.history(job)[0].report


def statuses(report: OccurrenceReport) -> dict[str, str]:
    return {task.name: task.status.value for task in report.tasks}


# -- retries -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("X3")
def test_three_retries_after_one_minute_with_factor_two_wait_one_two_and_four_minutes(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, retry policy configuration: 3 retries, 1 minute, factor 2.0. The fourth failure is for good."""
    app.job("report", MIDNIGHT, retry=Retry(max_retries=3, retry_interval="1m", backoff_factor=2.0)).task(fails)
    report = report_of_midnight(itinerary_clock(app, start=START), "report")
    (task,) = report.tasks
    assert [attempt.number for attempt in task.attempts] == [1, 2, 3, 4]
    assert task.retry_waits == minutes(1, 2, 4)
    assert (task.status, report.outcome) == ("failed", "failed")


@pytest.mark.spec("X3")
@pytest.mark.parametrize(("failure", "last"), [(Failure.FAIL_FAST, "skipped"), (Failure.CONTINUE, "success")])
def test_the_failure_strategy_decides_after_the_retry_policy_is_used_up(
    app: Itinerary, itinerary_clock: Clock, failure: Failure, last: str
) -> None:
    """004, retry policy and failure strategy: waits of 30 s and 1 min, then the strategy decides about the others.

    The document counts three attempts and calls that three retries. Our rule (X3) is that of its own policy table:
    retries come after the first attempt. So its flow of three attempts has `max_retries` 2.
    """
    flow = app.job("flow", MIDNIGHT, failure=failure, retry=Retry(2, "30s", 2.0))
    flow.task(fails, name="first")
    flow.task(works, name="last")
    report = report_of_midnight(itinerary_clock(app, start=START), "flow")
    first, _ = report.tasks
    assert (len(first.attempts), first.retry_waits) == (3, minutes(0.5, 1))
    assert statuses(report) == {"first": "failed", "last": last}
    assert report.outcome == ("failed" if failure == "fail_fast" else "completed_with_errors")


@pytest.mark.spec("X2", "fail_fast")
@pytest.mark.spec("X8")
def test_task_b_fails_after_five_waits_and_cancels_eight_peers(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, what an execution report tells: backoffs of 30 s, 1, 2, 4 and 8 min, then eight tasks in flight cancelled.

    The document writes five attempts. Five waits lie between six attempts, so our rule (X3) counts 5 retries.
    """
    job = app.job("fan-out", MIDNIGHT, mode="parallel", failure="fail_fast")
    job.task(fails, name="B", retry=Retry(5, "30s", 2.0))
    peers = ["A", *"CDEFGHI"]
    for peer in peers:
        job.task(takes(3_000), name=peer)
    report = report_of_midnight(itinerary_clock(app, start=START), "fan-out")
    failed = report.tasks[0]
    assert (failed.name, failed.status, len(failed.attempts)) == ("B", "failed", 6)
    assert failed.retry_waits == minutes(0.5, 1, 2, 4, 8)
    assert [task.name for task in report.cancelled] == peers
    assert len(report.cancelled) == 8
    assert all("B" in (task.cancelled_by or "") for task in report.cancelled), "each says why"
    assert (report.outcome, report.failure, report.duration) == ("failed", "fail_fast", timedelta(minutes=15.5))


# -- parallel tasks, strategies ----------------------------------------------------------------------------------------


@pytest.mark.spec("X1", "mode")
def test_parallel_tasks_start_together_and_sequential_tasks_one_after_another(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, task execution modes: the default is sequential; in parallel, three minutes of work take one."""
    for mode in Mode:
        job = app.job(mode, MIDNIGHT, mode=mode)
        for name in "abc":
            job.task(takes(60), name=name)
    run = itinerary_clock(app, start=START)
    took = {mode: report_of_midnight(run, mode).duration for mode in Mode}
    assert took == {"parallel": timedelta(minutes=1), "sequential": timedelta(minutes=3)}
    assert freeze(app.declared["parallel"].definition(0).overrides, {}).job.mode == "parallel"


@pytest.mark.spec("X2")
@pytest.mark.parametrize(
    ("failure", "peer", "after", "outcome"),
    [
        (Failure.FAIL_FAST, "cancelled", "skipped", "failed"),
        (Failure.CONTINUE, "success", "success", "completed_with_errors"),
        (Failure.RETRY_ON_FAILURE, "success", "skipped", "failed"),
    ],
)
def test_each_failure_strategy_does_what_its_paragraph_says(
    app: Itinerary, itinerary_clock: Clock, failure: Failure, peer: str, after: str, outcome: str
) -> None:
    """004, failure strategy options: what a failure for good does to a task in flight, and to a task that follows.

    `retry_on_failure` pauses the job at the failed task. Our rule (X2) for the end of its retries: tasks in flight
    finish, and the rest is skipped. `on_complete` has a report in every case.
    """
    reports: list[OccurrenceReport] = []
    beside = app.job("beside", MIDNIGHT, mode="parallel", failure=failure)
    beside.task(fails, name="fails", retry=Retry(1, "1m"))
    beside.task(takes(600), name="in flight")
    following = app.job("following", MIDNIGHT, failure=failure)
    following.task(fails, name="fails", retry=Retry(1, "1m"))
    following.task(works, name="after it")
    for job in (beside, following):

        async def keep(report: OccurrenceReport) -> None:
            reports.append(report)

        job.on_complete(keep)
    run = itinerary_clock(app, start=START)
    run.advance(hours=13)
    (first, last) = sorted(reports, key=lambda report: report.job)
    assert (first.job, statuses(first)["in flight"]) == ("beside", peer)
    assert (last.job, statuses(last)["after it"]) == ("following", after)
    assert (first.outcome, last.outcome) == (outcome, outcome)
    assert all(len(report.tasks[0].attempts) == 2 for report in reports), "the retry policy came first"


@pytest.mark.spec("X7")
def test_a_start_hook_runs_before_the_tasks_and_the_complete_hook_gets_the_report(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, execution flow, steps 6 and 7: hooks around the tasks, and what the execution report contains."""
    calls: list[Any] = []
    job = app.job("etl", MIDNIGHT)

    @job.on_start
    async def greet(occurrence: Any) -> None:
        calls.append("on_start")

    @job.task
    async def load() -> None:
        calls.append("load")

    @job.on_complete
    async def keep(report: OccurrenceReport) -> None:
        calls.append(report)

    report_of_midnight(itinerary_clock(app, start=START), "etl")
    first, second, report = calls
    assert (first, second) == ("on_start", "load")
    assert (report.failure, report.outcome) == ("fail_fast", "completed")
    assert [(task.name, task.status, len(task.attempts)) for task in report.tasks] == [("load", "success", 1)]


@pytest.mark.spec("D6")
def test_what_a_task_writes_in_its_transaction_stands_only_if_the_attempt_succeeds(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, tasks and the execution context: each attempt has its own transaction. A retry sees nothing of the first.

    The database of the test's clock is SQLite, in memory.
    """

    @app.job(MIDNIGHT, retry=Retry(1, "1m"))
    async def book(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            seen.append(await tx.fetch("select attempt from ledger"))
            await tx.execute("insert into ledger values (?)", (ctx.attempt,))
            if ctx.attempt == 1:
                raise ConnectionError("the API is down")

    seen: list[list[tuple[Any, ...]]] = []
    run = itinerary_clock(app, start=START)
    run.database.execute("create table ledger (attempt)")
    assert report_of_midnight(run, "book").outcome == "completed"
    assert seen == [[], []]
    assert run.database.execute("select attempt from ledger").fetchall() == [(2,)]


# -- the cascade -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("X5")
def test_three_tasks_inherit_what_they_do_not_set(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, the inheritance model: one job with defaults for its tasks, and three tasks.

    Task 1 sets nothing, task 2 sets its retries, task 3 its failure strategy. Each value says which level set it. A
    task stores only what it sets.
    """
    job = app.job(
        "cascade",
        cron("0 5 * * *"),
        timezone="America/Los_Angeles",
        failure="fail_fast",
        retry=Retry(max_retries=3),
        execution_timeout="30m",
        task_timeout="5m",
    )
    job.task(works, name="task 1")
    job.task(works, name="task 2", retry=Retry(max_retries=10, backoff_factor=2.0))
    job.task(works, name="task 3", failure="continue")
    definition = app.declared["cascade"].definition(0)
    own = {task.name: task.overrides for task in definition.tasks}
    frozen = freeze(definition.overrides, own)
    effective = {name: frozen.of_task(name) for name in own}

    shown = {
        name: (
            one.failure.value,
            one.retry.max_retries,
            one.retry.backoff_factor,
            one.task_timeout,
            one.execution_timeout,
        )
        for name, one in effective.items()
    }
    five, thirty = 300 * SECOND, 1_800 * SECOND
    assert shown == {
        "task 1": ("fail_fast", 3, 1.0, five, thirty),
        "task 2": ("fail_fast", 10, 2.0, five, thirty),
        "task 3": ("continue", 3, 1.0, five, thirty),
    }
    assert {one.timezone for one in effective.values()} == {"America/Los_Angeles"}
    sources = {name: (one.source("failure"), one.source("retry.max_retries")) for name, one in effective.items()}
    assert sources == {
        "task 1": (OverrideLevel.JOB, OverrideLevel.JOB),
        "task 2": (OverrideLevel.JOB, OverrideLevel.TASK),
        "task 3": (OverrideLevel.TASK, OverrideLevel.JOB),
    }
    assert [task.overrides.failure for task in definition.tasks] == [None, None, "continue"], "only what differs"

    run = itinerary_clock(app)
    run.advance(days=1)
    assert run.history("cascade").instants == [datetime(2026, 1, 1, 13, tzinfo=UTC)], "05:00 in Los Angeles"


def ten_steps(app: Itinerary, *, broken: str, mode: Mode = Mode.PARALLEL) -> list[str]:
    """Declare the job of ten steps; one step is broken. Returns the list that each step appends its name to."""
    done: list[str] = []
    etl = app.job(
        "etl",
        MIDNIGHT,
        mode=mode,
        failure="fail_fast",
        retry=Retry(max_retries=3, retry_interval="30s"),
        execution_timeout="20h",
    )
    own: dict[str, dict[str, Any]] = {
        "step 3": {"retry": Retry(max_retries=10, retry_interval="1m", backoff_factor=2.0)},
        "step 10": {"failure": "continue"},
    }
    for name in (f"step {number}" for number in range(1, 11)):

        async def step(ctx: ExecutionContext) -> None:
            if ctx.task == broken:
                raise ConnectionError("the API is down")
            if mode is Mode.PARALLEL:
                await asyncio.sleep(600)
            done.append(ctx.task)

        etl.task(step, name=name, **own.get(name, {}))
    return done


@pytest.mark.spec("X5")
@pytest.mark.spec("X3")
def test_step_three_of_ten_has_retries_of_its_own(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, the ten-step job, problem 1: step 3 calls an unstable API, and retries ten times, after 1 to 512 min."""
    ten_steps(app, broken="step 3")
    report = report_of_midnight(itinerary_clock(app, start=START), "etl")
    step = report.tasks[2]
    assert (step.name, len(step.attempts)) == ("step 3", 11)
    assert step.retry_waits == minutes(*(2**number for number in range(10)))
    others = [task.status for task in report.tasks if task is not step]
    assert others == ["success"] * 9, "they were done long before step 3 gave up"
    assert report.outcome == "failed"


@pytest.mark.spec("X2", "cleanup")
def test_step_ten_of_ten_cleans_up_though_step_seven_failed(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, the ten-step job, problem 2: step 7 fails after the three retries of the job, 30 s apart. The cleanup, step
    10, sets `continue` and is spared; the eight others in flight are cancelled."""
    done = ten_steps(app, broken="step 7")
    report = report_of_midnight(itinerary_clock(app, start=START), "etl")
    seventh = report.tasks[6]
    assert (seventh.status, seventh.retry_waits) == ("failed", minutes(0.5, 0.5, 0.5))
    assert [task.name for task in report.cancelled] == [f"step {number}" for number in (1, 2, 3, 4, 5, 6, 8, 9)]
    assert done == ["step 10"]
    assert report.outcome == "failed"


@pytest.mark.spec("X2", "cleanup")
def test_step_ten_of_ten_also_cleans_up_at_the_end_of_a_sequence(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, the ten-step job, problem 2, in sequence: steps 8 and 9 are skipped, and the cleanup still runs."""
    done = ten_steps(app, broken="step 7", mode=Mode.SEQUENTIAL)
    report = report_of_midnight(itinerary_clock(app, start=START), "etl")
    assert done == [f"step {number}" for number in (1, 2, 3, 4, 5, 6, 10)]
    assert [task.name for task in report.tasks if task.status == "skipped"] == ["step 8", "step 9"]
    assert report.outcome == "failed"


# -- overlap, timeouts -------------------------------------------------------------------------------------------------


@pytest.mark.spec("X6")
@pytest.mark.parametrize(
    ("overlap", "statuses_of_four", "starts"),
    [
        (Overlap.SKIP, ["completed", "skipped", "skipped", "completed"], [1, 4]),
        (Overlap.ALLOW, ["completed"] * 4, [1, 2, 3, 4]),
        (Overlap.QUEUE, ["completed"] * 4, [1, 3.5, 6, 8.5]),
    ],
)
def test_a_run_that_outlasts_its_interval_meets_the_overlap_policy(
    app: Itinerary, itinerary_clock: Clock, overlap: Overlap, statuses_of_four: list[str], starts: list[float]
) -> None:
    """004, overlap policies: a job of each minute that takes two and a half, with each of the three policies.

    The first four instants, at minutes 1 to 4. `starts` are minutes too: of those that ran.
    """

    @app.job(cron("* * * * *", end="2026-01-01T00:04"), overlap=overlap)
    async def slow() -> None:
        await asyncio.sleep(150)

    run = itinerary_clock(app)
    run.advance(minutes=20)
    history = run.history("slow")
    assert history.statuses == statuses_of_four
    began = [one.report.started_at for one in history if one.report.started_at is not None]
    assert [(at - datetime(2026, 1, 1, tzinfo=UTC)) / timedelta(minutes=1) for at in began] == starts
    skipped = [read_reason(one.reason) for one in history if one.status == "skipped"]
    assert skipped == [Reason(ReasonKind.OVERLAPS, Ref(1))] * len(skipped), "each names the run in the way"


@pytest.mark.spec("X4", "independent of the schedule")
def test_a_timeout_has_nothing_to_do_with_the_next_instant(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, timeouts and frequency: a job of each minute is not cut at 60 s, and a daily job has no 24 hours."""

    @app.job(cron("* * * * *", end="2026-01-01T00:01"), execution_timeout="1h")
    async def complex_data() -> None:
        await asyncio.sleep(1_800)

    @app.job(cron("@daily"), execution_timeout="10m")
    async def small_file() -> None:
        await asyncio.sleep(86_000)

    run = itinerary_clock(app)
    run.advance(days=1, hours=1)
    (minutely,), (daily,) = run.history("complex_data"), run.history("small_file")
    assert (minutely.status, minutely.report.duration) == ("completed", timedelta(minutes=30))
    assert (daily.status, daily.report.duration) == ("failed", timedelta(minutes=10))
    assert "execution timeout" in (daily.reason or "")


@pytest.mark.spec("X4", "task_timeout")
def test_a_stuck_task_is_ended_after_five_minutes_and_retried(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, stuck task protection: a task timeout of 5 minutes ends the attempt, and the retry policy applies.

    A task can have a timeout of its own. The job is not locked: its next run starts.
    """
    job = app.job("stuck", MIDNIGHT, task_timeout="5m", failure="continue", retry=Retry(1, "1m"))
    job.task(takes(100_000), name="hangs")
    job.task(takes(420), name="slow", task_timeout="10m")
    run = itinerary_clock(app, start=START)
    report = report_of_midnight(run, "stuck")
    hangs, slow = report.tasks
    assert [(one.status, one.duration) for one in hangs.attempts] == [("timeout", timedelta(minutes=5))] * 2
    assert hangs.retry_waits == minutes(1)
    assert (hangs.status, slow.status) == ("timeout", "success")
    run.advance_to_next("stuck")
    run.advance(minutes=1)
    assert run.history("stuck")[-1].status == "running"


# -- the pool, shutdown, metrics ---------------------------------------------------------------------------------------


@pytest.mark.spec("X1", "slots")
def test_sixty_jobs_at_midnight_share_fifty_slots(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, global concurrency control: with the 50 slots of the example, ten of sixty jobs wait their turn."""
    for number in range(60):
        app.job(f"nightly {number:02}", MIDNIGHT).task(takes(60), name="main")
    run = itinerary_clock(app, start=START)
    run.advance_to("2026-01-02T00:00:30")
    active = run.call(run.node.active())
    assert sum(one.state == "running" for one in active) == 50
    assert sum("slot" in one.waits_for for one in active) == 10
    run.advance(minutes=2)
    reports = [run.history(f"nightly {number:02}")[0].report for number in range(60)]
    assert [report.outcome for report in reports] == ["completed"] * 60
    late = sorted(report.lateness.total_seconds() for report in reports if report.lateness is not None)
    assert late == [0] * 50 + [60] * 10


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("on_shutdown", "seconds", "outcome", "ended_after"),
    [
        (OnShutdown.FINISH, 15, "completed", 15),
        (OnShutdown.FINISH, 600, "cancelled", 20),
        (OnShutdown.CANCEL, 600, "cancelled", 0),
    ],
)
def test_a_graceful_shutdown_ends_within_its_thirty_seconds(
    app: Itinerary, itinerary_clock: Clock, on_shutdown: OnShutdown, seconds: int, outcome: str, ended_after: int
) -> None:
    """004, graceful shutdown: no new work, runs in flight are cancelled, a grace period of 30 s.

    The document cancels at once. Our rule (R9) is that of the job's `on_shutdown`. By default a run may finish first,
    for the grace period less the 10 s of `kill_grace`.
    """

    @app.job(MIDNIGHT, on_shutdown=on_shutdown)
    async def work() -> None:
        await asyncio.sleep(seconds)

    @app.job(cron("* * * * *"))
    async def minutely() -> None: ...

    run = itinerary_clock(app, start="2026-01-01T23:58")
    run.advance_to("2026-01-02T00:00:00")
    run.shut_down()
    (one,) = run.history("work")
    assert one.status == outcome
    assert one.report.duration is not None
    assert round(one.report.duration.total_seconds()) == ended_after
    assert run.now - datetime(2026, 1, 2, tzinfo=UTC) <= timedelta(seconds=30)
    run.advance(minutes=10)
    assert max(run.history("minutely").instants) == datetime(2026, 1, 2, tzinfo=UTC), "no new work"


METRICS_OF_THE_DOCUMENT = {
    "scheduler_jobs_running_total": ("gauge", ()),
    "scheduler_jobs_in_queue_total": ("gauge", ()),
    "scheduler_jobs_paused_total": ("gauge", ()),
    "scheduler_job_execution_duration_seconds": ("histogram", ("job",)),
    "scheduler_task_execution_duration_seconds": ("histogram", ("job", "task")),
    "scheduler_task_attempts_total": ("counter", ("job", "task", "status")),
    "scheduler_job_occurrences_total": ("counter", ("job", "status")),
    "scheduler_recovery_runs_total": ("counter", ("job", "strategy")),
}


@pytest.mark.spec("U7", "names")
def test_the_eight_metrics_of_the_document_have_its_names_kinds_and_labels() -> None:
    """004, observability: three gauges, two histograms, three counters. Our rule (U7): the values of `status` and
    `strategy` are our own names."""
    ours = {metric.name: (metric.kind, metric.labels) for metric in METRICS}
    assert {name: ours.get(name) for name in METRICS_OF_THE_DOCUMENT} == METRICS_OF_THE_DOCUMENT


def test_a_schedule_of_each_hour_is_due_each_hour() -> None:
    """A check of the examples themselves: `every("1h")` and `0 * * * *` have the same instants."""
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 9, tzinfo=UTC)
    assert list(every("1h").between(start, end)) == list(cron("0 * * * *", tz="UTC").between(start, end))
