"""Schedules before they are enumerated: can one be asked at all, and did somebody else write it?

One that others wrote may misbehave, and must not take the others down with it: it is enumerated in a table of its own.
"""

from __future__ import annotations

from itinerary.schedules import Custom, Schedule, ZoneSource

__all__ = ["check_usable", "is_untrusted"]


def check_usable(schedule: Schedule, zones: ZoneSource) -> None:
    """Raise if it, or a part of it, is not complete, or in a zone that nobody knows."""
    schedule.require_ready()
    schedule.zone(zones)
    for inner in schedule.inner():
        check_usable(inner, zones)


def is_untrusted(schedule: Schedule) -> bool:
    """Whether others wrote it, or a part of it."""
    return isinstance(schedule, Custom) or any(map(is_untrusted, schedule.inner()))
