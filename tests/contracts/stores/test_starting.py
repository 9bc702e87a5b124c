"""The start of an occurrence: once, on time, by whoever may (protocol rules 7, 15; N2)."""

from __future__ import annotations

import pytest

from itinerary.model.policies import Overlap
from itinerary.model.queries import WaitingQuery
from itinerary.model.rows import AttemptRow, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import (
    AdjustRequest,
    CancelRequest,
    ClaimRequest,
    OwnerWrite,
    Refusal,
    Refused,
    Started,
    Step,
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


@pytest.mark.spec("D2")
@told
async def test_the_first_attempt_is_told_from_the_start_on_and_none_is_made_up_where_none_was_begun(desk: Desk) -> None:
    node = await desk.node()
    plain, waits = await desk.due(node, await desk.job()), await desk.due(node, await desk.job("waits"))
    await desk.started(node, plain)
    await desk.started(node, waits, attempts=())
    assert (await desk.detail(plain.ref)).attempts == (AttemptRow(plain.ref, 0, 1, TaskState.RUNNING),)
    assert (await desk.detail(waits.ref)).attempts == ()
    assert await desk.trail(waits.ref) == ["prerun", "pending", "running"]


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
    pending = OwnerWrite(claimed.ref, claimed.fence, 1, steps=(Step(OccurrenceState.PENDING, why="no room"),))
    assert await desk.store.write(owner, [pending]) == [Written(claimed.ref)]
    assert [row.ref for row in await desk.store.read(WaitingQuery(await desk.now(), 10))] == [claimed.ref]
    stolen = await desk.started(other, claimed, fence=None)
    assert stolen.fence == claimed.fence + 1
    assert await desk.store.read(WaitingQuery(await desk.now(), 10)) == []


@pytest.mark.spec("N2")
@told
async def test_a_late_try_to_take_over_what_has_been_through_other_hands_since_is_refused(desk: Desk) -> None:
    first, second, job = await desk.node(), await desk.node(), await desk.job()
    running = await desk.run(first, job, overlap=Overlap.QUEUE)
    claimed = await desk.due(None, job)
    late = desk.request(claimed, fence=None, seen=claimed.fence, overlap=Overlap.QUEUE)
    for _ in range(2):
        (queued,) = await desk.store.start(second, desk.revision, [late], 0)
        assert isinstance(queued, Refused)
        assert queued.why is Refusal.QUEUED, "asked again, it is answered as the first time"
    await desk.finish(first, running)
    row = await desk.row(claimed.ref)
    assert (row.status, row.owner) == (OccurrenceState.PENDING, None), "its turn has come"
    (refused,) = await desk.store.start(second, desk.revision, [late], 0)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST, "who asks now has seen another row"
    request = desk.request(claimed, fence=None, seen=row.fence, overlap=Overlap.QUEUE)
    for _ in range(2):
        (started,) = await desk.store.start(second, desk.revision, [request], 0)
        assert isinstance(started, Started)


@told
async def test_what_has_a_request_to_cancel_does_not_start(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    await desk.store.control(None, [CancelRequest(claimed.ref, "anna: wrong data")])
    assert await desk.start(node, claimed) == [Refused(claimed.ref, Refusal.CANCELLED, "anna: wrong data")]


@pytest.mark.spec("X5")
@told
async def test_a_start_that_does_not_know_the_newest_overrides_is_sent_back(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    overrides = '{"task_timeout":"1m"}'
    await desk.store.control(None, [AdjustRequest(claimed.ref, overrides)])
    assert await desk.start(node, claimed) == [Refused(claimed.ref, Refusal.ADJUSTED, overrides)]
    (again,) = await desk.claim(node, ClaimRequest(claimed.key, 1, claimed.key.instant))
    await desk.started(node, again)
    assert (await desk.detail(claimed.ref)).row.own_config == CONFIG
