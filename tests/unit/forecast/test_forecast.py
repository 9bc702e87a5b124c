"""A window of time with outages in it, wall clocks that change, and how long tasks take (U5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary, cron, every
from itinerary.errors import ConfigError
from itinerary.forecast import Forecast, Outage, foresee, occurrences, told
from itinerary.forecast.report import ForecastOccurrence, OutageTold
from itinerary.model.policies import Recovery
from itinerary.schedules.durations import SECOND
from tests.unit.forecast.scenes import START, stage_of, work

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def foreseen(
    app: Itinerary, hours: float, *outages: Outage, start: int = START, **takes: int
) -> tuple[Forecast, list[ForecastOccurrence]]:
    stage, said = asyncio.run(app.stage(start, takes))
    found = foresee(stage, start, start + int(hours * HOUR), outages)
    return told(stage, found, outages, said), occurrences(stage, found)


def hourly(**options: Any) -> Itinerary:
    app = Itinerary()
    app.job("report", every("10m"), **options).task(work)
    return app


OUTAGE = Outage(START + 2 * HOUR + MINUTE, START + 5 * HOUR + 2 * MINUTE)
"""Eighteen instants, the last of them two minutes before it is over."""


@pytest.mark.spec("U5", "what an outage would do under each recovery strategy")
@pytest.mark.parametrize(
    ("recovery", "states"),
    [
        ("execute_all", {"completed": 36}),
        ("execute_last", {"completed": 19, "missed": 17}),
        ("mark_as_missed", {"completed": 18, "missed": 18}),
        ({"strategy": "bounded_window", "max_occurrences": 5}, {"completed": 23, "missed": 13}),
        ("compressed", {"completed": 19}),
    ],
)
def test_an_outage_is_made_up_for_as_the_job_says(recovery: object, states: dict[str, int]) -> None:
    forecast, rows = foreseen(hourly(recovery=recovery), 6, OUTAGE)
    assert forecast.states == states
    (outage,) = forecast.outages
    assert outage.due == 18
    (configured,) = outage.as_configured
    assert configured.runs == sum(one.is_recovery and one.started_at is not None for one in rows)
    assert configured.missed == states.get("missed", 0)
    late = [one for one in rows if one.is_recovery and one.started_at is not None]
    assert all(OUTAGE.end <= (one.started_at or 0) for one in late)
    assert sorted(late, key=lambda one: one.instant) == sorted(late, key=lambda one: one.ended_at), "in order"


@pytest.mark.spec("U5", "what an outage would do under each recovery strategy")
@pytest.mark.parametrize(
    "options", [{"overlap": "skip"}, {"overlap": "queue", "max_queued": 1}, {"overlap": "replace"}]
)
def test_what_was_due_in_an_outage_shorter_than_the_grace_period_all_runs_in_order(options: dict[str, Any]) -> None:
    app = Itinerary()
    app.job("tick", every("2s"), **options).task(work)
    outage = Outage(START + 21 * SECOND, START + 26 * SECOND + SECOND // 2)
    forecast, rows = foreseen(app, 0.01, outage, tick=SECOND // 5)
    assert forecast.states == {"completed": 18}
    late = [row for row in rows if row.instant in range(START + 22 * SECOND, START + 27 * SECOND)]
    assert [(row.started_at or 0) - outage.end for row in late] == [0, SECOND // 5, 2 * SECOND // 5]


def strategies(outage: OutageTold) -> dict[Recovery, tuple[int, int, int]]:
    return {one.strategy: (one.runs, one.missed, one.compressed) for one in outage.if_all_were}


@pytest.mark.spec("U5", "what an outage would do under each recovery strategy")
def test_every_strategy_is_told_whichever_a_job_has() -> None:
    forecast, _ = foreseen(hourly(), 6, OUTAGE)
    assert strategies(forecast.outages[0]) == {
        Recovery.EXECUTE_ALL: (18, 0, 0),
        Recovery.EXECUTE_LAST: (1, 17, 0),
        Recovery.MARK_AS_MISSED: (0, 18, 0),
        Recovery.BOUNDED_WINDOW: (18, 0, 0),
        Recovery.COMPRESSED: (1, 0, 17),
    }


def test_what_runs_when_the_node_goes_is_orphaned_or_runs_again() -> None:
    app = Itinerary()
    app.job("left", every("1h")).task(work)
    app.job("again", every("1h"), on_orphan="rerun").task(work)
    outage = Outage(START + 2 * HOUR + MINUTE, START + 2 * HOUR + 10 * MINUTE)
    _, rows = foreseen(app, 4, outage, left=2 * MINUTE, again=2 * MINUTE)
    ended = {one.job: str(one.state) for one in rows if one.instant == START + 2 * HOUR}
    assert ended == {"left": "orphaned", "again": "completed"}
    (again,) = [one for one in rows if one.instant == START + 2 * HOUR and one.job == "again"]
    assert (again.started_at or 0) >= outage.end
    assert Counter(one.instant for one in rows) == {START + number * HOUR: 2 for number in range(4)}


@pytest.mark.parametrize(
    ("outages", "why"),
    [
        ([Outage(START + HOUR, START + HOUR)], "must begin before it ends"),
        ([Outage(START + HOUR, START + 9 * HOUR)], "lie in the time"),
        ([Outage(START, START + 2 * HOUR), Outage(START + HOUR, START + 3 * HOUR)], "overlap"),
    ],
)
def test_outages_that_make_no_sense_are_refused(outages: list[Outage], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        foresee(stage_of(hourly()), START, START + 4 * HOUR, outages)


@pytest.mark.spec("U5", "DST nights")
def test_a_night_on_which_clocks_go_forward_names_the_jobs_that_it_moves() -> None:
    app = Itinerary(timezone="Europe/Berlin")
    app.job("fixed", cron("30 2 * * *")).task(work)
    app.job("left out", cron("30 2 * * *", gap="skip")).task(work)
    app.job("steady", cron("*/15 * * * *")).task(work)
    app.job("by day", cron("0 12 * * *")).task(work)
    forecast, rows = foreseen(app, 24, start=at("2026-03-28T12:00:00"))
    (night,) = forecast.nights
    assert (night.zone, night.at, night.forward) == ("Europe/Berlin", at("2026-03-29T01:00:00"), 3600)
    assert {one.job: one.what for one in night.jobs} == {
        "fixed": "its time is left out, and it runs right after",
        "left out": "its time is left out, and it does not run for that",
    }
    assert [one.instant for one in rows if one.job == "fixed"] == [at("2026-03-29T01:00:00")]


@pytest.mark.spec("U5", "DST nights")
def test_a_night_on_which_clocks_go_back_names_the_jobs_whose_time_comes_twice() -> None:
    app = Itinerary(timezone="America/New_York")
    app.job("first", cron("30 1 * * *")).task(work)
    app.job("both", cron("30 1 * * *", repeat="both")).task(work)
    app.job("steady", every("15m")).task(work)
    forecast, _ = foreseen(app, 24, start=at("2026-10-31T12:00:00"))
    (night,) = forecast.nights
    assert night.forward == -3600
    assert {one.job: one.what for one in night.jobs} == {
        "first": "its time comes twice, and it runs once for each",
        "both": "its time comes twice, and it runs both times",
    }


@pytest.mark.spec("U5", "load per minute, overlaps")
def test_load_overlaps_and_waits_are_told() -> None:
    app = Itinerary(max_concurrent_jobs=2)
    for number in range(6):
        app.job(f"job {number}", cron("0 * * * *")).task(work)
    app.job("slow", every("30m"), overlap="skip", task_timeout="1h").task(work)
    forecast, _ = foreseen(app, 6, slow=40 * MINUTE)
    assert forecast.load.peak == 7
    assert forecast.load.starts_in_it == 7
    assert (forecast.load.at_once, forecast.load.slots) == (2, 2)
    assert len(forecast.load.chart) == 48
    (overlaps,) = forecast.overlaps
    assert (overlaps.job, overlaps.count, overlaps.what) == ("slow", 6, "6 skipped")
    assert len(forecast.waits) == 5
    assert (forecast.waits[0].job, forecast.waits[0].longest_s) == ("slow", 3), "two at a time, and it is the seventh"
    assert (forecast.assumed, forecast.assumed_s) == (6, 1)


def test_a_task_that_takes_longer_than_it_may_fails_as_it_would() -> None:
    _, rows = foreseen(hourly(task_timeout="1m"), 1, report=2 * MINUTE)
    assert {str(one.state) for one in rows} == {"failed"}
    assert {one.ended_at - one.instant for one in rows} == {MINUTE}


@pytest.mark.spec("U5", "durations from history")
def test_how_long_tasks_take_is_read_off_a_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/itinerary.db"
    app = Itinerary(store=url)
    app.job("report", every("1h")).task(nap)

    async def live() -> None:
        async with app.running() as node:
            await node.wait(await app["report"].trigger())

    asyncio.run(live())
    stage, takes = asyncio.run(app.stage(START, {}, url))
    (job,) = stage.plans.timeline.jobs
    assert takes.source(stage.plan(job)) == "history"
    assert 50_000 <= stage.alone(job).lasting < SECOND


async def nap() -> None:
    await asyncio.sleep(0.05)
