"""Itinerary: cron that never loses a run, never starts one twice, and can always say why.

    app = Itinerary()                     jobs are declared on it, and it runs a node
    cron, every, once, iso8601, …         when                    Retry, RecoveryPolicy      how

Everything else that a program needs is reached from these: handles, nodes, runs, reports and contexts.
"""

from itinerary.app import Itinerary, Job, LoopLeft, Run, RunningNode
from itinerary.errors import ItineraryError
from itinerary.executors import ExecutionContext, TaskCancelled
from itinerary.model import RecoveryPolicy, Report, Retry
from itinerary.schedules import Calendar, Schedule, cron, custom, every, excluding, iso8601, once, union

__all__ = [
    "Calendar",
    "ExecutionContext",
    "Itinerary",
    "ItineraryError",
    "Job",
    "LoopLeft",
    "RecoveryPolicy",
    "Report",
    "Retry",
    "Run",
    "RunningNode",
    "Schedule",
    "TaskCancelled",
    "cron",
    "custom",
    "every",
    "excluding",
    "iso8601",
    "once",
    "union",
]
