"""The core: pure decisions about what runs when.

Time and messages come in, commands go out. Nothing here does I/O, reads a clock or starts a thread; an import contract
proves it. So far it holds the scheduled run index and the pure part of its building.
"""

from itinerary.core.index import DueRuns, JobTable, ScheduledRun, ScheduledRunIndex, ScheduledRuns
from itinerary.core.index_source import IndexSource, IndexWindow, Rejected

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
