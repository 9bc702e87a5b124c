"""Make a store match the declared jobs, when an operator requests it: show the changes (plan), then write them (apply).

    not stored, or removed            new
    stored, and declared otherwise    changed: the next version, made from the newest
    stored, and declared the same     the same: nothing is entered
    stored, and no longer declared    kept, stopped or removed, if the same source declared it (see `undeclared`)
    stored, and never declared here   another job: unchanged, unless the request names it for removal

A node that starts compares each declaration with the last declaration, and keeps later updates by operators
(`registration`). Apply is stricter: it compares the file with the definition in force, and reverts an update that the
file does not contain. The plan shows the revert.

One transaction enters everything, including zone data and removals. If another caller changes the timeline at the same
time, apply reads the timeline and decides again. Applying the same file twice makes one change.

The comparison of many jobs is slow, so it runs in a thread and does not block the event loop of the caller.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from itinerary.core.timeline.definitions import read_definition, read_schedule
from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import lacking_entries
from itinerary.errors import ConfigError, ItineraryError, NodeError, WindowError
from itinerary.jobs.declaration import Declared
from itinerary.jobs.registration import anchor_of, declared_request, is_same
from itinerary.jobs.undeclared import (
    JobSource,
    is_stopped,
    settling_entry,
    source_entry,
    source_of,
    start_entry,
    was_undeclared,
)
from itinerary.jobs.version_diff import DefaultDifference, default_differences, differ_in_defaults_only, differences
from itinerary.model.policies import UpdatePolicy
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobNumber, JobRow
from itinerary.model.timeline import EntryRefusal, EntryRejected, TimelineEntryRequest
from itinerary.model.version_subject import VersionSubject
from itinerary.model.writes import BATCH_MAX
from itinerary.operations.idempotency import RequestKey
from itinerary.operations.job_changes import ROUNDS_MAX
from itinerary.operations.job_updates import DefinitionChange, Diff, EffectiveFrom, UpdateTerms, is_removed
from itinerary.ports import Store
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND, DurationLike

__all__ = ["AppliedDefault", "AppliedJob", "ApplyOptions", "ApplyResult", "JobApplyResult", "apply_jobs"]

_WINDOW = "1d"
"""The default window in which instants are compared."""
_NOW = EffectiveFrom()


class JobApplyResult(StrEnum):
    """The result of an apply for one job."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    REMOVED = "removed"
    STOPPED = "stopped"
    """The source no longer declares the job."""
    STARTED = "started"
    """The job was stopped because its source no longer declared it, and is declared again."""


class AppliedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an apply for one job, with its details."""

    job: str
    outcome: JobApplyResult
    version: int
    schedule: str
    """The new schedule in words."""
    differences: tuple[str, ...] = ()
    """The differences between the new version and the one before."""
    diff: Diff | None = None
    """The instants that the change adds, removes and keeps; None if the job is unchanged."""
    why: str | None = None
    """Why a job is stopped, started or removed."""


class AppliedDefault(msgspec.Struct, frozen=True, kw_only=True):
    """A value that changes because the defaults of all jobs change."""

    key: str
    before: str
    """The value and its level before: `0 (built in)`, `2 (defaults)`."""
    after: str
    jobs: int
    """The number of jobs with this change."""


class ApplyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a plan or an apply."""

    jobs: tuple[AppliedJob, ...]
    defaults: tuple[AppliedDefault, ...] = ()
    """The values that new defaults change in stored jobs. Every such job gets a new version."""
    others: tuple[str, ...]
    """Jobs of the store that are not declared here and stay unchanged."""
    undeclared: tuple[str, ...] = ()
    """Jobs among `others` that the same source declared earlier, and that are kept."""
    is_applied: bool

    @property
    def is_change(self) -> bool:
        """True if the apply enters, or would enter, anything."""
        return any(job.outcome is not JobApplyResult.SAME for job in self.jobs)

    def count(self, outcome: JobApplyResult) -> int:
        """Return the number of jobs with that outcome."""
        return sum(job.outcome is outcome for job in self.jobs)


class ApplyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a plan or an apply."""

    policy: UpdatePolicy
    reason: str | None = None
    window: int | DurationLike | None = None
    """How far ahead instants are compared: a number of instants or a duration."""
    remove: tuple[str, ...] = ()
    """Jobs to remove."""
    home: JobSource | None = None
    """The source of the declarations, with the policy for jobs that it no longer declares."""
    instants_max: int | None = None
    """The limit of compared instants; above it WindowError is raised. None: no limit."""


async def apply_jobs(
    store: Store,
    declared: Mapping[str, Declared],
    wish: ApplyOptions,
    *,
    by: str,
    zone_data: ZoneData,
    is_plan: bool,
    key: RequestKey | None = None,
    view: StoreView | None = None,
) -> ApplyResult:
    """Make the store match the declared jobs, or return the changes that this would make.

    Args:
        store: The store to change.
        declared: The declared jobs, by name.
        wish: The options.
        by: The user or token that applies.
        zone_data: The zone data of this machine.
        is_plan: True to return the plan and write nothing.
        key: The key of the request. A key that was applied already returns the result of that apply.
        view: A view that has read the timeline; None reads it.

    Raises:
        ConfigError: There are more changes than one transaction can hold.
        NodeError: A job could not be changed, or other callers keep changing the timeline.
    """
    view = await StoreView.of(store) if view is None else view
    for _ in range(ROUNDS_MAX):
        if key is not None and (made := _made_before(view.timeline, key)):
            plan = await asyncio.to_thread(_Plan, view, declared, wish, by, zone_data, key, made)
            return await asyncio.to_thread(plan.told, view.timeline, is_applied=True)
        plan = await asyncio.to_thread(_Plan, view, declared, wish, by, zone_data, key)
        if is_plan or not plan.entries:
            return await asyncio.to_thread(plan.told, view.timeline, is_applied=False)
        if len(plan.entries) > BATCH_MAX:
            raise ConfigError(
                f"{len(plan.entries)} jobs and zones would change, and one transaction has room for {BATCH_MAX}; "
                "apply several smaller files, or start a node with this one"
            )
        answers = await store.amend(plan.entries, judge_by(view.timeline))
        denied = [answer for answer in answers if isinstance(answer, EntryRejected)]
        for answer in denied:
            if answer.why is EntryRefusal.UNKNOWN:
                raise NodeError(f"job {answer.job!r} could not be changed: {answer.why}")
        await view.read()
        if not denied:
            return await asyncio.to_thread(plan.told, view.timeline, is_applied=True)
    raise NodeError("nothing was applied: the timeline changes all the time; try again")


def _made_before(timeline: Timeline, key: RequestKey) -> dict[str, EntryRow]:
    """Return the entries that an earlier request with this key made, by job name."""
    found = ((row.name, key.made(timeline.entries(row.number))) for row in timeline.jobs.values())
    return {name: entry for name, entry in found if entry is not None}


class _Planned(msgspec.Struct, frozen=True):
    """The planned change of one job."""

    row: JobRow
    outcome: JobApplyResult
    entry: TimelineEntryRequest | None
    body: str
    before: str | None
    more: tuple[TimelineEntryRequest, ...] = ()
    """Entries in addition to `entry`: the job starts again, or has another source."""

    @property
    def first(self) -> TimelineEntryRequest | None:
        """The entry that decides the outcome."""
        if self.entry is not None or self.outcome is JobApplyResult.SAME:
            return self.entry
        return self.more[0]


class _Plan:
    """The entries that an apply would make now, and the result."""

    def __init__(
        self,
        view: StoreView,
        declared: Mapping[str, Declared],
        wish: ApplyOptions,
        by: str,
        zone_data: ZoneData,
        key: RequestKey | None = None,
        made: Mapping[str, EntryRow] | None = None,
    ) -> None:
        """Plan the entries. `made` has those of an earlier request with the same key; then none is new."""
        self._timeline, self._now, self._by, self._wish = view.timeline, view.now(), by, wish
        self._key, self._made = key, made
        window = _WINDOW if wish.window is None and not wish.policy.is_windowed else wish.window
        self._terms = UpdateTerms(DefinitionChange(policy=wish.policy, window=window), wish.policy)
        self._zone_data = zone_data
        self._rows = {row.name: row for row in self._timeline.jobs.values()}
        self._jobs = [self._planned(declaration, place) for place, declaration in enumerate(declared.values(), 1)]
        self._jobs += [self._removal(name, declared) for name in dict.fromkeys(wish.remove)]
        undeclared = self._undeclared(declared)
        is_kept = wish.home is None or wish.home.undeclared is None or wish.home.undeclared.keeps
        self._jobs += [] if is_kept else [self._settled(row) for row in undeclared]
        planned = {job.row.name for job in self._jobs}
        self._kept = tuple(row.name for row in undeclared if row.name not in planned)
        self._others = tuple(
            row.name
            for row in self._timeline.jobs.values()
            if row.name not in planned and not is_removed(self._timeline, row)
        )
        self._zones = self._lacking(self._zones_needed(declared))

    @property
    def entries(self) -> list[TimelineEntryRequest]:
        """The entries of the plan; empty if nothing changes."""
        made = [entry for job in self._jobs for entry in (job.entry, *job.more) if entry is not None]
        return [*self._zones, *made] if made else []

    def _zones_needed(self, declared: Mapping[str, Declared]) -> Iterable[str]:
        changed = [job.row.name for job in self._jobs if job.entry is not None and job.row.name in declared]
        return {zone for name in changed for zone in declared[name].zone_names()}

    def _planned(self, declaration: Declared, place: int) -> _Planned:
        row = self._rows.get(declaration.name)
        if row is not None and self._made is not None:
            return self._as_made(row, self._made.get(row.name))
        if row is None:
            number = JobNumber(max(self._timeline.jobs, default=0) + place)
            row = JobRow(number, declaration.name, self._now, 0, self._now)
            body = declaration.body(self._now // SECOND)
            return _Planned(row, JobApplyResult.NEW, self._version(row, body), body, None)
        row, stored = self._newest(row)
        body = declaration.body(anchor_of(stored, row))
        if is_removed(self._timeline, row):
            return _Planned(row, JobApplyResult.NEW, self._version(row, body), body, None)
        if is_same(stored, body):
            more = self._more(row, has_version=False)
            is_started = any(entry.kind is EntryKind.START for entry in more)
            return _Planned(
                row, JobApplyResult.STARTED if is_started else JobApplyResult.SAME, None, body, stored, more
            )
        zones = self._zone_rows(self._lacking(declaration.zone_names()))
        beginning = self._terms.beginning(self._timeline, row, self._now, body, zones)
        version = self._version(row, body, beginning, stored)
        return _Planned(row, JobApplyResult.CHANGED, version, body, stored, self._more(row, has_version=True))

    def _lacking(self, names: Iterable[str]) -> list[TimelineEntryRequest]:
        """Return entries for those zones that the timeline does not have."""
        revision = self._timeline.revision
        return lacking_entries(self._timeline.zones, self._zone_data, names, by=self._by, revision=revision)

    def _zone_rows(self, zones: Iterable[TimelineEntryRequest]) -> list[EntryRow]:
        """Return the rows that zone entries would become."""
        return [self._as_if(entry, FOR_ALL, line, 0) for line, entry in enumerate(zones)]

    def _more(self, row: JobRow, *, has_version: bool) -> tuple[TimelineEntryRequest, ...]:
        """Return the additional entries of a declared job: its restart, and its new source."""
        home, entries = self._wish.home, self._timeline.entries(row.number)
        if home is None:
            return ()
        more = []
        if was_undeclared(entries):
            more.append(start_entry(row.name, home.source, by=self._by, revision=self._timeline.revision))
        if not has_version and source_of(entries) != home.source:
            more.append(source_entry(row.name, home.source, by=self._by, revision=self._timeline.revision))
        return tuple(more)

    def _undeclared(self, declared: Mapping[str, Declared]) -> list[JobRow]:
        """Return active jobs that the same source declared earlier and does not declare now."""
        home = self._wish.home
        if home is None or self._made is not None:
            return []
        is_removal = home.undeclared is not None and home.undeclared.removes
        return [
            row
            for row in self._timeline.jobs.values()
            if row.name not in declared
            and row.name not in self._wish.remove
            and source_of(self._timeline.entries(row.number)) == home.source
            and not is_removed(self._timeline, row)
            and (is_removal or not is_stopped(self._timeline.entries(row.number)))
        ]

    def _settled(self, row: JobRow) -> _Planned:
        """Plan the stop or removal of an undeclared job."""
        assert self._wish.home is not None, "undeclared jobs have a source"
        row, stored = self._newest(row)
        body = stored or ""
        entry = settling_entry(row.name, self._wish.home, by=self._by, revision=self._timeline.revision)
        outcome = JobApplyResult.REMOVED if entry.kind is EntryKind.REMOVE else JobApplyResult.STOPPED
        return _Planned(row, outcome, entry, body, body)

    def _as_made(self, row: JobRow, made: EntryRow | None) -> _Planned:
        """Return the change of a job that the first request with this key made."""
        earlier = [
            entry for entry in self._timeline.entries(row.number) if made is None or entry.revision < made.revision
        ]
        bodies = [entry.body or "" for entry in earlier if entry.kind is EntryKind.VERSION]
        before = bodies[-1] if bodies else None
        if made is None:
            return _Planned(self._newest(row)[0], JobApplyResult.SAME, None, before or "", before)
        status = [entry.kind for entry in earlier if entry.kind in (EntryKind.VERSION, EntryKind.REMOVE)]
        is_new = not status or status[-1] is EntryKind.REMOVE
        entry = TimelineEntryRequest(job=row.name, kind=made.kind, request=made.request, by=made.entered_by)
        if made.kind is EntryKind.REMOVE:
            return _Planned(row, JobApplyResult.REMOVED, entry, before or "", before)
        outcome = JobApplyResult.NEW if is_new else JobApplyResult.CHANGED
        return _Planned(row, outcome, entry, made.body or "", None if is_new else before)

    def _newest(self, row: JobRow) -> tuple[JobRow, str | None]:
        """Return a job with its newest version and body: the row may be older than the newest entry."""
        newest = self._timeline.newest(row.number)
        return (row, None) if newest is None else (replace(row, version=newest.version), newest.body)

    def _version(
        self, row: JobRow, body: str, beginning: EffectiveFrom = _NOW, stored: str | None = None
    ) -> TimelineEntryRequest:
        return TimelineEntryRequest(
            job=row.name,
            kind=EntryKind.VERSION,
            request=self._request(declared_request(body, row.version)),
            by=self._by,
            effective_from=beginning.effective_from,
            from_version=row.version,
            revision=self._timeline.revision,
            subject=VersionSubject("" if self._wish.home is None else self._wish.home.source, beginning.first_at).text,
            body=body,
            reason=_why(stored, body) if self._wish.reason is None else self._wish.reason,
        )

    def _request(self, what: str) -> str:
        return what if self._key is None else self._key.request(what)

    def _removal(self, name: str, declared: Mapping[str, Declared]) -> _Planned:
        row = self._rows.get(name)
        if name in declared:
            raise ConfigError(f"job {name!r} is to be removed, and is declared here; take one of the two back")
        if row is None:
            raise ConfigError(f"job {name!r} is to be removed, and is not in the store; see how it is spelt")
        if self._made is not None:
            return self._as_made(row, self._made.get(name))
        row, stored = self._newest(row)
        body = stored or ""
        if is_removed(self._timeline, row):
            return _Planned(row, JobApplyResult.SAME, None, body, body)
        entry = TimelineEntryRequest(
            job=name,
            kind=EntryKind.REMOVE,
            request=f"remove/{uuid4()}" if self._key is None else self._key.request("remove"),
            by=self._by,
            revision=self._timeline.revision,
            reason=self._wish.reason,
        )
        return _Planned(row, JobApplyResult.REMOVED, entry, body, body)

    # -- the result --------------------------------------------------------------------------------------------------

    def told(self, timeline: Timeline, *, is_applied: bool) -> ApplyResult:
        """Return the result for each job. `timeline` contains the entries if they have been made."""
        numbers = {row.name: row for row in timeline.jobs.values()}
        zones = [] if is_applied else self._zone_rows(self._zones)
        jobs, count = [], 0
        for job in self._jobs:
            diff, first = None, job.first
            if first is not None and is_applied:
                row = numbers[job.row.name]
                made = next(entry for entry in timeline.entries(row.number) if entry.request == first.request)
                diff = self._diff(row, timeline.entries_for(row.number), made, is_applied=True)
            elif first is not None:
                version = job.row.version + (first.kind is EntryKind.VERSION)
                made = self._as_if(first, job.row.number, len(zones), version)
                more = [
                    self._as_if(entry, job.row.number, len(zones) + place, version)
                    for place, entry in enumerate(job.more, 1)
                    if entry is not first
                ]
                entries = (*timeline.entries_for(job.row.number), *zones, made, *more)
                diff = self._diff(job.row, entries, made, is_applied=False)
            jobs.append(_told(job, diff))
            count += 0 if diff is None else len(diff.added) + len(diff.removed) + len(diff.kept)
            if self._wish.instants_max is not None and count > self._wish.instants_max:
                raise WindowError(
                    f"the comparison holds more than {self._wish.instants_max:,} instants, the most that a request may "
                    "ask for; give a shorter window or fewer jobs, or use `itinerary plan`"
                )
        return ApplyResult(
            jobs=tuple(jobs),
            defaults=_defaults(self._jobs),
            others=self._others,
            undeclared=self._kept,
            is_applied=is_applied,
        )

    def _as_if(self, entry: TimelineEntryRequest, number: JobNumber, line: int, version: int) -> EntryRow:
        """Return the row that an entry would become."""
        effective_from = self._now if entry.effective_from is None else entry.effective_from
        return EntryRow(
            self._timeline.revision + 1,
            line,
            number,
            entry.kind,
            entry.request,
            effective_from,
            self._now,
            self._by,
            version,
            entry.subject,
            entry.body,
            entry.reason,
        )

    def _diff(self, row: JobRow, entries: Sequence[EntryRow], made: EntryRow, *, is_applied: bool) -> Diff | None:
        try:
            diff = self._terms.diff(row, tuple(entries), made, is_applied=is_applied)
        except ItineraryError:
            return None  # an old schedule that cannot be enumerated here must not prevent its replacement
        return diff if made.kind is EntryKind.VERSION else replace(diff, from_version=diff.version)


def _why(stored: str | None, body: str) -> str:
    """Return the reason of a new version, for an operator who gives none."""
    try:
        is_default = stored is not None and differ_in_defaults_only(read_definition(stored), read_definition(body))
    except ItineraryError:
        return "applied"  # the stored definition cannot be read here, and is replaced
    return "applied: the defaults of all jobs changed" if is_default else "applied"


def _told(job: _Planned, diff: Diff | None) -> AppliedJob:
    return AppliedJob(
        job=job.row.name,
        outcome=job.outcome,
        version=job.row.version if diff is None else diff.version,
        schedule=_in_words(job.body),
        differences=() if job.before is None or job.before == job.body else _differences(job.before, job.body),
        diff=diff,
        why=None if job.first is None or job.first.kind is EntryKind.VERSION else job.first.reason,
    )


def _defaults(jobs: Iterable[_Planned]) -> tuple[AppliedDefault, ...]:
    """Count the values that new defaults change, over all jobs."""
    counts: Counter[DefaultDifference] = Counter()
    for job in jobs:
        if job.outcome is JobApplyResult.CHANGED and job.before is not None:
            try:
                found = default_differences(read_definition(job.before), read_definition(job.body))
            except ItineraryError:
                continue  # the stored definition cannot be read here; the differences of the job report that
            counts.update(one for one in found if not one.is_of_job)
    return tuple(
        AppliedDefault(key=one.key, before=one.before, after=one.after, jobs=count) for one, count in counts.items()
    )


def _in_words(body: str) -> str:
    try:
        return str(read_schedule(body))
    except ItineraryError:
        return "a schedule that cannot be read here"


def _differences(before: str, after: str) -> tuple[str, ...]:
    try:
        return differences(read_definition(before), read_definition(after))
    except ItineraryError as error:
        return (f"what is stored cannot be read here, and is replaced: {error}",)
