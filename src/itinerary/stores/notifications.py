"""Notifications: a durable counter for each topic, and a bell that wakes watchers in this process.

    notify(topics)  ──►  NOTIFICATIONS (topic, count)  ──►  watch: which counters changed since the last poll?

A counter is durable and goes up in the same commit as the change, so a watcher misses nothing. Each engine decides when
to poll (`Engine.looks`): after some time, when the bell rings, or when the file has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from itinerary.model.rows import NotificationRow
from itinerary.stores.tables import NOTIFICATIONS
from itinerary.stores.transaction import Transaction

__all__ = ["TOPICS_MAX", "Bell", "changed", "counts", "raise_counts"]

TOPICS_MAX: Final = 1_000
"""The most topics that a store can have."""
_NEVER: Final = NotificationRow("", 0)


def counts(tx: Transaction) -> dict[str, int]:
    """Return the counter of each topic."""
    return {row.topic: row.count for row in tx.scan(NOTIFICATIONS, limit=TOPICS_MAX)}


def changed(seen: dict[str, int], now: dict[str, int]) -> frozenset[str]:
    """Return the topics whose counters differ from `seen`."""
    return frozenset(topic for topic, count in now.items() if seen.get(topic) != count)


def raise_counts(tx: Transaction, topics: Collection[str]) -> None:
    """Raise the counters of these topics: `Transaction.tell` for an engine without a statement for it."""
    known = tx.get(NOTIFICATIONS, [(topic,) for topic in topics])
    tx.put(NOTIFICATIONS, [NotificationRow(topic, known.get((topic,), _NEVER).count + 1) for topic in topics])


class Bell:
    """A bell that wakes the watchers in this process, on any event loop."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever the bell rings."""
        event = asyncio.Event()
        self._listeners[event] = asyncio.get_running_loop()
        try:
            yield event
        finally:
            del self._listeners[event]

    def ring(self) -> None:
        """Wake all watchers. Any thread may call this."""
        for event, loop in list(self._listeners.items()):
            with suppress(RuntimeError):  # the loop is closed, so no watcher waits there
                loop.call_soon_threadsafe(event.set)
