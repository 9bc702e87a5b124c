"""The start of an occurrence: once, on time, with its slot (PROTOCOL 7, 13 to 15; N2, X6, X11)."""

from __future__ import annotations

import pytest

from itinerary.model.policies import Overlap
from itinerary.model.queries import LimitUse, Mail, Waiting
from itinerary.model.rows import TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import (
    Adjustment,
    Cancellation,
    Change,
    Limit,
    Refusal,
    Refused,
    Started,
    Step,
    Wanted,
    Written,
)
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.desk import CONFIG, HOUR, Desk, told


@pytest.mark.spec("N2")
@told
async def test_a_start_writes_state_attempt_configuration_and_trail_together(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    task = TaskRow(claimed.ref, 0, "main", TaskState.RUNNING)
    started = await desk.started(node, claimed, tasks=(task,))
    detail = await desk.detail(claimed.ref)
    assert (started.ref, started.fence) == (claimed.ref, claimed.fence)
    assert detail.row.status is OccurrenceState.RUNNING
    assert detail.row.started_at == started.started_at
    assert detail.row.expires_at == started.started_at + HOUR
    assert detail.config == CONFIG
    assert detail.tasks == (task,)
    assert [(attempt.number, attempt.status) for attempt in detail.attempts] == [(1, TaskState.RUNNING)]
    assert await desk.trail(claimed.ref) == ["prerun", "pending", "running"]


@pytest.mark.spec("N2")
@told
async def test_a_start_that_is_repeated_answers_as_the_first_time(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    first = await desk.start(node, claimed)
    assert await desk.start(node, claimed) == first
    assert await desk.trail(claimed.ref) == ["prerun", "pending", "running"]


@told
async def test_nothing_starts_before_it_is_due_by_the_stores_clock(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    later = await desk.now() + HOUR
    claimed = await desk.due(node, job, due_at=later)
    assert await desk.start(node, claimed) == [Refused(claimed.ref, Refusal.EARLY, str(later))]
    assert await desk.status(claimed.ref) is OccurrenceState.PRERUN


@told
async def test_an_older_timeline_starts_nothing(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    answers = await desk.store.start(node, desk.revision - 1, [desk.request(claimed)], HOUR)
    assert answers == [Refused(claimed.ref, Refusal.MOVED)]


@told
async def test_another_nodes_occurrence_is_left_alone_until_it_is_overdue(desk: Desk) -> None:
    owner, other, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    for fence in (claimed.fence, None):
        (refused,) = await desk.start(other, claimed, fence=fence)
        assert isinstance(refused, Refused)
        assert refused.why is Refusal.LOST
    (stolen,) = await desk.start(other, claimed, fence=None, takeover_after=2 * SECOND)
    assert isinstance(stolen, Started)
    assert stolen.fence == claimed.fence + 1


@pytest.mark.spec("N2")
@told
async def test_whoever_lost_an_occurrence_can_no_longer_start_it(desk: Desk) -> None:
    owner, thief, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    await desk.started(thief, claimed, fence=None, takeover_after=0)
    (refused,) = await desk.start(owner, claimed)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    (refused,) = await desk.start(owner, claimed, fence=None, takeover_after=0)
    assert isinstance(refused, Refused)


@told
async def test_what_waits_for_a_node_with_room_may_be_started_by_any(desk: Desk) -> None:
    owner, other, job = await desk.node(), await desk.node(), await desk.job()
    claimed = await desk.due(owner, job)
    pending = Change(claimed.ref, claimed.fence, 1, steps=(Step(OccurrenceState.PENDING, why="no room"),))
    assert await desk.store.write(owner, [pending]) == [Written(claimed.ref)]
    assert [row.ref for row in await desk.store.read(Waiting(await desk.now(), 10))] == [claimed.ref]
    stolen = await desk.started(other, claimed, fence=None)
    assert stolen.fence == claimed.fence + 1
    assert await desk.store.read(Waiting(await desk.now(), 10)) == []


@told
async def test_what_has_a_request_to_cancel_does_not_start(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    await desk.store.control(None, [Cancellation(claimed.ref, "anna: wrong data")])
    assert await desk.start(node, claimed) == [Refused(claimed.ref, Refusal.CANCELLED, "anna: wrong data")]


@pytest.mark.spec("X5")
@told
async def test_a_start_that_does_not_know_the_newest_overrides_is_sent_back(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    overrides = '{"task_timeout":"1m"}'
    await desk.store.control(None, [Adjustment(claimed.ref, overrides)])
    assert await desk.start(node, claimed) == [Refused(claimed.ref, Refusal.ADJUSTED, overrides)]
    (again,) = await desk.claim(node, Wanted(claimed.key, 1, claimed.key.instant))
    await desk.started(node, again)
    assert (await desk.detail(claimed.ref)).row.own_config == CONFIG


# -- overlap ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("X6", "skip")
@told
async def test_skip_records_who_was_in_the_way(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    second = await desk.due(node, job)
    refused = [Refused(second.ref, Refusal.SKIPPED, f"overlaps occurrence {running.ref}")]
    assert await desk.start(node, second) == refused
    assert await desk.start(node, second) == refused
    assert await desk.trail(second.ref) == ["prerun", "skipped"]
    assert (await desk.row(second.ref)).reason == f"overlaps occurrence {running.ref}"


@pytest.mark.spec("X6", "skip")
@told
async def test_of_two_occurrences_in_one_batch_the_earlier_one_runs(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second = await desk.due(node, job), await desk.due(node, job)
    answers = await desk.start(node, second, first)
    assert [type(answer) for answer in answers] == [Refused, Started]
    assert await desk.status(second.ref) is OccurrenceState.SKIPPED


@pytest.mark.spec("X6", "skip")
@told
async def test_after_the_end_the_next_one_runs(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await desk.finish(node, await desk.run(node, job))
    await desk.run(node, job)


@pytest.mark.spec("X6", "allow")
@told
async def test_allow_runs_beside(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await desk.run(node, job)
    await desk.run(node, job, overlap=Overlap.ALLOW)


@told
async def test_jobs_do_not_stand_in_each_others_way(desk: Desk) -> None:
    node = await desk.node()
    await desk.run(node, await desk.job("a"))
    await desk.run(node, await desk.job("b"))


@pytest.mark.spec("X6", "queue")
@told
async def test_queued_occurrences_get_the_slot_in_the_order_of_their_instants(desk: Desk) -> None:
    node, other, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(node, job)
    first, second, third = [await desk.due(node, job) for _ in range(3)]
    for claimed in (third, first, second):
        (refused,) = await desk.start(node, claimed, overlap=Overlap.QUEUE)
        assert isinstance(refused, Refused)
        assert refused.why is Refusal.QUEUED
        assert (await desk.row(claimed.ref)).owner is None
    for claimed in (first, second, third):
        written = await desk.finish(node, running)
        assert written.next == claimed.ref
        assert (await desk.finish(node, running)) == written, "repeated, it answers as the first time"
        assert await desk.status(claimed.ref) is OccurrenceState.PENDING
        assert [row.ref for row in await desk.store.read(Waiting(await desk.now(), 10))] == [claimed.ref]
        running = await desk.started(other, claimed, overlap=Overlap.QUEUE, fence=None)
        node = other
    assert (await desk.finish(other, running)).next is None
    assert await desk.trail(third.ref) == ["prerun", "queued", "pending", "running", "completed"]


@pytest.mark.spec("X6", "queue")
@told
async def test_a_bounded_queue_skips_what_does_not_fit(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    fits, does_not = await desk.due(node, job), await desk.due(node, job)
    answers = await desk.start(node, fits, does_not, overlap=Overlap.QUEUE, max_queued=1)
    assert [answer.why for answer in answers if isinstance(answer, Refused)] == [Refusal.QUEUED, Refusal.SKIPPED]
    reason = (await desk.row(does_not.ref)).reason
    assert reason == f"overlaps occurrence {running.ref}, and 1 stand in line already"


@told
async def test_a_slot_handed_to_one_that_stands_in_line_is_nobody_elses(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    queued, newer = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, queued, overlap=Overlap.QUEUE)
    await desk.finish(node, running)
    (refused,) = await desk.start(node, newer)
    assert isinstance(refused, Refused)
    assert refused.by == f"overlaps occurrence {queued.ref}"
    await desk.started(node, queued, overlap=Overlap.QUEUE, fence=None)


@told
async def test_what_stands_in_line_and_is_cancelled_is_passed_over(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    queued = await desk.due(node, job)
    await desk.start(node, queued, overlap=Overlap.QUEUE)
    await desk.store.control(None, [Cancellation(queued.ref, "anna")])
    assert (await desk.finish(node, running)).next is None
    await desk.run(node, job)


@told
async def test_a_handed_occurrence_that_is_cancelled_hands_the_slot_on(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    first, second = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, first, second, overlap=Overlap.QUEUE)
    assert (await desk.finish(node, running)).next == first.ref
    await desk.store.control(None, [Cancellation(first.ref, "anna")])
    assert await desk.status(second.ref) is OccurrenceState.PENDING
    await desk.started(node, second, overlap=Overlap.QUEUE, fence=None)


@pytest.mark.spec("X6", "replace")
@told
async def test_replace_asks_the_running_one_to_end_and_the_newest_waits_alone(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    older, newest = await desk.due(node, job), await desk.due(node, job)
    for claimed in (older, newest):
        (refused,) = await desk.start(node, claimed, overlap=Overlap.REPLACE)
        assert isinstance(refused, Refused)
        assert refused.why is Refusal.QUEUED
    assert await desk.status(running.ref) is OccurrenceState.RUNNING, "a live run keeps its slot until it ends"
    assert (await desk.row(running.ref)).cancelled_by == f"replaced by occurrence {older.ref}"
    assert list(await desk.store.read(Mail(owner))) == [running.ref]
    assert await desk.status(older.ref) is OccurrenceState.SKIPPED
    assert (await desk.finish(owner, running, to=OccurrenceState.CANCELLED)).next == newest.ref


@pytest.mark.spec("X6", "replace")
@told
async def test_replace_keeps_the_newest_in_whatever_order_they_come(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    older, newest = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, newest, overlap=Overlap.REPLACE)
    (refused,) = await desk.start(node, older, overlap=Overlap.REPLACE)
    assert refused == Refused(older.ref, Refusal.SKIPPED, f"replaced by occurrence {newest.ref}")
    assert await desk.status(newest.ref) is OccurrenceState.QUEUED
    await desk.start(node, newest, overlap=Overlap.REPLACE, fence=None)
    assert await desk.status(newest.ref) is OccurrenceState.QUEUED, "asked again, it does not replace itself"
    assert (await desk.finish(owner, running, to=OccurrenceState.CANCELLED)).next == newest.ref


@pytest.mark.spec("X6", "replace")
@told
async def test_replace_ends_one_whose_turn_has_come_and_that_nobody_has_started(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    waiting, newest = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, waiting, overlap=Overlap.REPLACE)
    await desk.finish(owner, running, to=OccurrenceState.CANCELLED)
    assert await desk.status(waiting.ref) is OccurrenceState.PENDING, "it has the slot, and has not begun"
    (refused,) = await desk.start(node, newest, overlap=Overlap.REPLACE)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.QUEUED
    assert await desk.status(waiting.ref) is OccurrenceState.CANCELLED
    (started,) = await desk.start(node, newest, overlap=Overlap.REPLACE, fence=None)
    assert isinstance(started, Started), "the slot was handed on"


@pytest.mark.spec("X6", "replace")
@told
async def test_of_two_that_replace_in_one_batch_the_newer_one_gets_the_slot(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    waiting, older, newest = [await desk.due(node, job) for _ in range(3)]
    await desk.start(node, waiting, overlap=Overlap.REPLACE)
    await desk.finish(owner, running, to=OccurrenceState.CANCELLED)
    answers = await desk.start(node, older, newest, overlap=Overlap.REPLACE)
    assert [answer.why for answer in answers if isinstance(answer, Refused)] == [Refusal.SKIPPED, Refusal.QUEUED]
    assert await desk.status(waiting.ref) is OccurrenceState.CANCELLED
    (started,) = await desk.start(node, newest, overlap=Overlap.REPLACE, fence=None)
    assert isinstance(started, Started)


@pytest.mark.spec("X6", "replace")
@told
async def test_an_older_one_in_the_same_batch_does_not_replace_one_whose_turn_has_come(desk: Desk) -> None:
    owner, node, job, other = await desk.node(), await desk.node(), await desk.job(), await desk.job("other")
    running = await desk.run(owner, job)
    older, newest = await desk.due(node, job), await desk.due(node, job)
    one = (Limit("api", 1),)
    await desk.start(node, newest, overlap=Overlap.REPLACE, limits=one)
    await desk.finish(owner, running, to=OccurrenceState.CANCELLED)
    holder = await desk.started(node, await desk.due(node, other), limits=one)
    requests = [desk.request(claimed, overlap=Overlap.REPLACE, limits=one, fence=None) for claimed in (older, newest)]
    answers = await desk.store.start(node, desk.revision, requests, 0)
    assert answers == [
        Refused(older.ref, Refusal.SKIPPED, f"replaced by occurrence {newest.ref}"),
        Refused(newest.ref, Refusal.LIMITED, "api"),
    ]
    await desk.finish(node, holder)
    (started,) = await desk.start(node, newest, overlap=Overlap.REPLACE, limits=one, fence=None)
    assert isinstance(started, Started), "nobody has asked it to end"


@pytest.mark.spec("X6", "replace")
@told
async def test_replace_lets_a_newer_one_be_whose_turn_has_come(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    older, newest = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, newest, overlap=Overlap.REPLACE)
    await desk.finish(owner, running, to=OccurrenceState.CANCELLED)
    (refused,) = await desk.start(node, older, overlap=Overlap.REPLACE)
    assert refused == Refused(older.ref, Refusal.SKIPPED, f"replaced by occurrence {newest.ref}")
    (started,) = await desk.start(node, newest, overlap=Overlap.REPLACE, fence=None)
    assert isinstance(started, Started)


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("X11")
@told
async def test_a_limit_is_never_passed_and_what_lacks_a_share_waits(desk: Desk) -> None:
    node = await desk.node()
    two = (Limit("api", 2),)
    claimed = [await desk.due(node, await desk.job(f"job {number}")) for number in range(3)]
    answers = await desk.start(node, *claimed, limits=two)
    assert [type(answer) for answer in answers] == [Started, Started, Refused]
    assert answers[2] == Refused(claimed[2].ref, Refusal.LIMITED, "api")
    assert await desk.status(claimed[2].ref) is OccurrenceState.PENDING
    assert await desk.start(node, claimed[2], limits=two) == [answers[2]]
    assert isinstance(answers[0], Started)
    await desk.finish(node, answers[0])
    await desk.started(node, claimed[2], limits=two)
    assert len(await desk.store.read(LimitUse("api"))) == 2


@pytest.mark.spec("X11")
@told
async def test_a_limit_that_is_lowered_lets_nobody_in_until_enough_have_ended(desk: Desk) -> None:
    node = await desk.node()
    claimed = [await desk.due(node, await desk.job(f"job {number}")) for number in range(4)]
    running = [await desk.started(node, one, limits=(Limit("api", 3),)) for one in claimed[:3]]
    one = (Limit("api", 1),)
    for started in running:
        (refused,) = await desk.start(node, claimed[3], limits=one)
        assert isinstance(refused, Refused)
        await desk.finish(node, started)
    await desk.started(node, claimed[3], limits=one)


@told
async def test_what_lacks_one_of_its_limits_keeps_nothing(desk: Desk) -> None:
    node = await desk.node()
    await desk.run(node, await desk.job("a"), limits=(Limit("full", 1),))
    job = await desk.job("b")
    claimed = await desk.due(node, job)
    (refused,) = await desk.start(node, claimed, limits=(Limit("free", 1), Limit("full", 1)))
    assert isinstance(refused, Refused)
    assert refused.by == "full"
    assert list(await desk.store.read(LimitUse("free"))) == []
    await desk.run(node, job)


@told
async def test_shares_are_given_back_while_it_waits_to_retry_and_its_slot_is_kept(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    limits = (Limit("api", 1),)
    started = await desk.run(node, job, limits=limits)
    retrying = Change(
        started.ref,
        started.fence,
        started.sequence + 1,
        steps=(Step(OccurrenceState.RETRYING),),
        gives_back=True,
    )
    assert await desk.store.write(node, [retrying]) == [Written(started.ref)]
    between = await desk.run(node, await desk.job("another"), limits=limits)
    (overlapping,) = await desk.start(node, await desk.due(node, job))
    assert isinstance(overlapping, Refused)
    assert overlapping.why is Refusal.SKIPPED
    again = Change(
        started.ref,
        started.fence,
        started.sequence + 2,
        steps=(Step(OccurrenceState.PENDING), Step(OccurrenceState.RUNNING)),
        takes=limits,
    )
    assert await desk.store.write(node, [again]) == [Refused(started.ref, Refusal.LIMITED, "api")]
    await desk.finish(node, between)
    assert await desk.store.write(node, [again]) == [Written(started.ref)]
    assert list(await desk.store.read(LimitUse("api"))) == [started.ref]
