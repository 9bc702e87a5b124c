"""Executors: components that run attempts, all behind the same small protocol (`itinerary.ports.Executor`).

    router          sends each attempt to the executor that can run it; `standard_router` has all of them
    functions       chooses where a function runs ─ coroutines, threads, processes (and worker, which runs in them)
    shell, http     commands and HTTP calls                   pods                     pods in Kubernetes
    plugin          executors of other packages, found through entry points
    definitions     the allowed content of a task             registry, task_function  names, and their functions
    context         the argument of a task function           transactions             statements of a task in the store
    outcomes, output, secrets, address_policy                 results and errors, printed output, secrets, hosts

No module here decides when a task runs, or whether it is retried. An executor begins, stops and kills attempts on
command, and reports exactly one end for each attempt.

The names below are for authors of tasks and definitions. The executors are imported from their own modules, because a
worker process imports this package too, and should not have to load a router.
"""

from itinerary.executors.cancellation import TaskCancelled
from itinerary.executors.context import ExecutionContext
from itinerary.executors.definitions import read_task
from itinerary.executors.registry import Registry

__all__ = ["ExecutionContext", "Registry", "TaskCancelled", "read_task"]
