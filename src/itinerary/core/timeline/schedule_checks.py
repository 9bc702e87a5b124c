"""Checks of schedules before they are enumerated: is one complete, and is it custom?

A custom schedule may misbehave and must not affect other schedules, so it is enumerated in a table of its own.
"""

from __future__ import annotations

from itinerary.schedules import Custom, Schedule, ZoneSource

__all__ = ["check_usable", "is_untrusted"]


def check_usable(schedule: Schedule, zones: ZoneSource) -> None:
    """Raise if a schedule, or a part of it, is not complete or is in an unknown zone."""
    schedule.require_ready()
    schedule.zone(zones)
    for inner in schedule.inner():
        check_usable(inner, zones)


def is_untrusted(schedule: Schedule) -> bool:
    """True if a schedule, or a part of it, is custom."""
    return isinstance(schedule, Custom) or any(map(is_untrusted, schedule.inner()))
