"""Deliver batches and verifications to the handlers, a limited number at a time (E10).

    arrived ──► waiting ──► RecordPickedUp ──► the handler ──► returned: BatchAcknowledged
                   ▲                              │
                   └──── 1 s, 2 s, 4 s … 60 s ────┴── raised, or timed out

A batch stays in the queue until it is acknowledged. If the handler raises, the batch is retried after a wait. If the
process dies, the node that takes over the partition finds the batch unacknowledged in the log, and delivers it. So a
handler may see a batch again (see `attempt`), and no batch is forgotten. A new attempt leaves out completed records.

A verification goes the same way: it is triggered, handled, and its result is appended.

If the node loses the partition, its deliveries are cancelled. The other node delivers the same batches, and the store
would refuse an acknowledgement from this node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from itinerary.errors import RecordError
from itinerary.model.events import NewEvent
from itinerary.model.exception_text import message_of
from itinerary.model.queries import EventsAtQuery
from itinerary.model.rows import EventRow
from itinerary.model.text import NAME_MAX
from itinerary.records.batches import Record, RecordBatch, instant_of
from itinerary.records.environment import RecordsEnvironment
from itinerary.records.event_types import RecordQueued, acknowledged, picked_up, read_fields, verified
from itinerary.records.partition_leases import Holding, PartitionLeases
from itinerary.records.projection import OpenBatch, Verification
from itinerary.records.settings import DeskSettings
from itinerary.records.store_retry import RecordStoreRetry
from itinerary.schedules.durations import SECOND

__all__ = ["Delivery", "Handlers"]

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_DOUBLINGS_MAX: Final = 6
_CANCEL_TIMEOUT: Final = 2.0
"""The time in seconds within which cancelled deliveries must end."""
_NAMED_MAX: Final = 20


class Handlers(Protocol):
    """The functions of the program that belong to a record scheduler."""

    @property
    def handler(self) -> Callable[[RecordBatch], Any] | None:
        """The function that handles batches."""

    @property
    def verifications(self) -> Mapping[str, Callable[[Record], Any]]:
        """The functions that verify records, by kind."""


class _Parcel:
    """A pending delivery: a batch, by its name, or a verification."""

    __slots__ = ("attempts", "holding", "size", "what")

    def __init__(self, holding: Holding, what: str | Verification) -> None:
        self.holding, self.what = holding, what
        self.size = len(holding.known.batches[what].records) if isinstance(what, str) else 0
        self.attempts = 0

    def __str__(self) -> str:
        if isinstance(self.what, str):
            return f"batch {self.what}"
        return f"verification {self.what.kind} of {self.what.record}"


class Delivery:
    """The pending deliveries, and the deliveries in progress."""

    def __init__(
        self,
        desk: str,
        environment: RecordsEnvironment,
        settings: DeskSettings,
        handlers: Handlers,
        outage: RecordStoreRetry,
        *,
        on_done: Callable[[], None],
    ) -> None:
        """Create an empty delivery.

        Args:
            desk: The name of the record scheduler.
            ground: The store, the clock and the log of the node.
            settings: The settings of the record scheduler.
            handlers: The functions of the program.
            outage: The retries of store calls.
            on_done: Called after each delivery attempt.
        """
        self._desk, self._environment, self._settings = desk, environment, settings
        self._handlers, self._outage, self._on_done = handlers, outage, on_done
        self._waiting: deque[_Parcel] = deque()
        self._in_hand: dict[asyncio.Task[None], _Parcel] = {}
        self._timers: dict[_Parcel, asyncio.TimerHandle] = {}
        self._unhandled: set[str] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_ending = False
        self.records_left = 0
        """The number of records that are pending or in progress."""
        self.holdings: PartitionLeases
        """Set by the worker, which creates both objects."""

    # -- from the log ------------------------------------------------------------------------------------------------

    def take_in(self, holding: Holding) -> None:
        """Accept the batches and verifications that arrived in a partition since the last call."""
        arrived, holding.known.arrived = holding.known.arrived, []
        for what in arrived:
            is_there = what in (holding.known.batches if isinstance(what, str) else holding.known.triggered)
            if is_there and self._has_handler(what):
                parcel = _Parcel(holding, what)
                self._waiting.append(parcel)
                self.records_left += parcel.size
        self._hand_out()

    def drop(self, holding: Holding) -> None:
        """Remove all deliveries of a partition that this node no longer holds."""
        for parcel in [parcel for parcel in self._waiting if parcel.holding is holding]:
            self._waiting.remove(parcel)
            self.records_left -= parcel.size
        for parcel in [parcel for parcel in self._timers if parcel.holding is holding]:
            self._timers.pop(parcel).cancel()
            self.records_left -= parcel.size
        for task, parcel in list(self._in_hand.items()):
            if parcel.holding is holding and task is not asyncio.current_task():
                task.cancel()
        self._see_whether_idle()

    async def drained(self) -> None:
        """Wait until no delivery is pending or in progress."""
        await self._is_idle.wait()

    def in_hand(self) -> list[str]:
        """Return the names of the deliveries in progress. May be called from any thread."""
        return [f"{self._desk}: {parcel}" for parcel in list(self._in_hand.values())]

    async def end(self, grace: float) -> list[str]:
        """Start no further deliveries, wait for those in progress, and cancel the rest.

        Args:
            grace: The longest wait in seconds.

        Returns:
            The names of the cancelled deliveries.
        """
        self._is_ending = True
        self._waiting.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._in_hand:
            await asyncio.wait(list(self._in_hand), timeout=grace)
        left, names = list(self._in_hand), self.in_hand()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_CANCEL_TIMEOUT)
            self._environment.log.warning(
                "records.handlers_cancelled",
                desk=self._desk,
                count=len(left),
                handlers=names[:_NAMED_MAX],
                hint="what they had comes back",
            )
        self._see_whether_idle()
        return names

    def _has_handler(self, what: str | Verification) -> bool:
        kind = None if isinstance(what, str) else what.kind
        found = self._handlers.handler if kind is None else self._handlers.verifications.get(kind)
        if found is None and (missing := kind or "batches") not in self._unhandled:
            self._unhandled.add(missing)
            self._environment.log.error(
                "records.no_handler", desk=self._desk, kind=missing, hint="declare one; until then it waits"
            )
        return found is not None

    def _hand_out(self) -> None:
        while self._waiting and len(self._in_hand) < self._settings.handlers_max and not self._is_ending:
            parcel = self._waiting.popleft()
            parcel.holding.in_hand += 1
            task = asyncio.get_running_loop().create_task(self._deliver(parcel), name=f"{self._desk} {parcel.what}")
            self._in_hand[task] = parcel
            task.add_done_callback(self._ended)
        self._see_whether_idle()

    def _ended(self, task: asyncio.Task[None]) -> None:
        parcel = self._in_hand.pop(task)
        parcel.holding.in_hand -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            why = f"{type(error).__name__}: {error}"
            self._environment.log.error("records.delivery_failed", desk=self._desk, what=str(parcel.what), error=why)
        if error is not None or task.cancelled():
            self._again(parcel)
        if parcel not in self._timers:
            self.records_left -= parcel.size
        self._hand_out()
        self._on_done()

    def _see_whether_idle(self) -> None:
        if self._waiting or self._in_hand or self._timers:
            self._is_idle.clear()
        else:
            self._is_idle.set()

    def _again(self, parcel: _Parcel) -> float:
        """Schedule a retry and return its wait in seconds, which doubles with each attempt."""
        wait: float = min(_FIRST_WAIT * 2 ** min(max(parcel.attempts - 1, 0), _DOUBLINGS_MAX), _LONGEST_WAIT)
        if not self._is_ending and self.holdings.holds(parcel.holding):
            self._timers[parcel] = asyncio.get_running_loop().call_later(wait, self._wake, parcel)
        return wait

    def _wake(self, parcel: _Parcel) -> None:
        del self._timers[parcel]
        self._waiting.append(parcel)
        self._hand_out()

    # -- to the handlers -----------------------------------------------------------------------------------------------

    async def _deliver(self, parcel: _Parcel) -> None:
        parcel.attempts += 1
        if isinstance(parcel.what, Verification):
            await self._verify(parcel, parcel.what)
            return
        batch = parcel.holding.known.batches.get(parcel.what)
        if batch is not None:
            await self._handle(parcel, batch)

    async def _handle(self, parcel: _Parcel, batch: OpenBatch) -> None:
        holding, log, attempt = parcel.holding, self._environment.log, batch.attempts + 1
        queued = dict(batch.records)
        if queued:
            events = [picked_up(record, batch.id, attempt) for record in queued]
            numbers = await self.holdings.append(holding, events, "pick up a batch")
            if numbers is None:
                return
            batch.attempts = attempt
            say = log.info  # looked up once: structlog creates a logger for each lookup
            for record, sequence in zip(queued, numbers, strict=True):
                say(
                    "records.picked_up",
                    desk=self._desk,
                    record=record,
                    batch=batch.id,
                    sequence=sequence,
                    attempt=attempt,
                )
            records = await self._records(holding, queued)
            why = await self._worked(RecordBatch(batch.id, self._desk, holding.partition, attempt, records))
            if why is not None:
                parcel.attempts = attempt
                wait = self._again(parcel)
                log.error(
                    "records.batch_failed",
                    desk=self._desk,
                    batch=batch.id,
                    records=len(records),
                    attempt=attempt,
                    error=why,
                    again_in=wait,
                )
                return
        numbers = await self.holdings.append(holding, [acknowledged(batch.id)], "acknowledge a batch")
        if numbers is not None:
            log.info("records.acknowledged", desk=self._desk, batch=batch.id, records=len(queued), sequence=numbers[0])

    async def _worked(self, batch: RecordBatch) -> str | None:
        """Call the handler with a batch. Return the error, or None."""
        if not batch.records:
            return None  # all its records were completed a moment ago
        assert self._handlers.handler is not None, "what nobody handles is not handed out"
        return (await self._called(self._handlers.handler, batch))[1]

    async def _verify(self, parcel: _Parcel, one: Verification) -> None:
        holding, log = parcel.holding, self._environment.log
        if one not in holding.known.triggered:
            return  # the record has been completed
        found = await self._records(holding, {one.record: None})
        if not found:
            return
        result, why = await self._called(self._handlers.verifications[one.kind], found[0])
        event: NewEvent | None = None
        if why is None:
            try:
                event = verified(one.record, one.check_time, one.kind, result)
            except RecordError as error:
                why = str(error)
        if event is None:
            wait = self._again(parcel)
            log.error(
                "records.verification_failed",
                desk=self._desk,
                record=one.record,
                verification=one.kind,
                attempt=parcel.attempts,
                error=why,
                again_in=wait,
            )
            return
        numbers = await self.holdings.append(holding, [event], "append a result")
        if numbers is not None:
            log.info("records.verified", desk=self._desk, record=one.record, verification=one.kind, sequence=numbers[0])

    async def _called(self, function: Callable[[Any], Any], argument: object) -> tuple[Any, str | None]:
        """Call a function of the program. Return its result and None, or None and the error."""
        try:
            async with asyncio.timeout(self._settings.handler_timeout / SECOND):
                return await self._environment.call(function, argument), None
        except TimeoutError:
            return None, f"it took longer than {self._settings.handler_timeout / SECOND:g} s, or ran into a timeout"
        except Exception as error:  # noqa: BLE001 - the attempt ends here, and the error is its result
            return None, f"{type(error).__name__[:NAME_MAX]}: {message_of(error)}"

    async def _records(self, holding: Holding, queued: Mapping[str, RecordQueued | None]) -> tuple[Record, ...]:
        """Return the records with their data, which is read from the log."""
        numbers = {record: holding.known.created_at(record) for record in queued}
        query = EventsAtQuery(self._desk, tuple(numbers.values()))
        rows = await self._outage.ask(lambda: self._environment.store.read(query), "read records")
        return tuple(
            _record(holding, record, rows[numbers[record]], said) for record, said in queued.items() if numbers[record]
        )


def _record(holding: Holding, record: str, row: EventRow, said: RecordQueued | None) -> Record:
    times = holding.known.times_queued(record)
    return Record(
        record,
        holding.partition,
        read_fields(row).data,
        instant_of(row.at),
        times if said is None else said.times,
        said is not None and said.retry,
    )
