"""Quiet hours: when nothing is queued, by the wall clock of a partition (E5).

    22 ─────────── 24/0 ─────────── 6          from 22 to 6: past midnight
    [start, end)                               from 5 to 5: never

What falls into them waits; nothing is lost. The wall clock is the partition's own, and what it shows decides: in the
night that has its third hour twice, both of them are quiet, and in the night that lacks it none is.
"""

from __future__ import annotations

from itinerary.records.settings import DeskSettings
from itinerary.schedules.instants import DAY, MICROSECONDS, Moment
from itinerary.schedules.zones import Zone

__all__ = ["is_quiet"]

_HOUR = 3_600


def is_quiet(settings: DeskSettings, zone: Zone, now: int) -> bool:
    """Whether it is a quiet hour there; `now` is in microseconds."""
    if not settings.enable_early_morning_skip:
        return False
    start, end = settings.early_morning_start_hour, settings.early_morning_end_hour
    hour = zone.reading(Moment(now // MICROSECONDS)) % DAY // _HOUR
    if start <= end:
        return start <= hour < end
    return hour >= start or hour < end
