"""Itinerary: cron that never loses a run, never starts one twice, and can always say why.

    app = Itinerary()                     jobs are declared on it, and it runs a node
    cron, every, once, iso8601, …         when                    Retry, RecoveryPolicy      how

A program reaches everything else from these: handles, nodes, runs, reports and contexts.

The modules that run a node are imported on first use. A worker process of the `process` executor needs only schedules
and a context, and starts in a third of the time without them.
"""

from typing import TYPE_CHECKING, Any

from itinerary.errors import ItineraryError
from itinerary.executors.cancellation import TaskCancelled
from itinerary.executors.context import ExecutionContext
from itinerary.model import OccurrenceReport, RecoveryPolicy, Retry
from itinerary.schedules import Calendar, Schedule, cron, custom, every, excluding, iso8601, once, schedule, union

if TYPE_CHECKING:
    from itinerary.api import Itinerary, Job, LoopLeft, RunningNode, RunReference

__all__ = [
    "Calendar",
    "ExecutionContext",
    "Itinerary",
    "ItineraryError",
    "Job",
    "LoopLeft",
    "OccurrenceReport",
    "RecoveryPolicy",
    "Retry",
    "RunReference",
    "RunningNode",
    "Schedule",
    "TaskCancelled",
    "cron",
    "custom",
    "every",
    "excluding",
    "iso8601",
    "once",
    "schedule",
    "union",
]

_OF_THE_APP = frozenset({"Itinerary", "Job", "LoopLeft", "RunReference", "RunningNode"})


def __getattr__(name: str) -> Any:
    if name not in _OF_THE_APP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from itinerary import api as app  # noqa: PLC0415 - see above

    return getattr(app, name)
