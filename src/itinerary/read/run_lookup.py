"""Look up one occurrence: its names, and its row.

    Run             the result of `trigger`: the job, the key, the id of D1
    find            from a Run, an id or a run id (`etl:1767225600`, `etl:1767225600.replay-1`) to the row

An id is a hash, which cannot be reversed. Most ids that are looked up are new: from a trigger, a report, or the context
of a task. So the lookup tries the occurrences that this node saw last, then the active ones, then the whole history
(see `run_id_search`). An occurrence is found for as long as the store keeps its row.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from itinerary.core.loop.events import OccurrenceEnded, OccurrenceStarted
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import NotFoundError
from itinerary.model.ids import OccurrenceId, job_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ActiveQuery, ByKeyQuery, ByRefQuery
from itinerary.model.rows import JobNumber, Key, OccurrenceRow, Ref
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.read.run_id_search import key_of_id
from itinerary.read.timeline_view import TimelineView
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import StoreRead, occurrences_of

__all__ = ["RunLike", "RunLookup", "RunReference", "row_of_run_id"]

_REMEMBERED_MAX: Final = 10_000
_DIGITS_MAX: Final = 18
_SECONDS_DIGITS_MAX: Final = 12
_NAMED_MAX: Final = 5
"""The number of occurrences that an error names, if several have the same run id."""


class RunReference(msgspec.Struct, frozen=True):
    """A reference to one occurrence of a job."""

    job: str
    key: Key
    ref: Ref
    """The number of the occurrence in the store."""

    @property
    def id(self) -> OccurrenceId:
        """The id, which every node computes alike."""
        return self.key.id(job_id(self.job))

    @property
    def run_id(self) -> str:
        """The name for people: `etl:1767225600`, or `etl:1767225600.replay-1`."""
        return self.key.run_id(self.job)

    def __str__(self) -> str:
        return self.run_id


RunLike: TypeAlias = RunReference | UUID | str
"""An occurrence, its id (also as text), its run id, or its number in the store as text."""


class RunLookup:
    """The lookup of occurrences by the names that people use. Only for use on the node's event loop."""

    def __init__(self) -> None:
        self._seen: deque[RunReference | OccurrenceStarted | OccurrenceEnded] = deque(maxlen=_REMEMBERED_MAX)
        self._search = asyncio.Lock()
        """The lock that allows one search of the whole history at a time: each search occupies a core."""

    def note(self, seen: Sequence[RunReference | OccurrenceStarted | OccurrenceEnded]) -> None:
        """Remember occurrences. There may be thousands in a second, so the ids are computed only in a lookup."""
        self._seen.extend(seen)

    async def find(self, store: Store, view: TimelineView, wanted: RunLike) -> RunReference:
        """Return the named occurrence. Raises NotFoundError if there is none, or it is no longer kept."""
        match wanted:
            case RunReference():
                return wanted
            case UUID():
                return await self._by_id(store, view, wanted)
            case str() if (identity := _as_id(wanted)) is not None:
                return await self._by_id(store, view, identity)
            case str() if (number := _as_number(wanted)) is not None:
                return await _by_number(store, view.timeline, number)
            case str():
                return await _by_run_id(store, view.timeline, wanted)

    async def _by_id(self, store: Store, view: TimelineView, wanted: UUID) -> RunReference:
        timeline = view.timeline
        for item in reversed(self._seen):
            if item.key.id(job_id(item.job)) == wanted:
                return RunReference(item.job, item.key, item.ref)
        for row in await store.read(ActiveQuery()):
            job = timeline.jobs.get(row.job)  # a job that was added a moment ago is not known yet
            if job is not None and row.key.id(job_id(job.name)) == wanted:
                return RunReference(job.name, row.key, row.ref)
        async with self._search:
            key = await key_of_id(store.read, timeline.jobs, wanted, view.now())
        kept = None if key is None else (await store.read(ByKeyQuery((key,)))).get(key)
        if kept is None:
            raise NotFoundError(
                f"there is no occurrence {wanted} in {store.url}, or it is no longer kept; "
                "see `itinerary history JOB` for what is"
            )
        return RunReference(timeline.jobs[kept.job].name, kept.key, kept.ref)


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _as_number(text: str) -> Ref | None:
    """Parse the number that lists print: 412, or #412."""
    digits = text.removeprefix("#")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX
    return Ref(int(digits)) if is_number else None


async def _by_number(store: Store, timeline: Timeline, wanted: Ref) -> RunReference:
    row = (await store.read(ByRefQuery((wanted,)))).get(wanted)
    if row is None:
        raise NotFoundError(f"there is no occurrence with the number {wanted} in the store, or it is no longer kept")
    return RunReference(timeline.jobs[row.job].name, row.key, row.ref)


async def _by_run_id(store: Store, timeline: Timeline, wanted: str) -> RunReference:
    name, _, rest = wanted.rpartition(":")
    seconds, _, replay = rest.partition(".")
    number = next((row.number for row in timeline.jobs.values() if row.name == name), None)
    if number is None or not _is_seconds(seconds):
        raise NotFoundError(f"{shown(wanted)} is not the run id of a job that there is; it looks like 'etl:1767225600'")
    row = await row_of_run_id(store.read, name, number, wanted)
    if row is None:
        what = f"replay {shown(replay)}" if replay else "occurrence"
        raise NotFoundError(
            f"job {name!r} has no {what} at {seconds} (seconds since the epoch), or it is no longer kept"
        )
    return RunReference(name, row.key, row.ref)


async def row_of_run_id(read: StoreRead, name: str, job: JobNumber, wanted: str) -> OccurrenceRow | None:
    """Return the occurrence of a job that a run id names; None if there is none.

    The scheduled occurrence comes first. A run that a user requested has the run id of the second of the request.

    Raises:
        NotFoundError: Several requested runs have this run id.
    """
    seconds = wanted.rpartition(":")[2].partition(".")[0]
    if not _is_seconds(seconds):
        return None
    instant = int(seconds) * SECOND
    key = Key(instant, job, Kind.SCHEDULED)
    if key.run_id(name) == wanted and (row := (await read(ByKeyQuery((key,)))).get(key)) is not None:
        return row
    others = [row for row in await occurrences_of(read, job, instant) if row.key.run_id(name) == wanted]
    if len(others) > 1:
        numbers = ", ".join(str(one.ref) for one in others[:_NAMED_MAX])
        more = ", …" if len(others) > _NAMED_MAX else ""
        raise NotFoundError(f"{len(others)} occurrences have this run id; name one by its number: {numbers}{more}")
    return others[0] if others else None


def _is_seconds(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _SECONDS_DIGITS_MAX
