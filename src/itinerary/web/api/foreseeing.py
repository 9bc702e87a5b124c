"""What will happen, before it does: to jobs that are sent, or to those of the store (U5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from itinerary.app.declaring import Declaration
from itinerary.app.logs import engine_log
from itinerary.app.looking.ground import Ground
from itinerary.app.registering import register
from itinerary.core.stretches import FOREVER, Active, Stretch
from itinerary.core.zoning import ZoneBook, lacking_entries
from itinerary.errors import ItineraryError
from itinerary.forecast import Forecast, Outage, Takes, foresee, staged, takes_in, told
from itinerary.forecast.stage import Stage
from itinerary.model.access import Scope
from itinerary.model.rows import EntryKind, JobNumber
from itinerary.model.timeline import Denied, NewEntry
from itinerary.model.version_subject import VersionSubject
from itinerary.ports import Store
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.web.api.bodies import Simulation, microseconds
from itinerary.web.api.filing import declared_in
from itinerary.web.api.framing import Sent, changing, read_body
from itinerary.web.api.service import Api, Service
from itinerary.web.problems import Refused

__all__ = ["FORECASTS"]

_JOBS_MAX: Final = 1_000
_OCCURRENCES_MAX: Final = 100_000
"""The most that is played through for a request: some seconds of a core. `itinerary simulate` has no such bound."""
_LASTING_MAX: Final = 366 * 86_400 * SECOND
_BY: Final = "forecast"
_WHOLE: Final = 86_400 * SECOND

Declare = Callable[[Store], Awaitable[None]]


@changing("/simulate", summary="Say what will happen, before it does", tag="forecast", needs=Scope.READ)
async def simulate(api: Api, data: Sent[Simulation | None] = None) -> Forecast:
    """Load, overlaps, clock changes, and what an outage would do. Nothing is run, and nothing is written. At most a
    thousand jobs, and a hundred thousand occurrences, are played through."""
    body = read_body(Simulation, data)
    ground = await api.house.ground()
    start = (ground.now if body.start is None else microseconds("from", body.start)) // SECOND * SECOND
    lasting = parse_duration(body.lasting, minimum=SECOND) // SECOND * SECOND
    if lasting > _LASTING_MAX:
        raise Refused(400, "Too much", f"for: {body.lasting} is longer than a year; ask for less")
    outages = [
        Outage(microseconds("from", one.start) // SECOND * SECOND, microseconds("to", one.end) // SECOND * SECOND)
        for one in body.outages
    ]
    said = {job: parse_duration(text) for job, text in body.takes.items()}
    names, declare = await _wanted(api, ground, body, start)
    for job in said:
        if job not in names:
            raise Refused(400, "Bad request", f"takes: there is no job {job[:60]!r} among those that are simulated")
    async with api.heavy():
        takes = Takes(said, await takes_in(ground.store, names))
        return await asyncio.to_thread(_foreseen, api, declare, start, start + lasting, outages, takes)


FORECASTS: Final = (simulate,)


async def _wanted(api: Service, ground: Ground, data: Simulation, start: int) -> tuple[list[str], Declare]:
    zone_data = api.house.node.rules.zone_data
    if data.file is not None or data.jobs is not None:
        if data.pattern is not None:
            raise Refused(
                400, "Bad request", "pattern: goes with the jobs of the store, and not with some that are sent"
            )
        declared = await declared_in(api, data)
        _check_count(len(declared))
        return list(declared), _declaring(declared, zone_data)
    jobs: dict[str, list[Stretch]] = {}
    for row in api.names.after(ground, None):
        if data.pattern is not None and not fnmatchcase(row.name, data.pattern):
            continue
        try:
            stretches = _ahead(ground, row.number, start)
        except ItineraryError:
            continue  # nobody can say when it is due
        if not stretches:
            continue
        jobs[row.name] = stretches
        _check_count(len(jobs))
    return list(jobs), _copying(jobs, zone_data)


def _ahead(ground: Ground, job: JobNumber, start: int) -> list[Stretch]:
    """The versions of a job that are in force from `start` on, in order; none if the job is not active now."""
    now = ground.timeline.in_force(job, ground.now)
    if now is None or not isinstance(now.standing, Active):
        return []
    found: dict[int, Stretch] = {}
    for stretch in ground.timeline.stretches(job, max(start, ground.now), FOREVER):
        if stretch.body is not None and isinstance(stretch.standing, Active):
            found.setdefault(stretch.version, stretch)
    return list(found.values())


def _check_count(count: int) -> None:
    if count > _JOBS_MAX:
        raise Refused(400, "Too much", f"there are more than {_JOBS_MAX} jobs; name fewer with a pattern")


def _declaring(declared: Mapping[str, Declaration], zone_data: ZoneData) -> Declare:
    async def declare(store: Store) -> None:
        await register(store, declared, by=_BY, log=engine_log(), zone_data=zone_data)

    return declare


def _copying(jobs: Mapping[str, Sequence[Stretch]], zone_data: ZoneData) -> Declare:
    """The jobs of the store as they are and will be, in a store of their own."""

    async def declare(store: Store) -> None:
        zones = {name for stretches in jobs.values() for one in stretches for name in one.schedule.zone_names()}
        entries = lacking_entries(ZoneBook(), zone_data, zones, by=_BY, revision=None)
        entries += [
            NewEntry(
                job=job,
                kind=EntryKind.VERSION,
                request=f"{_BY}/{version}",
                by=_BY,
                effective_from=stretch.start if version else None,
                from_version=version,
                subject=VersionSubject(first_at=stretch.first_at).text,
                body=stretch.body,
            )
            for job, stretches in jobs.items()
            for version, stretch in enumerate(stretches)
        ]
        if entries:
            answers = await store.amend(entries)
            assert not any(isinstance(answer, Denied) for answer in answers), "nobody else writes to this store"

    return declare


def _foreseen(api: Service, declare: Declare, start: int, end: int, outages: list[Outage], takes: Takes) -> Forecast:
    """On a thread of its own, with a loop of its own."""
    configuration = api.house.configuration
    stage: Stage = asyncio.run(staged(declare, start, settings=configuration.settings, takes=takes))
    timeline = stage.plans.timeline
    count, at = 0, start
    while at < end and timeline.jobs:
        upto = min(at + _WHOLE, end)
        count, at = count + len(timeline.expected(at, upto)), upto
        if count > _OCCURRENCES_MAX:
            raise Refused(
                400,
                "Too much",
                f"more than {_OCCURRENCES_MAX} occurrences are due in that time; ask for less, "
                "or run `itinerary simulate`",
            )
    return told(stage, foresee(stage, start, end, outages), outages, takes)
