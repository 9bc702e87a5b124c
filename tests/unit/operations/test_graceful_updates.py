"""The graceful update of document 004: the next old instant still runs, then the new schedule takes over (R7).

The example of the document is a daily job that moves to another hour: the next day keeps the old hour, and the day
after has the new one (see also tests/documents/test_document_004_updates.py).

Each case holds four answers against each other: the planned difference, the difference of the change that was made, the
upcoming instants, and the runs.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from itinerary import Itinerary, cron, every, iso8601, once
from itinerary.model.policies import UpdatePolicy
from itinerary.schedules import Schedule
from itinerary.testing import TestNode
from tests.unit.operations.test_apply import Office

pytestmark = pytest.mark.spec("R7", "graceful")


class Case(NamedTuple):
    """A change, made at `start`, and what runs until `until`: wall clock times in `tz`."""

    old: Schedule
    new: Schedule
    start: str
    until: str
    runs: list[str]
    tz: str = "UTC"


CASES = {
    "the document's example: daily, to a later time": Case(
        cron("0 5 * * *"),
        cron("0 9 * * *"),
        "2026-01-01T12:00",
        "2026-01-05T00:00",
        ["2026-01-02 05:00 v1", "2026-01-03 09:00 v2", "2026-01-04 09:00 v2"],
    ),
    "daily, to an earlier time": Case(
        cron("0 5 * * *"),
        cron("0 3 * * *"),
        "2026-01-01T12:00",
        "2026-01-05T00:00",
        ["2026-01-02 05:00 v1", "2026-01-03 03:00 v2", "2026-01-04 03:00 v2"],
    ),
    "daily, changed before today's run": Case(
        cron("0 5 * * *"),
        cron("0 9 * * *"),
        "2026-01-01T01:00",
        "2026-01-03T00:00",
        ["2026-01-01 05:00 v1", "2026-01-02 09:00 v2"],
    ),
    "daily, by exactly half a day": Case(
        cron("0 5 * * *"),
        cron("0 17 * * *"),
        "2026-01-01T12:00",
        "2026-01-04T00:00",
        ["2026-01-02 05:00 v1", "2026-01-02 17:00 v2", "2026-01-03 17:00 v2"],
    ),
    "only the configuration would change: no instant is lost": Case(
        cron("0 9,10 * * *"),
        cron("0 9,10 * * *", jitter="1s"),
        "2026-01-01T12:00",
        "2026-01-03T12:00",
        ["2026-01-02 09:00 v1", "2026-01-02 10:00 v2", "2026-01-03 09:00 v2", "2026-01-03 10:00 v2"],
    ),
    "working days, over a weekend": Case(
        cron("0 8 * * 1-5"),
        cron("0 9 * * 1-5"),
        "2026-01-02T12:00",  # a Friday
        "2026-01-08T00:00",
        ["2026-01-05 08:00 v1", "2026-01-06 09:00 v2", "2026-01-07 09:00 v2"],
    ),
    "hourly to daily: the old version runs once, and not until the new one begins": Case(
        every("1h"),
        cron("0 9 * * *"),
        "2026-01-01T05:30",
        "2026-01-04T00:00",
        ["2026-01-01 06:00 v1", "2026-01-02 09:00 v2", "2026-01-03 09:00 v2"],
    ),
    "daily to hourly": Case(
        cron("30 5 * * *"),
        every("1h"),
        "2026-01-01T05:00",
        "2026-01-01T08:30",
        ["2026-01-01 05:30 v1", "2026-01-01 06:00 v2", "2026-01-01 07:00 v2", "2026-01-01 08:00 v2"],
    ),
    "weekly to daily": Case(
        cron("0 5 * * 1"),
        cron("0 9 * * *"),
        "2026-01-01T12:00",
        "2026-01-07T12:00",
        ["2026-01-05 05:00 v1", "2026-01-06 09:00 v2", "2026-01-07 09:00 v2"],
    ),
    "a single instant has no interval, and is never left out": Case(
        cron("0 5 * * *"),
        once("2026-01-02T05:01"),
        "2026-01-01T12:00",
        "2026-01-05T00:00",
        ["2026-01-02 05:00 v1", "2026-01-02 05:01 v2"],
    ),
    "a counted interval that has not begun": Case(
        cron("0 5 * * *"),
        iso8601("R3/2026-01-02T09:00/P1D"),
        "2026-01-01T12:00",
        "2026-01-06T00:00",
        ["2026-01-02 05:00 v1", "2026-01-03 09:00 v2", "2026-01-04 09:00 v2"],
    ),
    "the new schedule ends with the instant that is left out": Case(
        cron("0 5 * * *"),
        cron("0 9 * * *", end="2026-01-02T12:00"),
        "2026-01-01T12:00",
        "2026-01-05T00:00",
        ["2026-01-02 05:00 v1"],
    ),
    "the clock goes forward: a day of 23 hours": Case(
        cron("0 5 * * *"),
        cron("0 9 * * *"),
        "2026-03-28T12:00",
        "2026-03-31T00:00",
        ["2026-03-29 05:00 v1", "2026-03-30 09:00 v2"],
        "Europe/Berlin",
    ),
    "the clock goes forward over the old instant": Case(
        cron("30 2 * * *"),
        cron("30 1 * * *"),
        "2026-03-28T12:00",
        "2026-03-31T00:00",
        ["2026-03-29 03:00 v1", "2026-03-30 01:30 v2"],
        "Europe/Berlin",
    ),
    "the clock goes back: half of 25 hours is more than 12": Case(
        cron("0 5 * * *"),
        cron("0 17 * * *"),
        "2026-10-24T12:00",
        "2026-10-27T00:00",
        ["2026-10-25 05:00 v1", "2026-10-26 17:00 v2"],
        "Europe/Berlin",
    ),
}


async def work() -> None: ...


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_next_old_instant_runs_and_the_first_new_one_is_half_an_interval_later(
    case: Case,
) -> None:
    app = Itinerary(store="memory:", name="here", timezone=case.tz)
    app.job("daily", case.old).task(work)
    with closing(TestNode(app, start=case.start, tz=case.tz)) as run:
        check(app, run, case)


def check(app: Itinerary, run: TestNode, case: Case) -> None:
    planned = run.call(app.plan_update("daily", schedule=case.new, policy="graceful", window="7d"))
    made = run.call(app.update("daily", schedule=case.new, policy="graceful", window="7d"))
    upcoming = run.upcoming("daily")
    run.advance_to(case.until)

    past = run.history("daily")
    assert [f"{one.at:%Y-%m-%d %H:%M} v{one.report.job_version}" for one in past] == case.runs
    ran = [one.at for one in past]
    for diff in (planned, made):
        assert [one for one in sorted((*diff.kept, *diff.added)) if one < run.now] == ran
    assert [one.at for one in upcoming if one.at < run.now] == ran
    new = [one.at for one in past if one.report.job_version == 2]
    assert planned.first_at == made.first_at == (new[0] if new else None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_file_that_is_planned_and_applied_gracefully_changes_the_same_instants(case: Case) -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(daily=(case.old, {"timezone": case.tz})))
        changed = office.app(daily=(case.new, {"timezone": case.tz}))
        planned = await office.apply(changed, is_plan=True, policy=UpdatePolicy.GRACEFUL, window="7d")
        applied = await office.apply(changed, policy=UpdatePolicy.GRACEFUL, window="7d")
        until = instant(case.until, case.tz)
        for done in (planned, applied):
            diff = done.jobs[0].diff
            assert diff is not None
            due = [one for one in sorted((*diff.kept, *diff.added)) if one.timestamp() * 1e6 < until]
            assert [f"{one.astimezone(ZoneInfo(case.tz)):%Y-%m-%d %H:%M}" for one in due] == [r[:16] for r in case.runs]
        again = await office.apply(changed, policy=UpdatePolicy.GRACEFUL, window="7d")
        assert not again.is_change

    async def play() -> None:
        office = Office()
        office.now = instant(case.start, case.tz)
        async with office.store:
            await scenario(office)

    asyncio.run(play())


def instant(wall: str, tz: str) -> int:
    return int(datetime.fromisoformat(wall).replace(tzinfo=ZoneInfo(tz)).timestamp()) * 1_000_000


def test_a_change_that_is_made_meanwhile_takes_the_place_of_a_graceful_one() -> None:
    app = Itinerary(store="memory:", name="here")
    app.job("daily", cron("0 5 * * *")).task(work)
    with closing(TestNode(app, start="2026-01-01T12:00")) as run:
        run.call(app.update("daily", schedule=cron("0 9 * * *"), policy="graceful"))
        run.advance_to("2026-01-02T06:00")
        run.call(app.update("daily", schedule=cron("0 7,9 * * *")))
        run.advance_to("2026-01-02T12:00")
        runs = [f"{one.at:%d %H:%M} v{one.report.job_version}" for one in run.history("daily")]
        assert runs == ["02 05:00 v1", "02 07:00 v3", "02 09:00 v3"]
