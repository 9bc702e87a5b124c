"""Forecasts for the jobs of a request or of the store. A forecast runs no task and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from itinerary.core.timeline.definitions import read_schedule
from itinerary.core.timeline.history import FOREVER, HistorySegment, JobActive
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import ZoneBook, lacking_entries
from itinerary.errors import ItineraryError
from itinerary.forecast import Forecast, Outage, TaskDurations, foresee, staged, takes_in, told
from itinerary.model.rows import EntryKind, JobNumber
from itinerary.model.settings import Settings
from itinerary.model.timeline import EntryRejected, TimelineEntryRequest
from itinerary.model.version_subject import VersionSubject
from itinerary.ports import Store
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.upcoming import growing
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND
from itinerary.web.heavy.bounds import PLANNED_JOBS_MAX, WindowLimits
from itinerary.web.heavy.works import SimulateWork
from itinerary.web.problems import RequestRefused

__all__ = ["forecast"]

_OCCURRENCES_MAX: Final = 100_000
"""The maximum number of simulated occurrences of a request: some CPU seconds. `itinerary simulate` has no limit."""
_BY: Final = "forecast"
_COMMAND: Final = "run `itinerary simulate`"


async def forecast(
    snapshot: StoreSnapshot, work: SimulateWork, *, bounds: WindowLimits, settings: Settings, zone_data: ZoneData
) -> Forecast:
    """Simulate jobs in a separate store. Raises Refused for too many jobs or occurrences."""
    start = (snapshot.now if work.start is None else work.start) // SECOND * SECOND
    end = start + work.lasting
    versions = _of_store(snapshot, work.pattern, start) if work.jobs is None else _of_request(work)
    names = dict.fromkeys(one.job for one in versions)
    for job in work.takes:
        if job not in names:
            raise RequestRefused(
                400, "Bad request", f"takes: there is no job {job[:60]!r} among those that are simulated"
            )
    takes = TaskDurations(work.takes, await takes_in(snapshot.store, list(names)))

    async def enter(store: Store) -> None:
        zones = {name for one in versions for name in read_schedule(one.body or "").zone_names()}
        entries = [*lacking_entries(ZoneBook(), zone_data, zones, by=_BY, revision=None), *versions]
        if entries:
            answers = await store.amend(entries)
            assert not any(isinstance(answer, EntryRejected) for answer in answers), "no other writer has this store"

    stage = await staged(enter, start, settings=settings, takes=takes)
    _check_count(stage.plans.timeline, start, end, bounds)
    outages = [Outage(*one) for one in work.outages]
    return told(stage, foresee(stage, start, end, outages), outages, takes)


def _of_request(work: SimulateWork) -> list[TimelineEntryRequest]:
    return [_version(job.name, 0, job.definition, None, 0) for job in work.jobs or ()]


def _of_store(snapshot: StoreSnapshot, pattern: str | None, start: int) -> list[TimelineEntryRequest]:
    """Return the current and future versions of the store's jobs."""
    found: list[TimelineEntryRequest] = []
    jobs = 0
    for row in sorted(snapshot.timeline.jobs.values(), key=lambda row: row.name):
        if pattern is not None and not fnmatchcase(row.name, pattern):
            continue
        try:
            segments = _ahead(snapshot, row.number, start)
        except ItineraryError:
            continue  # its definition cannot be read, so its instants are unknown
        jobs += bool(segments)
        if jobs > PLANNED_JOBS_MAX:
            raise RequestRefused(
                400, "Too much", f"there are more than {PLANNED_JOBS_MAX} jobs; name fewer with a pattern"
            )
        found += _versions(row.name, segments)
    return found


def _ahead(snapshot: StoreSnapshot, job: JobNumber, start: int) -> list[HistorySegment]:
    """Return the versions of a job in force from `start` on, in order; none if the job is not active now."""
    now = snapshot.timeline.in_force(job, snapshot.now)
    if now is None or not isinstance(now.status, JobActive):
        return []
    found: dict[int, HistorySegment] = {}
    for segment in snapshot.timeline.segments(job, max(start, snapshot.now), FOREVER):
        if segment.body is not None and isinstance(segment.status, JobActive):
            found.setdefault(segment.version, segment)
    return list(found.values())


def _versions(job: str, segments: Sequence[HistorySegment]) -> list[TimelineEntryRequest]:
    return [
        _version(job, version, segment.body, segment.start if version else None, segment.first_at)
        for version, segment in enumerate(segments)
    ]


def _version(
    job: str, version: int, body: str | None, effective_from: int | None, first_at: int
) -> TimelineEntryRequest:
    return TimelineEntryRequest(
        job=job,
        kind=EntryKind.VERSION,
        request=f"{_BY}/{version}",
        by=_BY,
        effective_from=effective_from,
        from_version=version,
        subject=VersionSubject(first_at=first_at).text,
        body=body,
    )


def _check_count(timeline: Timeline, start: int, end: int, bounds: WindowLimits) -> None:
    limit = min(_OCCURRENCES_MAX, bounds.instants_max)
    count = 0
    for since, until in growing(start, end) if timeline.jobs else ():
        count += len(timeline.expected(since, until))
        if count > limit:
            raise RequestRefused(
                400,
                "Too much",
                f"more than {limit:,} occurrences are due in that time, the most that a request may simulate"
                f"{bounds.why}; ask for less, or {_COMMAND}",
            )
