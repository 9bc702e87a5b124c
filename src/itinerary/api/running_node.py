"""A node that runs, as the program that runs it sees it: what `async with app.running() as node` gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast

from itinerary.config.job_options import RunOptions
from itinerary.core.loop.replies import ActiveOccurrence, JobStanding
from itinerary.jobs.declaration import Rules
from itinerary.jobs.undeclared import UndeclaredJobs
from itinerary.model.report import Report
from itinerary.observe.counters import Tally
from itinerary.observe.node_probe import Watched
from itinerary.operations.adjust import AdjustedRun
from itinerary.operations.node_client import Desk, NodeStatistics
from itinerary.ports import Store
from itinerary.read.run_lookup import Run, RunLike
from itinerary.stores.cross_loop_proxy import lent

if TYPE_CHECKING:
    from itinerary.api.application import Itinerary

__all__ = ["RunningNode"]

T = TypeVar("T")


class RunningNode:
    """What can be asked of a running node. An occurrence is what `trigger` returned, its id, or a run id."""

    def __init__(self, app: Itinerary) -> None:
        self._app = app

    @property
    def name(self) -> str:
        """What it is called."""
        return self._app.configuration.name

    @property
    def store(self) -> str:
        """The address of its store, without a password."""
        return self._app._engine.store_url  # noqa: SLF001 - a node is a part of its app

    @property
    def health(self) -> str | None:
        """Where probes are answered and metrics published: `127.0.0.1:9187`; None: nowhere."""
        at = self._app._engine.health_at  # noqa: SLF001 - a node is a part of its app
        return None if at is None else str(at)

    @property
    def undeclared(self) -> UndeclaredJobs | None:
        """The jobs that the source of the app no longer declares, and what became of them at the start; None if the
        setting `undeclared` is not given."""
        return self._app._engine.undeclared  # noqa: SLF001 - a node is a part of its app

    @property
    def watched(self) -> Watched:
        """The node, for those who look at it from another thread."""
        return self._app._engine  # noqa: SLF001 - a node is a part of its app

    @property
    def rules(self) -> Rules:
        """What declarations are checked against here: which functions may be named above all."""
        return self._app._rules  # noqa: SLF001 - a node is a part of its app

    def tally(self) -> Tally:
        """What is counted of it, from now on, if it was not before."""
        return self._app._engine.tally()  # noqa: SLF001 - a node is a part of its app

    def lent_store(self) -> Store:
        """Its store, for somebody on another loop: everything that is asked of it is asked on the engine's."""
        engine = self._app._engine  # noqa: SLF001 - a node is a part of its app
        return lent(engine.store, engine.submit)

    async def wait(self, occurrence: RunLike) -> Report:
        """Wait until an occurrence has ended, on whichever node, and return what it came to."""
        return await self._ask(lambda desk: desk.wait(occurrence))

    async def cancel(self, occurrence: RunLike, *, reason: str | None = None) -> bool:
        """Ask an occurrence to end; who runs it ends it soon (O5). False if it has ended otherwise already."""
        return await self._ask(lambda desk: desk.requests.cancel(occurrence, reason))

    async def replay(
        self,
        occurrence: RunLike,
        *,
        reason: str | None = None,
        tasks: Sequence[str] | None = None,
        version: Literal["original", "current"] = "original",
        key: str | None = None,
    ) -> Run:
        """Run an occurrence again, or these tasks of it, as the version that it ran with, or the one in force now. It
        is a new occurrence, linked to the old one, and waits for its turn while another run of the job is in progress.
        The same `key`, sent twice, is one replay."""
        return await self._ask(lambda desk: desk.requests.replay(occurrence, reason, tasks, version, key))

    async def adjust(
        self, occurrence: RunLike, *, reason: str | None = None, **overrides: Unpack[RunOptions]
    ) -> AdjustedRun:
        """Set values on a run that has not started: `node.adjust(run, priority=9)`. What is not named stays as it is.

        Returns:
            The run, with every value that is set on it.

        Raises:
            NodeError: The run has started or ended.
        """
        options = cast("Mapping[str, object]", overrides)
        return await self._ask(lambda desk: desk.requests.adjust(occurrence, options, reason))

    async def occurrence(self, occurrence: RunLike) -> ActiveOccurrence | None:
        """What this node's loop knows of one run: its state, its start, its last heartbeat, and what it waits for.

        Returns:
            None if this node does not have the run: another one does, or it has ended a while ago.
        """
        return await self._ask(lambda desk: desk.occurrence(occurrence))

    async def job(self, name: str) -> JobStanding | None:
        """What this node's loop knows of one job: the version in force, and the runs that this node has of it.

        Returns:
            None if no version of the job is in force.
        """
        return await self._ask(lambda desk: desk.standing(name))

    async def active(self) -> list[ActiveOccurrence]:
        """What this node has in hand: claimed, waiting, running."""
        return await self._ask(lambda desk: desk.active())

    async def statistics(self) -> NodeStatistics:
        """How its loop, its inbox and its writes are."""
        return await self._ask(lambda desk: desk.statistics())

    def _ask(self, call: Callable[[Desk], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        return self._app._ask(call)  # noqa: SLF001 - a node is a part of its app
