"""Single occurrences: what they are called, where their rows are, and what came of them.

    Run             what `trigger` gives back: the job, the key, the id of D1
    find            from a Run, an id or a run id (`etl:1767225600`) to the row

An id is a hash and leads back to nothing. Whoever has one got it from here: from a trigger, from a report, from a
task's context; so those that were seen last are remembered, and what is active, and what was due in the last days, is
looked through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from itinerary.app.views import View
from itinerary.core.news import Began, Finished
from itinerary.core.timeline import Timeline
from itinerary.errors import NotThere
from itinerary.model.ids import OccurrenceId, job_id, run_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Active, ByKey, ByRef, Decided
from itinerary.model.rows import Key, Ref
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND

__all__ = ["Finder", "Run", "RunLike"]

_REMEMBERED_MAX: Final = 10_000
_LOOKED_BACK: Final = tuple(seconds * SECOND for seconds in (60, 600, 3_600, 86_400, 7 * 86_400))
"""How far back an id is looked for, step by step: where thousands are due in a second, the last minute comes first."""
_DIGITS_MAX: Final = 18
_LOOKED_AT_MAX: Final = 100_000
"""The most ids that are computed in a step: a second's work."""


class Run(msgspec.Struct, frozen=True):
    """One occurrence, as its job knows it."""

    job: str
    key: Key
    ref: Ref
    """Its number in the store."""

    @property
    def id(self) -> OccurrenceId:
        """The id that everybody computes alike."""
        return self.key.id(job_id(self.job))

    @property
    def run_id(self) -> str:
        """How people are told of it: `etl:1767225600`."""
        return run_id(self.job, self.key.instant)

    def __str__(self) -> str:
        return self.run_id


RunLike: TypeAlias = Run | UUID | str
"""An occurrence, its id (as text, too), the run id of a scheduled one, or its number in the store, as text."""


class Finder:
    """Finds occurrences by what people call them. Used on the engine's loop only."""

    def __init__(self) -> None:
        self._seen: deque[Run | Began | Finished] = deque(maxlen=_REMEMBERED_MAX)

    def note(self, seen: Sequence[Run | Began | Finished]) -> None:
        """Remember these. There may be thousands in a second, so their ids are made when somebody looks for one."""
        self._seen.extend(seen)

    async def find(self, store: Store, view: View, wanted: RunLike) -> Run:
        """The occurrence that is meant. Raises NotThere where there is none, or none is known here."""
        match wanted:
            case Run():
                return wanted
            case UUID():
                return await self._by_id(store, view, wanted)
            case str() if (identity := _as_id(wanted)) is not None:
                return await self._by_id(store, view, identity)
            case str() if (number := _as_number(wanted)) is not None:
                return await _by_number(store, view.timeline, number)
            case str():
                return await _by_run_id(store, view.timeline, wanted)

    async def _by_id(self, store: Store, view: View, wanted: UUID) -> Run:
        timeline = view.timeline
        for item in reversed(self._seen):
            if item.key.id(job_id(item.job)) == wanted:
                return Run(item.job, item.key, item.ref)
        for row in await store.read(Active()):
            run = Run(timeline.jobs[row.job].name, row.key, row.ref)
            if run.id == wanted:
                return run
        for back in _LOOKED_BACK:
            keys = await store.read(Decided(view.now() - back, view.now() + SECOND, _LOOKED_AT_MAX))
            key = next((key for key in keys if key.id(job_id(timeline.jobs[key.job].name)) == wanted), None)
            if key is not None:
                row = (await store.read(ByKey((key,))))[key]
                return Run(timeline.jobs[key.job].name, key, row.ref)
            if len(keys) == _LOOKED_AT_MAX:
                break
        raise NotThere(
            f"occurrence {wanted} is neither active nor among the last that this node has seen, or that were due; "
            "give what trigger returned, or the run id of a scheduled one, such as 'etl:1767225600'"
        )


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _as_number(text: str) -> Ref | None:
    """The number that lists print: 412, or #412."""
    digits = text.removeprefix("#")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX
    return Ref(int(digits)) if is_number else None


async def _by_number(store: Store, timeline: Timeline, wanted: Ref) -> Run:
    row = (await store.read(ByRef((wanted,)))).get(wanted)
    if row is None:
        raise NotThere(f"there is no occurrence with the number {wanted} in the store, or it is no longer kept")
    return Run(timeline.jobs[row.job].name, row.key, row.ref)


async def _by_run_id(store: Store, timeline: Timeline, wanted: str) -> Run:
    name, _, seconds = wanted.rpartition(":")
    number = next((row.number for row in timeline.jobs.values() if row.name == name), None)
    if number is None or not seconds.isascii() or not seconds.isdigit() or len(seconds) > 12:
        raise NotThere(f"{shown(wanted)} is not the run id of a job that there is; it looks like 'etl:1767225600'")
    key = Key(int(seconds) * SECOND, number, Kind.SCHEDULED)
    row = (await store.read(ByKey((key,)))).get(key)
    if row is None:
        raise NotThere(f"job {name!r} has no occurrence of its schedule at {seconds} (seconds since the epoch)")
    return Run(name, key, row.ref)
