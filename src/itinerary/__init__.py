"""Itinerary: cron that never loses a run, never starts one twice, and can always say why.

So far this is the ground that the scheduler stands on: schedules as pure values, in bulk and one at a time; the model
of jobs, occurrences and attempts; and the index of what is due when.
"""

from itinerary.errors import ItineraryError
from itinerary.model import RecoveryPolicy, Retry
from itinerary.schedules import Calendar, Schedule, cron, custom, every, excluding, iso8601, once, union

__all__ = [
    "Calendar",
    "ItineraryError",
    "RecoveryPolicy",
    "Retry",
    "Schedule",
    "cron",
    "custom",
    "every",
    "excluding",
    "iso8601",
    "once",
    "union",
]
