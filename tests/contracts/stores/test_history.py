"""History, forgetting, nodes, statistics and watching (protocol rules 1, 16, 22; D8, L10, L12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from itinerary.errors import StoreError
from itinerary.model.occurrence import Kind, Window
from itinerary.model.queries import (
    ActiveQuery,
    ByRefQuery,
    DecidedQuery,
    DetailsQuery,
    HistoryQuery,
    JobsByNameQuery,
    NodesQuery,
    RecentQuery,
    StatisticsQuery,
    StoreStatusQuery,
)
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.model.rows import JobNumber, Key, NodeNumber, Ref, StatisticsRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import CancelRequest, ClaimRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores.ledger.prune import prune
from itinerary.stores.paging import occurrences_of, windows_after
from itinerary.stores.tables import HISTORY_CHUNKS, OCCURRENCES
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import Desk, told

NOTHING_KEPT = Retention(keep_for=0, keep_failed_for=0, margin=0)


async def missed(desk: Desk, job: JobNumber, count: int) -> list[Ref]:
    """So many occurrences that are final from the beginning, the last of them an hour ago."""
    last = await desk.now() // SECOND - 3_600
    keys = [Key((last - number) * SECOND, job, Kind.SCHEDULED) for number in range(count, 0, -1)]
    wanted = [ClaimRequest(key, 1, key.instant, OccurrenceState.MISSED) for key in keys]
    return [claimed.ref for claimed in await desk.claim(None, *wanted)]


async def sweep(desk: Desk, node: NodeNumber) -> None:
    plan = await desk.store.begin_sweep(node, await desk.now())
    assert plan is not None
    step = SweepStep(fence=plan.fence, step=1, cursor="", is_last=True)
    assert await desk.store.advance_sweep(node, desk.revision, step) is None


async def pruned(desk: Desk, rules: Retention) -> int:
    """A whole round. How many rows it removed: as many as were counted before."""
    counted = await _round(desk.store.count_prunable, rules)
    removed = await _round(desk.store.prune, rules)
    assert removed == counted
    return removed


async def _round(step: Callable[[Retention, PruneCursor], Awaitable[Pruned]], rules: Retention) -> int:
    total, cursor = 0, PruneCursor()
    while cursor is not None:
        done = await step(rules, cursor)
        total, cursor = total + done.removed, done.next  # type: ignore[assignment]
    return total


# -- history ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 32, 100])
@pytest.mark.parametrize("limit", [1, 7, 16, 40])
def test_history_pages_are_whole_newest_first_and_without_repeats(engine: object, count: int, limit: int) -> None:
    @told
    async def story(desk: Desk) -> None:
        job, other = await desk.job("a"), await desk.job("b")
        refs = await missed(desk, job, count)
        await missed(desk, other, 3)
        found: list[Ref] = []
        before: int | None = None
        while True:
            page = await desk.store.read(HistoryQuery(job, before, limit))
            assert len(page.rows) <= limit
            found += [row.ref for row in page.rows]
            if page.next is None:
                break
            assert before is None or page.next < before
            before = page.next
        assert found == refs[::-1]

    story(engine)  # type: ignore[arg-type]


@told
async def test_the_last_of_many_jobs_are_those_that_their_histories_begin_with(desk: Desk) -> None:
    counts = {await desk.job(f"job {count}"): count for count in (0, 1, 15, 16, 17, 31, 32, 33, 50)}
    for job, count in counts.items():
        await missed(desk, job, count)
    jobs = (*counts, JobNumber(987))
    for limit in (1, 16, 20, 100):
        found = await desk.store.read(RecentQuery(jobs, limit))
        expected = {job: (await desk.store.read(HistoryQuery(job, limit=limit))).rows for job in jobs}
        assert {job: tuple(rows) for job, rows in found.items()} == {
            job: rows for job, rows in expected.items() if rows
        }


@told
async def test_the_last_that_ended_before_an_instant_are_found_in_a_long_history(desk: Desk) -> None:
    jobs = (await desk.job("long"), await desk.job("short"), await desk.job("none"))
    for number in range(12):
        await missed_at(desk, jobs[0], number * 10, 10)
        if number < 2:
            await missed_at(desk, jobs[1], number * 10, 3)
    rows = {job: (await desk.store.read(HistoryQuery(job))).rows for job in jobs}
    for instant in sorted({row.ended_at for row in rows[jobs[0]] if row.ended_at is not None}):
        for limit in (1, 7, 30):
            found = await desk.store.read(RecentQuery(jobs, limit, instant))
            for job in jobs:
                before = [row for row in rows[job] if row.ended_at is not None and row.ended_at < instant]
                assert list(found.get(job, ())) == before[:limit]


async def missed_at(desk: Desk, job: JobNumber, number: int, count: int) -> None:
    """So many that end together, and after all that ended before."""
    first = await desk.now() // SECOND - 86_400 + number
    keys = [Key((first + one) * SECOND, job, Kind.SCHEDULED) for one in range(count)]
    await desk.claim(None, *[ClaimRequest(key, 1, key.instant, OccurrenceState.MISSED) for key in keys])


@told
async def test_the_last_of_a_job_whose_history_was_forgotten_are_those_that_are_left(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await missed(desk, job, 40)
    await sweep(desk, node)
    await pruned(desk, NOTHING_KEPT)
    started = await desk.run(node, job)
    await desk.finish(node, started)
    found = await desk.store.read(RecentQuery((job,), 20))
    assert found[job][0].ref == started.ref
    assert [row.ref for row in found[job]] == [
        row.ref for row in (await desk.store.read(HistoryQuery(job, limit=20))).rows[: len(found[job])]
    ]


@told
async def test_history_can_be_asked_for_some_states_only(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await missed(desk, job, 20)
    started = await desk.run(node, job)
    await desk.finish(node, started)
    page = await desk.store.read(HistoryQuery(job, states=frozenset({OccurrenceState.COMPLETED})))
    assert [row.ref for row in page.rows] == [started.ref]


@told
async def test_a_rare_state_is_looked_for_in_steps_that_go_on_where_the_last_one_ended(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    await desk.finish(node, started)
    await missed(desk, job, 40)
    completed = frozenset({OccurrenceState.COMPLETED})
    first = await desk.store.read(HistoryQuery(job, states=completed, looked_at_max=16))
    assert (first.rows, first.next) == ((), 16)
    second = await desk.store.read(HistoryQuery(job, first.next, states=completed, looked_at_max=16))
    assert ([row.ref for row in second.rows], second.next) == ([started.ref], None)


@told
async def test_the_occurrences_of_one_instant_are_found_beside_those_of_other_jobs(desk: Desk) -> None:
    job, before, after = [await desk.job(name) for name in ("b", "a", "c")]
    instant = (await desk.now() // SECOND - 3_600) * SECOND
    keys = [Key(instant, number, Kind.SCHEDULED) for number in (job, before, after)]
    keys += [Key(instant, job, Kind.REPLAY, "x/1"), Key(instant + SECOND, job, Kind.SCHEDULED)]
    await desk.claim(None, *[ClaimRequest(key, 1, key.instant, OccurrenceState.MISSED) for key in keys])
    found = await occurrences_of(desk.store.read, job, instant)
    assert {row.key for row in found} == {keys[0], keys[3]}
    assert await occurrences_of(desk.store.read, job, instant - SECOND) == []


@told
async def test_a_job_that_never_ran_has_an_empty_history(desk: Desk) -> None:
    assert (await desk.store.read(HistoryQuery(await desk.job()))).rows == ()
    assert (await desk.store.read(HistoryQuery(JobNumber(987)))).rows == ()


# -- forgetting ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D8")
@told
async def test_what_ended_long_ago_is_forgotten_and_its_job_remembers_its_last_run(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    await desk.finish(node, started)
    instant = (await desk.row(started.ref)).instant
    await missed(desk, job, 40)
    await sweep(desk, node)
    assert await pruned(desk, Retention(margin=0)) == 0, "30 days are kept"
    assert await pruned(desk, NOTHING_KEPT) == 41
    assert await desk.store.read(DetailsQuery((started.ref,))) == []
    assert (await desk.store.read(HistoryQuery(job))).rows == ()
    kept = (await desk.store.read(JobsByNameQuery(("backup",))))["backup"]
    assert kept.last_run_at == instant
    assert kept.history_floor > instant
    await desk.run(node, job)


@pytest.mark.spec("D8")
@told
async def test_nothing_above_the_watermark_is_forgotten(desk: Desk) -> None:
    job = await desk.job()
    watermark = (await desk.store.read(StoreStatusQuery())).watermark
    key = Key((watermark // SECOND + 1) * SECOND, job, Kind.SCHEDULED)
    await desk.claim(None, ClaimRequest(key, 1, key.instant, OccurrenceState.MISSED))
    assert await pruned(desk, NOTHING_KEPT) == 0


@told
async def test_what_is_not_final_is_never_forgotten(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    await sweep(desk, node)
    assert await pruned(desk, NOTHING_KEPT) == 0
    await desk.finish(node, started)


@told
async def test_failures_are_kept_for_longer(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    well, badly = await desk.run(node, job), None
    await desk.finish(node, well)
    badly = await desk.run(node, job)
    await desk.finish(node, badly, to=OccurrenceState.FAILED)
    await sweep(desk, node)
    assert await pruned(desk, Retention(keep_for=0, margin=0)) == 1
    assert set(await desk.store.read(ByRefQuery((well.ref, badly.ref)))) == {badly.ref}
    assert [row.ref for row in (await desk.store.read(HistoryQuery(job))).rows] == [badly.ref]


@pytest.mark.spec("D8")
@told
async def test_a_job_keeps_its_newest_so_many(desk: Desk) -> None:
    node, job, other = await desk.node(), await desk.job("a"), await desk.job("b")
    refs = await missed(desk, job, 100)
    await missed(desk, other, 10)
    await sweep(desk, node)
    removed = await pruned(desk, Retention(keep_max=20, margin=0))
    left = [row.ref for row in (await desk.store.read(HistoryQuery(job))).rows]
    assert left == refs[::-1][: len(left)]
    assert 20 <= len(left) < 20 + 16
    assert removed == 100 - len(left)


@told
async def test_a_long_stretch_stays_while_its_window_does(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    start = (await desk.wanted(job)).key.instant
    watermark = (await desk.store.read(StoreStatusQuery())).watermark
    window = Window(start, watermark + 3600 * SECOND, 3660)
    await desk.claim(
        None, ClaimRequest(Key(start, job, Kind.SCHEDULED), 1, start, OccurrenceState.SKIPPED, window=window)
    )
    await sweep(desk, node)
    assert await pruned(desk, NOTHING_KEPT) == 0
    assert len(await windows_after(desk.store.read, watermark)) == 1


@pytest.mark.spec("D8")
@told
async def test_of_a_stretch_that_is_forgotten_the_whole_window_is_unknown(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    start = (await desk.wanted(job)).key.instant
    registered_at = (await desk.store.read(JobsByNameQuery(("backup",))))["backup"].registered_at
    window = Window(start, registered_at + 1, 60)
    await desk.claim(
        None, ClaimRequest(Key(start, job, Kind.SCHEDULED), 1, start, OccurrenceState.SKIPPED, window=window)
    )
    await sweep(desk, node)
    assert await pruned(desk, NOTHING_KEPT) == 1
    assert (await desk.store.read(JobsByNameQuery(("backup",))))["backup"].history_floor == window.end


@told
async def test_what_goes_by_its_age_and_by_its_number_is_counted_once(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    refs = await missed(desk, job, 300)
    await sweep(desk, node)
    margin = (await desk.store.read(StoreStatusQuery())).watermark - (await desk.row(refs[150])).instant
    assert await pruned(desk, Retention(keep_for=0, keep_max=20, margin=margin)) == 150
    assert await pruned(desk, Retention(keep_max=20, margin=0)) > 100


class Counting:
    """A transaction, how many occurrences were looked at in it, and whose chapters."""

    def __init__(self, tx: Transaction) -> None:
        self._tx, self.looked_at = tx, 0
        self.opened: list[JobNumber] = []

    def get(self, table: Any, keys: Iterable[Any]) -> Any:
        """The same, counted."""
        keys = list(keys)
        self.looked_at += len(keys) if table is OCCURRENCES else 0
        return self._tx.get(table, keys)

    def scan(self, table: Any, prefix: Any = (), **bounds: Any) -> Any:
        """The same, noted down."""
        if table is HISTORY_CHUNKS:
            self.opened += prefix
        return self._tx.scan(table, prefix, **bounds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


@told
async def test_where_nothing_is_to_be_forgotten_one_occurrence_of_each_job_is_looked_at(desk: Desk) -> None:
    node = await desk.node()
    for number in range(5):
        await missed(desk, await desk.job(f"job {number}"), 100)
    await sweep(desk, node)

    def step(tx: Transaction) -> tuple[Pruned, int]:
        counting: Any = Counting(tx)
        return prune(counting, Retention(margin=0), PruneCursor(job=0)), counting.looked_at

    assert await desk.engine.write(step) == (Pruned(0, PruneCursor(job=0, node=0)), 5)


@pytest.mark.spec("P5", "looking for what is to be forgotten")
@told
async def test_jobs_that_have_no_chapter_of_history_are_passed_over_many_in_one_step(desk: Desk) -> None:
    node, jobs = await desk.node(), await desk.jobs(180)
    await missed(desk, jobs[3], 15)
    await missed(desk, jobs[140], 16)
    await sweep(desk, node)

    def step(tx: Transaction) -> tuple[Pruned, list[JobNumber]]:
        counting: Any = Counting(tx)
        return prune(counting, Retention(margin=0), PruneCursor(job=0)), counting.opened

    assert await desk.engine.write(step) == (Pruned(0, PruneCursor(job=0, node=0)), [jobs[140]])


@pytest.mark.spec("D8")
@told
async def test_among_many_jobs_that_have_little_none_that_has_too_much_is_passed_over(desk: Desk) -> None:
    node, jobs = await desk.node(), await desk.jobs(1_120)
    long = [jobs[place] for place in (0, 48, 49, 50, 51, 149, 999, 1_000, 1_119)] + jobs[200:270]
    for job in long:
        await missed(desk, job, 33)
    await missed(desk, jobs[500], 15)
    await sweep(desk, node)
    assert await pruned(desk, Retention(keep_max=17, margin=0)) == 16 * len(long)
    for job, left in [*((job, 17) for job in long), (jobs[500], 15)]:
        assert len((await desk.store.read(HistoryQuery(job))).rows) == left
    assert await pruned(desk, Retention(keep_max=17, margin=0)) == 0


@told
async def test_more_than_a_batch_is_forgotten_step_by_step(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await missed(desk, job, 2_500)
    await sweep(desk, node)
    assert await pruned(desk, NOTHING_KEPT) == 2_500
    assert await desk.store.read(DecidedQuery(0, 10**18)) == []


# -- nodes -----------------------------------------------------------------------------------------------------------


@told
async def test_each_start_of_a_node_has_a_number_of_its_own(desk: Desk) -> None:
    first = await desk.store.join("incarnation 1", "web-1", "{}")
    assert await desk.store.join("incarnation 1", "web-1", "{}") == first
    assert await desk.store.join("incarnation 2", "web-1", "{}") != first


@pytest.mark.spec("N1")
@told
async def test_a_heartbeat_raises_a_counter_that_the_others_see(desk: Desk) -> None:
    first, second = await desk.node("first"), await desk.node("second")
    for expected in (1, 2, 3):
        beat = await desk.store.beat(first)
        counters = {node.number: node.counter for node in beat.nodes}
        assert counters == {first: expected, second: 0}
        assert (await desk.store.read(StoreStatusQuery())).now >= beat.now


@told
async def test_a_node_that_left_is_seen_to_have_left(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    await desk.store.leave(first)
    await desk.store.leave(first)
    left = {node.number: node.left_at is not None for node in (await desk.store.beat(second)).nodes}
    assert left == {first: True, second: False}
    assert len(await desk.store.read(NodesQuery())) == 2


@told
async def test_a_node_that_never_joined_cannot_beat(desk: Desk) -> None:
    with pytest.raises(StoreError, match="node 99 has not joined"):
        await desk.store.beat(NodeNumber(99))


@pytest.mark.spec("L10")
@told
async def test_statistics_are_kept_once(desk: Desk) -> None:
    node = await desk.node()
    rows = [StatisticsRow(node, at, 1, 2, 3, 4, 5, 6, 7) for at in (10, 20, 30)]
    await desk.store.note_statistics(rows[:2])
    await desk.store.note_statistics(rows)
    assert list(await desk.store.read(StatisticsQuery(node, since=20))) == rows[1:]


@pytest.mark.spec("L10", "read")
@told
async def test_statistics_are_read_by_window_and_newest_first(desk: Desk) -> None:
    node, other = await desk.node(), await desk.node()
    rows = [StatisticsRow(node, at, 1, 2, 3, 4, 5, 6, 7) for at in (10, 20, 30, 40)]
    await desk.store.note_statistics([*rows, StatisticsRow(other, 25, 1, 2, 3, 4, 5, 6, 7)])
    assert list(await desk.store.read(StatisticsQuery(node, since=20, until=40))) == rows[1:3]
    assert list(await desk.store.read(StatisticsQuery(node, 20, 2, 40, newest_first=True))) == [rows[2], rows[1]]
    assert list(await desk.store.read(StatisticsQuery(node, 0, 1, 30, newest_first=True))) == [rows[1]]


# -- watching --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L12")
@told
async def test_who_watches_hears_of_changes_to_the_timeline_and_of_mail(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    started = await desk.run(node, job)
    heard: asyncio.Queue[frozenset[str]] = asyncio.Queue()

    async def listen() -> None:
        async for topics in desk.store.watch():
            heard.put_nowait(topics)

    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listen())
        assert "timeline" in await heard.get(), "the first look tells of everything that ever was"
        await desk.store.control(None, [CancelRequest(started.ref, "anna")])
        while f"mail/{node}" not in await heard.get():
            pass
        await desk.job("another")
        while "timeline" not in await heard.get():
            pass
        listening.cancel()


@told
async def test_a_batch_beyond_the_limit_is_refused_before_it_is_sent(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    wanted = await desk.wanted(job)
    with pytest.raises(StoreError, match="10001 requests in one call, 10000 are allowed"):
        await desk.store.claim(node, desk.revision, [wanted] * 10_001)
    assert await desk.store.read(ActiveQuery()) == []
