"""The sweep's plan and the watermark (protocol rules 19, 20)."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.model.occurrence import Kind, Window
from itinerary.model.queries import StoreStatusQuery, WaitingQuery
from itinerary.model.rows import JobNumber, Key
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import RangeExtension, SweepPlan, SweepStep
from itinerary.model.writes import ClaimRequest, Refusal
from itinerary.stores.paging import windows_after
from tests.contracts.stores.desk import HOUR, Desk, told


async def begun(desk: Desk, node: object, **values: object) -> SweepPlan:
    plan = await desk.store.begin_sweep(node, await desk.now(), **values)  # type: ignore[arg-type]
    assert plan is not None
    return plan


@pytest.mark.spec("R2")
@told
async def test_a_plan_is_stored_and_whoever_goes_on_has_the_same_end(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    await desk.job()
    plan = await begun(desk, first)
    assert plan.owner == first
    assert await begun(desk, first) == plan, "asked again, it is the same plan"
    assert await begun(desk, second) == plan, "somebody else is told whose it is"
    taken = await begun(desk, second, seize=plan.fence)
    assert (taken.owner, taken.fence) == (second, plan.fence + 1)
    assert (taken.start, taken.end, taken.step) == (plan.start, plan.end, plan.step)


@told
async def test_a_plan_never_reaches_into_the_future(desk: Desk) -> None:
    node = await desk.node()
    plan = await desk.store.begin_sweep(node, await desk.now() + HOUR)
    assert plan is not None
    assert plan.end <= await desk.now()


@told
async def test_there_is_no_plan_where_all_is_decided(desk: Desk) -> None:
    node = await desk.node()
    watermark = (await desk.store.read(StoreStatusQuery())).watermark
    assert await desk.store.begin_sweep(node, watermark) is None
    assert await desk.store.begin_sweep(node, watermark - HOUR) is None


@pytest.mark.spec("R2")
@told
async def test_rows_and_cursor_move_together_and_the_watermark_with_the_last(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    plan = await begun(desk, node)
    missing = await desk.wanted(job)
    step = SweepStep(fence=plan.fence, step=1, cursor="job 7", wanted=(missing,))
    moved = await desk.store.advance_sweep(node, desk.revision, step)
    assert isinstance(moved, SweepPlan)
    assert (moved.cursor, moved.step) == ("job 7", 1)
    assert await desk.store.advance_sweep(node, desk.revision, step) == moved, "repeated, it answers as the first time"
    assert (await desk.store.read(StoreStatusQuery())).watermark == plan.start
    (row,) = await desk.store.read(WaitingQuery(await desk.now(), 10))
    assert (row.key, row.owner) == (missing.key, None)
    last = SweepStep(fence=plan.fence, step=2, cursor="", is_last=True)
    assert await desk.store.advance_sweep(node, desk.revision, last) is None
    assert await desk.store.advance_sweep(node, desk.revision, last) is None
    assert (await desk.store.read(StoreStatusQuery())).watermark == plan.end


@told
async def test_whoever_lost_the_plan_writes_nothing_by_it(desk: Desk) -> None:
    first, second, job = await desk.node(), await desk.node(), await desk.job()
    plan = await begun(desk, first)
    await begun(desk, second, seize=plan.fence)
    step = SweepStep(fence=plan.fence, step=1, cursor="", wanted=(await desk.wanted(job),), is_last=True)
    assert await desk.store.advance_sweep(first, desk.revision, step) is Refusal.LOST
    assert (await desk.store.read(StoreStatusQuery())).watermark == plan.start


@told
async def test_a_plan_is_seized_once_for_the_fence_that_was_seen(desk: Desk) -> None:
    first, second, third = await desk.node(), await desk.node(), await desk.node()
    plan = await begun(desk, first)
    taken = await begun(desk, second, seize=plan.fence)
    assert await begun(desk, third, seize=plan.fence) == taken


@told
async def test_the_plan_of_a_node_that_has_left_is_anybodys_however_long_ago_that_was(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    plan = await begun(desk, first)
    await desk.store.leave(first)
    taken = await begun(desk, second)
    assert (taken.owner, taken.fence, taken.end) == (second, plan.fence + 1, plan.end)


@told
async def test_a_sweep_by_an_older_timeline_is_sent_back(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    plan = await begun(desk, node)
    stale = desk.revision
    await desk.job("another")
    step = SweepStep(fence=plan.fence, step=1, cursor="", wanted=(await desk.wanted(job),))
    assert await desk.store.advance_sweep(node, stale, step) is Refusal.MOVED
    assert isinstance(await desk.store.advance_sweep(node, desk.revision, step), SweepPlan)


@told
async def test_a_step_that_was_left_out_is_noticed(desk: Desk) -> None:
    node = await desk.node()
    await desk.job()
    plan = await begun(desk, node)
    step = SweepStep(fence=plan.fence, step=2, cursor="")
    assert await desk.store.advance_sweep(node, desk.revision, step) is Refusal.ILLEGAL


@told
async def test_what_is_there_already_is_left_alone_by_the_sweep(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    key = (await desk.row(running.ref)).key
    plan = await begun(desk, node)
    step = SweepStep(fence=plan.fence, step=1, cursor="", wanted=(ClaimRequest(key, 1, key.instant),))
    await desk.store.advance_sweep(node, desk.revision, step)
    assert await desk.status(running.ref) is OccurrenceState.RUNNING


@told
async def test_the_stretch_of_a_pause_is_one_row_that_grows(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    wanted = await desk.wanted(job)
    start = wanted.key.instant
    paused = ClaimRequest(
        wanted.key, 1, start, OccurrenceState.SKIPPED, window=Window(start, start + 10, 2), reason="paused by anna"
    )
    (segment,) = await desk.claim(None, paused)
    plan = await begun(desk, node)
    for number, end in ((1, start + 20), (2, start + 20), (3, start + 15)):
        step = SweepStep(
            fence=plan.fence, step=number, cursor="", extensions=(RangeExtension(segment.ref, end, number * 2),)
        )
        await desk.store.advance_sweep(node, desk.revision, step)
    assert (await desk.row(segment.ref)).window == Window(start, start + 20, 2)
    assert len(await windows_after(desk.store.read, start + 19)) == 1
    assert len(await windows_after(desk.store.read, start + 20)) == 0


async def moment(desk: Desk) -> int:
    """A moment that is over when this returns."""
    at = await desk.now()
    await asyncio.sleep(0.002)
    assert await desk.now() > at
    return at


@pytest.mark.spec("R2")
@told
async def test_a_late_claim_creates_nothing_that_the_sweep_has_come_to(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    early, claimed_in_time = await moment(desk), await moment(desk)
    (before,) = await desk.claim(node, _wanted(job, claimed_in_time))
    plan = await begun(desk, node)
    assert early < plan.end
    assert await desk.claim(node, _wanted(job, early)) == [], "the plan decides about it"
    assert await desk.claim(node, _wanted(job, claimed_in_time)) == [before], "what was claimed before is there"
    (after,) = await desk.claim(node, _wanted(job, early), _wanted(job, plan.end))
    assert after.key.instant == plan.end, "from the end of the plan on, who comes first has it"
    last = SweepStep(fence=plan.fence, step=1, cursor="", is_last=True)
    assert await desk.store.advance_sweep(node, desk.revision, last) is None
    assert await desk.claim(node, _wanted(job, early)) == [], "and all below the watermark is decided"


@told
async def test_what_is_asked_for_by_name_is_created_whatever_the_sweep_has_come_to(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    early = await moment(desk)
    await begun(desk, node)
    wanted = ClaimRequest(Key(early, job, Kind.TRIGGER, "request"), 1, early)
    assert [one.key for one in await desk.claim(None, wanted)] == [wanted.key]


@pytest.mark.spec("R2")
@told
async def test_the_sweep_itself_creates_what_nobody_may_claim_any_more(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    missing = _wanted(job, await moment(desk))
    plan = await begun(desk, node)
    step = SweepStep(fence=plan.fence, step=1, cursor="", wanted=(missing,), is_last=True)
    assert await desk.store.advance_sweep(node, desk.revision, step) is None
    (row,) = await desk.store.read(WaitingQuery(await desk.now(), 10))
    assert (row.key, row.owner) == (missing.key, None)


def _wanted(job: JobNumber, instant: int) -> ClaimRequest:
    return ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant)
