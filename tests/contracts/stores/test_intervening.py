"""What others do to an occurrence: release it, take it up, run it again, reap it, call its line (protocol rules 14,
17)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from itinerary.model.policies import Overlap
from itinerary.model.queries import NodesQuery, OpenQuery, OverdueQuery, StoreStatusQuery
from itinerary.model.rows import AttemptRow, JobNumber, NodeNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import (
    CancelRequest,
    Claimed,
    LastBeat,
    Limit,
    OwnerWrite,
    Refusal,
    Refused,
    Started,
    Step,
    TakeoverWrite,
    Written,
)
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import Engine
from itinerary.stores.tables import OVERLAP_SLOTS
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import HOUR, Desk, told


async def opened(desk: Desk, node: NodeNumber, grace_period: int = HOUR) -> list[OccurrenceRow]:
    return list((await desk.store.read(OpenQuery(node, 20 * SECOND, 10, grace_period))).rows)


async def refused(desk: Desk, by: NodeNumber, item: TakeoverWrite) -> Refusal:
    (answer,) = await desk.store.intervene(by, [item])
    assert isinstance(answer, Refused), answer
    return answer.why


@pytest.mark.spec("N2", "a release")
@told
async def test_what_has_started_since_it_was_looked_at_is_not_released(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    release = TakeoverWrite(claimed.ref, claimed.fence, None, "its node is gone", is_unstarted=True)
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
    release = TakeoverWrite(claimed.ref, claimed.fence, None, "its node is gone", is_unstarted=True)
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
    await desk.store.write(owner, [OwnerWrite(started.ref, started.fence, started.sequence + 1, attempts=(done,))])
    lost = AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1)
    orphan = TakeoverWrite(
        seen.ref, seen.fence, OccurrenceState.ORPHANED, "gone", attempts=(lost,), sequence=seen.sequence
    )
    assert await refused(desk, rescuer, orphan) is Refusal.LOST
    assert [attempt.status for attempt in (await desk.detail(seen.ref)).attempts] == [TaskState.SUCCESS]


@pytest.mark.spec("N2", "an old judgement")
@told
async def test_a_takeover_is_refused_if_the_owner_has_sent_a_heartbeat_since_it_was_judged_to_be_dead(
    desk: Desk,
) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    await desk.store.beat(owner)
    started, unstarted = await desk.run(owner, job), await desk.due(owner, job)
    counters = {node.number: node.counter for node in (await desk.store.beat(rescuer)).nodes}
    judged = LastBeat(owner, counters[owner])
    orphan = TakeoverWrite(started.ref, started.fence, OccurrenceState.ORPHANED, "gone", dead_since=judged)
    release = TakeoverWrite(unstarted.ref, unstarted.fence, None, "gone", is_unstarted=True, dead_since=judged)
    await desk.store.beat(owner)
    before = [await desk.detail(started.ref), await desk.detail(unstarted.ref)]
    assert await refused(desk, rescuer, orphan) is Refusal.ALIVE
    assert await refused(desk, rescuer, release) is Refusal.ALIVE
    assert [await desk.detail(started.ref), await desk.detail(unstarted.ref)] == before
    judged = LastBeat(owner, judged.counter + 1)
    items = [replace(orphan, dead_since=judged), replace(release, dead_since=judged)]
    taken = [Written(started.ref), Written(unstarted.ref)]
    assert await desk.store.intervene(rescuer, items) == taken
    await desk.store.beat(owner)
    assert await desk.store.intervene(rescuer, items) == taken, "an earlier try, whose answer was lost"


@pytest.mark.spec("N2", "an old judgement")
@told
async def test_a_node_that_has_sent_a_heartbeat_since_it_was_judged_to_be_dead_is_not_said_to_be_gone(
    desk: Desk,
) -> None:
    owner, job = await desk.node(), await desk.job()
    started = await desk.run(owner, job)
    await desk.store.control(None, [CancelRequest(started.ref, "anna: wrong data")])
    assert not await desk.store.leave(owner, counter=7)
    beat = await desk.store.beat(owner)
    assert list(beat.mail) == [started.ref], "it keeps its mail"
    assert [node.left_at for node in beat.nodes if node.number == owner] == [None]
    assert await desk.store.leave(owner, counter=1)
    (gone,) = [node for node in await desk.store.read(NodesQuery()) if node.number == owner]
    assert gone.left_at is not None


@pytest.mark.spec("N3", "rerun")
@told
async def test_what_is_run_again_is_nobodys_keeps_its_slot_gives_back_its_shares_and_is_open_to_all(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    api = Limit("api", 1)
    started = await desk.run(owner, job, limits=(api,))
    lost = AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1, error="its node is gone")
    rerun = TakeoverWrite(
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
    release = TakeoverWrite(started.ref, started.fence, None, "its node is gone", sequence=started.sequence)
    await desk.store.intervene(first, [release])
    found = await desk.row(started.ref)
    assert (found.status, found.owner) == (OccurrenceState.RUNNING, None)

    def taken(by: NodeNumber) -> TakeoverWrite:
        return TakeoverWrite(found.ref, found.fence, None, "goes on", owner=by, expires_after=7 * HOUR)

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
    (found,) = (await desk.store.read(OverdueQuery())).expired
    assert found.ref == claimed.ref
    await desk.store.write(owner, [OwnerWrite(found.ref, found.fence, 2, (Step(OccurrenceState.RETRYING),))])
    reaping = TakeoverWrite(
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
    assert not (await desk.store.read(OverdueQuery())).expired
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
    (answer,) = await desk.store.intervene(node, [TakeoverWrite(row.ref, row.fence, OccurrenceState.PENDING, "called")])
    return answer


@pytest.mark.spec("X6", "a line that nobody called")
@told
async def test_a_line_behind_one_that_runs_is_not_called(desk: Desk) -> None:
    node, _, (first, second) = await line(desk)
    assert (await desk.store.read(OverdueQuery())).stuck == ()
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
            (slot,) = tx.lock(OVERLAP_SLOTS, [(job,)]).values()
            tx.save(OVERLAP_SLOTS, [replace(slot, ref=None if is_free else running.ref)], ("ref",))

        await desk.engine.write(damage)
        await desk.finish(node, started)
        assert await desk.status(second.ref) is OccurrenceState.QUEUED, "nobody has called it"
        (stuck,) = (await desk.store.read(OverdueQuery())).stuck
        assert stuck.ref == second.ref
        assert await call(desk, node, second) == Written(second.ref)
        assert (await desk.store.read(OverdueQuery())).stuck == ()
        await desk.started(node, second, fence=None)

    story(engine)


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_what_was_claimed_and_is_older_than_the_grace_period_is_open_after_a_sweep_and_not_before(
    desk: Desk,
) -> None:
    owner, me, job = await desk.node(), await desk.node(), await desk.job()
    await desk.set_watermark_back()
    old = await desk.due(owner, job)
    late = await desk.due(owner, await desk.job("late"), ago=25)
    assert [row.ref for row in await opened(desk, me, grace_period=40 * SECOND)] == [late.ref]
    await desk.recover(me, old)
    row = await desk.row(old.ref)
    assert (row.is_recovery, row.owner) == (True, None)
    assert {row.ref for row in await opened(desk, me, grace_period=40 * SECOND)} == {old.ref, late.ref}


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_what_a_sweep_has_come_by_is_open_however_old(desk: Desk) -> None:
    owner, me, job = await desk.node(), await desk.node(), await desk.job()
    await desk.set_watermark_back()
    old = await desk.due(owner, job)
    assert not await opened(desk, me, grace_period=40 * SECOND)
    plan = await desk.store.begin_sweep(me, (await desk.store.read(StoreStatusQuery())).now)
    assert plan is not None
    last = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", wanted=(), is_last=True)
    await desk.store.advance_sweep(me, desk.revision, last)
    assert [row.ref for row in await opened(desk, me, grace_period=40 * SECOND)] == [old.ref]


# -- a node that shuts down gives back what it has started (R9) ------------------------------------------------------


async def interrupted(desk: Desk, owner: NodeNumber, job: JobNumber) -> tuple[Started, TakeoverWrite]:
    """An occurrence whose node has written that it is interrupted, and the write that gives it back."""
    started = await desk.run(owner, job, limits=(Limit("api", 1),))
    cancelled = AttemptRow(started.ref, 0, 1, TaskState.CANCELLED, 1, 2, "cancelled: node a was shut down")
    step = Step(OccurrenceState.RETRYING, None, "node a was shut down while it ran")
    change = OwnerWrite(started.ref, started.fence, started.sequence + 1, (step,), attempts=(cancelled,))
    assert await desk.store.write(owner, [change]) == [Written(started.ref)]
    release = TakeoverWrite(
        started.ref,
        started.fence,
        None,
        "node a was shut down",
        gives_back=True,
        sequence=started.sequence + 1,
        expires_after=366 * 24 * HOUR,
    )
    return started, release


@pytest.mark.spec("R9", "rerun")
@told
async def test_what_a_shutdown_gives_back_is_open_to_all_keeps_its_slot_and_is_not_reaped(desk: Desk) -> None:
    owner, first, second, job = await desk.node(), await desk.node(), await desk.node(), await desk.job()
    started, release = await interrupted(desk, owner, job)
    assert await desk.store.intervene(owner, [release]) == [Written(started.ref)]
    assert await desk.store.intervene(owner, [release]) == [Written(started.ref)], "its answer may have been lost"
    row = await desk.row(started.ref)
    assert (row.status, row.owner, row.fence, row.holds) == (
        OccurrenceState.RETRYING,
        None,
        started.fence + 1,
        None,
    )
    assert row.expires_at is not None
    assert row.expires_at > await desk.now() + 365 * 24 * HOUR
    assert [one.ref for one in await opened(desk, first)] == [started.ref]
    next_one = await desk.due(first, job)
    (answer,) = await desk.start(first, next_one, overlap=Overlap.QUEUE)
    assert isinstance(answer, Refused), "its job's slot is still its own"
    assert answer.why is Refusal.QUEUED
    late = OwnerWrite(started.ref, started.fence, started.sequence + 2, (Step(OccurrenceState.FAILED),))
    (stale,) = await desk.store.write(owner, [late])
    assert isinstance(stale, Refused), "its first node has lost it"

    def taken(by: NodeNumber) -> TakeoverWrite:
        return TakeoverWrite(row.ref, row.fence, None, "goes on", owner=by, expires_after=HOUR)

    answers = [(await desk.store.intervene(by, [taken(by)]))[0] for by in (first, second)]
    assert [type(answer) for answer in answers] == [Written, Refused], "one node continues it, and no other"
    detail = await desk.detail(started.ref)
    assert [one.status for one in detail.attempts] == [TaskState.CANCELLED]


@pytest.mark.spec("R9", "rerun")
@told
async def test_what_a_shutdown_gives_back_does_not_overtake_a_write_that_came_before(desk: Desk) -> None:
    owner, job = await desk.node(), await desk.job()
    started, release = await interrupted(desk, owner, job)
    early = replace(release, sequence=started.sequence + 2)
    assert await refused(desk, owner, early) is Refusal.LOST
    assert (await desk.row(started.ref)).owner == owner


@pytest.mark.spec("R9", "release")
@told
async def test_a_launch_that_was_made_after_all_is_ended_by_the_write_that_gives_back(desk: Desk) -> None:
    """Its owner was told that it lacks a share, and an earlier try of the launch, whose answer was lost, was made."""
    owner, other, job = await desk.node(), await desk.node(), await desk.job()
    started, release = await interrupted(desk, owner, job)
    running = AttemptRow(started.ref, 0, 2, TaskState.RUNNING)
    steps = (Step(OccurrenceState.PENDING), Step(OccurrenceState.RUNNING))
    launch = OwnerWrite(started.ref, started.fence, started.sequence + 2, steps, attempts=(running,))
    assert await desk.store.write(owner, [launch]) == [Written(started.ref)]
    withheld = AttemptRow(started.ref, 0, 2, TaskState.CANCELLED, None, 3, "cancelled before its function was called")
    item = replace(release, sequence=None, attempts=(withheld,))
    assert await desk.store.intervene(owner, [item]) == [Written(started.ref)]
    detail = await desk.detail(started.ref)
    assert [one.status for one in detail.attempts] == [TaskState.CANCELLED] * 2
    assert [one.ref for one in await opened(desk, other)] == [started.ref]
