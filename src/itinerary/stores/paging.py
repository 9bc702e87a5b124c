"""What is too much for one answer of a store, read page by page to its end.

    entries, then jobs        what is on the timeline after a revision, and the jobs that its entries are about
    keys of occurrences       all of a range of instants
    windows                   all that end after an instant
    of one instant            a job's occurrences of it: the scheduled one, and what was run again

Everybody who compares what should be with what is reads these: a node, its sweep, an audit, a request. Whoever gets
less than there is sees something lost that is there, or does it a second time. So nothing here has a limit at which it
quietly ends: a page begins with the last of the page before it, and one that does not get any further is an error.

Pages are read one after another, each from a moment of its own. What is read does not mind: a timeline only grows, and
so does a range of the past, but for what is forgotten.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import RecordError
from itinerary.model.audit_queries import Pointers, PointerTable
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Answer, ByKey, Decided, Entries, Jobs, Query
from itinerary.model.rows import EntryRow, JobNumber, JobRow, Key, OccurrenceRow, Ref

__all__ = [
    "Read",
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
"""Rows and keys on a page."""
_BEFORE_ALL: Final = JobNumber(0)


class Read(Protocol):
    """Asks a store: `Store.read` itself, or somebody who asks again until there is an answer."""

    async def __call__(self, query: Query[Answer]) -> Answer:
        """What the store answers."""


async def read_timeline(read: Read) -> Timeline:
    """All of a store's timeline."""
    return Timeline().extended(*await news_since(read, Timeline()))


async def news_since(
    read: Read, timeline: Timeline, page_size: int = _ROWS
) -> tuple[Sequence[EntryRow], Sequence[JobRow]]:
    """What has been entered since a timeline was read, and the jobs that are new; both empty if nothing has."""
    entries = await entries_after(read, timeline.revision, page_size)
    if not entries:
        return (), ()
    return entries, await jobs_after(read, max(timeline.jobs, default=_BEFORE_ALL), page_size)  # now none is missing


async def entries_after(read: Read, revision: int, page_size: int = _ROWS) -> list[EntryRow]:
    """What was entered after a revision."""
    found: list[EntryRow] = []
    while True:
        page = await read(Entries(found[-1].revision if found else revision, page_size))
        found += page
        if len(page) < page_size:
            return found


async def jobs_after(read: Read, number: JobNumber = _BEFORE_ALL, page_size: int = _ROWS) -> list[JobRow]:
    """The jobs that came after one."""
    found: list[JobRow] = []
    while True:
        page = await read(Jobs(found[-1].number if found else number, page_size))
        found += page
        if len(page) < page_size:
            return found


async def decided_between(read: Read, start: int, end: int, page_size: int = _KEYS) -> AsyncIterator[Sequence[Key]]:
    """The keys of all occurrences in `[start, end)`, in order, a page at a time: there may be millions."""
    last: Key | None = None
    while True:
        page = await read(Decided(start, end, page_size, last))
        fresh = page[1:] if page and page[0] == last else page  # unless the last one was forgotten meanwhile
        if len(page) < page_size:
            yield fresh
            return
        if not fresh or fresh[-1] == last:
            raise RecordError(f"the store has nothing after {last}, and says that there is more; audit it")
        yield fresh
        last = fresh[-1]


async def windows_after(read: Read, instant: int, page_size: int = _ROWS) -> list[OccurrenceRow]:
    """The occurrences that answer for a window which ends after an instant, by where their windows end. One that is
    extended while this reads moves on, and is taken as it was seen last."""
    found: dict[Ref, OccurrenceRow] = {}
    begin: tuple[int | str, ...] | None = (instant + 1,)
    while begin is not None:
        page = await read(Pointers(PointerTable.WINDOWS, begin, page_size))
        if page.next == begin:
            raise RecordError(f"the store has no window after {begin}, and says that there is more; audit it")
        found |= {row.ref: row for _, row in page.found if row is not None}
        begin = page.next
    return list(found.values())


async def occurrences_of(read: Read, job: JobNumber, instant: int, limit: int = 1_000) -> list[OccurrenceRow]:
    """A job's occurrences of one instant, in the order in which they were made: the one that was due then, and what was
    run again of it. Of more than `limit`, which nobody has asked for by hand, some are left out."""
    first = Key(instant, job, min(Kind), "")
    keys = [key for key in await read(Decided(instant, instant + 1, limit, first)) if key.job == job]
    return sorted((await read(ByKey(tuple(keys)))).values(), key=lambda row: row.ref)
