"""Pure decisions about what runs when.

Time and messages come in, commands go out. Nothing here does I/O, reads a clock or starts a thread. An import contract
proves it.

    loop        one iteration of a node's loop: messages in, commands out
    recovery    decisions about instants in the past
    timeline    the definition in force for each job at each instant

`loop` imports `recovery`, which imports `timeline`, and never the other way round.
"""

from itinerary.core.timeline.index import DueRuns, JobTable, ScheduledRun, ScheduledRunIndex, ScheduledRuns
from itinerary.core.timeline.index_source import IndexSource, IndexWindow, Rejected

__all__ = [
    "DueRuns",
    "IndexSource",
    "IndexWindow",
    "JobTable",
    "Rejected",
    "ScheduledRun",
    "ScheduledRunIndex",
    "ScheduledRuns",
]
