"""Short ways to say times, for tests about schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, settings

from itinerary.schedules import Schedule

__all__ = ["ZONEINFO", "examples", "shown", "utc", "zone_info"]

ZONEINFO = resources.files("tzdata") / "zoneinfo"
"""The packaged zone data, which `zoneinfo` would otherwise pass over for the system's."""


def examples(count: int) -> settings:
    """So many examples, however long they take: no test here depends on elapsed time."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def utc(text: str) -> datetime:
    """`2026-03-08T02:30` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@cache
def zone_info(name: str) -> ZoneInfo:
    """The zone as Python reads it from the same file."""
    with ZONEINFO.joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def shown(schedule: Schedule, start: str, end: str) -> list[str]:
    """The instants in a window of local time, as the schedule's wall clock shows them: `03-08 02:30-0500`.

    Both ends of the window are read on the wall clock too, at its first pass where it has two.
    """
    zone = zone_info(schedule.zone().name)
    first, last = (datetime.fromisoformat(text).replace(tzinfo=zone) for text in (start, end))
    return [f"{at.astimezone(zone):%m-%d %H:%M%z}" for at in schedule.between(first, last)]
