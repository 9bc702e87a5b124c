"""The syncer: writes changes in batches (L7).

Updates wait until there are enough of them, or until the first has waited long enough. An urgent update, such as an end
or the gate of a launch, is written at once together with all earlier ones. Only one batch is in progress at a time, so
the writes of an occurrence arrive in order.

A failed batch is repeated until it is written. Every update has a number, so a second write changes nothing, and no
update is ever dropped. The core limits how many may wait (L8). Statistics beyond their limit are dropped and counted.
When a node ends, it writes the remaining statistics before it leaves (`flush`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from itinerary.core.loop.messages import WritesAnswered
from itinerary.errors import StoreError
from itinerary.model.rows import NodeNumber, StatisticsRow
from itinerary.model.settings import Settings
from itinerary.model.writes import OwnerWrite, Refusal, Refused, Written
from itinerary.ports import Store
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.store_retry import StoreRetry
from itinerary.runtime.store_use import StoreUse
from itinerary.schedules.durations import SECOND

__all__ = ["Syncer"]

CHANGES_AT_ONCE: Final = 1_024
STATISTICS_MAX: Final = 3_600
"""Rows of statistics that wait during a store outage: one hour."""


class Buffer:
    """Items that wait to be written together, until there are enough or the first has waited long enough."""

    def __init__(self, threshold: int, interval: int) -> None:
        self._threshold, self._interval = threshold, interval / SECOND
        self._is_due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.items: list[Any] = []

    def change(self, threshold: int, interval: int) -> None:
        """Use a new threshold and interval, also for the items that already wait."""
        self._threshold, self._interval = threshold, interval / SECOND
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.add(())

    def add(self, items: Sequence[Any], *, is_urgent: bool = False) -> None:
        """Add items."""
        self.items += items
        if self.items and (is_urgent or len(self.items) >= self._threshold):
            self._is_due.set()
        elif self.items and self._timer is None and not self._is_due.is_set():
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._is_due.set)

    async def due(self) -> None:
        """Wait until items are due to be written."""
        await self._is_due.wait()

    def take(self, most: int) -> list[Any]:
        """Remove and return the first items."""
        taken, self.items = self.items[:most], self.items[most:]
        if not self.items:
            self._is_due.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return taken


class Syncer:
    """The component that writes updates and statistics."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        inbox: Inbox,
        log: Any,
        use: StoreUse | None = None,
    ) -> None:
        self._use = use
        self._store, self._node, self._inbox, self._log = store, node, inbox, log
        self._changes = Buffer(settings.update_flush_threshold, settings.update_flush_interval)
        self._statistics = Buffer(settings.stats_flush_threshold, settings.stats_flush_interval)
        self._longest_wait = settings.node_heartbeat_interval
        self._on_the_way = 0
        self._rows_on_the_way: list[StatisticsRow] = []
        self.dropped_statistics = 0

    def take_settings(self, settings: Settings) -> None:
        """Use the flush thresholds and intervals of these settings."""
        self._changes.change(settings.update_flush_threshold, settings.update_flush_interval)
        self._statistics.change(settings.stats_flush_threshold, settings.stats_flush_interval)

    @property
    def unwritten_updates(self) -> int:
        """The number of updates that are not durable yet."""
        return len(self._changes.items) + self._on_the_way

    @property
    def unwritten_statistics(self) -> int:
        """The number of statistics rows that are not stored yet."""
        return len(self._statistics.items) + len(self._rows_on_the_way)

    def write(self, changes: Sequence[OwnerWrite], *, is_urgent: bool) -> None:
        """Write these changes in order: at once if urgent, otherwise with the next batch."""
        self._changes.add(changes, is_urgent=is_urgent)

    def keep(self, row: StatisticsRow) -> None:
        """Store a row of statistics with the next batch."""
        if self.unwritten_statistics >= STATISTICS_MAX:
            self.dropped_statistics += 1
            if self.dropped_statistics == 1:
                self._log.warning("statistics.dropped", waiting=STATISTICS_MAX, hint="is the store reachable?")
            return
        self._statistics.add([row])

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_changes(), name="updates")
            group.create_task(self._run_statistics(), name="statistics")

    async def _run_changes(self) -> None:
        patience = StoreRetry("syncer", self._log, self._longest_wait, self._use)
        while True:
            await self._changes.due()
            changes: list[OwnerWrite] = self._changes.take(CHANGES_AT_ONCE)
            self._on_the_way = len(changes)
            answers = await self._written(patience, changes)
            self._on_the_way = 0
            await self._inbox.deliver(WritesAnswered(changes, answers))

    async def _written(self, patience: StoreRetry, changes: Sequence[OwnerWrite]) -> Sequence[Written | Refused]:
        return await patience.ask_each(lambda some: self._store.write(self._node, some), changes, "write", _refused)

    async def _run_statistics(self) -> None:
        patience = StoreRetry("statistics", self._log, self._longest_wait)
        while True:
            await self._statistics.due()
            await self._keep_some(patience)

    async def flush(self, patience: StoreRetry) -> None:
        """Store the remaining statistics, after `run` has ended."""
        while self.unwritten_statistics:
            await self._keep_some(patience)

    async def _keep_some(self, patience: StoreRetry) -> None:
        """Store one batch of statistics. An interrupted batch is written again, which stores no row twice."""
        rows = self._rows_on_the_way = self._rows_on_the_way or self._statistics.take(CHANGES_AT_ONCE)
        try:
            await patience.ask(lambda: self._store.note_statistics(rows), "statistics")
        except StoreError as error:
            self.dropped_statistics += len(rows)
            self._log.warning("statistics.dropped", count=len(rows), error=str(error))
        self._rows_on_the_way = []


def _refused(change: OwnerWrite, error: StoreError) -> Written | Refused:
    return Refused(change.ref, Refusal.ILLEGAL, str(error))
