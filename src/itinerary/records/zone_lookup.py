"""Look up the time zone of partitions: call the program's `timezone` function, and retry until it answers.

    unknown ──call──► a zone                                    the partition is scheduled from the next cycle on
       ▲        │
       └── 1 s, 2 s, 4 s … 60 s ◄── raised, or took longer than 10 s: logged, and the partition counts as stalled

The function belongs to the program and may use a database or a service that is down at the moment. One failure must not
stop a partition permanently, and one partition must not delay the others. So each partition has a task of its own, and
a cycle waits only for the first call.

A thread that hangs cannot be ended. A call that takes too long is left alone, and its answer still counts if it comes.
A partition with `_STUCK_MAX` such calls gets no further call until one of them returns: otherwise a function that
always hangs would use up all threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable
from typing import Final, Protocol

from itinerary.model.exception_text import message_of
from itinerary.model.stalled import StalledPartition
from itinerary.model.text import NAME_MAX
from itinerary.records.environment import RecordsEnvironment
from itinerary.schedules.zones import Zone

__all__ = ["ZONE_CALLS_MAX", "PartitionZone", "ZoneLookup"]

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_CALL_TIMEOUT: Final = 10.0
"""The seconds after which a call counts as failed."""
_STUCK_MAX: Final = 3
"""The maximum number of unreturned calls for one partition."""
ZONE_CALLS_MAX: Final = 16
"""The maximum number of calls at a time for all partitions of a record scheduler."""
_ERROR_MAX: Final = 300
"""The maximum number of characters of an error that are kept."""


class PartitionZone(Hashable, Protocol):
    """A partition that this node holds, with or without a known time zone."""

    zone: Zone | None

    @property
    def partition(self) -> str:
        """The name of the partition."""


class ZoneLookup:
    """The zone lookup of one record scheduler. All methods are called on the engine's loop, except `stalled`."""

    def __init__(self, desk: str, environment: RecordsEnvironment, zone_of: Callable[[str], Zone]) -> None:
        self._desk, self._environment, self._zone_of = desk, environment, zone_of
        self._tasks: dict[PartitionZone, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[Zone]] = set()
        self._stalled: dict[PartitionZone, StalledPartition] = {}
        self._room = asyncio.Semaphore(ZONE_CALLS_MAX)

    @property
    def stalled(self) -> list[StalledPartition]:
        """The partitions that are not scheduled after a failed call, the oldest first. May be read from any thread."""
        return sorted(self._stalled.copy().values(), key=lambda one: (one.since, one.partition))

    async def look_up(self, holdings: Collection[PartitionZone]) -> None:
        """Start the lookup of missing zones, and wait for the first call for each of them."""
        first_calls = []
        for holding in holdings:
            if holding.zone is None and holding not in self._tasks:
                first_call = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(self._find(holding, first_call), name=f"{self._desk} time zone")
                self._tasks[holding] = task
                first_calls.append(first_call)
        if first_calls:
            await asyncio.wait(first_calls, timeout=_CALL_TIMEOUT)

    def drop(self, holding: PartitionZone) -> None:
        """Stop the lookup for a partition that this node no longer holds."""
        self._stalled.pop(holding, None)
        task = self._tasks.pop(holding, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Stop all lookups. Calls that have not returned are left to their threads."""
        for holding in list(self._tasks):
            self.drop(holding)
        for call in list(self._calls):
            call.cancel()

    async def _find(self, holding: PartitionZone, first_call: asyncio.Future[None]) -> None:
        wait, tries = _FIRST_WAIT, 0
        stuck: set[asyncio.Task[Zone]] = set()
        while holding.zone is None:
            tries += 1
            error = await self._try(holding, stuck)
            if error is not None:
                self._failed(holding, error, tries, wait)
            if not first_call.done():
                first_call.set_result(None)
            if error is not None:
                await _first_of(stuck, wait)
                wait = min(wait * 2, _LONGEST_WAIT)
                if len(stuck) >= _STUCK_MAX:
                    await asyncio.wait(stuck, return_when=asyncio.FIRST_COMPLETED)
                self._take_late_answer(holding, stuck)
        if self._stalled.pop(holding, None) is not None:
            self._environment.log.warning(
                "records.zone_found", desk=self._desk, partition=holding.partition, zone=holding.zone.name, tries=tries
            )
        del self._tasks[holding]

    async def _try(self, holding: PartitionZone, stuck: set[asyncio.Task[Zone]]) -> str | None:
        """Call the function once. Return why there is no zone. Add a call that has not returned to `stuck`."""
        await self._room.acquire()
        call = asyncio.ensure_future(self._call(holding.partition))
        self._calls.add(call)
        call.add_done_callback(self._returned)
        await asyncio.wait([call], timeout=_CALL_TIMEOUT)
        if not call.done():
            stuck.add(call)
            return f"the timezone function has not returned for {_CALL_TIMEOUT:g} s"
        return self._answered(holding, call)

    async def _call(self, partition: str) -> Zone:
        zone: Zone = await self._environment.call(self._zone_of, partition)
        return zone

    def _returned(self, call: asyncio.Task[Zone]) -> None:
        self._room.release()
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # asyncio reports an exception that was never retrieved

    def _answered(self, holding: PartitionZone, call: asyncio.Task[Zone]) -> str | None:
        error = call.exception()
        if error is None:
            holding.zone = call.result()
            return None
        return f"{type(error).__name__[:NAME_MAX]}: {message_of(error)}"[:_ERROR_MAX]

    def _take_late_answer(self, holding: PartitionZone, stuck: set[asyncio.Task[Zone]]) -> None:
        for call in [call for call in stuck if call.done()]:
            stuck.discard(call)
            if holding.zone is None:
                self._answered(holding, call)

    def _failed(self, holding: PartitionZone, error: str, tries: int, wait: float) -> None:
        known = self._stalled.get(holding)
        since = self._environment.clock.now() if known is None else known.since
        self._stalled[holding] = StalledPartition(self._desk, holding.partition, since, error)
        self._environment.log.error(
            "records.no_zone",
            desk=self._desk,
            partition=holding.partition,
            error=error,
            tries=tries,
            again_in=wait,
            hint="nothing of the partition is scheduled until the timezone function returns the name of a zone",
        )


async def _first_of(calls: Collection[asyncio.Task[Zone]], seconds: float) -> None:
    """Wait for a number of seconds, or until one of the calls returns."""
    if calls:
        await asyncio.wait(calls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(seconds)
