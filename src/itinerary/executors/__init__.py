"""Executors: what runs attempts, each kind behind the same small protocol (`itinerary.ports.Executor`).

    router          sends each attempt to the one that can run it; `standard_router` has all of them
    functions       where a function belongs ─ coroutines, threads, processes (and worker, which runs in them)
    shell, http     commands and calls
    guarded         what other packages bring, through entry points

    definitions     what a task's definition may say          registry, calling   names, and the functions behind them
    context         what a task is told                       transactions        its own statements in the store
    outcomes, output, references, addresses                   results and errors, what was printed, secrets, hosts

Nothing here decides when something runs, or whether it is tried again. An executor is told to begin, stop and kill, and
reports one end for each attempt.

The names below are for those who write tasks and definitions. What runs them is imported from its own module: a worker
process imports this package too, and should not have to wait for a router.
"""

from itinerary.executors.cancellation import TaskCancelled
from itinerary.executors.context import ExecutionContext
from itinerary.executors.definitions import read_task
from itinerary.executors.registry import Registry

__all__ = ["ExecutionContext", "Registry", "TaskCancelled", "read_task"]
