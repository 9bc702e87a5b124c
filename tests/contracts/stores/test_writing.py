"""What becomes of an occurrence after its start (protocol rules 8 to 10, 12, 17, 25)."""

from __future__ import annotations

import pytest

from itinerary.model.queries import ActiveQuery, ByRefQuery, MailQuery
from itinerary.model.rows import AttemptRow, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import (
    AdjustRequest,
    CancelRequest,
    OwnerWrite,
    Refusal,
    Refused,
    Started,
    Step,
    TakeoverWrite,
    Written,
)
from tests.contracts.stores.desk import Desk, told


def launch(started: Started, number: int = 2) -> OwnerWrite:
    """The gate of a later launch: attempt so and so begins."""
    attempt = AttemptRow(started.ref, 0, number, TaskState.RUNNING, 1)
    return OwnerWrite(started.ref, started.fence, started.sequence + 1, attempts=(attempt,))


@pytest.mark.spec("D2")
@told
async def test_an_end_writes_state_tasks_attempts_and_trail_together(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    await desk.finish(node, started)
    detail = await desk.detail(started.ref)
    assert detail.row.status is OccurrenceState.COMPLETED
    assert detail.row.ended_at is not None
    assert detail.row.ended_at >= started.started_at
    assert detail.tasks == (TaskRow(started.ref, 0, "main", TaskState.SUCCESS),)
    assert detail.attempts == (AttemptRow(started.ref, 0, 1, TaskState.SUCCESS, 1, 2),)
    assert await desk.trail(started.ref) == ["prerun", "pending", "running", "completed"]
    assert await desk.store.read(ActiveQuery()) == []


@pytest.mark.spec("L7")
@told
async def test_a_write_that_is_repeated_changes_nothing(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    change = launch(started)
    assert await desk.store.write(node, [change]) == [Written(started.ref)]
    before = await desk.detail(started.ref)
    assert await desk.store.write(node, [change]) == [Written(started.ref)]
    assert await desk.detail(started.ref) == before


@pytest.mark.spec("L7")
@told
async def test_an_end_stands_though_a_launch_that_was_done_without_has_its_number(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    assert await desk.store.write(node, [launch(started)]) == [Written(started.ref)]
    cancelled = OwnerWrite(
        started.ref, started.fence, started.sequence + 1, (Step(OccurrenceState.CANCELLED, why="nobody waits"),)
    )
    assert await desk.store.write(node, [cancelled]) == [Written(started.ref)]
    detail = await desk.detail(started.ref)
    assert detail.row.status is OccurrenceState.CANCELLED
    assert [attempt.status for attempt in detail.attempts] == [TaskState.CANCELLED, TaskState.CANCELLED]
    assert await desk.store.write(node, [cancelled]) == [Written(started.ref)], "repeated, it changes nothing"
    assert await desk.detail(started.ref) == detail


@told
async def test_writes_of_one_occurrence_may_come_in_one_batch(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    end = desk.end(started, sequence=started.sequence + 2)
    assert await desk.store.write(node, [launch(started), end]) == [Written(started.ref)] * 2
    assert await desk.status(started.ref) is OccurrenceState.COMPLETED


@told
async def test_a_write_that_came_before_its_predecessor_is_refused(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    (refused,) = await desk.store.write(node, [desk.end(started, sequence=started.sequence + 2)])
    assert refused == Refused(started.ref, Refusal.ILLEGAL, "write 3 came before write 2")


@pytest.mark.spec("O1")
@told
async def test_a_step_that_the_table_does_not_hold_is_refused_and_its_batch_is_not(desk: Desk) -> None:
    node, job, other = await desk.node(), await desk.job("a"), await desk.job("b")
    wrong, right = await desk.run(node, job), await desk.run(node, other)
    answers = await desk.store.write(node, [desk.end(wrong, to=OccurrenceState.SKIPPED), desk.end(right)])
    assert isinstance(answers[0], Refused)
    assert answers[0].why is Refusal.ILLEGAL
    assert answers[0].by.startswith("an occurrence cannot go from running to skipped")
    assert answers[1] == Written(right.ref)
    assert await desk.status(wrong.ref) is OccurrenceState.RUNNING


@told
async def test_an_occurrence_that_does_not_exist_is_gone(desk: Desk) -> None:
    node = await desk.node()
    await desk.job()
    nobody = Ref(987_654)
    gone = [Refused(nobody, Refusal.GONE)]
    assert await desk.store.write(node, [OwnerWrite(nobody, 1, 1)]) == gone
    assert await desk.store.intervene(node, [TakeoverWrite(nobody, 1, None, "why")]) == gone
    assert await desk.store.control(None, [CancelRequest(nobody, "anna")]) == gone


@pytest.mark.spec("N2")
@told
async def test_a_frozen_owner_can_neither_start_launch_write_nor_finish(desk: Desk) -> None:
    frozen, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(frozen, job)
    started = await desk.started(frozen, claimed)
    taken = TakeoverWrite(started.ref, started.fence, None, "its node was silent")
    assert await desk.store.intervene(rescuer, [taken]) == [Written(started.ref)]
    waiting = await desk.due(frozen, await desk.job("another"))
    await desk.store.intervene(rescuer, [TakeoverWrite(waiting.ref, waiting.fence, None, "its node was silent")])
    before = await desk.detail(started.ref)
    progress = OwnerWrite(started.ref, started.fence, started.sequence + 1, steps=(Step(OccurrenceState.TERMINATING),))
    for change in (launch(started), progress, desk.end(started)):
        (refused,) = await desk.store.write(frozen, [change])
        assert isinstance(refused, Refused)
        assert refused.why is Refusal.LOST
        assert f"fence {started.fence + 1}" in refused.by
    (not_begun,) = await desk.start(frozen, waiting)
    assert isinstance(not_begun, Refused)
    assert not_begun.why is Refusal.LOST
    assert await desk.detail(started.ref) == before


@told
async def test_a_write_by_somebody_else_with_the_right_fence_is_refused(desk: Desk) -> None:
    owner, other, job = await desk.node(), await desk.node(), await desk.job()
    started = await desk.run(owner, job)
    (refused,) = await desk.store.write(other, [desk.end(started)])
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST


@pytest.mark.spec("O4")
@told
async def test_a_late_result_of_a_reaped_run_does_not_free_its_successors_slot(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    reaped = await desk.run(owner, job)
    stale = TakeoverWrite(reaped.ref, reaped.fence, OccurrenceState.FAILED_STALE, "over its time")
    assert await desk.store.intervene(rescuer, [stale]) == [Written(reaped.ref)]
    successor = await desk.run(rescuer, job)
    (refused,) = await desk.store.write(owner, [desk.end(reaped)])
    assert isinstance(refused, Refused)
    await desk.store.beat(rescuer)
    (overlapping,) = await desk.start(owner, await desk.due(owner, job))
    assert isinstance(overlapping, Refused)
    assert overlapping.by == f"overlaps occurrence {successor.ref}"


@told
async def test_an_intervention_counts_once_for_the_fence_that_was_seen(desk: Desk) -> None:
    owner, first, second, job = await desk.node(), await desk.node(), await desk.node(), await desk.job()
    started = await desk.run(owner, job)
    orphan = TakeoverWrite(started.ref, started.fence, OccurrenceState.ORPHANED, "its node died")
    assert await desk.store.intervene(first, [orphan]) == [Written(started.ref)]
    assert await desk.store.intervene(first, [orphan]) == [Written(started.ref)]
    (refused,) = await desk.store.intervene(second, [orphan])
    assert isinstance(refused, Refused)
    assert await desk.trail(started.ref) == ["prerun", "pending", "running", "orphaned"]


@pytest.mark.spec("N3")
@told
async def test_a_rescuer_may_carry_on_itself_and_keeps_the_jobs_slot(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    started = await desk.run(owner, job)
    rerun = TakeoverWrite(started.ref, started.fence, OccurrenceState.RETRYING, "its node died", owner=rescuer)
    assert await desk.store.intervene(rescuer, [rerun]) == [Written(started.ref)]
    row = await desk.row(started.ref)
    steps = (Step(OccurrenceState.PENDING), Step(OccurrenceState.RUNNING))
    second = AttemptRow(row.ref, 0, 2, TaskState.RUNNING, 1)
    carried = OwnerWrite(row.ref, row.fence, row.sequence + 1, steps=steps, attempts=(second,))
    assert await desk.store.write(rescuer, [carried]) == [Written(row.ref)]
    (overlapping,) = await desk.start(rescuer, await desk.due(rescuer, job))
    assert isinstance(overlapping, Refused)
    assert overlapping.why is Refusal.SKIPPED


@told
async def test_an_intervention_that_the_table_forbids_leaves_everything_as_it_was(desk: Desk) -> None:
    owner, rescuer, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    before = await desk.detail(claimed.ref)
    wrong = TakeoverWrite(claimed.ref, claimed.fence, OccurrenceState.FAILED_STALE, "over its time")
    (refused,) = await desk.store.intervene(rescuer, [wrong])
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.ILLEGAL
    assert await desk.detail(claimed.ref) == before


# -- what people ask -------------------------------------------------------------------------------------------------


@pytest.mark.spec("O5")
@told
async def test_what_has_not_started_is_cancelled_at_once(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    request = CancelRequest(claimed.ref, "anna: wrong data")
    assert await desk.store.control(None, [request]) == [Written(claimed.ref)]
    assert await desk.store.control(None, [request]) == [Written(claimed.ref)]
    assert await desk.trail(claimed.ref) == ["prerun", "cancelled"]
    assert list(await desk.store.read(MailQuery(node))) == [claimed.ref]


@pytest.mark.spec("O5")
@told
async def test_the_owner_of_what_runs_is_told_to_cancel_it(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    await desk.store.control(None, [CancelRequest(started.ref, "anna")])
    await desk.store.control(None, [CancelRequest(started.ref, "bert")])
    row = await desk.row(started.ref)
    assert (row.status, row.cancelled_by, row.fence) == (OccurrenceState.RUNNING, "anna", started.fence)
    beat = await desk.store.beat(node)
    assert beat.mail == (started.ref,)
    assert (await desk.store.beat(node, beat.mail)).mail == ()
    await desk.finish(node, started, to=OccurrenceState.CANCELLED)


@told
async def test_what_is_final_is_neither_cancelled_nor_adjusted(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    await desk.finish(node, started)
    answers = await desk.store.control(None, [CancelRequest(started.ref, "anna"), AdjustRequest(started.ref, "{}")])
    assert [answer.why for answer in answers if isinstance(answer, Refused)] == [Refusal.LOST] * 2


@told
async def test_what_runs_is_not_adjusted(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    (refused,) = await desk.store.control(None, [AdjustRequest(started.ref, "{}")])
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST


@told
async def test_an_adjustment_that_was_made_from_an_older_one_is_refused(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    first = AdjustRequest(claimed.ref, '{"priority":1}', 0, '{"adjusted":[]}')
    assert await desk.store.control(None, [first]) == [Written(claimed.ref)]
    assert await desk.store.control(None, [first]) == [Written(claimed.ref)], "sent twice, it is one"
    (refused,) = await desk.store.control(None, [AdjustRequest(claimed.ref, '{"priority":2}', 0, "{}")])
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.ADJUSTED
    row = (await desk.store.read(ByRefQuery((claimed.ref,))))[claimed.ref]
    assert (row.overrides, row.adjustments, row.details) == ('{"priority":1}', 1, '{"adjusted":[]}')
    assert await desk.store.control(None, [AdjustRequest(claimed.ref, "{}", 1)]) == [Written(claimed.ref)]
    row = (await desk.store.read(ByRefQuery((claimed.ref,))))[claimed.ref]
    assert (row.overrides, row.adjustments, row.details) == ("{}", 2, '{"adjusted":[]}')


# -- what cannot be written ------------------------------------------------------------------------------------------


@told
async def test_text_that_no_store_can_hold_is_cleaned(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    nasty = "nul \0 surrogate \ud800 escape \x1b end"
    attempt = AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1, 2, error=nasty, output=nasty)
    task = TaskRow(started.ref, 0, "main", TaskState.FAILED, reason=nasty, cancelled_by=nasty)
    step = Step(OccurrenceState.FAILED, why=nasty)
    change = OwnerWrite(started.ref, started.fence, started.sequence + 1, (step,), (task,), (attempt,))
    assert await desk.store.write(node, [change]) == [Written(started.ref)]
    detail = await desk.detail(started.ref)
    clean = "nul � surrogate � escape � end"
    assert (detail.row.reason, detail.transitions[-1].why) == (clean, clean)
    assert (detail.attempts[0].error, detail.attempts[0].output, detail.tasks[0].reason) == (clean, clean, clean)


@told
async def test_one_that_can_never_be_written_is_failed_and_its_batch_goes_on(desk: Desk) -> None:
    """A number beyond 64 bits fits no column; memory has no columns, and takes it."""
    node = await desk.node()
    running = [await desk.run(node, await desk.job(f"job {number}")) for number in range(7)]
    changes = [desk.end(started) for started in running]
    huge = AttemptRow(running[3].ref, 0, 1, TaskState.SUCCESS, 1, 2**70)
    changes[3] = OwnerWrite(running[3].ref, running[3].fence, running[3].sequence + 1, changes[3].steps, (), (huge,))
    answers = await desk.store.write(node, changes)
    if desk.engine.url.startswith("memory"):
        return
    assert [type(answer) for answer in answers] == [Written] * 3 + [Refused] + [Written] * 3
    assert isinstance(answers[3], Refused)
    assert answers[3].why is Refusal.UNWRITABLE
    row = await desk.row(running[3].ref)
    assert row.status is OccurrenceState.FAILED
    assert row.reason is not None
    assert row.reason.startswith("a write could not be stored")
    await desk.run(node, row.job)
