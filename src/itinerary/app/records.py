"""Where desks meet the app: `app.records(…)` declares one, and the engine runs it (SPEC E).

    itinerary.records     knows records, logs, leases and handlers; and of the engine only its store, clock and log
    here                  the three jobs of each desk; the way to the engine's loop; where handlers run

The layer below must not know the app. So a desk is given a `Host`, which is here, and asks it.

**Three jobs (E9).** A desk `folio` has the jobs `folio.pickup`, `folio.callbacks` and `folio.verifications`. All of
them run one function, which sees by the name of its job what it is for; it has a name for each desk, so that a node
which lacks a desk leaves its jobs to others (protocol rule 5). A tick that was missed is not made up for: the next one
finds what is due.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from itinerary.app.declaring import Declaration, Rules
from itinerary.app.named_functions import NamedFunction
from itinerary.daemons import DaemonPool
from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors import ExecutionContext
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.rows import NodeNumber
from itinerary.ports import Clock, Store
from itinerary.records.clerk import Clerk
from itinerary.records.deciding import Cycle, interval_of
from itinerary.records.declared import DeskDeclaration
from itinerary.records.ground import Ground
from itinerary.records.service import RecordsService
from itinerary.records.zone_lookup import ZONE_CALLS_MAX
from itinerary.schedules import every
from itinerary.schedules.durations import format_duration

if TYPE_CHECKING:
    from itinerary.app.application import Itinerary

__all__ = ["Desks", "Offices"]

T = TypeVar("T")

_TASK: Final = "cycle"


class Desks:
    """The desks of an app, and their host."""

    def __init__(self, app: Itinerary) -> None:
        self._app = app
        self.declared: dict[str, DeskDeclaration] = {}

    def declare(self, desk: DeskDeclaration, rules: Rules) -> list[Declaration]:
        """Keep a desk. Returns its three jobs."""
        if desk.name in self.declared:
            raise ConfigError(f"desk {desk.name!r} is declared already; give one of the two another name")
        function = rules.registry.register_internal(self.cycled, _function_name(desk.name))
        jobs = []
        for cycle in Cycle:
            options = {"overlap": "skip", "recovery": "mark_as_missed"}
            job = Declaration(
                rules, job_name(desk.name, cycle), every(format_duration(interval_of(cycle, desk.settings))), options
            )
            job.add_task(_TASK, {"python": function}, {})
            jobs.append(job)
        self.declared[desk.name] = desk
        return jobs

    async def cycled(self, ctx: ExecutionContext) -> dict[str, int]:
        """The task of all jobs of desks: a cycle is due. What it came to on this node is kept as its result."""
        desk, _, cycle = ctx.job.rpartition(".")
        done = await self.ask(desk, lambda clerk: clerk.tick(Cycle(cycle)))
        counts: dict[str, int] = msgspec.structs.asdict(done)
        return counts

    # -- Host ----------------------------------------------------------------------------------------------------------

    def refuse_while_running(self, what: str) -> None:
        self._app._refuse_while_running(what)  # noqa: SLF001 - a part of its app

    async def ask(self, desk: str, call: Callable[[Clerk], Coroutine[Any, Any, T]]) -> T:
        app = self._app
        return await app._ask(lambda _: call(app._engine.records.clerk(desk)))  # noqa: SLF001 - a part of its app

    async def start(self, desk: str, reason: str | None) -> None:
        for cycle in Cycle:
            await self._app[job_name(desk, cycle)].start(reason=reason)

    async def stop(self, desk: str, reason: str | None) -> None:
        for cycle in Cycle:
            await self._app[job_name(desk, cycle)].stop(reason=reason)


def _function_name(desk: str) -> str:
    """The name that definitions of a desk's jobs have for their task: in a module that no other desk has."""
    module = desk if desk.isidentifier() and desk.isascii() else f"desk_{desk.encode().hex()}"
    return f"itinerary.records.desks.{module}:cycled"


def job_name(desk: str, cycle: Cycle) -> str:
    """The job of a cycle."""
    return f"{desk}.{cycle.value}"


class Offices:
    """Where the desks of an app work while a node runs: on the engine's loop, with handlers elsewhere."""

    def __init__(self, desks: Mapping[str, DeskDeclaration], coroutines: CoroutineExecutor) -> None:
        self._desks, self._coroutines = desks, coroutines
        # Twice as many as there are handlers at a time: some may hang, and be given up. Calls for time zones come on
        # top, so that a hanging one takes no thread from a handler.
        self._threads = Threads(
            2 * sum(desk.settings.handlers_max for desk in desks.values()) + ZONE_CALLS_MAX * len(desks)
        )

    def service(
        self, store: Store, node: NodeNumber | None, clock: Clock, log: Any, *, slow_after: int
    ) -> RecordsService:
        """All desks of this node, which has joined. `slow_after` is how long a call to the store takes before it is
        logged, in microseconds."""
        assert node is not None, "a node that has started has joined"
        for warning in _warnings(self._desks.values()):
            log.warning("settings.questionable", what=warning)
        ground = Ground(store, node, clock, log, call=self._call, slow_after=slow_after)
        return RecordsService(store, log, [Clerk(desk, ground) for desk in self._desks.values()])

    def close(self) -> None:
        """End the idle threads of the handlers."""
        self._threads.close()

    async def _call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function of the program: coroutines where its coroutines run, plain functions in a thread."""
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
    """Nothing that a handler raises may end the loop that it runs on."""
    try:
        return await function(argument)
    except (SystemExit, KeyboardInterrupt) as error:
        raise HandlerLeft(f"it raised {type(error).__name__}") from error


class Threads:
    """A pool of threads for plain functions. The threads are daemons: one that never returns must not keep a program
    from ending, and counts for as long as it lives."""

    def __init__(self, threads_max: int) -> None:
        threads_max = max(threads_max, 1)
        self._free = asyncio.Semaphore(threads_max)
        self._pool = DaemonPool("itinerary-records", threads_max)

    async def run(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function, and return or raise what it does. A caller that is cancelled leaves the function to itself.

        The function sees the context variables of the caller; what it sets there ends with the call.
        """
        await self._free.acquire()
        loop, context = asyncio.get_running_loop(), copy_context()
        outcome: asyncio.Future[Any] = loop.create_future()

        def live() -> None:
            try:
                told = partial(_set_result, outcome, context.run(function, argument))
            except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
                told = partial(_set_exception, outcome, error)
            except BaseException as error:  # noqa: BLE001 - and this must end nobody but the handler
                told = partial(_set_exception, outcome, HandlerLeft(f"it raised {type(error).__name__}"))
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
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
    """A handler tried to end the program."""


def _set_result(outcome: asyncio.Future[Any], result: Any) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _set_exception(outcome: asyncio.Future[Any], error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)


def _warnings(desks: Iterable[DeskDeclaration]) -> list[str]:
    return [f"desk {desk.name}: {warning}" for desk in desks for warning in desk.settings.warnings()]
