"""Plain starts, which are begun without being read: the same comes of them as if each had been looked at."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from itinerary.model.policies import Overlap
from itinerary.model.rows import EntryKind
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.model.writes import AdjustRequest, CancelRequest, Refusal, Refused, Started, TakeoverWrite
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.desk import HOUR, Desk, told

pytestmark = pytest.mark.spec("N2", "plain starts")


@told
async def test_a_plain_start_leaves_the_same_row_as_one_that_is_looked_at(desk: Desk) -> None:
    node = await desk.node()
    plain, looked_at = await desk.due(node, await desk.job("a")), await desk.due(node, await desk.job("b"))
    assert desk.request(plain).is_plain
    first, second = await desk.started(node, plain), await desk.started(node, looked_at, job=None)
    rows = [await desk.row(one.ref) for one in (plain, looked_at)]
    own = {"ref", "instant", "job", "due_at", "created_at", "started_at", "expires_at"}
    same = [{name: getattr(row, name) for name in row.__struct_fields__ if name not in own} for row in rows]
    assert same[0] == same[1]
    assert [row.expires_at for row in rows] == [first.started_at + HOUR, second.started_at + HOUR]
    assert (first.fence, first.sequence) == (second.fence, second.sequence)
    assert await desk.trail(plain.ref) == await desk.trail(looked_at.ref) == ["prerun", "pending", "running"]


@told
async def test_of_a_batch_those_begin_that_can_and_each_of_the_others_is_told_why_not(desk: Desk) -> None:
    node = await desk.node()
    jobs = [await desk.job(name) for name in "abcdefg"]
    runs = await desk.run(node, jobs[0])
    overlaps, fine, cancelled, adjusted, lost, also = [await desk.due(node, job) for job in (*jobs[:5], jobs[6])]
    (early,) = await desk.claim(node, await desk.wanted(jobs[5], due_at=await desk.now() + 60 * SECOND))
    await desk.store.control(None, [CancelRequest(cancelled.ref, "anna"), AdjustRequest(adjusted.ref, "{}")])
    await desk.store.intervene(await desk.node("b"), [TakeoverWrite(lost.ref, lost.fence, None, "taken")])
    answers = await desk.start(node, overlaps, early, fine, cancelled, adjusted, lost, also)
    assert [answer.why if isinstance(answer, Refused) else None for answer in answers] == [
        Refusal.SKIPPED,
        Refusal.EARLY,
        None,
        Refusal.CANCELLED,
        Refusal.ADJUSTED,
        Refusal.LOST,
        None,
    ]
    assert [answer.ref for answer in answers] == [
        one.ref for one in (overlaps, early, fine, cancelled, adjusted, lost, also)
    ]
    assert await desk.status(early.ref) is OccurrenceState.PRERUN
    assert (await desk.row(early.ref)).started_at is None
    await desk.finish(node, runs)
    assert isinstance((await desk.start(node, await desk.due(node, jobs[0])))[0], Started), "its slot was given back"


@told
async def test_what_finds_its_slot_taken_stands_in_line_as_if_it_had_never_begun(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    runs, waits = await desk.run(node, job), await desk.due(node, job)
    (answer,) = await desk.start(node, waits, overlap=Overlap.QUEUE)
    assert isinstance(answer, Refused)
    assert answer.why is Refusal.QUEUED
    row = await desk.row(waits.ref)
    assert (row.status, row.started_at, row.expires_at, row.config) == (OccurrenceState.QUEUED, None, None, None)
    assert (await desk.finish(node, runs)).next == waits.ref


@told
async def test_of_two_of_one_job_in_a_batch_the_earlier_gets_the_slot(desk: Desk) -> None:
    node, job, other = await desk.node(), await desk.job(), await desk.job("other")
    early, late, alone = await desk.due(node, job), await desk.due(node, job), await desk.due(node, other)
    later, sooner, third = await desk.start(node, late, early, alone)
    assert isinstance(later, Refused)
    assert later.why is Refusal.SKIPPED
    assert isinstance(sooner, Started)
    assert isinstance(third, Started)


@told
async def test_with_allow_both_run(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    for one in [await desk.due(node, job), await desk.due(node, job)]:
        assert isinstance((await desk.start(node, one, overlap=Overlap.ALLOW))[0], Started)


@told
async def test_asked_again_after_a_lost_answer_it_answers_as_the_first_time(desk: Desk) -> None:
    node = await desk.node()
    claimed = [await desk.due(node, await desk.job(name)) for name in "abc"]
    first = await desk.start(node, *claimed)
    assert await desk.start(node, *claimed) == first
    assert await desk.start(node, *claimed, job=None) == first


@told
async def test_another_node_cannot_begin_it_whatever_it_asks_for(desk: Desk) -> None:
    node, other = await desk.node(), await desk.node("b")
    claimed = await desk.due(node, await desk.job())
    (answer,) = await desk.start(other, claimed)
    assert isinstance(answer, Refused)
    assert answer.why is Refusal.LOST
    assert isinstance((await desk.start(node, claimed))[0], Started)


@told
async def test_nothing_begins_by_a_timeline_that_has_moved_on(desk: Desk) -> None:
    node, claimed = await desk.node(), await desk.due(await desk.node("b"), await desk.job())
    mine = await desk.due(node, await desk.job("mine"))
    pause = TimelineEntryRequest(job="mine", kind=EntryKind.PAUSE, request="p", by="anna")
    await desk.store.amend([pause])
    (answer,) = await desk.start(node, mine)
    assert answer == Refused(mine.ref, Refusal.MOVED)
    assert await desk.status(mine.ref) is OccurrenceState.PRERUN
    assert await desk.status(claimed.ref) is OccurrenceState.PRERUN


@told
async def test_each_begins_with_its_own_configuration_and_its_own_time(desk: Desk) -> None:
    node = await desk.node()
    claimed = [await desk.due(node, await desk.job(name)) for name in "ab"]
    requests = [
        replace(desk.request(one), config=f'{{"n":{number}}}', execution_timeout=HOUR * (number + 1))
        for number, one in enumerate(claimed)
    ]
    answers = await desk.store.start(node, desk.revision, requests, HOUR)
    for number, (one, answer) in enumerate(zip(claimed, answers, strict=True)):
        assert isinstance(answer, Started)
        detail = await desk.detail(one.ref)
        assert detail.config == f'{{"n":{number}}}'
        assert detail.row.expires_at == answer.started_at + HOUR * (number + 1)
