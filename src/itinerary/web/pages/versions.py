"""Changes of a job, with users and reasons, and the occurrences that they added and removed (R6, R7).

The effect of a change is computed by comparing two enumerations, which is slow. The result never changes, so it is
kept. If many changes are not compared yet, some are left for the next rendering of the page, a second later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from itinerary.core.timeline.diff import compare
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.jobs.version_diff import differences
from itinerary.model.rows import EntryKind, EntryRow, JobNumber, JobRow
from itinerary.read.snapshot import StoreSnapshot, at, moment

__all__ = ["ChangeDrawn", "VersionChanges", "VersionEffect"]

SHOWN_MAX: Final = 20
_COMPARED: Final = 100
"""The number of next occurrences over which a change is compared."""
_COMPARED_FOR: Final = 0.05
"""The seconds after which the remaining comparisons are left for the next rendering."""
_KEPT_MAX: Final = 2_000
_NAMED_MAX: Final = 5
_TOLD_MAX: Final = 12
"""The maximum numbers of instants, and of sentences, that are shown."""


class VersionEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a version."""

    told: tuple[str, ...] = ()
    """The differences in words, one sentence each."""
    more_told: int = 0
    until: datetime | None = None
    """The end of the comparison."""
    added: tuple[datetime, ...] = ()
    removed: tuple[datetime, ...] = ()
    added_count: int = 0
    removed_count: int = 0
    kept_count: int = 0
    why_not: str | None = None
    """Why the effect cannot be computed."""


class ChangeDrawn(msgspec.Struct, frozen=True, kw_only=True):
    """An entry on the job's timeline."""

    what: str
    effective_from: datetime
    entered_at: datetime | None
    by: str
    reason: str | None
    is_first: bool
    is_compared: bool
    """True if this is a version that follows another one."""
    meant: VersionEffect | None
    """The effect of the version, once it is compared."""


class VersionChanges:
    """The changes of jobs, with a cache of their effects."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[tuple[JobNumber, int], VersionEffect] = {}

    def last(self, snapshot: StoreSnapshot, job: JobRow) -> tuple[list[ChangeDrawn], int]:
        """Return the latest changes of a job, newest first, and the number of further ones."""
        entries = sorted(
            snapshot.timeline.entries(job.number), key=lambda entry: (entry.revision, entry.line), reverse=True
        )
        began = self._clock()
        drawn = [self._drawn(snapshot.timeline, job, entry, began) for entry in entries[:SHOWN_MAX]]
        return drawn, max(len(entries) - SHOWN_MAX, 0)

    def _drawn(self, timeline: Timeline, job: JobRow, entry: EntryRow, began: float) -> ChangeDrawn:
        is_version = entry.kind is EntryKind.VERSION
        is_first = is_version and entry.version == 1
        meant = None
        if is_version and not is_first:
            meant = self._kept.get((job.number, entry.revision))
            if meant is None and self._clock() - began < _COMPARED_FOR:
                meant = self._kept[job.number, entry.revision] = _meant(timeline, job, entry)
                if len(self._kept) > _KEPT_MAX:
                    del self._kept[next(iter(self._kept))]
        return ChangeDrawn(
            what=f"version {entry.version}" if is_version else str(entry.kind).replace("_", " "),
            effective_from=at(entry.effective_from),
            entered_at=moment(entry.entered_at),
            by=entry.entered_by,
            reason=entry.reason,
            is_first=is_first,
            is_compared=is_version and not is_first,
            meant=meant,
        )


def _meant(timeline: Timeline, job: JobRow, entry: EntryRow) -> VersionEffect:
    try:
        old, new = (timeline.definition(job.number, version) for version in (entry.version - 1, entry.version))
        told = differences(old, new)
        found = compare(job, timeline.entries_for(job.number), entry.revision, count=_COMPARED)
    except ItineraryError as error:
        return VersionEffect(why_not=str(error))
    return VersionEffect(
        told=told[:_TOLD_MAX],
        more_told=max(len(told) - _TOLD_MAX, 0),
        until=at(found.end),
        added=tuple(at(instant) for instant in found.added[:_NAMED_MAX]),
        removed=tuple(at(instant) for instant in found.removed[:_NAMED_MAX]),
        added_count=len(found.added),
        removed_count=len(found.removed),
        kept_count=len(found.kept),
    )
