"""Where desks meet the app: `app.records(…)` declares one, and the engine runs it (SPEC E).

    itinerary.records     knows records, logs, leases and handlers; and of the engine only its store, clock and log
    here                  the three jobs of each desk; the way to the engine's loop; where handlers run

The layer below must not know the app. So a desk is given a `Host`, which is here, and asks it.

**Three jobs (E9).** A desk `folio` has the jobs `folio.pickup`, `folio.callbacks` and `folio.verifications`. All of
them run one function, which sees by the name of its job what it is for; it has a name for each desk, so that a node
which lacks a desk leaves its jobs to others (PROTOCOL 5). A tick that was missed is not made up for: the next one finds
what is due.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from itinerary.app.declaring import Declaration, Rules
from itinerary.errors import ConfigError
from itinerary.executors import ExecutionContext
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.rows import NodeNumber
from itinerary.ports import Clock, Store
from itinerary.records.clerk import Clerk
from itinerary.records.deciding import Cycle
from itinerary.records.declared import DeskDeclaration
from itinerary.records.ground import Ground
from itinerary.records.service import RecordsService
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
        settings = desk.settings
        function = rules.registry.register(self.cycled, _function_name(desk.name))
        intervals = {
            Cycle.PICKUP: settings.schedule_interval,
            Cycle.CALLBACKS: settings.callback_check_interval,
            Cycle.VERIFICATIONS: settings.verification_check_interval,
        }
        jobs = []
        for cycle, interval in intervals.items():
            options = {"overlap": "skip", "recovery": "mark_as_missed"}
            job = Declaration(rules, job_name(desk.name, cycle), every(format_duration(interval)), options)
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
        threads = sum(desk.settings.handlers_max for desk in desks.values())
        self._threads = ThreadPoolExecutor(max(threads, 1), thread_name_prefix="itinerary-records")

    def service(self, store: Store, node: NodeNumber | None, clock: Clock, log: Any) -> RecordsService:
        """All desks of this node, which has joined."""
        assert node is not None, "a node that has started has joined"
        for warning in _warnings(self._desks.values()):
            log.warning("settings.questionable", what=warning)
        ground = Ground(store, node, clock, log, call=self._call)
        return RecordsService(store, log, [Clerk(desk, ground) for desk in self._desks.values()])

    def close(self) -> None:
        """Handlers that still run in threads are left to themselves: what they had comes back."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function of the program: coroutines where its coroutines run, plain functions in a thread."""
        if not inspect.iscoroutinefunction(inspect.unwrap(function)):
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, argument)
        loop = self._coroutines.loop
        if loop is asyncio.get_running_loop():
            return await function(argument)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(argument), loop))


def _warnings(desks: Iterable[DeskDeclaration]) -> list[str]:
    return [f"desk {desk.name}: {warning}" for desk in desks for warning in desk.settings.warnings()]
