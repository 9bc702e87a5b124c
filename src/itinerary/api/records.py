"""Record schedulers of a program: `app.records(…)` declares one, with its three jobs (SPEC E).

`itinerary.records` handles records, logs, leases and handlers, and must not import this package. So a record scheduler
receives a `Host`, which `AppRecordSchedulers` implements.

**Three jobs (E9).** A record scheduler `folio` has the jobs `folio.pickup`, `folio.callbacks` and
`folio.verifications`. All of them run one function, which decides by the name of its job. The function has a separate
name for each record scheduler. So a node that does not declare one leaves its jobs to other nodes (protocol rule 5). A
missed tick is not repeated: the next one finds the due records.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors import ExecutionContext
from itinerary.jobs.declaration import Declaration, DeclarationContext
from itinerary.records.cycle import Cycle, interval_of
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.worker import RecordWorker
from itinerary.schedules import every
from itinerary.schedules.durations import format_duration

if TYPE_CHECKING:
    from itinerary.api.application import Itinerary

__all__ = ["AppRecordSchedulers"]

T = TypeVar("T")

_TASK: Final = "cycle"


class AppRecordSchedulers:
    """The record schedulers of an app, and their host."""

    def __init__(self, app: Itinerary) -> None:
        self._app = app
        self.declared: dict[str, DeskDeclaration] = {}

    def declare(self, desk: DeskDeclaration, rules: DeclarationContext) -> list[Declaration]:
        """Add a record scheduler, and return its three jobs."""
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
        """Run a due cycle of a record scheduler, and return its counts on this node as the result of the task."""
        desk, _, cycle = ctx.job.rpartition(".")
        done = await self.ask(desk, lambda clerk: clerk.tick(Cycle(cycle)))
        counts: dict[str, int] = msgspec.structs.asdict(done)
        return counts

    # -- Host ----------------------------------------------------------------------------------------------------------

    def refuse_while_running(self, what: str) -> None:
        self._app._refuse_while_running(what)  # noqa: SLF001 - a part of its app

    async def ask(self, desk: str, call: Callable[[RecordWorker], Coroutine[Any, Any, T]]) -> T:
        app = self._app
        return await app._ask(lambda _: call(app._engine.records.worker(desk)))  # noqa: SLF001 - a part of its app

    async def start(self, desk: str, reason: str | None) -> None:
        for cycle in Cycle:
            await self._app[job_name(desk, cycle)].start(reason=reason)

    async def stop(self, desk: str, reason: str | None) -> None:
        for cycle in Cycle:
            await self._app[job_name(desk, cycle)].stop(reason=reason)


def _function_name(desk: str) -> str:
    """Return the function name in the jobs of a record scheduler: in a module that no other one has."""
    module = desk if desk.isidentifier() and desk.isascii() else f"desk_{desk.encode().hex()}"
    return f"itinerary.records.desks.{module}:cycled"


def job_name(desk: str, cycle: Cycle) -> str:
    """Return the job name of a cycle."""
    return f"{desk}.{cycle.value}"
