"""The record schedulers of a program while its node runs, and the threads of their handlers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from itinerary.daemon_pool import DaemonPool
from itinerary.errors import ItineraryError
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.jobs.named_functions import NamedFunction
from itinerary.model.rows import NodeNumber
from itinerary.ports import Clock, Store
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.service import RecordsService
from itinerary.records.worker import RecordWorker
from itinerary.records.zone_lookup import ZONE_CALLS_MAX

__all__ = ["HandlerLeft", "RunningRecordSchedulers", "Threads"]


class RunningRecordSchedulers:
    """The record schedulers of an app while a node runs: on the node's event loop, with handlers in threads."""

    def __init__(self, desks: Mapping[str, DeskDeclaration], coroutines: CoroutineExecutor) -> None:
        self._desks, self._coroutines = desks, coroutines
        # Twice the maximum of concurrent handlers: some may hang and be given up. Calls for time zones have additional
        # threads, so that a hanging call takes no thread from a handler.
        self._threads = Threads(
            2 * sum(desk.settings.handlers_max for desk in desks.values()) + ZONE_CALLS_MAX * len(desks)
        )

    def service(
        self, store: Store, node: NodeNumber | None, clock: Clock, log: Any, *, slow_after: int
    ) -> RecordsService:
        """Return the service of all record schedulers of this node, which has joined.

        `slow_after` is the duration after which a store call is logged, in microseconds.
        """
        assert node is not None, "a node that has started has joined"
        for warning in _warnings(self._desks.values()):
            log.warning("settings.questionable", what=warning)
        environment = RecordsEnvironment(store, node, clock, log, call=self._call, slow_after=slow_after)
        return RecordsService(store, log, [RecordWorker(desk, environment) for desk in self._desks.values()])

    def close(self) -> None:
        """End the idle threads of the handlers."""
        self._threads.close()

    async def _call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function of the program: a coroutine on its loop, a plain function in a thread."""
        if isinstance(function, NamedFunction):
            named = function
            function = await self._threads.run(lambda _: named.find(), None)
        if not inspect.iscoroutinefunction(inspect.unwrap(function)):
            return await self._threads.run(function, argument)
        loop = self._coroutines.loop
        if loop is asyncio.get_running_loop():
            return await _guarded(function, argument)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_guarded(function, argument), loop))


async def _guarded(function: Callable[[Any], Any], argument: Any) -> Any:
    """Call a handler, and keep an exit that it raises from ending the loop."""
    try:
        return await function(argument)
    except (SystemExit, KeyboardInterrupt) as error:
        raise HandlerLeft(f"it raised {type(error).__name__}") from error


class Threads:
    """A pool of daemon threads for plain functions.

    A thread that never returns must not prevent the end of the program, and occupies its place as long as it lives.
    """

    def __init__(self, threads_max: int) -> None:
        threads_max = max(threads_max, 1)
        self._free = asyncio.Semaphore(threads_max)
        self._pool = DaemonPool("itinerary-records", threads_max)

    async def run(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function, and return its result or raise its error. If the caller is cancelled, the call continues.

        The function sees a copy of the caller's context variables.
        """
        await self._free.acquire()
        loop, context = asyncio.get_running_loop(), copy_context()
        outcome: asyncio.Future[Any] = loop.create_future()

        def live() -> None:
            try:
                told = partial(_set_result, outcome, context.run(function, argument))
            except Exception as error:  # noqa: BLE001 - it is raised in the caller
                told = partial(_set_exception, outcome, error)
            except BaseException as error:  # noqa: BLE001 - an exit must end only the handler
                told = partial(_set_exception, outcome, HandlerLeft(f"it raised {type(error).__name__}"))
            with suppress(RuntimeError):  # the loop is closed, and no caller waits
                loop.call_soon_threadsafe(told)
                loop.call_soon_threadsafe(self._free.release)

        try:
            loop.run_in_executor(self._pool, live)  # through the loop, so that a test's clock waits for the function
        except BaseException:
            self._free.release()
            raise
        return await outcome

    def close(self) -> None:
        """End the idle threads. Busy ones end with their call, or with the process."""
        self._pool.shutdown(wait=False)


class HandlerLeft(ItineraryError):
    """The error of a handler that tried to end the program."""


def _set_result(outcome: asyncio.Future[Any], result: Any) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _set_exception(outcome: asyncio.Future[Any], error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)


def _warnings(desks: Iterable[DeskDeclaration]) -> list[str]:
    return [f"desk {desk.name}: {warning}" for desk in desks for warning in desk.settings.warnings()]
