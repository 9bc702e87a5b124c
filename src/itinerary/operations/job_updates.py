"""Updates of a job: the next version, made from a named one, with a preview of the changes (R6, R7).

    plan_update    return the difference that a change would make, and write nothing
    update         make the change: the entry and the new decisions on claimed occurrences, in one transaction
    rollback       a new version with the content of an old one

A change names the version that it was made from. If a newer version exists the change is refused, and the error names
its author. A digest of the content identifies a request. So a request that is sent twice, for example after a lost
answer, makes one change.

    immediate    in force from now on
    graceful     the next instant of the old version still runs; the first new instant is the first one at least half
                 of the new schedule's interval after it. Or in force from a given time on
    windowed     in force from now on; only a number of next occurrences, or a duration, is compared

Rows exist only for claimed occurrences, a few seconds ahead. No policy has to create other rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from itinerary.core.timeline.definitions import read_definition, read_schedule
from itinerary.core.timeline.diff import INSTANTS_MAX, Difference, Handover, compare, hand_over
from itinerary.core.timeline.history import JobRemoved
from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import lacking_entries
from itinerary.errors import ConfigError, NodeError, StaleVersion
from itinerary.jobs.declaration import DEFINITION_MAX, DeclarationContext
from itinerary.jobs.registration import anchor_of, is_same
from itinerary.model.codec import to_json
from itinerary.model.config import check_timeouts
from itinerary.model.definition import Definition
from itinerary.model.overrides import OverrideLevel, laid_over, left_unset, read_overrides
from itinerary.model.policies import UpdatePolicy
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobRow
from itinerary.model.text import shown
from itinerary.model.timeline import EntryRefusal, EntryRejected, TimelineEntryRequest
from itinerary.model.validators import one_of
from itinerary.model.version_subject import VersionSubject
from itinerary.operations.idempotency import RequestKey
from itinerary.operations.job_changes import ROUNDS_MAX
from itinerary.ports import Store
from itinerary.read.timeline_view import TimelineView
from itinerary.schedules import Binding, Schedule
from itinerary.schedules.durations import SECOND, DurationLike, parse_duration
from itinerary.schedules.instants import InstantLike, from_seconds, microseconds_of, shown_instant

__all__ = ["DefinitionChange", "Diff", "UpdateTerms", "Updates", "is_removed"]

Permit: TypeAlias = Callable[[str, Definition, Definition], None]
"""A check of a new version, which raises an error to refuse it.

Receives the job name, the new definition, and a stored one: the newest, or the target version of a rollback.
"""
_OCCURRENCES: Final = 100
"""The number of occurrences that a windowed update compares by default."""


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of an update: instants in `[window_start, window_end)`, in order."""

    job: str
    policy: UpdatePolicy
    from_version: int
    """The version that the update was made from."""
    version: int
    """The new version; equal to `from_version` if nothing changes."""
    effective_from: datetime | None
    """When the new version takes effect; None if nothing changes."""
    first_at: datetime | None = None
    """The first instant from `effective_from` on; None if there is none or nothing changes."""
    window_start: datetime
    window_end: datetime
    added: tuple[datetime, ...] = ()
    removed: tuple[datetime, ...] = ()
    kept: tuple[datetime, ...] = ()
    """Instants of both versions: they take the new configuration from `effective_from` on."""
    is_applied: bool = False

    @property
    def is_change(self) -> bool:
        """True if the update differs from the newest version."""
        return self.version != self.from_version


class DefinitionChange(msgspec.Struct, frozen=True, kw_only=True):
    """The requested change of a job."""

    schedule: Schedule | None = None
    options: Mapping[str, object] = {}
    to_version: int | None = None
    """The version to roll back to, regardless of later changes."""
    policy: str | None = None
    from_version: int | None = None
    effective_from: InstantLike | None = None
    window: int | DurationLike | None = None
    reason: str | None = None


class Updates:
    """New versions of jobs, on behalf of one caller."""

    def __init__(
        self,
        store: Store,
        view: TimelineView,
        by: str,
        rules: DeclarationContext,
        policy: Callable[[], UpdatePolicy],
        permit: Permit | None = None,
    ) -> None:
        """Create the updates of one caller.

        Args:
            store: The store to change.
            view: The timeline and the time of the store.
            by: The user or token that makes the versions.
            rules: The rules that a definition must satisfy.
            policy: Returns the policy of changes that name none.
            permit: A check before each version is made or planned, which raises an error to refuse; None permits every
                version.
        """
        self._store, self._view, self._by, self._rules, self._policy = store, view, by, rules, policy
        self._permit = permit

    async def update(
        self, name: str, change: DefinitionChange, *, is_plan: bool = False, key: RequestKey | None = None
    ) -> Diff:
        """Make a version, or return the changes that it would make.

        Args:
            name: The job.
            change: The requested change.
            is_plan: True to write nothing.
            key: The idempotency key.

        Raises:
            ConfigError: The new definition is not valid.
            StaleVersion: There is a newer version than the one that the change was made from.
            NodeError: The job was removed, or other callers keep changing the timeline.
        """
        terms = UpdateTerms(change, self._policy())
        for _ in range(ROUNDS_MAX):
            timeline, job = self._view.timeline, self._view.job(name)
            if key is not None and (made := key.made(timeline.entries(job.number))) is not None:
                return terms.diff(job, timeline.entries_for(job.number), made, is_applied=True)
            newest = self._newest(timeline, job)
            base = self._base(timeline, job, newest, change.from_version)
            body = self._body(job, timeline, base, change)
            if self._permit is not None:
                stored = body if change.to_version is not None else newest.body
                self._permit(name, read_definition(body), read_definition(stored))
            request = _request(base.version, body, terms) if key is None else key.request("update")
            made = next((entry for entry in timeline.entries(job.number) if entry.request == request), None)
            if made is not None:
                return terms.diff(job, timeline.entries_for(job.number), made, is_applied=True)
            if base is newest and is_same(newest.body, body):
                return terms.nothing(job, newest.version, self._view.now())
            if is_plan:
                self._check_newest(job, newest, base)
                zones = self._planned_zones(timeline, body)
                planned = self._planned(timeline, job, newest, body, terms, zones)
                entries = (*timeline.entries_for(job.number), *zones, planned)
                return terms.diff(job, entries, planned, is_applied=False)
            beginning = terms.beginning(timeline, job, self._view.now(), body, self._planned_zones(timeline, body))
            entry = TimelineEntryRequest(
                job=name,
                kind=EntryKind.VERSION,
                request=request,
                by=self._by,
                effective_from=beginning.effective_from,
                subject=VersionSubject(first_at=beginning.first_at).text,
                from_version=base.version,
                revision=timeline.revision,
                body=body,
                reason=change.reason,
            )
            *_, answer = await self._store.amend([*self._zones(timeline, body), entry], judge_by(timeline))
            if isinstance(answer, EntryRejected):
                await self._denied(job, base, answer, terms)
                continue
            await self._view.changed(f"version {answer.version} of {name}")
            timeline = self._view.timeline
            made = _version(timeline, job, answer.version)
            return terms.diff(job, timeline.entries_for(job.number), made, is_applied=True)
        raise NodeError(f"job {name!r} was not updated: the timeline changes all the time; try again")

    def _newest(self, timeline: Timeline, job: JobRow) -> EntryRow:
        newest = timeline.newest(job.number)
        if newest is None or is_removed(timeline, job):
            raise NodeError(f"job {job.name!r} was removed; declare it again, and it goes on with its next version")
        return newest

    def _base(self, timeline: Timeline, job: JobRow, newest: EntryRow, version: int | None) -> EntryRow:
        if version is None or version == newest.version:
            return newest
        return _version(timeline, job, version)

    def _check_newest(self, job: JobRow, newest: EntryRow, base: EntryRow) -> None:
        if base is not newest:
            raise _stale(job, base.version, newest)

    async def _denied(self, job: JobRow, base: EntryRow, denied: EntryRejected, terms: UpdateTerms) -> None:
        """Read the timeline again, and raise an error if another try cannot succeed."""
        await self._view.read()
        if denied.why is EntryRefusal.STALE and terms.change.from_version is not None:
            newest = self._view.timeline.newest(job.number)
            assert newest is not None, "there is a newer one"
            raise _stale(job, base.version, newest)
        if denied.why is EntryRefusal.EARLY and terms.change.effective_from is not None:
            raise ConfigError(
                f"effective_from: {shown_instant(microseconds_of(terms.change.effective_from))} is past, and what was "
                f"due then is decided; give an instant from {shown_instant(denied.earliest)} on"
            )

    def _planned(
        self,
        timeline: Timeline,
        job: JobRow,
        newest: EntryRow,
        body: str,
        terms: UpdateTerms,
        zones: Sequence[EntryRow],
    ) -> EntryRow:
        now = self._view.now()
        beginning = terms.beginning(timeline, job, now, body, zones)
        return EntryRow(
            timeline.revision + 1,
            0,
            job.number,
            EntryKind.VERSION,
            "planned",
            now if beginning.effective_from is None else beginning.effective_from,
            now,
            self._by,
            newest.version + 1,
            VersionSubject(first_at=beginning.first_at).text,
            body,
        )

    def _zones(self, timeline: Timeline, body: str) -> list[TimelineEntryRequest]:
        """Return entries for the zones that the version needs and the timeline does not have."""
        names = read_schedule(body).zone_names()
        return lacking_entries(timeline.zones, self._rules.zone_data, names, by=self._by, revision=timeline.revision)

    def _planned_zones(self, timeline: Timeline, body: str) -> list[EntryRow]:
        """Return the rows that the entries of `_zones` would become."""
        now = self._view.now()
        return [
            EntryRow(
                timeline.revision + 1,
                line,
                FOR_ALL,
                entry.kind,
                entry.request,
                now,
                now,
                self._by,
                0,
                entry.subject,
                entry.body,
            )
            for line, entry in enumerate(self._zones(timeline, body), 1)
        ]

    # -- the new definition ------------------------------------------------------------------------------------------

    def _body(self, job: JobRow, timeline: Timeline, base: EntryRow, change: DefinitionChange) -> str:
        if change.to_version is not None:
            return _version(timeline, job, change.to_version).body or ""
        definition = read_definition(base.body)
        try:
            overrides = laid_over(definition.overrides, read_overrides(change.options, OverrideLevel.JOB))
        except ConfigError as error:
            raise ConfigError(f"job {job.name!r}: {error}") from error
        updated = replace(definition, overrides=overrides, defaults=left_unset(definition.defaults, overrides))
        try:
            check_timeouts(updated.config())
        except ConfigError as error:
            raise ConfigError(f"job {job.name!r}: {error}") from error
        for limit in overrides.limits or ():
            if limit not in self._rules.shares:
                raise ConfigError(f"job {job.name!r}: limits: nobody says how many shares {limit!r} has")
        schedule = definition.schedule
        if change.schedule is not None:
            if not isinstance(change.schedule, Schedule):
                raise ConfigError(f"job {job.name!r}: {shown(change.schedule)} is not a schedule; give every(…), say")
            zone = updated.config().timezone
            bound = change.schedule.bind(Binding(job.name, zone, anchor_of(base.body, job)))
            bound.require_ready()
            schedule = bound.to_json()
        elif "timezone" in change.options:
            raise ConfigError(f"job {job.name!r}: timezone: its schedule has one already; give the schedule as well")
        encoded = to_json(replace(updated, schedule=schedule))
        if len(encoded) > DEFINITION_MAX:
            raise ConfigError(
                f"job {job.name!r}: its definition has {len(encoded)} bytes, {DEFINITION_MAX} are allowed"
            )
        return encoded.decode()


def is_removed(timeline: Timeline, job: JobRow) -> bool:
    """True if a job was removed, or never had a version."""
    segments = timeline.history(job.number).segments
    return not segments or isinstance(segments[-1].status, JobRemoved)


class EffectiveFrom(NamedTuple):
    """When a version takes effect, as its entry stores it."""

    effective_from: int | None = None
    """None: from the instant of the entry on."""
    first_at: int = 0
    """The first instant of the version, if that is later."""

    @classmethod
    def of(cls, handover: Handover | None) -> EffectiveFrom:
        """Return the beginning of a version that replaces a schedule gracefully."""
        return cls() if handover is None else cls(handover.effective_from, handover.first_at or 0)


class UpdateTerms:
    """The policy and the comparison window of a change."""

    def __init__(self, change: DefinitionChange, policy: UpdatePolicy) -> None:
        self.change = change
        self.policy = policy if change.policy is None else one_of(UpdatePolicy)("policy", change.policy)
        if change.effective_from is not None and not self.policy.is_graceful:
            raise ConfigError(f'effective_from: goes with policy="graceful"; a change that is {self.policy} counts now')
        self._count, self._window_for = self._window(change.window)

    def _window(self, window: int | DurationLike | None) -> tuple[int | None, int | None]:
        if window is None:
            return (_OCCURRENCES if self.policy.is_windowed else None), None
        if isinstance(window, bool) or not isinstance(window, int):
            return None, parse_duration(window)
        if not 1 <= window <= INSTANTS_MAX:
            raise ConfigError(f"window: {window} occurrences are out of range 1-{INSTANTS_MAX}; or give a time: '7d'")
        return window, None

    def beginning(
        self, timeline: Timeline, job: JobRow, now: int, body: str, zones: Iterable[EntryRow]
    ) -> EffectiveFrom:
        """Decide when a version with this body takes effect. `zones` has zone data that is entered with the version."""
        if not self.policy.is_graceful:
            return EffectiveFrom()
        if self.change.effective_from is not None:
            return EffectiveFrom(microseconds_of(self.change.effective_from))
        return EffectiveFrom.of(hand_over(timeline, job, now, body, zones))

    def diff(self, job: JobRow, entries: tuple[EntryRow, ...], made: EntryRow, *, is_applied: bool) -> Diff:
        """Return the changes of a version, made or planned."""
        found = compare(job, entries, made.revision, window_for=self._window_for, count=self._count)
        return self._told(job, made, found, is_applied=is_applied)

    def _told(self, job: JobRow, made: EntryRow, found: Difference, *, is_applied: bool) -> Diff:
        return Diff(
            job=job.name,
            policy=self.policy,
            from_version=made.version - 1,
            version=made.version,
            effective_from=_moment(made.effective_from),
            first_at=None if found.first_at is None else _moment(found.first_at),
            window_start=_moment(found.start),
            window_end=_moment(found.end),
            added=tuple(_moment(instant) for instant in found.added),
            removed=tuple(_moment(instant) for instant in found.removed),
            kept=tuple(_moment(instant) for instant in found.kept),
            is_applied=is_applied,
        )

    def nothing(self, job: JobRow, version: int, now: int) -> Diff:
        """Return the result of a change that equals the newest version."""
        at = _moment(now)
        return Diff(
            job=job.name,
            policy=self.policy,
            from_version=version,
            version=version,
            effective_from=None,
            window_start=at,
            window_end=at,
        )


def _version(timeline: Timeline, job: JobRow, version: int) -> EntryRow:
    for entry in timeline.entries(job.number):
        if entry.kind is EntryKind.VERSION and entry.version == version:
            return entry
    newest = timeline.newest(job.number)
    known = "none" if newest is None else f"1 to {newest.version}"
    raise ConfigError(f"job {job.name!r} has no version {version}; there are {known}")


def _stale(job: JobRow, made_from: int, newest: EntryRow) -> StaleVersion:
    why = f": {newest.reason}" if newest.reason else ""
    return StaleVersion(
        f"job {job.name!r} is at version {newest.version} since {shown_instant(newest.entered_at)}, by "
        f"{newest.entered_by}{why}; this change was made from version {made_from}: look at what has changed, and make "
        f"it from {newest.version}"
    )


def _request(version: int, body: str, terms: UpdateTerms) -> str:
    at = terms.change.effective_from
    counts_from = "" if at is None else str(microseconds_of(at))
    text = f"{version}/{terms.policy}/{counts_from}/{body}"
    return f"update/{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _moment(instant: int) -> datetime:
    return from_seconds(instant // SECOND)
