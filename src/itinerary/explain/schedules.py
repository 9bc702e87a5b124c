"""Find whether a schedule has an instant, and if not, why: a calendar, the active range, or daylight saving time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from itinerary.schedules import Schedule, ZoneSource, once
from itinerary.schedules.calendars import Calendar, Closures
from itinerary.schedules.excluding import Excluding, Shift
from itinerary.schedules.instants import DAY, EARLIEST, Moment, from_seconds

__all__ = ["CalendarClosure", "closed_by", "fires", "out_of_range", "zone_name"]


class CalendarClosure(NamedTuple):
    """A calendar that keeps an instant from being due."""

    calendar: str
    why: str
    moved_to: int | None
    """The second to which the instant is moved, if it is moved."""


def fires(schedule: Schedule, second: int, zones: ZoneSource) -> bool:
    """True if a second is an instant of the schedule."""
    return schedule.next_second(second - 1, zones) == second


def zone_name(schedule: Schedule) -> str:
    """Return the name of the schedule's zone; of several, the first."""
    for part in _parts(schedule):
        if part.tz is not None:
            return part.tz
    return "UTC"


def closed_by(schedule: Schedule, second: int, zones: ZoneSource) -> CalendarClosure | None:
    """Return the calendar without which a second would be due; None if there is none."""
    for part in _parts(schedule):
        if isinstance(part, Excluding) and isinstance(part.calendar, Calendar) and fires(part.schedule, second, zones):
            closures = part.closures(zones)
            if bool(closures.excludes(np.array([second], np.int64))[0]):
                return CalendarClosure(part.calendar.name, _why_closed(closures, second), _moved(part, second, zones))
    return None


def out_of_range(schedule: Schedule, second: int, zones: ZoneSource) -> str | None:
    """Return why a second that is otherwise due is outside the schedule's active range; None if it is not."""
    if schedule.start is None and schedule.end is None:
        return None
    low, high = schedule.active_range(zones)
    if low <= second <= high or not fires(replace(schedule, start=None, end=None), second, zones):
        return None
    return f"its schedule begins at {schedule.start}" if second < low else f"its schedule ended at {schedule.end}"


def _parts(schedule: Schedule) -> Iterator[Schedule]:
    yield schedule
    for part in schedule.inner():
        yield from _parts(part)


def _why_closed(closures: Closures, second: int) -> str:
    inside = np.flatnonzero((closures.blackout_starts <= second) & (second < closures.blackout_ends))
    if len(inside):
        start, end = (
            from_seconds(int(times[inside[0]])) for times in (closures.blackout_starts, closures.blackout_ends)
        )
        return f"a blackout from {start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
    day = closures.zone.reading(Moment(second)) // DAY
    shown = from_seconds(0) + timedelta(days=day)
    if day in closures.closed_days:
        return f"{shown:%Y-%m-%d} is one of its dates"
    return f"{shown:%Y-%m-%d} is a {shown:%A}, and it is closed on weekends"


def _moved(schedule: Excluding, second: int, zones: ZoneSource) -> int | None:
    if schedule.shift is Shift.SKIP:
        return None
    alone = replace(schedule, schedule=once(from_seconds(second)), start=None, end=None)
    return alone.next_second(EARLIEST, zones)
