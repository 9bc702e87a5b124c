"""`explain` on every store: the same questions, the same answers (U4)."""

from __future__ import annotations

import pytest

from itinerary.explain import Cause, Explanation, RunResult, explain, explain_occurrence
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.queries import StoreStatusQuery
from itinerary.model.rows import EntryKind, JobNumber, Ref
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from itinerary.stores.paging import read_timeline
from tests.contracts.stores.desk import Desk, told


async def job_each_second(desk: Desk) -> JobNumber:
    """A job that is due each second."""
    body = to_json(Definition(schedule=every("1s").to_json())).decode()
    entry = TimelineEntryRequest(
        job="backup", kind=EntryKind.VERSION, request="1", by="anna", from_version=0, body=body
    )
    (entered,) = await desk.store.amend([entry])
    assert isinstance(entered, EntryAccepted)
    desk.revision = entered.revision
    return entered.job


async def asked(desk: Desk, ref: Ref) -> Explanation:
    return await explain(desk.store, "backup", Moment((await desk.row(ref)).instant // SECOND))


@pytest.mark.spec("U4", "on every store")
@told
async def test_what_runs_and_what_was_in_its_way_are_named(desk: Desk) -> None:
    node, job = await desk.node(), await job_each_second(desk)
    running = await desk.run(node, job)
    second = await desk.due(node, job)
    await desk.start(node, second)
    runs, skipped = await asked(desk, running.ref), await asked(desk, second.ref)
    assert (runs.fate, runs.run) == (RunResult.RUNS, f"backup:{(await desk.row(running.ref)).instant // SECOND}")
    assert (skipped.fate, skipped.cause) == (RunResult.DID_NOT_RUN, Cause.OVERLAPPED)
    assert f"({runs.run}) was running when this one could start" in skipped.verdict
    await desk.finish(node, running)
    ran = await asked(desk, running.ref)
    row, status = await desk.row(running.ref), await desk.store.read(StoreStatusQuery())
    about = await explain_occurrence(desk.store, await read_timeline(desk.store.read), status, row)
    assert (about.verdict, about.facts) == (ran.verdict, ran.facts)
    assert (ran.fate, "completed after" in ran.verdict) == (RunResult.RAN_LATE, True)
    assert [fact.what for fact in ran.facts][-1] == "completed, node a"


@pytest.mark.spec("U4", "on every store")
@told
async def test_what_is_to_come_and_what_nobody_can_read_have_an_answer_too(desk: Desk) -> None:
    await job_each_second(desk)
    soon = Moment((await desk.now()) // SECOND + 3_600)
    to_come = await explain(desk.store, "backup", soon)
    assert (to_come.fate, to_come.cause) == (RunResult.TO_COME, Cause.FUTURE)
    await desk.job("unreadable")
    unreadable = await explain(desk.store, "unreadable", soon)
    assert (unreadable.fate, unreadable.cause) == (RunResult.UNKNOWN, Cause.QUARANTINED)
    assert (await explain(desk.store, "unreadable")).cause is Cause.QUARANTINED
