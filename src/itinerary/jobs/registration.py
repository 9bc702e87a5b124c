"""Register declared jobs in the store, at the start of a node.

    not stored, or removed            its first version, or its next one (D10)
    stored, and declared the same     nothing
    stored, and declared otherwise    its next version, made from the newest
    stored, and not declared          unchanged if another source declares it; a job of the same source is kept,
                                      stopped or removed (see `undeclared`)

A declaration is compared with the last declaration, not with the version in force. So an update by an operator
(`operations.job_updates`) holds until the declaration changes. If only the defaults of all jobs have changed, the job
keeps the update and takes the new defaults.

Several nodes may start at the same time with the same declarations. Each entry names the version that it was made from,
and the store refuses it if a newer one exists. A refused node reads again and finds nothing left to do. The `request`
of an entry is a digest of its content, so an entry whose answer was lost is not made twice.

Zones that the store does not have are entered before the job that needs them (protocol rule 5). From then on all nodes
compute with that table. Newer zone data is a separate case: the node that brings it enters it at its start.

A bare duration counts from the first registration of its job (S4). That instant is read from the stored definition,
also inside wrapped schedules, so that every node and every restart finds the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from itinerary.core.timeline.definitions import read_definition
from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import ZoneBook, lacking_entries
from itinerary.errors import ItineraryError, NodeError
from itinerary.jobs.declaration import Declaration
from itinerary.jobs.undeclared import (
    JobSource,
    UndeclaredJobs,
    is_stopped,
    settling_entry,
    source_entry,
    source_of,
    start_entry,
    was_undeclared,
)
from itinerary.jobs.version_diff import differ_in_defaults_only
from itinerary.model.codec import to_json
from itinerary.model.config import check_timeouts
from itinerary.model.overrides import Overrides, left_unset
from itinerary.model.queries import JobsByNameQuery, StoreStatusQuery
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobNumber, JobRow
from itinerary.model.timeline import EntryAccepted, EntryRefusal, EntryRejected, TimelineEntryRequest
from itinerary.model.version_subject import VersionSubject
from itinerary.ports import Store
from itinerary.schedules import ZoneData, packaged_zone_data
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from itinerary.schedules.zones import UTC_NAME
from itinerary.stores.paging import entries_after, jobs_after

__all__ = ["anchor_of", "declared_request", "is_same", "register"]

ENTRIES_AT_ONCE: Final = 2_000
_PAGE: Final = 10_000
_DECLARED: Final = "declared/"
"""The prefix of the request of an entry that a declaration made."""
_DEFAULTS: Final = "defaults/"
"""The prefix of the request of an entry that keeps an update and takes new defaults. Such an entry is no declaration.
"""
_ROUNDS_MAX: Final = 50
"""The limit of retries after other nodes were faster. In each round, one of them makes progress."""


class _Newest(msgspec.Struct, frozen=True):
    """The newest stored state of a job."""

    body: str | None
    """The newest version."""
    declared: str | None
    """The last declared version; else the first version, if no declaration made it."""
    is_removed: bool


async def register(
    store: Store,
    declared: Mapping[str, Declaration],
    *,
    by: str,
    log: Any,
    zone_data: ZoneData | None = None,
    home: JobSource | None = None,
) -> UndeclaredJobs | None:
    """Make the store's timeline match the declared jobs.

    Args:
        store: The store.
        declared: The jobs, by name.
        by: The node or user that declares them.
        log: The log.
        zone_data: The zone data; None: the packaged data.
        home: The source of the declarations; None if it is not known.

    Returns:
        The jobs that the source no longer declares, and what was done with them; None if `home` does not ask for it.

    Raises:
        NodeError: Other nodes keep changing the jobs, or an entry was refused.
    """
    data = packaged_zone_data() if zone_data is None else zone_data
    for _ in range(_ROUNDS_MAX):
        planned, stored = await _planned(store, declared, by, home)
        settling = await stored.settling(store, {one.job for one in planned}, declared, by, home)
        needed = {name for one in planned for name in declared[one.job].zone_names()}
        if not await _zones_entered(store, stored.lacking(data, needed, by), stored, log):
            continue
        new = [one for one in planned if one.from_version == 0]
        changed = [one for one in planned if one.from_version != 0]
        entered = [await _entered(store, batch, stored, log) for batch in _batches(new)]
        timeline = stored.timeline(changed)
        entered += [await _entered(store, batch, stored, log, timeline) for batch in _batches(changed)]
        if not all(entered):
            continue
        if settling is None or not settling.entries:
            return None if settling is None else settling.found
        if not planned and await _settled(store, settling, stored, log):
            return settling.found
    raise NodeError(
        f"the jobs could not be registered: {_ROUNDS_MAX} times somebody else changed them meanwhile; "
        "do several programs declare the same names differently?"
    )


async def _settled(store: Store, settling: _Settling, stored: _Stored, log: Any) -> bool:
    """Enter stops and removals of undeclared jobs, one transaction per batch. Return False if the timeline changed."""
    timeline = stored.timeline(settling.entries)
    for batch in _batches(settling.entries):
        entries = [replace(entry, revision=stored.revision) for entry in batch]
        answers = await store.amend(entries, judge_by(timeline))
        if any(isinstance(answer, EntryRejected) for answer in answers):
            return False
        stored.revision = max(answer.revision for answer in answers if isinstance(answer, EntryAccepted))
    found = settling.found
    if found.jobs and not found.undeclared.keeps:
        log.info("jobs.undeclared", source=found.source, became=found.undeclared.value, jobs=list(found.jobs))
    return True


async def _planned(
    store: Store, declared: Mapping[str, Declaration], by: str, home: JobSource | None
) -> tuple[list[TimelineEntryRequest], _Stored]:
    """Return the entries to make, and the stored state."""
    jobs: dict[str, JobRow] = {}
    names = sorted(declared)
    for first in range(0, len(names), _PAGE):
        jobs |= await store.read(JobsByNameQuery(tuple(names[first : first + _PAGE])))
    now = (await store.read(StoreStatusQuery())).now
    stored = _Stored(jobs)
    settles = home is not None and home.undeclared is not None
    if jobs or settles or any(declaration.zone_names() - {UTC_NAME} for declaration in declared.values()):
        await stored.read(store)
    planned = []
    for name, declaration in declared.items():
        job, newest, request = jobs.get(name), _Newest(None, None, is_removed=True), None
        if job is None:
            body, version = declaration.body(now // SECOND), 0
        else:
            newest = stored.newest.get(job.number, newest)
            body, version = declaration.body(anchor_of(newest.declared, job)), job.version
            if not newest.is_removed and (is_same(newest.declared, body) or is_same(newest.body, body)):
                continue
            if (kept := _updated_under(newest, body, declaration.defaults)) is not None:
                if is_same(newest.body, kept):
                    continue
                body, request = kept, f"{_DEFAULTS}{_digest(kept, version)}"
        entry = TimelineEntryRequest(
            job=name,
            kind=EntryKind.VERSION,
            request=declared_request(body, version) if request is None else request,
            by=by,
            from_version=version,
            subject="" if home is None else VersionSubject(home.source).text,
            body=body,
            reason="declared" if version == 0 else _why(newest, body),
        )
        planned.append(entry)
    return planned, stored


def _updated_under(newest: _Newest, body: str, defaults: Overrides) -> str | None:
    """Return an updated job with its newly declared defaults.

    None unless the job was updated since its last declaration, and only the defaults have changed since.
    """
    if newest.is_removed or newest.body == newest.declared:
        return None
    try:
        if not differ_in_defaults_only(read_definition(newest.declared), read_definition(body)):
            return None
        updated = read_definition(newest.body)
        kept = replace(updated, defaults=left_unset(defaults, updated.overrides))
        check_timeouts(kept.config())
    except ItineraryError:
        return None  # not readable here, or in conflict with the defaults: the declaration replaces it
    return to_json(kept).decode()


def _why(newest: _Newest, body: str) -> str:
    """Return the reason of a new version, in words."""
    try:
        is_default = differ_in_defaults_only(read_definition(newest.body), read_definition(body))
    except ItineraryError:
        is_default = False  # the stored definition cannot be read here, and is replaced
    return "declared with other defaults" if is_default else "declared differently"


class _Settling(msgspec.Struct, frozen=True):
    """The entries about the source of jobs, and the jobs that the source no longer declares."""

    entries: list[TimelineEntryRequest]
    found: UndeclaredJobs


class _Stored:
    """The stored state of all jobs."""

    def __init__(self, jobs: Mapping[str, JobRow]) -> None:
        self._jobs = dict(jobs)
        self.revision = 0
        """The last revision that was read or written here."""
        self.newest: dict[JobNumber, _Newest] = {}
        self._entries: dict[JobNumber, list[EntryRow]] = {}

    async def read(self, store: Store) -> None:
        """Read the entries since the last read."""
        for entry in await entries_after(store.read, self.revision):
            self._take(entry)

    def _take(self, entry: EntryRow) -> None:
        self.revision = entry.revision
        self._entries.setdefault(entry.job, []).append(entry)
        before = self.newest.get(entry.job)
        if entry.kind is EntryKind.VERSION:
            is_declared = before is None or before.is_removed or entry.request.startswith(_DECLARED)
            declared = entry.body if before is None or is_declared else before.declared
            self.newest[entry.job] = _Newest(entry.body, declared, is_removed=False)
        elif entry.kind is EntryKind.REMOVE and before is not None:
            self.newest[entry.job] = _Newest(before.body, before.declared, is_removed=True)

    async def settling(
        self, store: Store, planned: Collection[str], declared: Collection[str], by: str, home: JobSource | None
    ) -> _Settling | None:
        """Return the entries about sources; None if `home` does not ask for them.

        Jobs in `planned` get a version, which names their source.
        """
        if home is None or home.undeclared is None:
            return None
        entries: list[TimelineEntryRequest] = []
        for name in declared:
            row = self._jobs.get(name)
            of_job = () if row is None else self._entries.get(row.number, ())
            if was_undeclared(of_job):
                entries.append(start_entry(name, home.source, by=by, revision=self.revision))
            if row is not None and name not in planned and source_of(of_job) != home.source:
                entries.append(source_entry(name, home.source, by=by, revision=self.revision))
        found = await self._undeclared(store, home)
        if not home.undeclared.keeps:
            entries += [settling_entry(name, home, by=by, revision=self.revision) for name in found]
        return _Settling(entries, UndeclaredJobs(home.source, home.undeclared, tuple(found)))

    async def _undeclared(self, store: Store, home: JobSource) -> list[str]:
        """Return the names of active jobs that their source no longer declares."""
        declared = {row.number for row in self._jobs.values()}
        numbers = {
            number
            for number, newest in self.newest.items()
            if number not in declared and not newest.is_removed and source_of(self._entries[number]) == home.source
        }
        if home.undeclared is not None and home.undeclared.stops:
            numbers = {number for number in numbers if not is_stopped(self._entries[number])}
        if not numbers:
            return []
        rows = [row for row in await jobs_after(store.read, JobNumber(0)) if row.number in numbers]
        self._jobs |= {row.name: row for row in rows}
        return [row.name for row in rows]

    def timeline(self, changed: Sequence[TimelineEntryRequest]) -> Timeline:
        """Return the timeline of the changed jobs only."""
        jobs = [self._jobs[name] for name in dict.fromkeys(entry.job for entry in changed)]
        numbers = [FOR_ALL, *(job.number for job in jobs)]
        return Timeline.of((entry for number in numbers for entry in self._entries.get(number, ())), jobs)

    def lacking(self, data: ZoneData, names: Iterable[str], by: str) -> list[TimelineEntryRequest]:
        """Return entries for those zones that the store does not have."""
        book = ZoneBook().extended(self._entries.get(FOR_ALL, ()))
        return lacking_entries(book, data, names, by=by, revision=self.revision)


def is_same(stored: str | None, body: str) -> bool:
    """True if two bodies mean the same. Most are equal as text; others are parsed."""
    if stored == body:
        return True
    try:
        return read_definition(stored) == read_definition(body)
    except ItineraryError:
        return False  # the stored definition is not readable, so the declaration replaces it


def anchor_of(stored: str | None, job: JobRow) -> int:
    """Return the anchor of a bare duration of this job, in seconds."""
    try:
        schedule = None if stored is None else read_definition(stored).schedule
    except ItineraryError:
        schedule = None
    found = next(_anchors(schedule), None)
    return job.registered_at // SECOND if found is None else Moment.of(found, "anchored").seconds


def _anchors(part: object) -> Iterator[str]:
    match part:
        case Mapping():
            if isinstance(part.get("anchored"), str):
                yield part["anchored"]
            for inner in part.values():
                yield from _anchors(inner)
        case list() | tuple():
            for inner in part:
                yield from _anchors(inner)
        case _:
            return


def declared_request(body: str, version: int) -> str:
    """Return the request id of a declaration: equal for equal declarations made from the same version."""
    return f"{_DECLARED}{_digest(body, version)}"


def _digest(body: str, version: int) -> str:
    return hashlib.sha256(f"{version}/{body}".encode()).hexdigest()[:40]


def _batches(planned: Sequence[TimelineEntryRequest]) -> list[Sequence[TimelineEntryRequest]]:
    return [planned[first : first + ENTRIES_AT_ONCE] for first in range(0, len(planned), ENTRIES_AT_ONCE)]


async def _zones_entered(store: Store, zones: Sequence[TimelineEntryRequest], stored: _Stored, log: Any) -> bool:
    """Enter zones. Return False if another node has changed the timeline."""
    if not zones:
        return True
    answers = await store.amend(zones)
    if any(isinstance(answer, EntryRejected) for answer in answers):
        return False
    log.info("zones.entered", zones=[entry.subject for entry in zones], why=zones[0].reason)
    await stored.read(store)
    return True


async def _entered(
    store: Store, batch: Sequence[TimelineEntryRequest], stored: _Stored, log: Any, timeline: Timeline | None = None
) -> bool:
    """Enter a batch. Return False if another node was faster; then no entry was made.

    `timeline` is that of the changed jobs. Their unstarted occurrences are decided by it, so it must be the newest.
    """
    if timeline is not None:
        batch = [replace(entry, revision=stored.revision) for entry in batch]
    answers = await store.amend(batch, None if timeline is None else judge_by(timeline))
    refused = [answer for answer in answers if isinstance(answer, EntryRejected)]
    if refused:
        if other := [answer for answer in refused if answer.why not in (EntryRefusal.STALE, EntryRefusal.MOVED)]:
            raise NodeError(f"job {other[0].job!r} could not be registered: {other[0].why}")
        log.info("jobs.registered_by_others", count=len(refused), first=refused[0].job)
        return False
    made = {answer.revision for answer in answers if isinstance(answer, EntryAccepted)}
    if made == {stored.revision + 1}:
        stored.revision += 1
    log.info("jobs.registered", count=len(batch), first=batch[0].job)
    return True
