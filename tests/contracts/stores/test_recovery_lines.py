"""Recovery runs of a job stand in line, in order, and what is due meanwhile queues behind them (R2, protocol rule
21)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, OpenQuery, WaitingQuery
from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import CancelRequest, Claimed, Refusal, Refused, Started
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.desk import HOUR, Desk, told

S = OccurrenceState
IN_THE_WAY = (Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE)


async def swept(desk: Desk, node: NodeNumber, job: JobNumber, count: int) -> list[OccurrenceRow]:
    """A backlog: so many recovery runs of a job, as a sweep makes them. In order."""
    plan = await desk.store.begin_sweep(node, await desk.now())
    assert plan is not None
    wanted = [await desk.wanted(job, ago=600) for _ in range(count)]
    rows = tuple(replace(one, status=S.QUEUED, is_recovery=True, reason="recovered") for one in wanted)
    step = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", wanted=rows, is_last=True)
    assert await desk.store.advance_sweep(node, desk.revision, step) is None
    return sorted(await desk.store.read(ActiveQuery(job)), key=lambda row: row.key)


async def offered(desk: Desk) -> list[OccurrenceRow]:
    """What anybody may start."""
    return list(await desk.store.read(WaitingQuery(await desk.now(), 10)))


async def taken_up(desk: Desk, node: NodeNumber, row: OccurrenceRow) -> Started:
    """A row that was offered, started as recovery is."""
    claimed = Claimed(row.ref, row.key, row.fence, 0)
    return await desk.started(node, claimed, fence=None, overlap=Overlap.QUEUE)


@pytest.mark.spec("R2", "one after another")
@told
async def test_of_a_backlog_one_is_offered_at_a_time_in_order_and_each_end_wakes_the_next(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    backlog = await swept(desk, node, job, 3)
    assert [row.status for row in backlog] == [S.PENDING, S.QUEUED, S.QUEUED]
    for row in backlog:
        (next_one,) = await offered(desk)
        assert (next_one.ref, next_one.owner, next_one.is_recovery) == (row.ref, None, True)
        running = await taken_up(desk, node, next_one)
        assert await offered(desk) == []
        await desk.finish(node, running)
    assert [await desk.status(row.ref) for row in backlog] == [S.COMPLETED] * 3
    assert await desk.trail(backlog[2].ref) == ["queued", "pending", "running", "completed"]


@pytest.mark.spec("R2", "live instants queue behind")
@pytest.mark.parametrize("overlap", IN_THE_WAY)
def test_what_is_due_meanwhile_queues_behind_the_whole_backlog(engine: object, overlap: Overlap) -> None:
    @told
    async def story(desk: Desk) -> None:
        node, job = await desk.node(), await desk.job()
        backlog = await swept(desk, node, job, 2)
        live = await desk.due(node, job)
        (answer,) = await desk.start(node, live, overlap=overlap)
        assert answer == Refused(live.ref, Refusal.QUEUED, f"waits for occurrence {backlog[0].ref}")
        assert (await desk.row(backlog[0].ref)).cancelled_by is None, "recovery is not asked to end for it"
        order = []
        for _ in range(3):
            (row,) = await offered(desk)
            order.append(row.ref)
            await desk.finish(node, await taken_up(desk, node, row))
        assert order == [*(row.ref for row in backlog), live.ref]

    story(engine)  # type: ignore[arg-type]  # the engine that the fixture made


@pytest.mark.spec("R2", "live instants queue behind")
@told
async def test_behind_recovery_the_newest_that_replaces_waits_alone(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second = await swept(desk, node, job, 2)
    running = await taken_up(desk, node, first)
    older, newer = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, older, overlap=Overlap.REPLACE)
    await desk.start(node, newer, overlap=Overlap.REPLACE)
    assert await desk.status(older.ref) is S.SKIPPED
    assert (await desk.row(older.ref)).reason == f"replaced by occurrence {newer.ref}"
    assert [await desk.status(ref) for ref in (first.ref, second.ref, newer.ref)] == [S.RUNNING, S.QUEUED, S.QUEUED]
    await desk.finish(node, running)
    assert [await desk.status(ref) for ref in (second.ref, newer.ref)] == [S.PENDING, S.QUEUED]


@pytest.mark.spec("R2", "live instants queue behind")
@told
async def test_of_those_in_line_behind_recovery_that_replace_in_one_batch_each_is_replaced_once(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    (recovery,) = await swept(desk, node, job, 1)
    live = [await desk.due(node, job) for _ in range(3)]
    await desk.start(node, *live, overlap=Overlap.QUEUE)
    answers = await desk.start(node, *live, overlap=Overlap.REPLACE, fence=None)
    *older, newest = live
    assert answers == [
        *(Refused(one.ref, Refusal.SKIPPED, f"replaced by occurrence {newest.ref}") for one in older),
        Refused(newest.ref, Refusal.QUEUED, f"waits for occurrence {recovery.ref}"),
    ]
    assert [await desk.trail(one.ref) for one in older] == [["prerun", "queued", "skipped"]] * 2
    assert await desk.start(node, *live, overlap=Overlap.REPLACE, fence=None) == answers


@pytest.mark.spec("R2", "live instants queue behind")
@told
async def test_recovery_in_line_that_is_asked_for_again_is_not_replaced(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second = await swept(desk, node, job, 2)
    live = await desk.due(node, job)
    await desk.start(node, live, overlap=Overlap.REPLACE)
    claimed = Claimed(second.ref, second.key, second.fence, 0)
    (answer,) = await desk.start(node, claimed, overlap=Overlap.REPLACE, fence=None)
    assert isinstance(answer, Refused)
    assert answer.why is Refusal.QUEUED
    assert [await desk.status(ref) for ref in (first.ref, second.ref, live.ref)] == [S.PENDING, S.QUEUED, S.QUEUED]


@pytest.mark.spec("R2", "live instants queue behind")
@told
async def test_once_recovery_is_through_the_overlap_policy_holds_again(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    (row,) = await swept(desk, node, job, 1)
    running = await taken_up(desk, node, row)
    live = await desk.due(node, job)
    await desk.start(node, live)
    await desk.finish(node, running)
    (handed,) = await offered(desk)
    assert handed.ref == live.ref
    await taken_up(desk, node, handed)
    late = await desk.due(node, job)
    assert await desk.start(node, late) == [Refused(late.ref, Refusal.SKIPPED, f"overlaps occurrence {live.ref}")]


@pytest.mark.spec("R2", "beside a running occurrence")
@told
async def test_a_backlog_that_comes_while_its_job_runs_waits_for_that(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    await swept(desk, node, job, 2)
    assert await offered(desk) == []
    await desk.finish(node, running)
    (row,) = await offered(desk)
    assert row.is_recovery


@pytest.mark.spec("R2", "a bounded queue")
@told
async def test_a_backlog_takes_no_places_in_a_queue_that_has_a_bound(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await swept(desk, node, job, 5)
    first, second = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, first, overlap=Overlap.QUEUE, max_queued=1)
    assert await desk.status(first.ref) is S.QUEUED
    await desk.start(node, second, overlap=Overlap.QUEUE, max_queued=1)
    assert await desk.status(second.ref) is S.SKIPPED


@pytest.mark.spec("R2", "one after another")
@told
async def test_one_that_is_cancelled_in_the_middle_of_a_backlog_is_passed_over(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second, third = await swept(desk, node, job, 3)
    await desk.store.control(None, [CancelRequest(second.ref, "anna")])
    await desk.finish(node, await taken_up(desk, node, first))
    (row,) = await offered(desk)
    assert row.ref == third.ref


@pytest.mark.spec("R3", "what is due now")
@told
async def test_a_long_backlog_of_what_may_overlap_does_not_hide_what_is_due_now(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    plan = await desk.store.begin_sweep(node, await desk.now())
    assert plan is not None
    rows = tuple([replace(await desk.wanted(job, ago=600), is_recovery=True) for _ in range(20)])
    step = SweepStep(fence=plan.fence, step=1, cursor="", wanted=rows, is_last=True)
    await desk.store.advance_sweep(node, desk.revision, step)
    (live,) = await desk.claim(None, await desk.wanted(await desk.job("live"), ago=1))
    offers = await desk.store.read(OpenQuery(node, HOUR, 5, HOUR))
    assert live.ref in {row.ref for row in offers.rows}
    assert len(offers.rows) == 10
    assert offers.now - min(row.due_at for row in offers.rows) >= 600 * SECOND
