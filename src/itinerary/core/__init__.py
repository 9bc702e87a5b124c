"""The core: pure decisions about what runs when.

Time and messages come in, commands go out. Nothing here does I/O, reads a clock or starts a thread; an import contract
proves it.

    scheduler       one iteration of the loop: messages in, commands out
    board           all that a node knows of its occurrences ─ agenda: when, and who waits for a slot
    claiming, starting, requests, lending      what the loop does about them, by what it was told
    course, lifecycle                          one occurrence, from its claim to its end, and its stages:
    working, errands, ending, reporting        tasks; requirements and hooks; the end; what is told of it
    progress, failure, pen                     one task; what a failure means for the others; what is to be written
    plans           a job at one version, worked out once

    timeline        what was, is and will be in force ─ stretches, layers, expected, bodies
    sweeping        what was due and has no row ─ recovery, matching
    auditing        expected against decided
    index           what is due when, for the next minutes
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
