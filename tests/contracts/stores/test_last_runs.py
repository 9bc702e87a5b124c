"""The last run before an occurrence: the largest instant before its own of a scheduled one that started (X9)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import LastRunsQuery
from itinerary.model.retention import PruneCursor, Retention
from itinerary.model.rows import Key, NodeNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Claimed, ClaimRequest, Started
from itinerary.schedules.durations import SECOND
from itinerary.stores.ledger import last_runs
from itinerary.stores.tables import OCCURRENCES, OVERLAP_SLOTS
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import Desk, told

pytestmark = pytest.mark.spec("X9")

WAYS: list[dict[str, Any]] = [{}, {"job": None}, {"overlap": Overlap.ALLOW}, {"overlap": Overlap.ALLOW, "job": None}]
"""Begun without a look at its row, and the long way; with the slot of its job, and without."""


async def ran(desk: Desk, node: NodeNumber, claimed: Claimed, **way: Any) -> int | None:
    """Run an occurrence to its end. Returns the last run before it."""
    started = await desk.started(node, claimed, **way)
    await desk.finish(node, started)
    return started.last_run_at


async def asked(desk: Desk, key: Key) -> Claimed:
    (claimed,) = await desk.claim(None, ClaimRequest(key, 1, key.instant))
    return claimed


@told
async def test_runs_in_order_are_told_the_instant_of_the_one_before_on_every_node(desk: Desk) -> None:
    nodes = [await desk.node("a"), await desk.node("b")]
    for number, way in enumerate(WAYS):
        job = await desk.job(f"job {number}")
        before = None
        for turn in range(4):
            node = nodes[turn % 2]
            claimed = await desk.due(node, job)
            assert await ran(desk, node, claimed, **way) == before, way
            before = claimed.key.instant


@told
async def test_runs_of_one_job_that_begin_in_different_ways_are_told_of_each_other(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    before = None
    for way in (*WAYS, *reversed(WAYS), *WAYS):
        claimed = await desk.due(node, job)
        assert await ran(desk, node, claimed, **way) == before, way
        before = claimed.key.instant


@told
async def test_a_batch_of_many_jobs_is_told_the_last_run_of_each(desk: Desk) -> None:
    node = await desk.node()
    jobs = [await desk.job(f"job {number}") for number in range(20)]
    firsts = [await desk.due(node, job) for job in jobs[:10]]
    for started in await desk.start(node, *firsts):
        assert isinstance(started, Started)
        await desk.finish(node, started)
    answers = await desk.start(node, *[await desk.due(node, job) for job in jobs])
    expected = [first.key.instant for first in firsts] + [None] * 10
    assert [answer.last_run_at for answer in answers if isinstance(answer, Started)] == expected


@told
async def test_an_instant_that_a_later_one_has_overtaken_is_told_the_one_before_itself(desk: Desk) -> None:
    node = await desk.node()
    for number, way in enumerate(WAYS):
        job = await desk.job(f"job {number}")
        first, second, third, fourth = [await desk.due(node, job) for _ in range(4)]
        assert await ran(desk, node, first, **way) is None
        assert await ran(desk, node, third, **way) == first.key.instant
        assert await ran(desk, node, second, **way) == first.key.instant
        assert await ran(desk, node, fourth, **way) == third.key.instant


@told
async def test_runs_at_the_same_time_count_from_their_start_on(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second, third = [await desk.due(node, job) for _ in range(3)]
    told_last = [(await desk.started(node, one, overlap=Overlap.ALLOW)).last_run_at for one in (first, third, second)]
    assert told_last == [None, first.key.instant, first.key.instant]


@told
async def test_what_did_not_start_is_no_run(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first = await desk.due(node, job)
    await ran(desk, node, first)
    await desk.claim(None, await desk.wanted(job, status=OccurrenceState.MISSED))
    await desk.start(node, await desk.due(node, job), skip="a holiday")
    assert await ran(desk, node, await desk.due(node, job)) == first.key.instant


@told
async def test_a_replay_or_a_backfill_is_told_the_run_before_its_own_instant_and_is_none_itself(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second, third = [await desk.due(node, job) for _ in range(3)]
    for claimed in (first, second, third):
        await ran(desk, node, claimed)
    for kind in (Kind.REPLAY, Kind.BACKFILL):
        for of, before in ((first, None), (second, first.key.instant), (third, second.key.instant)):
            again = await asked(desk, Key(of.key.instant, job, kind, f"again {of.ref}"))
            assert await ran(desk, node, again, fence=None) == before
    assert await ran(desk, node, await desk.due(node, job)) == third.key.instant


@told
async def test_a_trigger_is_told_the_last_scheduled_run_and_is_none_itself(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first = await desk.due(node, job, ago=120)
    await ran(desk, node, first)
    for request in ("one", "two"):
        now = (await desk.now() // SECOND - 90) * SECOND
        trigger = await asked(desk, Key(now, job, Kind.TRIGGER, request))
        assert await ran(desk, node, trigger, fence=None) == first.key.instant
    assert await ran(desk, node, await desk.due(node, job)) == first.key.instant


@told
async def test_a_start_that_is_asked_for_twice_is_answered_alike(desk: Desk) -> None:
    node = await desk.node()
    for number, way in enumerate(WAYS):
        job = await desk.job(f"job {number}")
        await ran(desk, node, await desk.due(node, job), **way)
        claimed = await desk.due(node, job)
        first = await desk.started(node, claimed, **way)
        assert await desk.started(node, claimed, **way) == first
        assert first.last_run_at is not None


@told
async def test_who_takes_a_run_over_can_read_its_last_run_although_later_ones_have_started(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    claimed = [await desk.due(node, job) for _ in range(3)]
    for one in claimed:
        await desk.started(node, one, overlap=Overlap.ALLOW)
    first, second, third = claimed
    assert await desk.store.read(LastRunsQuery((first.ref, second.ref, third.ref))) == {
        first.ref: None,
        second.ref: first.key.instant,
        third.ref: second.key.instant,
    }


@told
async def test_a_run_that_history_has_forgotten_still_counts(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second, third = [await desk.due(node, job) for _ in range(3)]
    await ran(desk, node, first)
    trigger = await asked(desk, Key(first.key.instant + 1, job, Kind.TRIGGER, "now"))
    await ran(desk, node, trigger, fence=None)
    await desk.sweep(node)
    cursor: PruneCursor | None = PruneCursor()
    while cursor is not None:
        cursor = (await desk.store.prune(Retention(keep_for=0, keep_failed_for=0, margin=0), cursor)).next
    await ran(desk, node, third)
    assert await ran(desk, node, second) == first.key.instant


@told
async def test_a_store_that_kept_no_last_runs_finds_them_in_its_history(desk: Desk) -> None:
    node = await desk.node()
    jobs = [await desk.job(f"job {number}") for number in range(len(WAYS))]
    firsts = [await desk.due(node, job) for job in jobs]
    for first in firsts:
        await ran(desk, node, first)

    def forget(tx: Transaction) -> None:
        slots = tx.lock(OVERLAP_SLOTS, [(job,) for job in jobs]).values()
        tx.save(OVERLAP_SLOTS, [replace(slot, last_run_at=None) for slot in slots], ("last_run_at",))

    await desk.engine.write(forget)
    for first, way in zip(firsts, WAYS, strict=True):
        second, third = await desk.due(node, first.key.job), await desk.due(node, first.key.job)
        assert await ran(desk, node, second, **way) == first.key.instant
        assert await ran(desk, node, third, **way) == second.key.instant


@told
async def test_each_way_to_search_finds_what_all_rows_together_say(desk: Desk) -> None:
    """History alone, names by instant, and history again where names are too many."""
    dice, node = Random(7), await desk.node()  # noqa: S311 - the same rows each time
    jobs = [await desk.job(f"job {number}") for number in range(3)]
    claimed = [await desk.due(node, dice.choice(jobs), ago=600) for _ in range(60)]
    dice.shuffle(claimed)
    running: list[Started] = []
    for one in claimed[:50]:
        running.append(await desk.started(node, one, overlap=Overlap.ALLOW))
        if dice.random() < 0.8:
            await desk.finish(node, running.pop(dice.randrange(len(running))))
    rows = await desk.engine.read(lambda tx: tx.scan(OCCURRENCES, limit=1_000))
    expected = {row.ref: _by_all(row, rows) for row in rows}
    for walked_max, names_max in ((2_000, 100_000), (1, 100_000), (1, 3)):
        with pytest.MonkeyPatch.context() as limits:
            limits.setattr(last_runs, "_WALKED_MAX", walked_max)
            limits.setattr(last_runs, "_NAMES_MAX", names_max)
            assert await desk.store.read(LastRunsQuery(tuple(expected))) == expected


def _by_all(row: OccurrenceRow, rows: list[OccurrenceRow]) -> int | None:
    started = [other for other in rows if other.job == row.job and other.started_at is not None]
    until = row.started_at
    return max(
        (
            other.instant
            for other in started
            if other.instant < row.instant and (until is None or (other.started_at or 0) <= until)
        ),
        default=None,
    )
