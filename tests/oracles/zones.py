"""Time zones for the model, read from the `tzdata` package alone.

The engine reads the same package with its own reader of TZif files. The model leaves the reading to `zoneinfo`, and
never sees the files of the system: two machines must agree. Transitions are found the plain way, by sampling each
zone's offset once a day and bisecting where it changed, which also covers the years that a file describes by a rule
only.
"""

from __future__ import annotations

import functools
import importlib.resources
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
FIRST_YEAR, LAST_YEAR = 1900, 2198


@dataclass(frozen=True)
class Transition:
    """The first instant of a new offset; `before` and `after` are the local times of that instant in either offset."""

    at: datetime
    before: datetime
    after: datetime

    @property
    def shift(self) -> timedelta:
        return self.after - self.before

    @property
    def first_touched(self) -> datetime:
        """The earliest local time that this transition skips or repeats."""
        return min(self.before, self.after)


@functools.cache
def zone_named(key: str) -> ZoneInfo:
    file = importlib.resources.files("tzdata").joinpath("zoneinfo", *key.split("/"))
    with file.open("rb") as stream:
        return ZoneInfo.from_file(stream, key=key)


def local_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """What a clock on the wall shows, without an offset."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def offset_at(instant: datetime, zone: ZoneInfo) -> timedelta:
    return local_time(instant, zone) - instant.replace(tzinfo=None)


@functools.cache
def transitions_of(key: str, first_year: int = FIRST_YEAR, last_year: int = LAST_YEAR) -> tuple[Transition, ...]:
    """Every change of the offset from the first year to the last. Two in one day would pass unseen; tzdata has none."""
    zone = zone_named(key)
    found = []
    day, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year, 12, 31, tzinfo=UTC)
    offset = offset_at(day, zone)
    while day < end:
        before, offset = offset, offset_at(day + DAY, zone)
        if before != offset:
            found.append(_transition_between(day, day + DAY, zone))
        day += DAY
    return tuple(found)


def _transition_between(early: datetime, late: datetime, zone: ZoneInfo) -> Transition:
    old, new = offset_at(early, zone), offset_at(late, zone)
    while late - early > SECOND:
        middle = early + (late - early) // 2 // SECOND * SECOND
        if offset_at(middle, zone) == old:
            early = middle
        else:
            late = middle
    wall = late.replace(tzinfo=None)
    return Transition(late, before=wall + old, after=wall + new)
