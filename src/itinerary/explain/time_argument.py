"""Find the instant that a user means by a time, given the instants that the job expects.

A time without an offset is a time on the clock of the job's zone. That clock shows some times twice and some never. Of
two instants, the due one is meant. For a time that is never shown, the answer says this.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from itinerary.core.timeline.expected import Due, Expected, UnknownRange
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

__all__ = ["NEAR", "IntendedInstant", "due_at", "meant", "next_due", "previous_due", "zone_of"]

NEAR: Final = 5 * 60 * SECOND
"""The distance within which a time that is not due stands for the nearest instant."""
_FIRST_LOOK: Final = 600 * SECOND
_FURTHER: Final = 8
"""The factor by which each search window is longer than the one before."""
_FARTHEST: Final = 12 * 366 * 86_400 * SECOND
"""The longest search: a schedule of leap days may have eight years between two instants."""


class IntendedInstant(NamedTuple):
    """The instant that the user means, and whether the clock shows that time."""

    instant: int
    missing: str | None = None
    """The local time, if the clock never shows it. Then `instant` is the first one after it."""


def zone_of(timeline: Timeline, job: JobNumber, instant: int) -> Zone:
    """Return the zone of a job's schedule at an instant; UTC if unknown."""
    try:
        segments = timeline.history(job).segments
        segment = timeline.in_force(job, instant) or (segments[0] if segments else None)
        return UTC if segment is None else timeline.zones.table(zone_name(segment.schedule), instant)
    except ItineraryError:
        return UTC


def meant(timeline: Timeline, job: JobNumber, asked: Moment) -> IntendedInstant:
    """Return the instant that a time stands for."""
    if not asked.is_local:
        return IntendedInstant(asked.seconds * MICROSECONDS)
    zone = zone_of(timeline, job, asked.seconds * MICROSECONDS)
    shown = instants_at(zone, AS_THE_CLOCK_SHOWS, asked.seconds)
    if not shown:
        return IntendedInstant(instant_of(zone, asked) * MICROSECONDS, str(asked).replace("T", " "))
    due = [second for second in shown if isinstance(due_at(timeline, job, second * MICROSECONDS), Due)]
    return IntendedInstant((due or shown)[0] * MICROSECONDS)


def due_at(timeline: Timeline, job: JobNumber, instant: int) -> Due | UnknownRange | None:
    """Return the instant that a job expects at a time, a gap if that is unknown, or None."""
    if not EARLIEST <= instant // MICROSECONDS < LATEST:
        return None
    expected = timeline.expected(instant, instant + 1, [job])
    if expected.gaps:
        return expected.gaps[0]
    return expected.due(0) if len(expected) else None


def previous_due(timeline: Timeline, job: JobNumber, before: int) -> int | None:
    """Return the last expected instant of a job before a time."""
    end, look = before, _FIRST_LOOK
    while look <= _FARTHEST and end > EARLIEST * MICROSECONDS:
        start = max(before - look, EARLIEST * MICROSECONDS)
        expected = _expected(timeline, job, start, end, at_end=True)
        if len(expected):
            return int(expected.instants[-1])
        end, look = start, look * _FURTHER
    return None


def next_due(timeline: Timeline, job: JobNumber, after: int) -> int | None:
    """Return the first expected instant of a job after a time."""
    start, look = after + 1, _FIRST_LOOK
    while look <= _FARTHEST and start < FOREVER:
        end = min(after + look, FOREVER)
        expected = _expected(timeline, job, start, end, at_end=False)
        if len(expected):
            return int(expected.instants[0])
        start, look = end, look * _FURTHER
    return None


def _expected(timeline: Timeline, job: JobNumber, start: int, end: int, *, at_end: bool) -> Expected:
    """Return the expected instants of a window; if it has too many, of the nearer half."""
    while True:
        try:
            return timeline.expected(start, end, [job])
        except WindowError:
            middle = (start + end) // 2
            start, end = (middle, end) if at_end else (start, middle)
