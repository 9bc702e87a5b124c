"""Changes that users made, newest first: who, when, what and why (Q2, S12).

    changes    entries on the timelines of all jobs: versions, pauses, stops, skips, removals, calendars
    runs       runs that users requested: triggers, replays, backfills

The list of changes is complete and in the order of revisions: it is built once from the timeline, and then extended.
Jobs that were registered together share one line. A store has no order of requested runs, so only recently due ones are
found.
"""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from time import monotonic
from typing import Final

import msgspec

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ByKeyQuery, DecidedQuery, EntriesQuery
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobNumber, Key
from itinerary.model.run_request import RunRequestInfo, read_asked
from itinerary.read.runs import RunView, run_seen
from itinerary.read.snapshot import StoreSnapshot, at
from itinerary.schedules.durations import SECOND

__all__ = ["AskedRun", "AskedRuns", "ChangeEntry", "ChangeLog"]

_LOOKED_BACK: Final = tuple(seconds * SECOND for seconds in (86_400, 3_600, 600, 60))
_KEYS_MAX: Final = 20_000
"""The maximum number of occurrences that are searched for requested runs."""
_RUNS_MAX: Final = 50
_FRESH_FOR: Final = 5.0
_AHEAD: Final = 60 * SECOND
_ASKED_FOR: Final = (Kind.TRIGGER, Kind.REPLAY, Kind.BACKFILL)


class ChangeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A change, or several of one kind that were made together."""

    revision: int
    at: datetime
    by: str
    kind: EntryKind
    job: str | None
    """None: the change affects all jobs."""
    more: int
    """The number of other jobs that the change affects."""
    version: int
    subject: str
    reason: str | None
    effective_from: datetime

    @property
    def instant(self) -> datetime | None:
        """The skipped instant, if the change is a skip."""
        return at(int(self.subject)) if self.kind is EntryKind.SKIP else None


class AskedRun(msgspec.Struct, frozen=True):
    """A run that a user requested."""

    run: RunView
    asked: RunRequestInfo


class AskedRuns(msgspec.Struct, frozen=True):
    """The requested runs that were found, and the start of the searched time."""

    runs: tuple[AskedRun, ...]
    since: datetime


class ChangeLog:
    """The change log of the web server, shared by all users."""

    def __init__(self) -> None:
        self._revision = 0
        self._entries: list[EntryRow] = []
        """The entries in the order of their revisions."""
        self._asked: AskedRuns | None = None
        self._asked_at = float("-inf")

    async def changes(
        self, snapshot: StoreSnapshot, *, before: int | None, limit: int
    ) -> tuple[list[ChangeEntry], int | None]:
        """Return changes before a revision, newest first, and the start of the next page."""
        await self._read(snapshot)
        found: list[ChangeEntry] = []
        entries = (entry for entry in reversed(self._entries) if before is None or entry.revision < before)
        for (revision, *_), group in groupby(entries, key=lambda entry: (entry.revision, entry.kind, entry.entered_by)):
            if len(found) >= limit and revision < found[-1].revision:
                return found, found[-1].revision
            found.append(_change(list(group), snapshot.timeline))
        return found, None

    async def _read(self, snapshot: StoreSnapshot) -> None:
        timeline = snapshot.timeline
        if timeline.revision == self._revision:
            return
        if not self._revision:
            fresh = [entry for job in (FOR_ALL, *timeline.jobs) for entry in _own(timeline, job)]
        else:
            rows = await snapshot.store.read(EntriesQuery(self._revision))
            fresh = [entry for entry in rows if entry.revision <= timeline.revision]
        told = [entry for entry in fresh if entry.kind is not EntryKind.ZONE and entry.revision > self._revision]
        self._entries += sorted(told, key=lambda entry: (entry.revision, entry.line))
        self._revision = (
            timeline.revision if not self._revision else max([self._revision, *(e.revision for e in fresh)])
        )

    async def asked(self, snapshot: StoreSnapshot) -> AskedRuns:
        """Return runs that users requested, newest first."""
        if self._asked is None or monotonic() - self._asked_at > _FRESH_FOR:
            self._asked = await _asked_runs(snapshot)
            self._asked_at = monotonic()
        return self._asked


def _own(timeline: Timeline, job: JobNumber) -> tuple[EntryRow, ...]:
    return timeline.entries_for(job) if job == FOR_ALL else timeline.entries(job)


def _change(entries: list[EntryRow], timeline: Timeline) -> ChangeEntry:
    first = entries[-1]  # `entries` is newest first
    job = timeline.jobs.get(first.job)
    return ChangeEntry(
        revision=first.revision,
        at=at(first.entered_at),
        by=first.entered_by,
        kind=first.kind,
        job=None if job is None else job.name,
        more=len(entries) - 1,
        version=first.version,
        subject=first.subject,
        reason=first.reason,
        effective_from=at(first.effective_from),
    )


async def _asked_runs(snapshot: StoreSnapshot) -> AskedRuns:
    end, back = snapshot.now + _AHEAD, _LOOKED_BACK[-1]
    keys: list[Key] = []
    for back in _LOOKED_BACK:
        keys = list(await snapshot.store.read(DecidedQuery(snapshot.now - back, end, _KEYS_MAX)))
        if len(keys) < _KEYS_MAX:
            break
    wanted = tuple(key for key in keys if key.kind in _ASKED_FOR)[-_RUNS_MAX:]
    rows = await snapshot.store.read(ByKeyQuery(wanted))
    found = []
    for row in sorted(rows.values(), key=lambda row: row.ref, reverse=True):
        try:
            asked = read_asked(row.details)
        except ItineraryError:  # written by another release
            asked = None
        if asked is not None:
            found.append(AskedRun(run_seen(row, snapshot.timeline.jobs[row.job], {}), asked))
    return AskedRuns(tuple(found), at(snapshot.now - back))
