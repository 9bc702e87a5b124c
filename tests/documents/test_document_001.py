"""Document 001, the first draft of document 000: what the draft has, and the later text has not (I3, L6, L9, D10).

Where both say something, document 000 holds: the inbox has 10,000 places and not 1,000, and a run id is the job and the
Unix time and not a date. Document 000 also answers the five open questions of the draft.
"""

from __future__ import annotations

import asyncio

import pytest

from itinerary import Itinerary, cron
from itinerary.core.loop import messages as m
from itinerary.model.settings import Settings
from tests.documents.clock import Clock


@pytest.mark.spec("L4")
@pytest.mark.spec("L9")
def test_where_the_draft_and_the_later_text_differ_the_later_text_holds(app: Itinerary, itinerary_clock: Clock) -> None:
    """001, defaults and run ids: 1,000 places in the inbox became 10,000, and `job_date` became `job:seconds`."""

    @app.job(cron("0 * * * *"))
    async def job123() -> None: ...

    assert Settings().inbox_buffer_size == 10_000
    run = itinerary_clock(app, start="2023-12-31T23:30")
    run.advance(hours=1)
    (one,) = run.history("job123")
    assert run.call(run.node.wait("job123:1704067200")) == one.report


@pytest.mark.spec("I3")
@pytest.mark.spec("L6", "job changed")
def test_a_change_of_a_job_rebuilds_the_index_at_once(app: Itinerary, itinerary_clock: Clock) -> None:
    """001, messages of the watcher: schedule updated, job added, modified, removed. Ours is one, `JobChanged`.

    The rebuild does not wait for the interval of a minute: a job that is moved to run in 20 seconds does run then.
    """

    @app.job(cron("0 5 * * *"))
    async def daily() -> None: ...

    run = itinerary_clock(app, start="2026-01-01T12:00:40")
    assert m.JobChanged.__struct_fields__ == ("revision",)
    run.call(app.update("daily", schedule=cron("1 12 * * *")))
    run.advance(seconds=30)
    (one,) = run.history("daily")
    assert (f"{one.at:%H:%M}", one.status) == ("12:01", "completed")
    assert one.report.lateness is not None
    assert one.report.lateness.total_seconds() == 0


@pytest.mark.spec("D10")
def test_a_job_that_is_removed_is_not_started_though_the_index_still_has_it(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """001, step 2: a run of the index whose job is gone is passed over.

    Ours is claimed already, five seconds ahead, so the removal cancels it, and says so.
    """

    @app.job(cron("0 * * * *"))
    async def hourly() -> None: ...

    run = itinerary_clock(app, start="2026-01-01T12:30")
    run.advance_to("2026-01-01T12:59:55")
    assert [one.state for one in run.call(run.node.active())] == ["prerun"]
    run.call(app["hourly"].remove(reason="not needed any more"))
    run.advance(minutes=5)
    (one,) = run.history("hourly")
    assert (one.status, one.report.started_at) == ("cancelled", None)


@pytest.mark.spec("L6", "questions")
def test_the_status_of_a_job_is_asked_of_the_loop(app: Itinerary, itinerary_clock: Clock) -> None:
    """001, state queries: the draft asks for the status of a job, too. Ours has its version and its active runs."""

    @app.job(cron("0 * * * *"))
    async def hourly() -> None:
        await asyncio.sleep(60)

    run = itinerary_clock(app, start="2026-01-01T12:30")
    run.advance_to("2026-01-01T13:00:10")
    status = run.call(run.node.job("hourly"))
    assert status is not None
    assert (status.job, status.version, [one.state for one in status.active]) == ("hourly", 1, ["running"])
