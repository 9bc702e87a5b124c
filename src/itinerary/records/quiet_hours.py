"""Quiet hours: the hours in which nothing is queued, by the wall clock of a partition (E5).

    22 ─────────── 24/0 ─────────── 6          from 22 to 6: past midnight
    [start, end)                               from 5 to 5: never

Records of these hours wait, and none is lost. The reading of the partition's wall clock decides. If daylight saving
time repeats an hour, both count by their reading; an hour that the clock skips does not occur.
"""

from __future__ import annotations

from itinerary.records.settings import DeskSettings
from itinerary.schedules.instants import DAY, MICROSECONDS, Moment
from itinerary.schedules.zones import Zone

__all__ = ["is_quiet"]

_HOUR = 3_600


def is_quiet(settings: DeskSettings, zone: Zone, now: int) -> bool:
    """True if `now`, in microseconds, is a quiet hour in the zone."""
    if not settings.enable_early_morning_skip:
        return False
    start, end = settings.early_morning_start_hour, settings.early_morning_end_hour
    hour = zone.reading(Moment(now // MICROSECONDS)) % DAY // _HOUR
    if start <= end:
        return start <= hour < end
    return hour >= start or hour < end
