"""What people ask for, on every store: a trigger's key, what is skipped when it is due, changes by the newest timeline
(D1, S11, R7)."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, DecidedQuery, EntriesQuery
from itinerary.model.retention import PruneCursor, Retention
from itinerary.model.rows import EntryKind, JobNumber, Key
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepStep
from itinerary.model.timeline import EntryAccepted, EntryRefusal, EntryRejected, TimelineEntryRequest
from itinerary.model.writes import Claimed, ClaimRequest, Refusal, Refused, SkipRequest, Written
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.desk import HOUR, Desk, told

S = OccurrenceState


async def trigger(desk: Desk, job: JobNumber, request: str, *, later: int = 0) -> Claimed:
    """Somebody asks, so many seconds after somebody else may have."""
    instant = (await desk.now() // SECOND - 100 + later) * SECOND
    (claimed,) = await desk.claim(None, ClaimRequest(Key(instant, job, Kind.TRIGGER, request), 1, instant))
    return claimed


@pytest.mark.spec("D1", "a trigger's key")
@told
async def test_a_request_key_is_one_run_whatever_second_it_comes_in(desk: Desk) -> None:
    job, other = await desk.job(), await desk.job("other")
    first = await trigger(desk, job, "request-7")
    assert await trigger(desk, job, "request-7", later=5) == first
    again, new = await desk.claim(
        None,
        *[
            ClaimRequest(Key((await desk.now() // SECOND) * SECOND, job, Kind.TRIGGER, request), 1, 1)
            for request in ("request-7", "request-8")
        ],
    )
    assert {again.ref, new.ref} > {first.ref}
    assert (await trigger(desk, other, "request-7")).ref not in {first.ref, again.ref, new.ref}, "a key is its job's"
    assert len(await desk.store.read(ActiveQuery(job))) == 2


@pytest.mark.spec("D1", "a trigger's key")
@told
async def test_of_many_who_send_one_key_at_once_all_get_the_same_run(desk: Desk) -> None:
    job = await desk.job()
    claimed = await asyncio.gather(*[trigger(desk, job, "request-7", later=number) for number in range(20)])
    assert len({one.ref for one in claimed}) == 1
    assert len({one.key for one in claimed}) == 1
    assert len(await desk.store.read(DecidedQuery(0, await desk.now() + HOUR))) == 1


@pytest.mark.spec("D1", "a trigger's key")
@told
async def test_a_key_is_free_again_when_its_run_is_forgotten(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first = await trigger(desk, job, "request-7")
    await desk.finish(node, await desk.started(node, first, fence=None))
    plan = await desk.store.begin_sweep(node, await desk.now())
    assert plan is not None
    await desk.store.advance_sweep(node, desk.revision, SweepStep(fence=plan.fence, step=1, cursor="", is_last=True))
    cursor: PruneCursor | None = PruneCursor()
    while cursor is not None:
        cursor = (await desk.store.prune(Retention(keep_for=0, keep_failed_for=0, margin=0), cursor)).next
    second = await trigger(desk, job, "request-7", later=9)
    assert second.ref != first.ref
    assert second.key != first.key


@pytest.mark.spec("S11", "each instant passed over is skipped")
@told
async def test_what_is_passed_over_is_skipped_by_the_write_that_would_have_started_it(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    ahead = await desk.due(node, job, ago=-3600, due_at=await desk.now() + HOUR)
    (early,) = await desk.start(node, ahead, skip="paused by anna")
    assert isinstance(early, Refused)
    assert (early.why, await desk.status(ahead.ref)) == (Refusal.EARLY, S.PRERUN), "never ahead of its instant"
    desk._last = 0
    claimed = await desk.due(node, job)
    (refused,) = await desk.start(node, claimed, skip="paused by anna")
    assert refused == Refused(claimed.ref, Refusal.SKIPPED, "paused by anna")
    row = await desk.row(claimed.ref)
    assert (row.status, row.reason, row.started_at) == (S.SKIPPED, "paused by anna", None)
    assert await desk.start(node, claimed, skip="paused by anna") == [refused], "repeated, it is answered as before"
    assert await desk.trail(claimed.ref) == ["prerun", "skipped"]


@pytest.mark.spec("S11", "each instant passed over is skipped")
@told
async def test_what_another_left_lying_is_skipped_by_whoever_finds_it(desk: Desk) -> None:
    first, second, job = await desk.node("a"), await desk.node("b"), await desk.job()
    claimed = await desk.due(first, job)
    (refused,) = await desk.start(second, claimed, fence=None, skip="paused by anna", takeover_after=0)
    assert refused == Refused(claimed.ref, Refusal.SKIPPED, "paused by anna")
    (late,) = await desk.start(first, claimed)
    assert late == refused, "and its owner does not start it"


@pytest.mark.spec("S11", "each instant passed over is skipped")
@told
async def test_a_skip_by_an_old_timeline_is_refused(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job)
    await desk.store.amend([TimelineEntryRequest(job="backup", kind=EntryKind.RESUME, request="resume", by="anna")])
    assert await desk.start(node, claimed, skip="paused") == [Refused(claimed.ref, Refusal.MOVED)]
    assert await desk.status(claimed.ref) is S.PRERUN


@pytest.mark.spec("R7", "one transaction")
@told
async def test_a_change_that_was_decided_by_an_old_timeline_is_refused(desk: Desk) -> None:
    await desk.job()

    def entry(request: str, revision: int | None) -> TimelineEntryRequest:
        return TimelineEntryRequest(job="backup", kind=EntryKind.STOP, request=request, by="anna", revision=revision)

    (entered,) = await desk.store.amend([entry("one", 1)])
    assert isinstance(entered, EntryAccepted)
    (denied,) = await desk.store.amend([entry("two", 1)])
    assert isinstance(denied, EntryRejected)
    assert denied.why is EntryRefusal.MOVED
    assert await desk.store.amend([entry("one", 1)]) == [entered], "what stands already is answered as before"
    assert isinstance((await desk.store.amend([entry("three", None)]))[0], EntryAccepted)
    assert len(await desk.store.read(EntriesQuery(0))) == 3


@pytest.mark.spec("S11", "a pause holds what has not started")
@told
async def test_what_has_not_started_can_be_skipped_by_request_and_lets_the_next_in_line_come(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    first, second, third = [await desk.due(node, job) for _ in range(3)]
    for one in (first, second, third):
        await desk.start(node, one, overlap=Overlap.QUEUE)
    await desk.finish(node, running)
    assert [await desk.status(one.ref) for one in (first, second)] == [S.PENDING, S.QUEUED]
    passing = [SkipRequest(one.ref, "skipped by anna") for one in (first, second)]
    for _ in range(2):
        assert await desk.store.control(None, passing) == [Written(first.ref), Written(second.ref)]
    assert [await desk.status(one.ref) for one in (first, second, third)] == [S.SKIPPED, S.SKIPPED, S.PENDING]
    assert (await desk.row(first.ref)).reason == "skipped by anna"
    started = await desk.started(node, third, fence=None, overlap=Overlap.QUEUE)
    (refused,) = await desk.store.control(None, [SkipRequest(started.ref, "skipped by anna")])
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST, "what has started goes on"


@pytest.mark.spec("S11", "a pause holds what has not started")
@told
async def test_what_is_asked_for_while_its_job_is_paused_goes_before_what_is_held(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    held, other = [await desk.due(node, job) for _ in range(2)]
    for one in (held, other):
        await desk.start(node, one, overlap=Overlap.QUEUE)
    await desk.finish(node, running)
    asked = await trigger(desk, job, "now")
    started = await desk.started(node, asked, fence=None, passes_held=True)
    assert [await desk.status(one.ref) for one in (held, other)] == [S.QUEUED, S.QUEUED]
    assert (await desk.finish(node, started)).next == held.ref, "afterwards the queue is as it was"
