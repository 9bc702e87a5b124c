"""What others do to an occurrence: release it, take it up, run it again, reap it, call its line (PROTOCOL 14, 17)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from itinerary.model.policies import Overlap
from itinerary.model.queries import Open, Overdue, Standing
from itinerary.model.rows import AttemptRow, NodeNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import Change, Claimed, Intervention, Limit, Refusal, Refused, Started, Step, Written
from itinerary.schedules.durations import SECOND
from itinerary.stores.base import Engine
from itinerary.stores.ledger.claiming import THE_ONE
from itinerary.stores.tables import SLOTS, SWEEP
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import HOUR, Desk, told


async def opened(desk: Desk, node: NodeNumber, grace_period: int = HOUR) -> list[OccurrenceRow]:
    return list((await desk.store.read(Open(node, 20 * SECOND, 10, grace_period))).rows)


async def refused(desk: Desk, by: NodeNumber, item: Intervention) -> Refusal:
    (answer,) = await desk.store.intervene(by, [item])
    assert isinstance(answer, Refused), answer
    return answer.why


@pytest.mark.spec("N2", "a release")
@told
async def test_what_has_started_since_it_was_looked_at_is_not_released(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    release = Intervention(claimed.ref, claimed.fence, None, "its node is gone", is_unstarted=True)
    started = await desk.started(owner, claimed)
    before = await desk.detail(claimed.ref)
    assert await refused(desk, rescuer, release) is Refusal.LOST
    assert await desk.detail(claimed.ref) == before
    await desk.finish(owner, started)


@pytest.mark.spec("N2", "a release")
@told
async def test_what_is_released_anybody_may_start_and_its_owner_no_more(desk: Desk) -> None:
    owner, other, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    release = Intervention(claimed.ref, claimed.fence, None, "its node is gone", is_unstarted=True)
    assert await desk.store.intervene(other, [release]) == [Written(claimed.ref)]
    assert await desk.store.intervene(other, [release]) == [Written(claimed.ref)]
    assert [row.ref for row in await opened(desk, other)] == [claimed.ref]
    (answer,) = await desk.start(owner, claimed)
    assert isinstance(answer, Refused)
    await desk.started(other, claimed, fence=None)


@told
async def test_what_its_owner_has_written_about_since_is_not_taken_on_old_knowledge(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    started = await desk.run(owner, job)
    seen = await desk.row(started.ref)
    done = AttemptRow(started.ref, 0, 1, TaskState.SUCCESS, 1, 2)
    await desk.store.write(owner, [Change(started.ref, started.fence, started.sequence + 1, attempts=(done,))])
    lost = AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1)
    orphan = Intervention(
        seen.ref, seen.fence, OccurrenceState.ORPHANED, "gone", attempts=(lost,), sequence=seen.sequence
    )
    assert await refused(desk, rescuer, orphan) is Refusal.LOST
    assert [attempt.status for attempt in (await desk.detail(seen.ref)).attempts] == [TaskState.SUCCESS]


@pytest.mark.spec("N3", "rerun")
@told
async def test_what_is_run_again_is_nobodys_keeps_its_slot_gives_back_its_shares_and_is_open_to_all(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    api = Limit("api", 1)
    started = await desk.run(owner, job, limits=(api,))
    lost = AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1, error="its node is gone")
    rerun = Intervention(
        started.ref,
        started.fence,
        OccurrenceState.RETRYING,
        "its node is gone",
        gives_back=True,
        attempts=(lost,),
        sequence=started.sequence,
    )
    assert await desk.store.intervene(rescuer, [rerun]) == [Written(started.ref)]
    assert await desk.store.intervene(rescuer, [rerun]) == [Written(started.ref)]
    row = await desk.row(started.ref)
    assert (row.status, row.owner, row.fence, row.holds) == (
        OccurrenceState.RETRYING,
        None,
        started.fence + 1,
        None,
    )
    assert [found.ref for found in await opened(desk, owner)] == [row.ref]
    (overlapping,) = await desk.start(rescuer, await desk.due(rescuer, job))
    assert isinstance(overlapping, Refused)
    assert overlapping.why is Refusal.SKIPPED
    await desk.run(rescuer, await desk.job("other"), limits=(api,))


@pytest.mark.spec("N3", "rerun")
@told
async def test_of_many_that_take_up_one_that_is_nobodys_one_gets_it_and_has_time_anew(desk: Desk) -> None:
    owner, first, second, job = await desk.node(), await desk.node(), await desk.node(), await desk.job()
    started = await desk.run(owner, job)
    release = Intervention(started.ref, started.fence, None, "its node is gone", sequence=started.sequence)
    await desk.store.intervene(first, [release])
    found = await desk.row(started.ref)
    assert (found.status, found.owner) == (OccurrenceState.RUNNING, None)

    def taken(by: NodeNumber) -> Intervention:
        return Intervention(found.ref, found.fence, None, "goes on", owner=by, expires_after=7 * HOUR)

    assert await desk.store.intervene(first, [taken(first)]) == [Written(found.ref)]
    assert await desk.store.intervene(first, [taken(first)]) == [Written(found.ref)]
    assert await refused(desk, second, taken(second)) is Refusal.LOST
    row = await desk.row(found.ref)
    assert (row.owner, row.fence) == (first, found.fence + 1)
    assert (row.expires_at or 0) - (await desk.now()) > 6 * HOUR
    assert not await opened(desk, second)
    await desk.finish(first, Started(row.ref, row.fence, row.sequence, 0))


@pytest.mark.spec("N4")
@told
async def test_what_is_over_its_time_is_found_and_reaped_from_wherever_it_is(desk: Desk) -> None:
    owner, reaper, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    request = replace(desk.request(claimed), execution_timeout=0)
    await desk.store.start(owner, desk.revision, [request], HOUR)
    await desk.run(owner, await desk.job("in time"))
    (found,) = (await desk.store.read(Overdue())).expired
    assert found.ref == claimed.ref
    await desk.store.write(owner, [Change(found.ref, found.fence, 2, (Step(OccurrenceState.RETRYING),))])
    reaping = Intervention(
        found.ref,
        found.fence,
        OccurrenceState.FAILED_STALE,
        "over its time",
        by_way_of=(OccurrenceState.PENDING, OccurrenceState.RUNNING),
    )
    assert await desk.store.intervene(reaper, [reaping]) == [Written(found.ref)]
    assert (await desk.trail(found.ref))[-4:] == ["retrying", "pending", "running", "failed_stale"]
    row = await desk.row(found.ref)
    assert row.ended_at is not None
    assert row.reason == "over its time"
    assert not (await desk.store.read(Overdue())).expired
    await desk.run(reaper, job)


async def line(desk: Desk) -> tuple[NodeNumber, Started, list[Claimed]]:
    """One that runs, and two that stand in line for its slot."""
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    waiting = [await desk.due(node, job), await desk.due(node, job)]
    await desk.start(node, *waiting, overlap=Overlap.QUEUE)
    assert [await desk.status(one.ref) for one in waiting] == [OccurrenceState.QUEUED] * 2
    return node, running, waiting


async def call(desk: Desk, node: NodeNumber, one: Claimed) -> Written | Refused:
    row = await desk.row(one.ref)
    (answer,) = await desk.store.intervene(node, [Intervention(row.ref, row.fence, OccurrenceState.PENDING, "called")])
    return answer


@pytest.mark.spec("X6", "a line that nobody called")
@told
async def test_a_line_behind_one_that_runs_is_not_called(desk: Desk) -> None:
    node, _, (first, second) = await line(desk)
    assert (await desk.store.read(Overdue())).stuck == ()
    for one in (first, second):
        answer = await call(desk, node, one)
        assert isinstance(answer, Refused)
        assert answer.why is Refusal.QUEUED
        assert await desk.status(one.ref) is OccurrenceState.QUEUED


@pytest.mark.spec("X6", "a line that nobody called")
@pytest.mark.parametrize("is_free", [True, False], ids=["nobody is in the slot", "one that has ended is in the slot"])
def test_the_first_in_a_line_that_nobody_called_is_found_and_gets_the_slot(engine: Engine, is_free: bool) -> None:
    @told
    async def story(desk: Desk) -> None:
        node, running, (first, second) = await line(desk)
        job = (await desk.row(first.ref)).job

        await desk.finish(node, running)
        handed = await desk.row(first.ref)
        assert handed.status is OccurrenceState.PENDING
        started = await desk.started(node, first, fence=None)

        def damage(tx: Transaction) -> None:
            (slot,) = tx.lock(SLOTS, [(job,)]).values()
            tx.save(SLOTS, [replace(slot, ref=None if is_free else running.ref)], ("ref",))

        await desk.engine.write(damage)
        await desk.finish(node, started)
        assert await desk.status(second.ref) is OccurrenceState.QUEUED, "nobody has called it"
        (stuck,) = (await desk.store.read(Overdue())).stuck
        assert stuck.ref == second.ref
        assert await call(desk, node, second) == Written(second.ref)
        assert (await desk.store.read(Overdue())).stuck == ()
        await desk.started(node, second, fence=None)

    story(engine)


async def an_hour_ago(desk: Desk) -> None:
    """The last sweep was an hour ago."""

    def set_back(tx: Transaction) -> None:
        row = tx.lock(SWEEP, [THE_ONE])[THE_ONE]
        tx.save(SWEEP, [replace(row, watermark=row.watermark - HOUR)], ("watermark",))

    await desk.engine.write(set_back)


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_what_was_claimed_and_is_older_than_the_grace_period_is_open_after_a_sweep_and_not_before(
    desk: Desk,
) -> None:
    owner, me, job = await desk.node(), await desk.node(), await desk.job()
    await an_hour_ago(desk)
    old = await desk.due(owner, job)
    late = await desk.due(owner, await desk.job("late"), ago=25)
    assert [row.ref for row in await opened(desk, me, grace_period=40 * SECOND)] == [late.ref]
    judged = Intervention(old.ref, old.fence, None, "recovered", is_unstarted=True, becomes_recovery=True)
    await desk.store.intervene(me, [judged])
    row = await desk.row(old.ref)
    assert (row.is_recovery, row.owner) == (True, None)
    assert {row.ref for row in await opened(desk, me, grace_period=40 * SECOND)} == {old.ref, late.ref}


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_what_a_sweep_has_come_by_is_open_however_old(desk: Desk) -> None:
    owner, me, job = await desk.node(), await desk.node(), await desk.job()
    await an_hour_ago(desk)
    old = await desk.due(owner, job)
    assert not await opened(desk, me, grace_period=40 * SECOND)
    plan = await desk.store.begin_sweep(me, (await desk.store.read(Standing())).now)
    assert plan is not None
    last = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", wanted=(), is_last=True)
    await desk.store.advance_sweep(me, desk.revision, last)
    assert [row.ref for row in await opened(desk, me, grace_period=40 * SECOND)] == [old.ref]
