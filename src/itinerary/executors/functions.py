"""Functions, sent to the right executor: coroutine functions to a loop, plain ones to threads or processes.

The right executor depends on the function itself. A function that was never imported is first imported in a helper
thread, because the import runs user code. Later attempts go directly to their executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from itinerary.daemon_pool import DaemonPool
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.definitions import check_place, read_python
from itinerary.executors.outcomes import could_not_begin
from itinerary.executors.registry import Registry
from itinerary.executors.task_function import Function
from itinerary.model.attempts import Assignment, AttemptKey, Report, Stopped
from itinerary.ports import Executor

__all__ = ["FunctionExecutor"]

_LOOKING_THREADS: Final = 4
"""Several threads, so that an import that hangs does not block the others."""


class FunctionExecutor(BaseExecutor[InFlight]):
    """An executor that passes functions to one of three executors.

    Only attempts during an import are in flight here.
    """

    def __init__(self, registry: Registry, coroutines: Executor, threads: Executor, processes: Executor) -> None:
        super().__init__()
        self._registry = registry
        self._coroutines = coroutines
        self._threads = threads
        self._processes = processes
        self._all = (coroutines, threads, processes)

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        await super().open(report)
        for executor in self._all:
            await executor.open(report)

    async def _prepare(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lookers = DaemonPool("itinerary-import", _LOOKING_THREADS)

    async def _shut_down(self) -> None:
        self.kill(list(self._in_flight))
        self._lookers.shutdown(wait=False, cancel_futures=True)
        await asyncio.gather(*(executor.close() for executor in self._all))

    def begin(self, assignments: Sequence[Assignment]) -> None:
        if self._is_closed:
            super().begin(assignments)
            return
        coroutines: list[Assignment] = []
        threads: list[Assignment] = []
        for assignment in assignments:
            name = assignment.run.get("python")
            function = self._registry.known(name) if isinstance(name, str) and len(assignment.run) == 1 else None
            if function is None or assignment.executor != "auto":
                self._begin_one(assignment)
            elif function.is_coroutine:
                coroutines.append(assignment)
            else:
                threads.append(assignment)
        if coroutines:
            self._coroutines.begin(coroutines)
        if threads:
            self._threads.begin(threads)

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        super().stop(attempts)
        for executor in self._all:
            executor.stop(attempts)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        super().kill(attempts)
        for executor in self._all:
            executor.kill(attempts)

    def _accept(self, assignment: Assignment) -> InFlight:
        read_python(assignment.run, assignment.executor, self._registry)
        return InFlight(assignment)

    def _launch(self, attempt: InFlight) -> None:
        assignment = attempt.assignment
        name = assignment.run["python"]
        function = self._registry.known(name)
        if assignment.executor == "process":
            self._pass_on(assignment, self._processes)
        elif function is not None:
            self._found(assignment, function)
        else:
            self._lookers.submit(self._look_up, attempt)

    def _stop(self, attempt: InFlight) -> None:
        attempt.is_stop_asked = True
        self._end(attempt.key, Stopped(was_called=False))

    def _kill(self, attempt: InFlight) -> None:
        self._stop(attempt)

    def _look_up(self, attempt: InFlight) -> None:
        """Import a function, in a helper thread."""
        assignment = attempt.assignment
        found: Function | Exception
        if attempt.is_stop_asked:
            return
        try:
            found = self._registry.find(assignment.run["python"])
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            found = error
        except BaseException as error:  # noqa: BLE001 - a module that calls sys.exit ends only its attempt
            found = ImportError(f"{assignment.run['python']} could not be imported: {type(error).__name__}: {error}")
        try:
            self._loop.call_soon_threadsafe(self._looked_up, assignment, found)
        except RuntimeError:
            return  # the loop is closed, and the attempt has already ended

    def _looked_up(self, assignment: Assignment, found: Function | Exception) -> None:
        if assignment.key not in self._in_flight:
            return  # stopped during the import
        if isinstance(found, Exception):
            self._end(assignment.key, could_not_begin(found))
            return
        try:
            self._found(assignment, found)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            self._end(assignment.key, could_not_begin(error))

    def _found(self, assignment: Assignment, function: Function) -> None:
        check_place(function.name, assignment.executor, is_coroutine=function.is_coroutine)
        self._pass_on(assignment, self._coroutines if function.is_coroutine else self._threads)

    def _pass_on(self, assignment: Assignment, executor: Executor) -> None:
        del self._in_flight[assignment.key]
        executor.begin((assignment,))
