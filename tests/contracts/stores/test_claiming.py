"""The race to create an occurrence's row (protocol rules 2, 4, 6; D1, D5)."""

from __future__ import annotations

import pytest

from itinerary.model.ids import job_id, occurrence_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, ByKeyQuery, DecidedQuery, OpenQuery, StoreStatusQuery, WaitingQuery
from itinerary.model.rows import Key
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest, Refusal
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import windows_after
from tests.contracts.stores.desk import HOUR, Desk, told


@pytest.mark.spec("D5")
@told
async def test_of_two_askers_the_first_wins_each_key(desk: Desk) -> None:
    first, second, job = await desk.node(), await desk.node(), await desk.job()
    early, shared, late = [await desk.wanted(job) for _ in range(3)]
    won = await desk.claim(first, early, shared)
    lost = await desk.claim(second, shared, late)
    assert [claimed.key for claimed in won] == [early.key, shared.key]
    assert [claimed.key for claimed in lost] == [late.key]
    assert (await desk.row(won[1].ref)).owner == first


@pytest.mark.spec("N2")
@told
async def test_a_claim_whose_answer_was_lost_comes_back_the_second_time(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    wanted = [await desk.wanted(job) for _ in range(3)]
    first = await desk.claim(node, *wanted[:2])
    again = await desk.claim(node, *wanted)
    assert sorted(again, key=lambda claimed: claimed.key)[:2] == first
    assert len(again) == 3


@told
async def test_a_key_that_is_wanted_twice_in_one_call_is_one_row(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    wanted = await desk.wanted(job)
    assert len(await desk.claim(node, wanted, wanted)) == 1
    assert len(await desk.store.read(ActiveQuery(job))) == 1


@pytest.mark.spec("D1")
@told
async def test_every_kind_of_occurrence_has_a_key_of_its_own(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    instant = (await desk.wanted(job)).key.instant
    original = occurrence_id(job_id("backup"), instant)
    keys = [
        Key(instant, job, Kind.SCHEDULED),
        Key(instant, job, Kind.BACKFILL),
        Key(instant, job, Kind.TRIGGER, "request 1"),
        Key(instant, job, Kind.TRIGGER, "request 2"),
        Key(instant, job, Kind.REPLAY, f"{original}/1"),
        Key(instant, job, Kind.REPLAY, f"{original}/2"),
    ]
    await desk.claim(node, *[ClaimRequest(key, 1, instant) for key in keys])
    found = await desk.store.read(ByKeyQuery(tuple(keys)))
    assert set(found) == set(keys)
    assert len({key.id(job_id("backup")) for key in keys}) == len(keys)
    assert keys[0].id(job_id("backup")) == original


@told
async def test_a_claim_by_an_older_timeline_is_sent_back(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    stale = desk.revision
    await desk.job("another")
    assert await desk.store.claim(node, stale, [await desk.wanted(job)]) is Refusal.MOVED
    assert await desk.store.read(ActiveQuery()) == []


@told
async def test_what_nobody_owns_waits_for_anybody(desk: Desk) -> None:
    job = await desk.job()
    claimed = await desk.due(None, job)
    (waiting,) = await desk.store.read(WaitingQuery(await desk.now(), 10))
    assert waiting.ref == claimed.ref
    assert waiting.owner is None


@told
async def test_what_is_owned_does_not_wait(desk: Desk) -> None:
    await desk.due(await desk.node(), await desk.job())
    assert await desk.store.read(WaitingQuery(await desk.now(), 10)) == []


@pytest.mark.spec("R1", "segment")
@told
async def test_a_stretch_of_missed_instants_is_one_row_that_is_final(desk: Desk) -> None:
    job = await desk.job()
    wanted = await desk.wanted(job)
    start = wanted.key.instant
    window = Window(start, start + HOUR, 3600)
    missed = ClaimRequest(wanted.key, 1, start, OccurrenceState.MISSED, window=window, reason="no node was there")
    (claimed,) = await desk.claim(None, missed)
    row = await desk.row(claimed.ref)
    assert row.window == window
    assert row.status is OccurrenceState.MISSED
    assert row.ended_at is not None
    assert await desk.store.read(ActiveQuery()) == []
    assert [found.ref for found in await windows_after(desk.store.read, start + HOUR - 1)] == [claimed.ref]
    assert await windows_after(desk.store.read, start + HOUR) == []


@told
async def test_what_exists_is_read_by_a_window_of_instants(desk: Desk) -> None:
    node, job, other = await desk.node(), await desk.job("a"), await desk.job("b")
    wanted = [await desk.wanted(job), await desk.wanted(other), await desk.wanted(job)]
    await desk.claim(node, *wanted)
    first, second, third = [item.key for item in wanted]
    assert list(await desk.store.read(DecidedQuery(first.instant, third.instant))) == [first, second]
    assert list(await desk.store.read(DecidedQuery(first.instant + 1, third.instant + 1))) == [second, third]


@pytest.mark.spec("D3")
@told
async def test_the_audit_trail_begins_with_the_row(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = await desk.due(node, job, reason="asked for\0 by a test")
    (line,) = (await desk.detail(claimed.ref)).transitions
    assert (line.before, line.after, line.node) == (None, OccurrenceState.PRERUN, node)
    assert line.why == "asked for� by a test"


@told
async def test_an_instant_of_any_century_can_be_claimed(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    instants = [-(10**15), 0, 7_000_000_000 * SECOND]
    keys = [Key(instant, job, Kind.SCHEDULED) for instant in instants]
    claimed = await desk.claim(node, *[ClaimRequest(key, 1, key.instant) for key in keys])
    assert [one.key for one in claimed] == keys
    assert list(await desk.store.read(DecidedQuery(-(10**16), 10**17))) == keys


@pytest.mark.spec("N2")
@told
async def test_one_question_finds_what_a_node_may_start_and_what_it_may_have_forgotten(desk: Desk) -> None:
    me, other, job = await desk.node(), await desk.node(), await desk.job()
    nobodys = await desk.due(None, job, ago=100)
    left_lying, running, mine = [await desk.due(owner, job) for owner in (other, other, me)]
    fresh = await desk.due(other, job, ago=1)
    await desk.started(other, running, overlap=Overlap.ALLOW)
    offers = await desk.store.read(OpenQuery(me, 20 * SECOND, 10, HOUR))
    assert [row.ref for row in offers.rows] == [nobodys.ref, left_lying.ref, mine.ref]
    assert fresh.ref not in {row.ref for row in offers.rows}
    assert offers.now <= await desk.now()
    assert offers.watermark == (await desk.store.read(StoreStatusQuery())).watermark
    few = await desk.store.read(OpenQuery(me, 20 * SECOND, 1, HOUR))
    assert [row.ref for row in few.rows] == [nobodys.ref, left_lying.ref, mine.ref], (
        "what runs is no reason to overlook others"
    )
