"""Document 004, recovery and replay: what a start does about the time without a node (R1 to R5)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from itinerary import ExecutionContext, Itinerary, RecoveryPolicy, cron, every
from itinerary.model.ids import job_id, occurrence_id
from itinerary.schedules.durations import SECOND
from tests.documents.clock import Clock

BEFORE = ["completed"]
"""The one run on time with which every example starts, before the outage."""


class Outage(NamedTuple):
    """An example of the section: an outage, and the result of the next start."""

    recovery: RecoveryPolicy
    schedule: str
    """Cron, in UTC. The clock starts on 1 January at 00:00."""
    down_for: timedelta
    statuses: list[str]
    """The final state of each missed instant, in order."""
    runs: int
    """The number of recovery runs."""


EXAMPLES = {
    "1 execute all: hourly, 5 hours, 5 runs": Outage(
        RecoveryPolicy("execute_all"), "0 * * * *", timedelta(hours=5), ["completed"] * 5, 5
    ),
    "2 execute last: hourly, 5 hours, 1 run": Outage(
        RecoveryPolicy("execute_last"), "0 * * * *", timedelta(hours=5), ["missed"] * 4 + ["completed"], 1
    ),
    "3 mark as missed: daily, 3 days, no run": Outage(
        RecoveryPolicy("mark_as_missed"), "0 5 * * *", timedelta(days=3), ["missed"] * 3, 0
    ),
    "4 bounded window: hourly, 200 hours, 24 hours of them": Outage(
        RecoveryPolicy("bounded_window", max_duration="24h"),
        "0 * * * *",
        timedelta(hours=200),
        ["missed"] * 176 + ["completed"] * 24,
        24,
    ),
    "4 bounded window: hourly, 200 hours, the last 100": Outage(
        RecoveryPolicy("bounded_window", max_occurrences=100),
        "0 * * * *",
        timedelta(hours=200),
        ["missed"] * 100 + ["completed"] * 100,
        100,
    ),
    "4 bounded window: hourly, 200 hours, the last 10 of 24 hours": Outage(
        RecoveryPolicy("bounded_window", max_duration="24h", max_occurrences=10),
        "0 * * * *",
        timedelta(hours=200),
        ["missed"] * 190 + ["completed"] * 10,
        10,
    ),
    "4 bounded window: hourly, 5 hours, without a bound": Outage(
        RecoveryPolicy("bounded_window"), "0 * * * *", timedelta(hours=5), ["completed"] * 5, 5
    ),
}


@pytest.mark.spec("R1")
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_a_start_after_an_outage_does_what_the_strategy_says(
    app: Itinerary, itinerary_clock: Clock, example: Outage
) -> None:
    """004, recovery strategies 1 to 4: the example of each, with its numbers.

    With two bounds the age counts first, then the number. Without a bound everything runs (phase 7 of the plan).
    Then the schedule goes on as if nothing had happened: the next instant runs on time.
    """
    contexts: list[ExecutionContext] = []

    @app.job(cron(example.schedule), recovery=example.recovery)
    async def work(ctx: ExecutionContext) -> None:
        contexts.append(ctx)

    run = itinerary_clock(app)
    run.advance_to_next("work")
    run.down(example.down_for + timedelta(minutes=10), crash=True)
    run.advance(minutes=10)
    assert run.history("work").statuses == BEFORE + example.statuses
    recovered = contexts[1:]
    assert len(recovered) == example.runs
    assert all(ctx.is_recovery for ctx in recovered)
    order = [ctx.scheduled_at for ctx in recovered]
    assert order == sorted(order), "in the order of their instants"

    resumed_at = run.advance_to_next("work")
    run.advance(minutes=1)
    assert (contexts[-1].scheduled_at, contexts[-1].is_recovery) == (resumed_at, False)
    assert run.history("work")[-1].report.lateness == timedelta(0)


@pytest.mark.spec("R1", "compressed")
@pytest.mark.spec("R5")
def test_one_compressed_run_stands_for_five_hours_and_knows_them(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, recovery strategy 5: five missed hours are one run, whose tasks receive the span."""
    windows: dict[str, list[datetime]] = {}
    hourly = app.job("hourly", every("1h"), recovery="compressed")
    for name in ("extract", "load"):

        async def work(ctx: ExecutionContext) -> None:
            if ctx.is_recovery:
                windows[ctx.task] = list(ctx.window)

        hourly.task(work, name=name)
    run = itinerary_clock(app)
    run.advance(hours=1)
    run.down(hours=5, minutes=10, crash=True)
    run.advance(minutes=10)
    five = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (2, 3, 4, 5, 6)]
    assert windows == {"extract": five, "load": five}
    assert run.history("hourly").statuses.count("completed") == 2, "the run before the outage, and one for all five"


@pytest.mark.spec("R2")
def test_recovery_that_is_interrupted_and_repeated_runs_nothing_twice(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, idempotent recovery: a node dies in the middle of its recovery, and another one starts.

    The ids come from the instants, so the second start finds the rows of the first. Each of the five hours starts once.
    The run that died with its node is `orphaned`: our rule (N3), since no node knows how far it came.
    """
    started: list[int] = []

    @app.job(every("1h"))
    async def hourly(ctx: ExecutionContext) -> None:
        started.append(ctx.scheduled_at.hour)
        await asyncio.sleep(120)

    run = itinerary_clock(app)
    run.advance(hours=1, minutes=10)
    run.down(hours=5, crash=True)
    run.advance(minutes=3)
    assert started == [1, 2, 3], "the second of the five is running"
    run.crash()
    run.start()
    run.advance(minutes=20)
    assert started == [1, 2, 3, 4, 5, 6]
    history = run.history("hourly")
    assert history.statuses == ["completed", "completed", "orphaned", "completed", "completed", "completed"]
    ids = [occurrence_id(job_id("hourly"), int(one.at.timestamp()) * SECOND) for one in history]
    assert [one.report.occurrence for one in history] == ids


@pytest.mark.spec("R1", "from its registration")
def test_a_job_that_is_new_has_missed_nothing(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, phase 6 of the plan: a job without a last run is recovered for the last 24 hours.

    Our rule (R1): a job counts from its registration. An instant before that was not missed.
    """

    @app.job(every("1h"))
    async def hourly(ctx: ExecutionContext) -> None:
        assert not ctx.is_recovery

    run = itinerary_clock(app, start="2026-01-01T12:30")
    run.advance(hours=1)
    assert run.history("hourly").instants == [datetime(2026, 1, 1, 13, tzinfo=UTC)]
    assert run.history("hourly").statuses == ["completed"]


@pytest.mark.spec("R4", "replay")
def test_an_operator_replays_the_run_of_new_year_after_the_api_was_fixed(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, manual replay: the command of the example, for the run of job foo on 1 January 2023 at 05:00.

    A replay is a run of its own, linked to the first one, with the reason. The tasks, their order and the failure
    strategy are the same. The outcome of the first run stays as it was.
    """
    is_api_up = False
    calls: list[str] = []
    foo = app.job("foo", cron("0 5 * * *"))

    @foo.task
    async def call_api() -> None:
        calls.append("call_api")
        if not is_api_up:
            raise ConnectionError("the API is down")

    @foo.task
    async def store_answer() -> None:
        calls.append("store_answer")

    run = itinerary_clock(app, start="2023-01-01T00:00")
    run.advance(hours=6)
    (failed,) = run.history("foo")
    assert (failed.at, failed.status) == (datetime(2023, 1, 1, 5, tzinfo=UTC), "failed")
    assert calls == ["call_api"]

    is_api_up = True
    reason = "Retry after API fix"
    replay = run.wait(run.call(run.node.replay("foo:1672549200", reason=reason)))
    assert (replay.outcome, replay.kind, replay.replay_of) == ("completed", "replay", failed.report.occurrence)
    assert reason in (replay.reason or "")
    assert replay.failure == failed.report.failure
    assert calls == ["call_api", "call_api", "store_answer"]
    assert run.history("foo").statuses == ["failed", "completed"]
