"""A desk, as a program sees it: what `app.records(…)` returns.

    desk = app.records("folio", partition_by="hotel", timezone=ZONES.__getitem__)

    @desk.handler                                 one batch: returning acknowledges it, raising brings it back
    async def work(batch): ...

    @desk.verification("email")                   what it returns is appended as an event
    async def check_mail(record): ...

    await desk.append("RecordCreated", record="F-100", hotel="lisbon", data={…}, key="import-7:F-100")

Declaring is over when a node starts; everything that is awaited needs one that runs. The desk itself runs on the
engine's loop, wherever it is asked from: `Host` is who knows the way there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload
from uuid import uuid4

from itinerary.errors import RecordError
from itinerary.model.text import check_name, shown
from itinerary.records.batches import Batch, Cycled, Event, Record, event_of
from itinerary.records.declaration import ONE_PARTITION, DeskDeclaration
from itinerary.records.event_types import ANY_CHECK, produced
from itinerary.records.worker import ALL_CYCLES, Clerk

__all__ = ["Host", "RecordDesk"]

T = TypeVar("T")
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[Batch], Any])
VerificationFunction = TypeVar("VerificationFunction", bound=Callable[[Record], Any])
AlertFunction = TypeVar("AlertFunction", bound=Callable[[str], Any])


class Host(Protocol):
    """What a desk needs of the program that it is declared in."""

    def refuse_while_running(self, what: str) -> None:
        """Raise NodeError if a node runs."""

    async def ask(self, desk: str, call: Callable[[Clerk], Coroutine[Any, Any, T]]) -> T:
        """Have something done on the engine's loop. Raises NodeError if no node runs."""

    async def start(self, desk: str, reason: str | None) -> None:
        """Let the cycles of a desk happen, on all nodes, from now on."""

    async def stop(self, desk: str, reason: str | None) -> None:
        """Let none of them happen, until they are started again."""


class RecordDesk:
    """Records of one kind: who handles them, and what is said of them."""

    def __init__(self, declared: DeskDeclaration, host: Host) -> None:
        self._declared, self._host = declared, host

    @property
    def name(self) -> str:
        """Its name, which is also that of its log."""
        return self._declared.name

    def __repr__(self) -> str:
        return f"<RecordDesk {self.name!r}>"

    # -- declaring ---------------------------------------------------------------------------------------------------

    def handler(self, function: HandlerFunction) -> HandlerFunction:
        """The function that takes batches: a coroutine function, or a plain one, which runs in a thread."""
        self._host.refuse_while_running("be given handlers")
        self._declared.set_handler(function)
        return function

    @overload
    def verification(self, kind: VerificationFunction, /) -> VerificationFunction: ...
    @overload
    def verification(self, kind: str, /) -> Callable[[VerificationFunction], VerificationFunction]: ...
    def verification(self, kind: Any, /) -> Any:
        """A function that verifies records: `@desk.verification("email")` those of that kind, `@desk.verification`
        those that say no kind. What it returns is JSON, and becomes an event."""
        if not isinstance(kind, str):
            return self.verification(ANY_CHECK)(kind)

        def declare(function: VerificationFunction) -> VerificationFunction:
            self._host.refuse_while_running("be given handlers")
            self._declared.set_verification(kind, function)
            return function

        return declare

    def on_alert(self, function: AlertFunction) -> AlertFunction:
        """A function that is told, with a line of text, when the event store has been away for a minute, and when it
        is back."""
        self._host.refuse_while_running("be given hooks")
        self._declared.add_alert(function)
        return function

    # -- while a node runs ---------------------------------------------------------------------------------------------

    async def append(self, kind: str, /, *, record: str, key: str | None = None, **fields: Any) -> int:
        """Append an event, and return its number. The same `key`, sent twice, is one event. The partition is the field
        that the desk is partitioned by; it may be left out for a record that is known."""
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
        return await self._host.ask(self.name, lambda clerk: clerk.append(event, partition))

    async def process_scheduled_records(self) -> Cycled:
        """One cycle by hand, of each kind, for the partitions that this node holds: what is due is queued and goes to
        the handlers. Does not wait for these: `drained` does."""
        return await self._host.ask(self.name, lambda clerk: clerk.cycle(ALL_CYCLES))

    async def drained(self) -> None:
        """Wait until no handler on this node has anything in hand, and nothing waits for one."""
        await self._host.ask(self.name, lambda clerk: clerk.drained())

    async def start_scheduling(self, *, reason: str | None = None) -> None:
        """Have the three jobs run from now on, on all nodes; they do from the beginning, unless they were stopped."""
        await self._host.start(self.name, reason)

    async def stop_scheduling(self, *, reason: str | None = None) -> None:
        """Stop the three jobs, on all nodes, until they are started again: restarts included. What is in the queue is
        still handled, and cycles by hand still run."""
        await self._host.stop(self.name, reason)

    async def follow(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Every event after a number, and then each that is appended, for as long as the node runs."""
        while True:
            rows = await self._host.ask(self.name, lambda clerk: clerk.page(after))  # noqa: B023 - awaited in this turn
            for row in rows:
                yield event_of(row)
            after = rows[-1].sequence

    async def figures(self) -> dict[str, float | dict[str, float]]:
        """The desk's figures on this node, by the names of their metrics."""
        return await self._host.ask(self.name, _figures)

    async def partitions(self) -> list[str]:
        """The partitions that this node holds."""
        return await self._host.ask(self.name, _partitions)


async def _figures(clerk: Clerk) -> dict[str, float | dict[str, float]]:
    return clerk.figures.published()


async def _partitions(clerk: Clerk) -> list[str]:
    return clerk.partitions
