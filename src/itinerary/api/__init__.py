"""The Python API: declare jobs, run a node, and send it requests.

    application       Itinerary: the jobs of a program, and the node that runs them
    job               the handle of a job
    records           the record schedulers of a program
    running_node      the handle of a running node
    running_context   `with app.running()` and `async with app.running()`

This package decides nothing about time or states: `core` does.
"""

from itinerary.api.application import Itinerary
from itinerary.api.job import Job
from itinerary.api.running_node import RunningNode
from itinerary.executors.async_iteration import LoopLeft
from itinerary.operations.backfill import Backfill
from itinerary.operations.job_updates import Diff
from itinerary.operations.node_client import NodeStatistics
from itinerary.read.run_lookup import RunReference

__all__ = ["Backfill", "Diff", "Itinerary", "Job", "LoopLeft", "NodeStatistics", "RunReference", "RunningNode"]
