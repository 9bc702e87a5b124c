"""A record scheduler, as a program sees it: the value of `app.records(…)`.

    desk = app.records("folio", partition_by="hotel", timezone=ZONES.__getitem__)

    @desk.handler                                 one batch: a return acknowledges it, an exception retries it
    async def work(batch): ...

    @desk.verification("email")                   the result is appended as an event
    async def check_mail(record): ...

    await desk.append("RecordCreated", record="F-100", hotel="lisbon", data={…}, key="import-7:F-100")

Declarations must be made before a node starts, and the coroutines need a running node. A record scheduler runs on the
engine's loop and may be called from any other: `Host` passes the calls on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload
from uuid import uuid4

from itinerary.errors import RecordError
from itinerary.model.text import check_name, shown
from itinerary.records.batches import CycleCounts, Event, Record, RecordBatch, event_of
from itinerary.records.declaration import ONE_PARTITION, DeskDeclaration
from itinerary.records.event_types import ANY_CHECK, produced
from itinerary.records.worker import ALL_CYCLES, RecordWorker

__all__ = ["Host", "RecordScheduler"]

T = TypeVar("T")
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[RecordBatch], Any])
VerificationFunction = TypeVar("VerificationFunction", bound=Callable[[Record], Any])
AlertFunction = TypeVar("AlertFunction", bound=Callable[[str], Any])


class Host(Protocol):
    """The functions that a record scheduler needs from the program that declares it."""

    def refuse_while_running(self, what: str) -> None:
        """Raise NodeError if a node runs."""

    async def ask(self, desk: str, call: Callable[[RecordWorker], Coroutine[Any, Any, T]]) -> T:
        """Run a call on the engine's loop. Raise NodeError if no node runs."""

    async def start(self, desk: str, reason: str | None) -> None:
        """Start the cycles of a record scheduler, on all nodes."""

    async def stop(self, desk: str, reason: str | None) -> None:
        """Stop the cycles of a record scheduler, on all nodes, until they are started again."""


class RecordScheduler:
    """Records of one kind, with their handlers and their log."""

    def __init__(self, declared: DeskDeclaration, host: Host) -> None:
        self._declared, self._host = declared, host

    @property
    def name(self) -> str:
        """The name of the record scheduler and of its log."""
        return self._declared.name

    def __repr__(self) -> str:
        return f"<RecordScheduler {self.name!r}>"

    # -- declaring ---------------------------------------------------------------------------------------------------

    def handler(self, function: HandlerFunction) -> HandlerFunction:
        """Declare the function that handles batches: a coroutine function, or a plain one, which runs in a thread."""
        self._host.refuse_while_running("be given handlers")
        self._declared.set_handler(function)
        return function

    @overload
    def verification(self, kind: VerificationFunction, /) -> VerificationFunction: ...
    @overload
    def verification(self, kind: str, /) -> Callable[[VerificationFunction], VerificationFunction]: ...
    def verification(self, kind: Any, /) -> Any:
        """Declare a function that verifies records. Its result is JSON and becomes an event.

        Args:
            kind: The kind of verification, as in `@desk.verification("email")`. The plain `@desk.verification` is for
                verifications without a kind.
        """
        if not isinstance(kind, str):
            return self.verification(ANY_CHECK)(kind)

        def declare(function: VerificationFunction) -> VerificationFunction:
            self._host.refuse_while_running("be given handlers")
            self._declared.set_verification(kind, function)
            return function

        return declare

    def on_alert(self, function: AlertFunction) -> AlertFunction:
        """Declare a function that receives a line of text after a minute of store outage, and after its end."""
        self._host.refuse_while_running("be given hooks")
        self._declared.add_alert(function)
        return function

    # -- while a node runs ---------------------------------------------------------------------------------------------

    async def append(self, kind: str, /, *, record: str, key: str | None = None, **fields: Any) -> int:
        """Append an event and return its number.

        Args:
            kind: The kind of the event.
            record: The name of the record.
            key: The idempotency key. Two events with the same key are one event.
            **fields: The fields of the event and its partition, under the name in `partition_by`. The partition may be
                omitted for a known record.

        Raises:
            RecordError: The event is not allowed, or the partition is missing or wrong.
            NodeError: No node runs.
        """
        partition: object = ONE_PARTITION
        if self._declared.partition_by is not None:
            partition = fields.pop(self._declared.partition_by, None)
        if partition is not None:
            if not isinstance(partition, str):
                raise RecordError(f"{self._declared.partition_by}: {shown(partition)} is not text")
            try:
                check_name(f"{self._declared.partition_by or 'partition'}", partition)
            except ValueError as error:
                raise RecordError(str(error)) from error
        event = produced(kind, record, fields, f"{uuid4()}" if key is None else key)
        return await self._host.ask(self.name, lambda worker: worker.append(event, partition))

    async def process_scheduled_records(self) -> CycleCounts:
        """Run one cycle of each kind by hand, for the partitions that this node holds.

        Due records are queued for the handlers. To wait for the handlers, call `drained`.
        """
        return await self._host.ask(self.name, lambda worker: worker.cycle(ALL_CYCLES))

    async def drained(self) -> None:
        """Wait until no delivery on this node is pending or in progress."""
        await self._host.ask(self.name, lambda worker: worker.drained())

    async def start_scheduling(self, *, reason: str | None = None) -> None:
        """Start the three jobs again on all nodes. Only needed after a stop."""
        await self._host.start(self.name, reason)

    async def stop_scheduling(self, *, reason: str | None = None) -> None:
        """Stop the three jobs on all nodes until they are started again, also across restarts.

        Queued batches are still delivered, and cycles by hand still run.
        """
        await self._host.stop(self.name, reason)

    async def follow(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield every event after a number, then each new event for as long as the node runs."""
        while True:
            rows = await self._host.ask(self.name, lambda worker: worker.page(after))  # noqa: B023 - awaited in this iteration
            for row in rows:
                yield event_of(row)
            after = rows[-1].sequence

    async def figures(self) -> dict[str, float | dict[str, float]]:
        """Return the metrics of the record scheduler on this node, by name."""
        return await self._host.ask(self.name, _figures)

    async def partitions(self) -> list[str]:
        """Return the partitions that this node holds."""
        return await self._host.ask(self.name, _partitions)


async def _figures(worker: RecordWorker) -> dict[str, float | dict[str, float]]:
    return worker.figures.published()


async def _partitions(worker: RecordWorker) -> list[str]:
    return worker.partitions
