"""What is due while its job still runs: skipped, allowed, queued, or in its place (protocol rules 13, 14; X6)."""

from __future__ import annotations

import pytest

from itinerary.model.policies import Overlap
from itinerary.model.queries import MailQuery, WaitingQuery
from itinerary.model.rows import NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import (
    CancelRequest,
    Claimed,
    Limit,
    Refusal,
    Refused,
    Started,
)
from tests.contracts.stores.desk import Desk, told


async def hand_over(desk: Desk, owner: NodeNumber, running: Started, node: NodeNumber, waiting: Claimed) -> None:
    """Let one that waits to replace another have its slot: its turn has come, and it has not begun."""
    await desk.start(node, waiting, overlap=Overlap.REPLACE)
    await desk.finish(owner, running, to=OccurrenceState.CANCELLED)
    assert await desk.status(waiting.ref) is OccurrenceState.PENDING


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
        assert [row.ref for row in await desk.store.read(WaitingQuery(await desk.now(), 10))] == [claimed.ref]
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
    await desk.store.control(None, [CancelRequest(queued.ref, "anna")])
    assert (await desk.finish(node, running)).next is None
    await desk.run(node, job)


@told
async def test_a_handed_occurrence_that_is_cancelled_hands_the_slot_on(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    first, second = await desk.due(node, job), await desk.due(node, job)
    await desk.start(node, first, second, overlap=Overlap.QUEUE)
    assert (await desk.finish(node, running)).next == first.ref
    await desk.store.control(None, [CancelRequest(first.ref, "anna")])
    assert await desk.status(second.ref) is OccurrenceState.PENDING
    await desk.started(node, second, overlap=Overlap.QUEUE, fence=None)


@pytest.mark.spec("X6", "replace")
@told
async def test_of_several_in_one_batch_each_finds_out_that_the_called_one_was_replaced(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    called, first, second, newest = [await desk.due(node, job) for _ in range(4)]
    await desk.start(node, called, newest, overlap=Overlap.QUEUE)
    await desk.finish(node, running)
    answers = await desk.start(node, first, second, overlap=Overlap.REPLACE)
    assert [answer.why for answer in answers if isinstance(answer, Refused)] == [Refusal.SKIPPED] * 2
    assert await desk.status(called.ref) is OccurrenceState.CANCELLED
    await desk.started(node, newest, overlap=Overlap.REPLACE, fence=None)


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
    assert list(await desk.store.read(MailQuery(owner))) == [running.ref]
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
    await hand_over(desk, owner, running, node, waiting)
    (started,) = await desk.start(node, newest, overlap=Overlap.REPLACE)
    assert isinstance(started, Started), "nobody is left that it would wait for"
    assert await desk.status(waiting.ref) is OccurrenceState.CANCELLED
    assert await desk.start(node, newest, overlap=Overlap.REPLACE) == [started], "asked again, it is told the same"


@pytest.mark.spec("X6", "replace")
@told
async def test_of_two_that_replace_in_one_batch_the_newer_one_gets_the_slot(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    waiting, older, newest = [await desk.due(node, job) for _ in range(3)]
    await hand_over(desk, owner, running, node, waiting)
    answers = await desk.start(node, older, newest, overlap=Overlap.REPLACE)
    skipped, started = answers
    assert skipped == Refused(older.ref, Refusal.SKIPPED, f"replaced by occurrence {newest.ref}")
    assert isinstance(started, Started)
    assert await desk.status(waiting.ref) is OccurrenceState.CANCELLED
    assert await desk.trail(older.ref) == ["prerun", "skipped"], "it never began"
    assert await desk.start(node, older, newest, overlap=Overlap.REPLACE) == answers


@pytest.mark.spec("X6", "replace")
@told
async def test_an_older_one_in_the_same_batch_does_not_replace_one_whose_turn_has_come(desk: Desk) -> None:
    owner, node, job, other = await desk.node(), await desk.node(), await desk.job(), await desk.job("other")
    running = await desk.run(owner, job)
    older, newest = await desk.due(node, job), await desk.due(node, job)
    one = (Limit("api", 1),)
    await hand_over(desk, owner, running, node, newest)
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
async def test_one_that_waits_for_a_limit_and_is_replaced_in_the_same_batch_is_not_told_to_wait(desk: Desk) -> None:
    owner, node, job, other = await desk.node(), await desk.node(), await desk.job(), await desk.job("other")
    running = await desk.run(owner, job)
    waiting, newest = await desk.due(node, job), await desk.due(node, job)
    one = (Limit("api", 1),)
    await hand_over(desk, owner, running, node, waiting)
    await desk.started(node, await desk.due(node, other), limits=one)
    requests = [desk.request(claimed, overlap=Overlap.REPLACE, limits=one, fence=None) for claimed in (waiting, newest)]
    answers = await desk.store.start(node, desk.revision, requests, 0)
    assert [answer.why for answer in answers if isinstance(answer, Refused)] == [Refusal.LOST, Refusal.LIMITED]
    assert await desk.status(waiting.ref) is OccurrenceState.CANCELLED
    assert await desk.store.start(node, desk.revision, requests, 0) == answers


@pytest.mark.spec("X6", "replace")
@told
async def test_replace_lets_a_newer_one_be_whose_turn_has_come(desk: Desk) -> None:
    owner, node, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(owner, job)
    older, newest = await desk.due(node, job), await desk.due(node, job)
    await hand_over(desk, owner, running, node, newest)
    (refused,) = await desk.start(node, older, overlap=Overlap.REPLACE)
    assert refused == Refused(older.ref, Refusal.SKIPPED, f"replaced by occurrence {newest.ref}")
    (started,) = await desk.start(node, newest, overlap=Overlap.REPLACE, fence=None)
    assert isinstance(started, Started)
