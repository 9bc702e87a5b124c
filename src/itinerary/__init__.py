"""Itinerary: cron that never loses a run, never starts one twice, and can always say why.

    app = Itinerary()                     jobs are declared on it, and it runs a node
    cron, every, once, iso8601, …         when                    Retry, RecoveryPolicy      how

Everything else that a program needs is reached from these: handles, nodes, runs, reports and contexts.

What runs a node is imported when it is first asked for. A worker process of the `process` executor needs schedules and
a context and no more, and is there in a third of the time.
"""

from typing import TYPE_CHECKING, Any

from itinerary.errors import ItineraryError
from itinerary.executors.cancellation import TaskCancelled
from itinerary.executors.context import ExecutionContext
from itinerary.model import RecoveryPolicy, Report, Retry
from itinerary.schedules import Calendar, Schedule, cron, custom, every, excluding, iso8601, once, schedule, union

if TYPE_CHECKING:
    from itinerary.api import Itinerary, Job, LoopLeft, Run, RunningNode

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
    "schedule",
    "union",
]

_OF_THE_APP = frozenset({"Itinerary", "Job", "LoopLeft", "Run", "RunningNode"})


def __getattr__(name: str) -> Any:
    if name not in _OF_THE_APP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from itinerary import api as app  # noqa: PLC0415 - see above

    return getattr(app, name)
