"""The nights on which a wall clock is put forward or back, and what they do to the jobs that go by it (S8).

    put forward    some readings are left out: a time among them is skipped, or moved to the first moment after
    put back       some readings come twice: a time among them happens once, or twice

What a job would have had is read off its schedule as if its zone had no such nights. What follows real time, a job that
is due every quarter of an hour, say, has the same instants all the same, and is not told of.
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

__all__ = ["Affected", "Night", "nights_in"]


class Affected(msgspec.Struct, frozen=True):
    """A job that has a time in it."""

    job: str
    readings: int
    """How many of its times are among the readings that are left out, or come twice."""
    instants: int
    """How many instants it has for them."""
    what: str


class Night(msgspec.Struct, frozen=True):
    """A night on which a wall clock is put forward or back."""

    zone: str
    at: int
    """In microseconds since the epoch."""
    forward: int
    """By how many seconds; less than nothing: it is put back."""
    jobs: tuple[Affected, ...]


class _Job(NamedTuple):
    name: str
    schedule: Schedule


def nights_in(timeline: Timeline, start: int, end: int) -> tuple[Night, ...]:
    """The nights of `[start, end)`, of all zones that some job goes by, in order."""
    by_zone: dict[str, list[_Job]] = {}
    for number, row in timeline.jobs.items():
        try:
            schedule = timeline.schedule(number, row.version)
        except ItineraryError:
            continue  # its gap is told elsewhere
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


def _night(zone: Zone, place: int, jobs: Sequence[_Job]) -> Night:
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
            affected.append(Affected(jobs[row].name, count, runs, _left_out(count, runs)))
        elif after < before and not (is_unchanged and len(instants) == 2 * count):
            affected.append(Affected(jobs[row].name, count, len(instants), _twice(count, len(instants))))
    return Night(zone.name, at * SECOND, after - before, tuple(sorted(affected, key=lambda one: one.job)))


def _left_out(readings: int, runs: int) -> str:
    times = "its time is" if readings == 1 else f"{readings} of its times are"
    return f"{times} left out, {'and it runs right after' if runs else 'and it does not run for that'}"


def _twice(readings: int, instants: int) -> str:
    times = "its time comes" if readings == 1 else f"{readings} of its times come"
    if instants >= 2 * readings:
        return f"{times} twice, and it runs both times"
    return f"{times} twice, and it {'runs once for each' if instants else 'does not run for that'}"
