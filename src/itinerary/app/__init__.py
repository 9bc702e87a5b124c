"""The Python API: what a program declares, runs and asks.

    application    Itinerary: jobs, and the node that runs them         jobs, nodes     the handles of both
    declaring      jobs as they are written, checked line by line       registering     … and as they meet stored ones
    engine         a node in a thread with a loop of its own            signals         … until it is told to end
    ground         what that stands on: a store, executors, clocks
    desk           what people ask of it, on its loop                   occurrences, contexts, transactions
    changing       pause, stop, skip, remove: the job's timeline        updating        … and its versions
    requesting     trigger, replay, backfill, cancel                    backfills, views, operators
    looking        what there is in a store, for people                 doctoring       … and whether it is well
    sources        where settings come from                             options, naming, logs
    jobfiles       jobs without Python, in a TOML file                  applying        … and as they meet stored ones

Nothing here decides about time or states: that is the core's. Nothing here is needed to run a node by other means.
"""

from itinerary.app.application import Itinerary
from itinerary.app.backfills import Backfill
from itinerary.app.contexts import LoopLeft
from itinerary.app.desk import NodeStatistics
from itinerary.app.jobs import Job
from itinerary.app.nodes import RunningNode
from itinerary.app.occurrences import Run
from itinerary.app.updating import Diff

__all__ = ["Backfill", "Diff", "Itinerary", "Job", "LoopLeft", "NodeStatistics", "Run", "RunningNode"]
