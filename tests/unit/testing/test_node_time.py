"""Time in a test node: days and hours, nights with a missing hour, the next run (U11)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from itinerary import Itinerary, cron, every, iso8601, once
from itinerary.errors import ClockError, UnknownZone
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("U11")

NEW_YORK = ZoneInfo("America/New_York")


def test_a_night_with_a_missing_hour_runs_each_job_once(app: Itinerary, start_node: Begin) -> None:
    @app.job(cron("0 5 * * *", tz="America/New_York"))
    async def nightly_report() -> None: ...

    @app.job(cron("30 2 * * *", tz="America/New_York"))
    async def in_the_gap() -> None: ...

    run = start_node(app, start="2026-03-08T00:00", tz="America/New_York")
    run.advance(days=1)
    assert run.history("nightly_report").statuses == ["completed"]
    assert run.history("in_the_gap").instants == [datetime(2026, 3, 8, 3, 0, tzinfo=NEW_YORK)]
    assert run.now == datetime(2026, 3, 9, tzinfo=NEW_YORK)


def test_a_day_is_one_of_the_calendar_and_an_hour_is_exact(app: Itinerary, start_node: Begin) -> None:
    run = start_node(app, start="2026-11-01T00:00", tz="America/New_York")
    run.advance(hours=24)
    assert run.now == datetime(2026, 11, 1, 23, 0, tzinfo=NEW_YORK)
    run.advance("1h")
    run.advance(weeks=1, days=-6, minutes=30)
    assert run.now == datetime(2026, 11, 3, 0, 30, tzinfo=NEW_YORK)


def test_what_is_due_at_the_moment_that_time_leads_to_has_happened_and_nothing_twice(
    app: Itinerary, start_node: Begin
) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = start_node(app, start="2026-01-01T00:00")
    run.advance_to("2026-01-01T01:00")
    assert len(run.history("hourly")) == 1
    run.advance(hours=1)
    run.advance(days=2)
    assert run.history("hourly").statuses == ["completed"] * 50


def test_a_hundred_days_of_an_hourly_job_are_whole(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = start_node(app)
    run.advance(days=100)
    history = run.history("hourly")
    assert history.statuses == ["completed"] * 2400
    assert all(report.lateness is not None and report.lateness.total_seconds() == 0 for report in history.reports)
    assert not [line for line in run.logs if line.level in ("warning", "error")]


def test_time_goes_to_the_next_run(app: Itinerary, start_node: Begin) -> None:
    @app.job(once("2026-12-31T23:59:00Z"))
    def fireworks() -> None: ...

    @app.job(iso8601("R/2026-01-31T09:00/P1M"))
    def invoices() -> None: ...

    run = start_node(app)
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


def test_time_does_not_go_back(app: Itinerary, start_node: Begin) -> None:
    run = start_node(app, start="2026-01-01T12:00")
    with pytest.raises(ClockError, match=r"shows 2026-01-01T12:00:00\+00:00 and cannot go back to 2026-01-01T11:00"):
        run.advance_to("2026-01-01T11:00")
    with pytest.raises(ClockError, match="cannot go back"):
        run.advance(days=-1)
    run.advance(0)


def test_a_zone_that_nobody_knows_is_refused_with_the_nearest(app: Itinerary, start_node: Begin) -> None:
    with pytest.raises(UnknownZone, match="'Europe/Berlin'"):
        start_node(app, tz="Europe/Berln")
