"""Document 004, updating jobs: versions, the three update policies, the diff, changed tasks (R6 to R8)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from itinerary import ExecutionContext, Itinerary, OccurrenceReport, Schedule, cron, every, once
from itinerary.errors import StaleVersion
from itinerary.testing import TestNode
from tests.documents.clock import Clock

NOON = "2026-01-01T12:00"
"""When the updates of the examples are made: noon of 1 January. The next old run is due on 2 January at 05:00."""
AT_FIVE, AT_NINE, AT_THREE = cron("0 5 * * *"), cron("0 9 * * *"), cron("0 3 * * *")


async def work() -> None: ...


def runs(run: TestNode, job: str = "daily") -> list[str]:
    """Return the runs of a job with their versions: `02 05:00 v1`."""
    return [f"{one.at:%d %H:%M} v{one.report.job_version}" for one in run.history(job)]


def january(day: int, hour: int) -> datetime:
    return datetime(2026, 1, day, hour, tzinfo=UTC)


# -- policies ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R7", "graceful")
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (AT_NINE, ["02 05:00 v1", "03 09:00 v2", "04 09:00 v2"]),
        (AT_THREE, ["02 05:00 v1", "03 03:00 v2", "04 03:00 v2"]),
    ],
    ids=["05:00 to 09:00", "05:00 to 03:00"],
)
def test_a_graceful_update_lets_the_next_day_run_at_the_old_time(
    app: Itinerary, itinerary_clock: Clock, new: Schedule, expected: list[str]
) -> None:
    """004, update policies, graceful: a daily job moves to another hour. The next day keeps the old one, and the day
    after has the new one. So there is one run a day, whether the new hour is later or earlier (R7)."""
    app.job("daily", AT_FIVE).task(work)
    run = itinerary_clock(app, start=NOON)
    diff = run.call(app.update("daily", schedule=new, policy="graceful"))
    assert [f"{one.at:%d %H:%M}" for one in run.upcoming("daily", count=3)] == [one[:8] for one in expected]
    run.advance_to("2026-01-04T12:00")
    assert runs(run) == expected
    assert diff.first_at == run.history("daily")[1].at


@pytest.mark.spec("R7", "immediate")
def test_an_immediate_update_replaces_every_instant_from_now_on(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, update policies, immediate: the old instants that have not run are gone, the new ones hold at once."""
    app.job("daily", AT_FIVE).task(work)
    run = itinerary_clock(app, start=NOON)
    diff = run.call(app.update("daily", schedule=AT_NINE, policy="immediate", window="3d"))
    assert diff.removed == (january(2, 5), january(3, 5), january(4, 5))
    assert diff.added == (january(2, 9), january(3, 9), january(4, 9))
    run.advance_to("2026-01-03T12:00")
    assert runs(run) == ["02 09:00 v2", "03 09:00 v2"]


@pytest.mark.spec("R7", "windowed")
def test_a_windowed_update_compares_thirty_days_of_a_daily_job(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, update policies, windowed: of a daily job, the next 30 days are compared, and nothing beyond them."""
    app.job("daily", AT_FIVE).task(work)
    run = itinerary_clock(app, start=NOON)
    diff = run.call(app.update("daily", schedule=AT_NINE, policy="windowed", window="30d"))
    assert (len(diff.removed), len(diff.added), len(diff.kept)) == (30, 30, 0)
    assert diff.window_end - diff.window_start == timedelta(days=30)
    run.advance_to("2026-02-10T12:00")
    assert {f"{one.at:%H:%M}" for one in run.history("daily")} == {"09:00"}, "in force beyond the window, too"


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R6")
def test_a_run_keeps_the_version_that_it_started_with(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, versioning: a run that started under version 1 ends under it. The next run has version 2."""
    timeouts: list[int] = []

    @app.job(every("1h"), execution_timeout="30m")
    async def hourly(ctx: ExecutionContext) -> None:
        timeouts.append(ctx.version)
        await asyncio.sleep(1_200)

    run = itinerary_clock(app)
    run.advance(hours=1, minutes=5)
    run.call(app.update("hourly", execution_timeout="10m"))
    run.advance(hours=1, minutes=30)
    first, second = run.history("hourly")
    assert timeouts == [1, 2]
    assert (first.status, first.report.job_version) == ("completed", 1), "20 minutes were allowed when it started"
    assert (second.status, second.report.job_version) == ("failed", 2)


@pytest.mark.spec("R6", "a stale one is refused")
def test_of_two_updates_of_one_version_the_second_is_refused(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, versioning: optimistic locking. An update of version 1 is refused once there is a version 2."""
    app.job("daily", AT_FIVE).task(work)
    run = itinerary_clock(app, start=NOON)
    assert run.call(app.update("daily", schedule=AT_NINE, from_version=1)).version == 2
    with pytest.raises(StaleVersion, match="is at version 2"):
        run.call(app.update("daily", schedule=AT_THREE, from_version=1))
    assert run.call(app.update("daily", schedule=AT_THREE, from_version=2)).version == 3


# -- the diff ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R7", "the diff")
def test_the_difference_has_what_is_only_new_only_old_and_in_both(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, the diffing strategy, steps 1 to 6: six hours of an hourly job that becomes one of each 90 minutes.

    An instant of both schedules stays, and takes the new version. A repeated update changes nothing.
    """
    app.job("hourly", every("1h")).task(work)
    run = itinerary_clock(app, start="2026-01-01T00:30")
    old = {january(1, hour) for hour in (1, 2, 3, 4, 5, 6)}
    new = {january(1, 0) + timedelta(minutes=90 * number) for number in (1, 2, 3, 4)}
    diff = run.call(app.update("hourly", schedule=every("90m"), from_version=1, window="6h"))
    assert (set(diff.added), set(diff.removed), set(diff.kept)) == (new - old, old - new, old & new)
    assert run.call(app.update("hourly", schedule=every("90m"), from_version=1, window="6h")) == diff
    run.advance(hours=6)
    assert runs(run, "hourly") == [f"01 {at:%H:%M} v2" for at in sorted(new)]


@pytest.mark.spec("R7", "removed and unstarted")
def test_a_claimed_run_that_the_new_schedule_has_not_is_cancelled_and_comes_back_with_a_rollback(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, the diffing strategy, step 5: the run of 05:00 is claimed ten seconds before it is due, and then removed.

    A later version that has the instant again runs it: an update twice applied neither doubles nor revives anything.
    """
    app.job("daily", AT_FIVE).task(work)
    run = itinerary_clock(app, start="2026-01-02T04:00")
    run.advance_to("2026-01-02T04:59:55")
    run.call(app.update("daily", schedule=AT_NINE))
    run.advance_to("2026-01-02T05:00:20")
    (cancelled,) = run.history("daily")
    assert (cancelled.status, cancelled.reason) == ("cancelled", "version 2 does not have this instant")
    run.advance_to("2026-01-03T04:59:55")
    run.call(app.rollback("daily", to_version=1))
    run.advance_to("2026-01-03T05:01")
    assert runs(run) == ["02 05:00 v1", "02 09:00 v2", "03 05:00 v3"]
    assert run.history("daily").statuses == ["cancelled", "completed", "completed"]


# -- tasks -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R8")
def test_tasks_are_added_retired_and_changed_from_the_next_run_on(tmp_path: Path) -> None:
    """004, updating tasks: a node starts again with a declaration that has a new task, lacks one, and changes one.

    Later runs have the new set of tasks. Earlier runs keep the record of the task that is gone.
    """

    def declared(*tasks: str, task_timeout: str) -> Itinerary:
        app = Itinerary(store=f"sqlite:///{tmp_path / 'etl.db'}", name="here")
        job = app.job("etl", once("2199-01-01T00:00"))
        for task in tasks:
            job.task(work, name=task, task_timeout=task_timeout)
        return app

    async def ran(app: Itinerary, key: str) -> tuple[OccurrenceReport, datetime | None]:
        async with app.running() as node:
            run = await app["etl"].trigger(key=key)
            return await node.wait(run), app["etl"].next_run()

    async def story() -> None:
        first, next_before = await ran(declared("extract", "load", task_timeout="1m"), "first")
        changed = declared("load", "report", task_timeout="5m")
        second, next_after = await ran(changed, "second")
        assert [task.name for task in first.tasks] == ["extract", "load"]
        assert [task.name for task in second.tasks] == ["load", "report"]
        assert (first.job_version, second.job_version) == (1, 2)
        assert next_before == next_after == datetime(2199, 1, 1, tzinfo=UTC)
        async with changed.running() as node:
            kept = await node.wait(first.occurrence)
        assert kept == first, "history keeps the retired task"

    asyncio.run(story())
