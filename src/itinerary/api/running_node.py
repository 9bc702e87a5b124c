"""The handle of a running node, for the program that runs it: the result of `async with app.running() as node`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast

from itinerary.config.job_options import RunOptions
from itinerary.core.loop.replies import ActiveOccurrence, JobOverview
from itinerary.jobs.declaration import DeclarationContext
from itinerary.jobs.undeclared import UndeclaredJobs
from itinerary.model.report import OccurrenceReport
from itinerary.observe.counters import MetricCounters
from itinerary.observe.node_probe import NodeProbe
from itinerary.operations.adjust import AdjustedRun
from itinerary.operations.node_client import NodeClient, NodeStatistics
from itinerary.ports import Store
from itinerary.read.run_lookup import RunLike, RunReference
from itinerary.stores.cross_loop_proxy import lent

if TYPE_CHECKING:
    from itinerary.api.application import Itinerary

__all__ = ["RunningNode"]

T = TypeVar("T")


class RunningNode:
    """A running node. An occurrence is what `trigger` returned, its id, or a run id."""

    def __init__(self, app: Itinerary) -> None:
        self._app = app

    @property
    def name(self) -> str:
        """The name of the node."""
        return self._app.configuration.name

    @property
    def store(self) -> str:
        """The URL of the store, without a password."""
        return self._app._engine.store_url  # noqa: SLF001 - a node is a part of its app

    @property
    def health(self) -> str | None:
        """The address of probes and metrics: `127.0.0.1:9187`; None if there is none."""
        at = self._app._engine.health_at  # noqa: SLF001 - a node is a part of its app
        return None if at is None else str(at)

    @property
    def undeclared(self) -> UndeclaredJobs | None:
        """The jobs that the source of the app no longer declares, and what the start did with them.

        None if the setting `undeclared` is not given.
        """
        return self._app._engine.undeclared  # noqa: SLF001 - a node is a part of its app

    @property
    def watched(self) -> NodeProbe:
        """The node, for observers in other threads."""
        return self._app._engine  # noqa: SLF001 - a node is a part of its app

    @property
    def rules(self) -> DeclarationContext:
        """The rules that check declarations here, such as the functions that may be named."""
        return self._app._rules  # noqa: SLF001 - a node is a part of its app

    def tally(self) -> MetricCounters:
        """Return the metric counters of the node, and start counting if that has not begun."""
        return self._app._engine.tally()  # noqa: SLF001 - a node is a part of its app

    def lent_store(self) -> Store:
        """Return the store for use on another loop. Every call runs on the node's event loop."""
        engine = self._app._engine  # noqa: SLF001 - a node is a part of its app
        return lent(engine.store, engine.submit)

    async def wait(self, occurrence: RunLike) -> OccurrenceReport:
        """Wait until an occurrence has ended, on any node, and return its report."""
        return await self._ask(lambda desk: desk.wait(occurrence))

    async def cancel(self, occurrence: RunLike, *, reason: str | None = None) -> bool:
        """Ask an occurrence to end; its node ends it soon (O5). False if it has ended otherwise already."""
        return await self._ask(lambda desk: desk.requests.cancel(occurrence, reason))

    async def replay(
        self,
        occurrence: RunLike,
        *,
        reason: str | None = None,
        tasks: Sequence[str] | None = None,
        version: Literal["original", "current"] = "original",
        key: str | None = None,
    ) -> RunReference:
        """Run an occurrence again, or some tasks of it.

        The replay is a new occurrence, linked to the old one. While another run of the job is in progress, it waits in
        the queue. Two calls with the same `key` make one replay.

        Args:
            occurrence: The occurrence, which has ended.
            reason: Why; stored with the replay.
            tasks: The tasks to run; None: all.
            version: `original` for the version of the first run, `current` for the one in force.
            key: The idempotency key.
        """
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
        """Return this node's view of one run: its state, start, last heartbeat, and what it waits for.

        Returns:
            None if this node does not have the run: another node has it, or it ended some time ago.
        """
        return await self._ask(lambda desk: desk.occurrence(occurrence))

    async def job(self, name: str) -> JobOverview | None:
        """Return this node's view of one job: the version in force, and the job's runs on this node.

        Returns:
            None if no version of the job is in force.
        """
        return await self._ask(lambda desk: desk.status(name))

    async def active(self) -> list[ActiveOccurrence]:
        """Return the active occurrences of this node: claimed, waiting, running."""
        return await self._ask(lambda desk: desk.active())

    async def statistics(self) -> NodeStatistics:
        """Return the statistics of the loop, the inbox and the writes."""
        return await self._ask(lambda desk: desk.statistics())

    def _ask(self, call: Callable[[NodeClient], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        return self._app._ask(call)  # noqa: SLF001 - a node is a part of its app
