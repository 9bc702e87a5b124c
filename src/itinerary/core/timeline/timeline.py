"""The timeline, read as history: what was, is and will be in force for every job (protocol rule 3, S11, S12).

    EntryRows ─► Timeline ─► in_force(job, instant)      one version, one status: active, paused, stopped, removed
                         ├─► expected(start, end)        the instants that are due, to run or to be skipped
                         ├─► expected_next(start, end)   the same, for callers with one short window after another
                         └─► catalogue(now)              the existing jobs, with their newest definitions

Every component that decides about instants asks the timeline. The index looks ahead with it, and the sweep and the
recovery look back. An audit a year later gets the same answer. A version that takes effect in five minutes has its
instants after that time only.

A Timeline never changes. New entries make a new one (`extended`), which shares all unchanged jobs with the old one. So
100,000 jobs are folded and compiled once, and a pause of one job costs the work of one job.

All instants come from the zone data on the timeline, and from no other source (`zone_history`). So all nodes that have
read up to the same revision expect the same instants. Calendars are stored and can be looked up; their effect on a
schedule was fixed when the schedule was bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from itinerary.core.timeline.compiled import Layer
from itinerary.core.timeline.definitions import read_definition, read_schedule
from itinerary.core.timeline.expected import Expected, joined
from itinerary.core.timeline.history import (
    FOREVER,
    HistorySegment,
    JobActive,
    JobHistory,
    JobPaused,
    JobRemoved,
    JobStatus,
    JobStopped,
    fold,
)
from itinerary.core.timeline.index_source import Rejected
from itinerary.core.timeline.zone_history import ZoneBook
from itinerary.errors import RecordError
from itinerary.model.definition import Definition
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobNumber, JobRow
from itinerary.schedules import Schedule
from itinerary.schedules.instants import MICROSECONDS
from itinerary.schedules.reboot import Reboot

__all__ = ["Catalogue", "ListedJob", "Timeline"]

_CHANGED_MAX: Final = 1_000
"""The number of changed jobs above which all jobs are compiled again."""
_REACH: Final = 86_400 * MICROSECONDS
"""The time before the first requested window that the compiled jobs also cover."""
_AHEAD_WINDOWS: Final = 16
_AHEAD_SECONDS: Final = 2_000_000
"""The limits on how far ahead `expected_next` enumerates: windows, and seconds times jobs.

Seconds times jobs is the largest possible number of instants.
"""


class ListedJob(msgspec.Struct, frozen=True):
    """A job that exists now or will exist later."""

    job: JobRow
    version: int
    """The newest version of the job, in force or not yet."""
    body: str | None
    status: JobStatus | None
    """The status of the job now; None if its first version is not in force yet."""

    @property
    def definition(self) -> Definition:
        """The newest definition of the job. Raises RecordError if it cannot be read."""
        return read_definition(self.body)

    @property
    def schedule(self) -> Schedule:
        """The schedule in the newest definition. Raises an ItineraryError if it cannot be read."""
        return read_schedule(self.body)


class Catalogue(msgspec.Struct, frozen=True):
    """The existing jobs, by number, and the jobs whose entries cannot be read."""

    jobs: tuple[ListedJob, ...]
    rejected: tuple[Rejected, ...]


class _Compiled(NamedTuple):
    """The jobs as they were compiled, and those that have changed since."""

    all: Layer | None
    recent: Layer | None
    changed: frozenset[JobNumber]


class Timeline:
    """The entries of all jobs, up to one revision. Build it with `Timeline.of`, and add entries with `extended`."""

    __slots__ = ("_ahead", "_compiled", "_entries", "_for_all", "_histories", "jobs", "revision", "zones")

    jobs: Mapping[JobNumber, JobRow]
    revision: int
    """The last revision that this timeline contains."""
    zones: ZoneBook
    """The tables of time zones on this timeline."""

    def __init__(self) -> None:
        """Make a timeline without entries."""
        self._entries: dict[JobNumber, tuple[EntryRow, ...]] = {}
        self._for_all: tuple[EntryRow, ...] = ()
        self._histories: dict[JobNumber, JobHistory | RecordError] = {}
        self._compiled: _Compiled = _Compiled(None, None, frozenset())
        self._ahead: Expected | None = None
        self.jobs = {}
        self.revision = 0
        self.zones = ZoneBook()

    @classmethod
    def of(cls, entries: Iterable[EntryRow], jobs: Iterable[JobRow]) -> Timeline:
        """Return the timeline of these entries.

        Read the jobs from the store after the entries, so that none is missing.
        """
        return cls().extended(entries, jobs)

    def extended(self, entries: Iterable[EntryRow], jobs: Iterable[JobRow] = ()) -> Timeline:
        """Return this timeline with later entries added. `jobs` are the new and changed ones."""
        rows = {**self.jobs, **{row.number: row for row in jobs}}
        fresh: dict[JobNumber, list[EntryRow]] = {}
        revision = self.revision
        for entry in entries:
            assert entry.revision > self.revision, "entries are appended, revision by revision"
            assert entry.job in rows or entry.job == FOR_ALL, "jobs are read after their entries"
            fresh.setdefault(entry.job, []).append(entry)
            revision = max(revision, entry.revision)
        later = Timeline()
        later.jobs, later.revision = MappingProxyType(rows), revision
        for_all = fresh.pop(FOR_ALL, [])
        later._for_all, later.zones = (*self._for_all, *for_all), self.zones.extended(for_all)
        later._entries = {**self._entries, **{job: (*self._entries.get(job, ()), *fresh[job]) for job in fresh}}
        later._histories = {job: known for job, known in self._histories.items() if job not in fresh}
        if later.zones is self.zones:
            later._compiled = _Compiled(self._compiled.all, None, self._compiled.changed.union(fresh))
        return later

    # -- one job -----------------------------------------------------------------------------------------------------

    def history(self, job: JobNumber) -> JobHistory:
        """Return the whole history of a job. Raises RecordError if one of its entries cannot be read."""
        history = self._history(job)
        if isinstance(history, RecordError):
            raise RecordError(str(history))  # a new error, since the old one would collect a traceback with each raise
        return history

    def _history(self, job: JobNumber) -> JobHistory | RecordError:
        known = self._histories.get(job)
        if known is None:
            try:
                known = fold(self._entries.get(job, ()))
            except RecordError as error:
                known = error
            self._histories[job] = known
        return known

    def segments(self, job: JobNumber, start: int, end: int) -> list[HistorySegment]:
        """Return the history segments of a job in `[start, end)`, in order. There are none before its first version."""
        return [
            replace(segment, start=max(segment.start, start), end=min(segment.end, end))
            for segment in self.history(job).segments
            if segment.start < end and start < segment.end
        ]

    def in_force(self, job: JobNumber, instant: int) -> HistorySegment | None:
        """Return the whole history segment of a job that contains an instant; None before its first version."""
        segments = self.history(job).segments
        place = bisect_right(segments, instant, key=lambda segment: segment.start) - 1
        return segments[place] if place >= 0 and instant < segments[place].end else None

    def entries(self, job: JobNumber) -> tuple[EntryRow, ...]:
        """Return a job's own entries, in the order in which they were made."""
        return self._entries.get(job, ())

    def entries_for(self, job: JobNumber) -> tuple[EntryRow, ...]:
        """Return all entries that decide about a job's instants: its own, and those for all jobs."""
        return (*self._for_all, *self.entries(job))

    def newest(self, job: JobNumber) -> EntryRow | None:
        """Return the entry of a job's newest version, in force or not."""
        return next((entry for entry in reversed(self.entries(job)) if entry.kind is EntryKind.VERSION), None)

    def why_skipped(self, job: JobNumber, instant: int) -> str | None:
        """Return the recorded reason to skip an instant of a job; None if the instant is to run."""
        history = self._history(job)
        if isinstance(history, RecordError):
            return None
        segment = self.in_force(job, instant)
        if segment is not None and isinstance(segment.status, JobPaused):
            return str(segment.status)
        return next((str(skip) for skip in history.skips if skip.instant == instant), None)

    def next_run(self, job: JobNumber, after: int) -> int | None:
        """Return the first instant later than `after` that is to run; None if the job is stopped, finished or removed.

        Raises:
            ItineraryError: The version in force cannot be read, or its schedule misbehaves.
        """
        return self._first_instant(job, after, (JobActive,))

    def next_instant(self, job: JobNumber, after: int) -> int | None:
        """Return the first instant later than `after` that is to run.

        During a pause without an end, this is the first instant of the paused schedule.

        Returns:
            The instant, or None if the job is stopped, finished or removed.

        Raises:
            ItineraryError: The version in force cannot be read, or its schedule misbehaves.
        """
        found = self.next_run(job, after)
        return self._first_instant(job, after, (JobActive, JobPaused)) if found is None else found

    def is_finished(self, job: JobNumber, after: int) -> bool:
        """True if no instant of the job is later than `after`, whether the job is active, paused or stopped.

        A job that runs at each start of a node has no instants, and never finishes.

        Raises:
            ItineraryError: The version in force cannot be read, or its schedule misbehaves.
        """
        segment = self.in_force(job, after)
        if segment is not None and isinstance(segment.schedule, Reboot):
            return False
        return self._first_instant(job, after, (JobActive, JobPaused, JobStopped)) is None

    def _first_instant(self, job: JobNumber, after: int, standings: tuple[type[JobStatus], ...]) -> int | None:
        """Return the first instant later than `after` in segments with these statuses, without skipped ones."""
        skipped = {skip.instant for skip in self.history(job).skips}
        for segment in self.segments(job, after, FOREVER):
            if not isinstance(segment.status, standings) or segment.due_from >= segment.end:
                continue
            schedule = segment.schedule
            for span in self.zones.spans(schedule.zone_names(), segment.due_from, segment.end):
                second = max(after, span.start - 1) // MICROSECONDS
                while (found := schedule.next_second(second, span.zones)) is not None:
                    if found * MICROSECONDS >= span.end:
                        break
                    if found * MICROSECONDS not in skipped:
                        return found * MICROSECONDS
                    second = found
        return None

    def definition(self, job: JobNumber, version: int) -> Definition:
        """Return the definition of a job's version, in force or not. Raises RecordError if it cannot be read."""
        return read_definition(self._version(job, version).body)

    def schedule(self, job: JobNumber, version: int) -> Schedule:
        """Return the schedule of a job's version. Raises an ItineraryError if it cannot be read."""
        return read_schedule(self._version(job, version).body)

    def _version(self, job: JobNumber, version: int) -> EntryRow:
        for entry in reversed(self._entries.get(job, ())):
            if entry.kind is EntryKind.VERSION and entry.version == version:
                return entry
        raise RecordError(f"job {job} has no version {version} up to revision {self.revision}; read the timeline again")

    # -- many jobs ---------------------------------------------------------------------------------------------------

    def expected(self, start: int, end: int, jobs: Sequence[JobNumber] | None = None) -> Expected:
        """Return every instant in `[start, end)` that the versions in force make due: of these jobs, or of all.

        A job that cannot be enumerated has a gap there, and the other jobs are not affected.

        Raises:
            WindowError: There are more instants than one call returns. Request a shorter window, or fewer jobs.
        """
        end = max(start, end)
        if jobs is not None:
            known = sorted(self._entries.keys() & set(jobs))
            return Layer.of(((job, self._history(job)) for job in known), start, end, self.zones).expected(start, end)
        compiled = self._reaching(start)
        assert compiled.all is not None, "it was compiled a moment ago"
        if compiled.recent is None:
            return compiled.all.expected(start, end)
        return joined([compiled.all.expected(start, end, compiled.changed), compiled.recent.expected(start, end)])

    def expected_next(self, start: int, end: int) -> Expected:
        """Return `expected` of all jobs, for callers that request one short window after another, as sweeps do.

        Enumerating sixteen windows costs little more than enumerating one, so most answers are ready in advance.

        Raises:
            WindowError: There are more instants than one call returns.
        """
        ahead = self._ahead
        if ahead is None or start < ahead.start or ahead.end < end:
            seconds = _AHEAD_SECONDS // max(len(self._entries), 1)
            reach = min((end - start) * _AHEAD_WINDOWS, seconds * MICROSECONDS)
            if reach < 2 * (end - start):
                return self.expected(start, end)
            ahead = self._ahead = self.expected(start, start + reach)  # one assignment: another thread may read it
        return self.expected(start, end) if ahead.gaps else ahead.within(start, end)

    def _reaching(self, start: int) -> _Compiled:
        """Compile all jobs for windows from `start` on. Cache the result unless `start` is before the cached one."""
        compiled = self._compiled
        if compiled.all is None or len(compiled.changed) > _CHANGED_MAX:
            compiled = _Compiled(self._layer(self._entries, start - _REACH), None, frozenset())
        elif start < compiled.all.since:
            return _Compiled(self._layer(self._entries, start), None, frozenset())
        elif compiled.changed and compiled.recent is None:
            compiled = compiled._replace(recent=self._layer(compiled.changed, compiled.all.since))
        else:
            return compiled
        self._compiled = compiled  # one assignment: another thread may read it
        return compiled

    def _layer(self, jobs: Iterable[JobNumber], since: int) -> Layer:
        return Layer.of(((job, self._history(job)) for job in sorted(jobs)), since, FOREVER, self.zones)

    def catalogue(self, now: int) -> Catalogue:
        """Return every job that has a version in force now, or later."""
        listed: list[ListedJob] = []
        rejected: list[Rejected] = []
        for number in sorted(self._entries):
            job, history = self.jobs[number], self._history(number)
            if isinstance(history, RecordError):
                rejected.append(Rejected(job.name, str(history)))
                continue
            ahead = [segment for segment in history.segments if now < segment.end]
            lasting = [segment for segment in ahead if not isinstance(segment.status, JobRemoved)]
            if lasting:
                status = ahead[0].status if ahead[0].start <= now else None
                listed.append(ListedJob(job, lasting[-1].version, lasting[-1].body, status))
        return Catalogue(tuple(listed), tuple(rejected))

    # -- time zones --------------------------------------------------------------------------------------------------

    def zones_needed(self, start: int) -> frozenset[str]:
        """Return every time zone that a job needs from `start` on. `expected` reuses the jobs compiled for this."""
        compiled = self._reaching(start)
        return frozenset[str]().union(*(layer.zones for layer in (compiled.all, compiled.recent) if layer is not None))
