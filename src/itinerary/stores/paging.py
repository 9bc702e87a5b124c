"""Complete reads of answers that are too large for one query, page by page.

    entries, then jobs        the timeline after a revision, and the jobs of its entries
    keys of occurrences       all of a range of instants
    windows                   all that end after an instant
    of one instant            the occurrences of a job at it: the scheduled one, and its replays

Nodes, sweeps, audits and requests compare the expected state with these reads. A reader that gets too few rows would
report a loss that did not happen, or run something twice. So no read here stops silently at a limit. A page begins with
the last row of the page before it, and a page without progress is an error.

Each page is read at its own point in time. That is safe: a timeline only grows, and so does a range of the past, except
for pruned rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import RecordError
from itinerary.model.audit_queries import PointersQuery, PointerTable
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Answer, ByKeyQuery, DecidedQuery, EntriesQuery, JobsQuery, Query
from itinerary.model.rows import EntryRow, JobNumber, JobRow, Key, OccurrenceRow, Ref

__all__ = [
    "StoreRead",
    "decided_between",
    "entries_after",
    "jobs_after",
    "news_since",
    "occurrences_of",
    "read_timeline",
    "windows_after",
]

_ROWS: Final = 10_000
_KEYS: Final = 100_000
"""The most rows and keys on a page."""
_BEFORE_ALL: Final = JobNumber(0)


class StoreRead(Protocol):
    """A call that queries a store: `Store.read` itself, or a wrapper that retries until the store answers."""

    async def __call__(self, query: Query[Answer]) -> Answer:
        """Return the answer of the store."""


async def read_timeline(read: StoreRead) -> Timeline:
    """Return the whole timeline of a store."""
    return Timeline().extended(*await news_since(read, Timeline()))


async def news_since(
    read: StoreRead, timeline: Timeline, page_size: int = _ROWS
) -> tuple[Sequence[EntryRow], Sequence[JobRow]]:
    """Return the entries since a timeline was read, and the new jobs; both empty if there are no entries."""
    entries = await entries_after(read, timeline.revision, page_size)
    if not entries:
        return (), ()
    return entries, await jobs_after(read, max(timeline.jobs, default=_BEFORE_ALL), page_size)  # so no job is missing


async def entries_after(read: StoreRead, revision: int, page_size: int = _ROWS) -> list[EntryRow]:
    """Return the entries after a revision."""
    found: list[EntryRow] = []
    while True:
        page = await read(EntriesQuery(found[-1].revision if found else revision, page_size))
        found += page
        if len(page) < page_size:
            return found


async def jobs_after(read: StoreRead, number: JobNumber = _BEFORE_ALL, page_size: int = _ROWS) -> list[JobRow]:
    """Return the jobs with a number above this one."""
    found: list[JobRow] = []
    while True:
        page = await read(JobsQuery(found[-1].number if found else number, page_size))
        found += page
        if len(page) < page_size:
            return found


async def decided_between(
    read: StoreRead, start: int, end: int, page_size: int = _KEYS
) -> AsyncIterator[Sequence[Key]]:
    """Yield the keys of all occurrences in `[start, end)`, in order, page by page: there may be millions."""
    last: Key | None = None
    while True:
        page = await read(DecidedQuery(start, end, page_size, last))
        fresh = page[1:] if page and page[0] == last else page  # unless the last one was pruned since
        if len(page) < page_size:
            yield fresh
            return
        if not fresh or fresh[-1] == last:
            raise RecordError(f"the store has nothing after {last}, and says that there is more; audit it")
        yield fresh
        last = fresh[-1]


async def windows_after(read: StoreRead, instant: int, page_size: int = _ROWS) -> list[OccurrenceRow]:
    """Return the occurrences whose window ends after an instant, ordered by the end of their windows.

    A window that is extended during the read moves to a later page. The last version wins.
    """
    found: dict[Ref, OccurrenceRow] = {}
    begin: tuple[int | str, ...] | None = (instant + 1,)
    while begin is not None:
        page = await read(PointersQuery(PointerTable.WINDOWS, begin, page_size))
        if page.next == begin:
            raise RecordError(f"the store has no window after {begin}, and says that there is more; audit it")
        found |= {row.ref: row for _, row in page.found if row is not None}
        begin = page.next
    return list(found.values())


async def occurrences_of(read: StoreRead, job: JobNumber, instant: int, limit: int = 1_000) -> list[OccurrenceRow]:
    """Return the occurrences of a job at one instant, in order of creation: the scheduled one, and its replays.

    At most `limit` are returned. A job reaches that limit only if a program requests the replays.
    """
    first = Key(instant, job, min(Kind), "")
    keys = [key for key in await read(DecidedQuery(instant, instant + 1, limit, first)) if key.job == job]
    return sorted((await read(ByKeyQuery(tuple(keys)))).values(), key=lambda row: row.ref)
