"""Clock changes of time zones, and their effect on jobs with local times (S8).

    forward    some local times do not exist: a time among them is skipped, or moved to the first instant after
    back       some local times occur twice: a time among them runs once, or twice

The expected times of a job come from its schedule in the same zone without changes. A job with a steady interval, for
example every quarter of an hour, has the same instants in both, and is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.schedules import Schedule, enumerate_many
from itinerary.schedules.durations import SECOND
from itinerary.schedules.zones import UTC, Zone

__all__ = ["AffectedJob", "ClockChange", "nights_in"]


class AffectedJob(msgspec.Struct, frozen=True):
    """A job with a time in a clock change."""

    job: str
    readings: int
    """The number of its local times that do not exist, or occur twice."""
    instants: int
    """The number of its instants for those times."""
    what: str


class ClockChange(msgspec.Struct, frozen=True):
    """A clock change of a zone."""

    zone: str
    at: int
    """The instant, in microseconds since the epoch."""
    forward: int
    """The shift in seconds; negative if the clock goes back."""
    jobs: tuple[AffectedJob, ...]


class _Job(NamedTuple):
    name: str
    schedule: Schedule


def nights_in(timeline: Timeline, start: int, end: int) -> tuple[ClockChange, ...]:
    """Return the clock changes in `[start, end)` of all zones that jobs use, in order."""
    by_zone: dict[str, list[_Job]] = {}
    for number, row in timeline.jobs.items():
        try:
            schedule = timeline.schedule(number, row.version)
        except ItineraryError:
            continue  # its gap is reported elsewhere
        for name in schedule.zone_names():
            by_zone.setdefault(name, []).append(_Job(row.name, schedule))
    found = []
    for name, jobs in by_zone.items():
        for span in timeline.zones.spans([name], start, end):
            zone = span.zones(name)
            found += [_night(zone, place, jobs) for place in _changes(zone, span.start, span.end)]
    return tuple(sorted({(night.zone, night.at): night for night in found}.values(), key=lambda night: night.at))


def _changes(zone: Zone, start: int, end: int) -> list[int]:
    starts, offsets = zone.arrays()
    low, high = np.searchsorted(starts * SECOND, (start, end))
    return [place for place in range(max(int(low), 1), int(high)) if offsets[place] != offsets[place - 1]]


def _night(zone: Zone, place: int, jobs: Sequence[_Job]) -> ClockChange:
    at, before, after = zone.starts[place], zone.offsets[place - 1], zone.offsets[place]
    low, high = sorted((at + before, at + after))
    schedules = [job.schedule for job in jobs]
    readings, _ = enumerate_many(schedules, low * SECOND, high * SECOND, lambda _: UTC)
    counts = np.bincount(readings, minlength=len(jobs))
    since, until = (at, at + after - before) if after > before else (at + after - before, at + before - after)
    steady = Zone(zone.name, zone.starts[:1], (before,))
    real, real_at = enumerate_many(schedules, since * SECOND, until * SECOND, lambda _: zone)
    unchanged, unchanged_at = enumerate_many(schedules, since * SECOND, until * SECOND, lambda _: steady)
    affected = []
    for row in np.flatnonzero(counts).tolist():
        count, instants = int(counts[row]), np.sort(real_at[real == row])
        is_unchanged = np.array_equal(instants, np.sort(unchanged_at[unchanged == row]))
        if after > before and not is_unchanged:
            runs = int((instants == at * SECOND).sum())
            affected.append(AffectedJob(jobs[row].name, count, runs, _left_out(count, runs)))
        elif after < before and not (is_unchanged and len(instants) == 2 * count):
            affected.append(AffectedJob(jobs[row].name, count, len(instants), _twice(count, len(instants))))
    return ClockChange(zone.name, at * SECOND, after - before, tuple(sorted(affected, key=lambda one: one.job)))


def _left_out(readings: int, runs: int) -> str:
    times = "its time is" if readings == 1 else f"{readings} of its times are"
    return f"{times} left out, {'and it runs right after' if runs else 'and it does not run for that'}"


def _twice(readings: int, instants: int) -> str:
    times = "its time comes" if readings == 1 else f"{readings} of its times come"
    if instants >= 2 * readings:
        return f"{times} twice, and it runs both times"
    return f"{times} twice, and it {'runs once for each' if instants else 'does not run for that'}"
