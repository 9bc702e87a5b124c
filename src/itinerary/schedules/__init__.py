"""Schedules: pure values that yield instants.

Here live the kinds (`cron`, `iso8601`, `once`, `every`, `union`, `excluding`, `custom`), the time zones that they are
read in, and the enumeration of many at once. Nothing here reads a clock, does I/O beyond the packaged zone data, or
knows about jobs: a schedule takes what it needs from a job when it is bound to one.
"""

from itinerary.schedules.base import INSTANTS_MAX, Binding, Schedule
from itinerary.schedules.bulk import ScheduleTable, enumerate_many
from itinerary.schedules.calendars import Calendar
from itinerary.schedules.codec import from_json, from_stored
from itinerary.schedules.cron import Cron, cron
from itinerary.schedules.custom import Custom, CustomSchedule, custom, schedule
from itinerary.schedules.durations import DurationLike, format_duration, parse_duration
from itinerary.schedules.every import Every, every
from itinerary.schedules.excluding import Excluding, Shift, excluding
from itinerary.schedules.iso8601 import Iso8601, iso8601
from itinerary.schedules.once import Once, once
from itinerary.schedules.reboot import Reboot
from itinerary.schedules.union import Union, union
from itinerary.schedules.wallclock import Gap, Repeat
from itinerary.schedules.zones import Zone, ZoneData, ZoneSource, packaged_zone, packaged_zone_data

__all__ = [
    "INSTANTS_MAX",
    "Binding",
    "Calendar",
    "Cron",
    "Custom",
    "CustomSchedule",
    "DurationLike",
    "Every",
    "Excluding",
    "Gap",
    "Iso8601",
    "Once",
    "Reboot",
    "Repeat",
    "Schedule",
    "ScheduleTable",
    "Shift",
    "Union",
    "Zone",
    "ZoneData",
    "ZoneSource",
    "cron",
    "custom",
    "enumerate_many",
    "every",
    "excluding",
    "format_duration",
    "from_json",
    "from_stored",
    "iso8601",
    "once",
    "packaged_zone",
    "packaged_zone_data",
    "parse_duration",
    "schedule",
    "union",
]
