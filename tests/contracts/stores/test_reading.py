"""Reading page by page to the end: what comes back is all there is, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from itinerary.errors import RecordError
from itinerary.model.audit_queries import PointerPage, PointersQuery
from itinerary.model.occurrence import Kind, Window
from itinerary.model.queries import Answer, CreatedQuery, DecidedQuery, Query
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import StoreRead, decided_between, jobs_after, news_since, read_timeline, windows_after
from tests.contracts.stores.desk import HOUR, Desk, told

INSTANT = 1_767_225_600 * SECOND


async def decided(read: StoreRead, start: int, end: int, page_size: int) -> list[list[Key]]:
    return [list(page) async for page in decided_between(read, start, end, page_size)]


@told
async def test_occurrences_of_one_second_that_fill_many_pages_are_all_read(desk: Desk) -> None:
    jobs = [await desk.job(f"job-{number}") for number in range(4)]
    texts = ["", "a", "B", "ä", "z" * 400, *[f"{'y' * 400}{number}" for number in range(3)], "\U0001f600", "\uffff"]
    same = [Key(INSTANT, job, Kind.TRIGGER, text) for job in jobs for text in texts]
    same += [Key(INSTANT, job, kind) for job in jobs for kind in (Kind.SCHEDULED, Kind.BACKFILL)]
    around = [Key(INSTANT + step * SECOND, jobs[0], Kind.SCHEDULED) for step in (-2, -1, 1, 2)]
    await desk.claim(None, *[ClaimRequest(key, 1, key.instant) for key in [*same, *around]])
    for page_size in (2, 3, 7, 10, 1_000):
        pages = await decided(desk.store.read, INSTANT - SECOND, INSTANT + 2 * SECOND, page_size)
        keys = [key for page in pages for key in page]
        assert len(keys) == len(set(keys))
        assert set(keys) == {*same, *around[1:3]}
        assert [key.instant for key in keys] == sorted(key.instant for key in keys)
        assert all(len(page) <= page_size for page in pages)


@told
async def test_an_empty_range_has_no_keys(desk: Desk) -> None:
    assert await decided(desk.store.read, INSTANT, INSTANT + HOUR, 2) == [[]]


@told
async def test_a_page_goes_on_after_its_last_key_was_forgotten(desk: Desk) -> None:
    job = await desk.job()
    keys = [Key(INSTANT + step * SECOND, job, Kind.SCHEDULED) for step in range(6)]
    there = {*keys}
    await desk.claim(None, *[ClaimRequest(key, 1, key.instant) for key in keys])

    async def forgetful(query: Query[Answer]) -> Answer:
        page = await desk.store.read(query)
        assert isinstance(query, DecidedQuery)
        if query.begin is not None:
            there.discard(query.begin)
        answer: Answer = [key for key in page if key in there]  # type: ignore[attr-defined,assignment] # a page of keys
        return answer

    pages = await decided(forgetful, INSTANT, INSTANT + HOUR, 4)
    assert [key for page in pages for key in page] == keys


@told
async def test_windows_are_read_to_the_last_one(desk: Desk) -> None:
    job = await desk.job()
    ends = [INSTANT + step // 3 * SECOND for step in range(12)]  # three of them end together
    wanted = [
        ClaimRequest(
            Key(INSTANT - (step + 1) * SECOND, job, Kind.SCHEDULED),
            1,
            INSTANT,
            OccurrenceState.MISSED,
            window=Window(INSTANT - (step + 1) * SECOND, end, 2),
        )
        for step, end in enumerate(ends)
    ]
    await desk.claim(None, *wanted)
    for page_size in (2, 3, 5, 100):
        rows = await windows_after(desk.store.read, INSTANT, page_size)
        assert sorted(row.key for row in rows) == sorted(item.key for item in wanted[3:])


@told
async def test_the_timeline_is_read_to_its_end_with_all_of_its_jobs(desk: Desk) -> None:
    known = await read_timeline(desk.store.read)
    assert await news_since(desk.store.read, known) == ((), ())
    names = [f"job-{number}" for number in range(7)]
    for name in names:
        await desk.job(name)
    for page_size in (1, 2, 3, 100):
        entries, jobs = await news_since(desk.store.read, known, page_size)
        timeline = known.extended(entries, jobs)
        assert [row.name for row in timeline.jobs.values()] == names
        assert timeline.revision == desk.revision
        assert [row.name for row in await jobs_after(desk.store.read, JobNumber(0), page_size)] == names
    assert (await read_timeline(desk.store.read)).revision == desk.revision


@told
async def test_occurrences_are_read_in_the_order_of_their_numbers(desk: Desk) -> None:
    assert await desk.store.read(CreatedQuery()) == []
    node, job = await desk.node(), await desk.job()
    refs = sorted([claimed.ref for _ in range(5) for claimed in await desk.claim(node, await desk.wanted(job))])
    assert [row.ref for row in await desk.store.read(CreatedQuery())] == refs[-1:]
    assert [row.ref for row in await desk.store.read(CreatedQuery(Ref(0)))] == refs
    assert [row.ref for row in await desk.store.read(CreatedQuery(refs[1], 2))] == refs[2:4]
    assert await desk.store.read(CreatedQuery(refs[-1])) == []


def test_a_store_that_says_there_is_more_and_gives_no_more_is_found_out() -> None:
    key = Key(INSTANT, JobNumber(1), Kind.SCHEDULED)

    async def stuck(query: Query[Answer]) -> Answer:
        page: Sequence[Key] | PointerPage = [key, key]
        if isinstance(query, PointersQuery):
            page = PointerPage((), query.begin)
        answer: Answer = page  # type: ignore[assignment] # what it should be of, it is
        return answer

    with pytest.raises(RecordError, match="says that there is more"):
        asyncio.run(decided(stuck, INSTANT, INSTANT + HOUR, 2))
    with pytest.raises(RecordError, match="says that there is more"):
        asyncio.run(windows_after(stuck, INSTANT))
