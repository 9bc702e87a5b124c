"""What was claimed before an outage and has not started is part of the backlog that a sweep lines up (protocol rule
17)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.model.occurrence import Window
from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, ByRefQuery, HistoryQuery, StoreStatusQuery, WaitingQuery
from itinerary.model.rows import JobNumber, NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import ClaimedRow, SweepPlan, SweepStep
from itinerary.model.writes import CancelRequest, Claimed, ClaimRequest, Limit, Refusal, Refused, TakeoverWrite, Written
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import windows_after
from itinerary.stores.tables import OCCURRENCES
from tests.contracts.stores.desk import Desk, told
from tests.contracts.stores.dump import dump

S = OccurrenceState


async def outage(desk: Desk, owner: NodeNumber, job: JobNumber, count: int) -> list[Claimed]:
    """So many instants of a job that its node claimed and did not start."""
    await desk.set_watermark_back()
    return [await desk.due(owner, job, ago=600) for _ in range(count)]


async def missing(desk: Desk, job: JobNumber, count: int) -> tuple[ClaimRequest, ...]:
    """So many recovery runs of later instants, which have no row."""
    wanted = [await desk.wanted(job, ago=600) for _ in range(count)]
    return tuple(replace(one, status=S.QUEUED, is_recovery=True, reason="recovered") for one in wanted)


async def worked_off(desk: Desk, node: NodeNumber) -> list[int]:
    """Start what is offered until nothing is, and return the instants in the order of their starts."""
    order = []
    while rows := await desk.store.read(WaitingQuery(await desk.now(), 10)):
        (row,) = rows
        order.append(row.instant)
        claimed = Claimed(row.ref, row.key, row.fence, 0)
        await desk.finish(node, await desk.started(node, claimed, fence=None, overlap=Overlap.QUEUE))
    (await dump(desk.engine)).check()
    return order


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_claimed_rows_and_new_ones_stand_in_one_queue_in_order_of_instants(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await outage(desk, owner, job, 3)
    rows = await missing(desk, job, 2)
    assert await desk.recover(node, *claimed, to=S.QUEUED, wanted=rows, is_last=True) is None
    states = [
        (row.status, row.owner, row.is_recovery) for row in sorted(await desk.store.read(ActiveQuery(job)), key=key)
    ]
    assert states == [(S.PENDING, None, True), *[(S.QUEUED, None, True)] * 4]
    (lost,) = await desk.start(owner, claimed[1])
    assert lost == Refused(claimed[1].ref, Refusal.QUEUED, "recovered"), "its owner starts it no more"
    order = await worked_off(desk, node)
    assert order == [one.key.instant for one in claimed] + [one.key.instant for one in rows]
    assert await desk.trail(claimed[1].ref) == ["prerun", "queued", "pending", "running", "completed"]


def key(row: Any) -> Any:
    return row.key


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_a_step_that_is_repeated_recovers_nothing_twice(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    (claimed,) = await outage(desk, owner, job, 1)
    plan = await desk.store.begin_sweep(node, await desk.now())
    assert plan is not None
    becomes = ClaimRequest(claimed.key, 1, claimed.key.instant, S.QUEUED, is_recovery=True, reason="recovered")
    step = SweepStep(fence=plan.fence, step=1, cursor="", claimed=(ClaimedRow(claimed.ref, becomes),))
    moved = await desk.store.advance_sweep(node, desk.revision, step)
    assert isinstance(moved, SweepPlan)
    fence = (await desk.row(claimed.ref)).fence
    assert await desk.store.advance_sweep(node, desk.revision, step) == moved
    assert (await desk.row(claimed.ref)).fence == fence


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_a_step_is_refused_whole_if_a_claimed_row_has_changed(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    first, second = await outage(desk, owner, job, 2)
    await desk.store.control(None, [CancelRequest(second.ref, "anna")])
    before = await dump(desk.engine)
    plan = await desk.store.begin_sweep(node, await desk.now())
    rows = await missing(desk, job, 1)
    assert await desk.recover(node, first, second, to=S.QUEUED, wanted=rows) is Refusal.MOVED
    assert await desk.recover(node, first, to=S.QUEUED, wanted=rows, covered=(second.ref,)) is Refusal.MOVED
    assert (await dump(desk.engine)).of(OCCURRENCES) == before.of(OCCURRENCES), "nothing is written"
    assert plan is not None
    assert (await desk.store.read(StoreStatusQuery())).watermark == plan.start


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_a_claimed_row_that_a_rescuer_has_released_meanwhile_is_recovered_all_the_same(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    (claimed,) = await outage(desk, owner, job, 1)
    released = TakeoverWrite(claimed.ref, claimed.fence, None, "its node is gone", is_unstarted=True)
    assert await desk.store.intervene(node, [released]) == [Written(claimed.ref)]
    assert await desk.recover(node, claimed, to=S.MISSED, is_last=True) is None
    row = await desk.row(claimed.ref)
    assert (row.status, row.is_recovery, row.reason) == (S.MISSED, True, "recovered")
    assert [one.ref for one in (await desk.store.read(HistoryQuery(job))).rows] == [claimed.ref]
    (await dump(desk.engine)).check()


@pytest.mark.spec("R1", "compressed")
@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize("is_last_claimed", [False, True])
def test_the_row_of_a_compressed_window_takes_the_place_of_the_claimed_rows_inside(
    engine: Any, is_last_claimed: bool
) -> None:
    @told
    async def story(desk: Desk) -> None:
        owner, node, job = await desk.node(), await desk.node(), await desk.job()
        claimed = await outage(desk, owner, job, 3)
        released = TakeoverWrite(claimed[0].ref, claimed[0].fence, None, "its node is gone", is_unstarted=True)
        await desk.store.intervene(node, [released])
        wanted = ClaimRequest(claimed[2].key, 1, claimed[2].key.instant) if is_last_claimed else await desk.wanted(job)
        window = Window(claimed[0].key.instant, wanted.key.instant + SECOND, 4 - is_last_claimed)
        wanted = replace(wanted, status=S.QUEUED, is_recovery=True, window=window, reason="recovered")
        inside = claimed[:2] if is_last_claimed else claimed
        given: dict[str, Any] = {"wanted": (wanted,)}
        if is_last_claimed:
            given = {"claimed": (ClaimedRow(claimed[2].ref, wanted),)}
        plan = await desk.store.begin_sweep(node, await desk.now())
        assert plan is not None
        covered = tuple(one.ref for one in inside)
        step = SweepStep(fence=plan.fence, step=1, cursor="", covered=covered, is_last=True, **given)
        assert await desk.store.advance_sweep(node, desk.revision, step) is None
        assert await desk.store.read(ByRefQuery(covered)) == {}
        (row,) = await windows_after(desk.store.read, plan.start)
        assert (row.key, row.window, row.is_recovery, row.status) == (wanted.key, window, True, S.PENDING)
        assert {one.why for one in await desk.start(owner, *inside) if isinstance(one, Refused)} == {Refusal.GONE}
        (await dump(desk.engine)).check()
        assert await worked_off(desk, node) == [wanted.key.instant]

    story(engine)


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_older_rows_that_wait_for_a_share_stand_in_the_queue_before_the_backlog(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    other = await desk.started(node, await desk.due(node, await desk.job("other")), limits=(Limit("api", 1),))
    await desk.set_watermark_back()
    waiting = await desk.due(owner, job)
    (refused,) = await desk.start(owner, waiting, limits=(Limit("api", 1),))
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LIMITED
    await desk.finish(node, other)
    rows = await missing(desk, job, 2)
    assert await desk.recover(node, wanted=rows, waiting=(waiting.ref,), is_last=True) is None
    row = await desk.row(waiting.ref)
    assert (row.owner, row.is_recovery) == (None, False)
    assert await worked_off(desk, node) == [waiting.key.instant, *(one.key.instant for one in rows)]


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_an_older_row_that_runs_by_now_or_has_the_slot_is_left_alone(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await desk.set_watermark_back()
    running, queued = await desk.run(node, job), await desk.due(node, job)
    await desk.start(node, queued, overlap=Overlap.QUEUE)
    await desk.finish(node, running)
    assert await desk.status(queued.ref) is S.PENDING, "the slot was handed to it"
    before = await desk.row(queued.ref)
    rows = await missing(desk, job, 1)
    assert await desk.recover(node, wanted=rows, waiting=(running.ref, queued.ref), is_last=True) is None
    assert await desk.row(queued.ref) == before
    assert await worked_off(desk, node) == [queued.key.instant, rows[0].key.instant]
