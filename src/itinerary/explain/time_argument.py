"""Which instant is meant: a time as somebody typed it, held against what a job expects.

A time without an offset is what the clock of the job's zone showed. That clock shows some times twice, and some never:
of two the one that is due is meant, and one that it never shows is said to be so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from itinerary.core.timeline.expected import Due, Expected, Gap
from itinerary.core.timeline.history import FOREVER
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, WindowError
from itinerary.explain.formatting import AS_THE_CLOCK_SHOWS
from itinerary.explain.schedules import zone_name
from itinerary.model.rows import JobNumber
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import EARLIEST, LATEST, MICROSECONDS, Moment
from itinerary.schedules.wallclock import instant_of, instants_at
from itinerary.schedules.zones import UTC, Zone

__all__ = ["NEAR", "Meant", "due_at", "meant", "next_due", "previous_due", "zone_of"]

NEAR: Final = 5 * 60 * SECOND
"""Whoever names a time this close to an instant means that one."""
_FIRST_LOOK: Final = 600 * SECOND
_FURTHER: Final = 8
"""How much further each look goes than the one before."""
_FARTHEST: Final = 12 * 366 * 86_400 * SECOND
"""How far instants are looked for: schedules of leap days have eight years between two of them."""


class Meant(NamedTuple):
    """The instant that is meant, and what has to be said of that."""

    instant: int
    missing: str | None = None
    """The reading, if the clock never shows it: the instant is then the first one after it."""


def zone_of(timeline: Timeline, job: JobNumber, instant: int) -> Zone:
    """The zone of a job's schedule at an instant; UTC where that cannot be said."""
    try:
        stretches = timeline.history(job).stretches
        stretch = timeline.in_force(job, instant) or (stretches[0] if stretches else None)
        return UTC if stretch is None else timeline.zones.table(zone_name(stretch.schedule), instant)
    except ItineraryError:
        return UTC


def meant(timeline: Timeline, job: JobNumber, asked: Moment) -> Meant:
    """The instant that a time stands for."""
    if not asked.is_local:
        return Meant(asked.seconds * MICROSECONDS)
    zone = zone_of(timeline, job, asked.seconds * MICROSECONDS)
    shown = instants_at(zone, AS_THE_CLOCK_SHOWS, asked.seconds)
    if not shown:
        return Meant(instant_of(zone, asked) * MICROSECONDS, str(asked).replace("T", " "))
    due = [second for second in shown if isinstance(due_at(timeline, job, second * MICROSECONDS), Due)]
    return Meant((due or shown)[0] * MICROSECONDS)


def due_at(timeline: Timeline, job: JobNumber, instant: int) -> Due | Gap | None:
    """What a job expects at an instant."""
    if not EARLIEST <= instant // MICROSECONDS < LATEST:
        return None
    expected = timeline.expected(instant, instant + 1, [job])
    if expected.gaps:
        return expected.gaps[0]
    return expected.due(0) if len(expected) else None


def previous_due(timeline: Timeline, job: JobNumber, before: int) -> int | None:
    """The last instant before one that a job expected."""
    end, look = before, _FIRST_LOOK
    while look <= _FARTHEST and end > EARLIEST * MICROSECONDS:
        start = max(before - look, EARLIEST * MICROSECONDS)
        expected = _expected(timeline, job, start, end, at_end=True)
        if len(expected):
            return int(expected.instants[-1])
        end, look = start, look * _FURTHER
    return None


def next_due(timeline: Timeline, job: JobNumber, after: int) -> int | None:
    """The first instant after one that a job expects."""
    start, look = after + 1, _FIRST_LOOK
    while look <= _FARTHEST and start < FOREVER:
        end = min(after + look, FOREVER)
        expected = _expected(timeline, job, start, end, at_end=False)
        if len(expected):
            return int(expected.instants[0])
        start, look = end, look * _FURTHER
    return None


def _expected(timeline: Timeline, job: JobNumber, start: int, end: int, *, at_end: bool) -> Expected:
    """What was expected; if that is too much, of the half that is nearer."""
    while True:
        try:
            return timeline.expected(start, end, [job])
        except WindowError:
            middle = (start + end) // 2
            start, end = (middle, end) if at_end else (start, middle)
