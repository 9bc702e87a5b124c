"""News: counters that go up when something has happened, and a bell for those who wait in this process.

    tell(topics)  ──►  SIGNALS (topic, count)  ──►  watch: whose counter is another than at the last look?

A counter is durable and is raised with the commit that it tells of, so nothing is missed whatever becomes of those who
wait. When to look is each engine's own affair (`Engine.news`): after some time, when the bell rings, when the file has
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from itinerary.model.rows import SignalRow
from itinerary.stores.tables import SIGNALS
from itinerary.stores.transaction import Transaction

__all__ = ["TOPICS_MAX", "Bell", "changed", "counts", "raise_counts"]

TOPICS_MAX: Final = 1_000
"""The most topics that there can be news of."""
_NEVER: Final = SignalRow("", 0)


def counts(tx: Transaction) -> dict[str, int]:
    """How often each topic has been told of."""
    return {row.topic: row.count for row in tx.scan(SIGNALS, limit=TOPICS_MAX)}


def changed(seen: dict[str, int], now: dict[str, int]) -> frozenset[str]:
    """The topics that have been told of since `seen`."""
    return frozenset(topic for topic, count in now.items() if seen.get(topic) != count)


def raise_counts(tx: Transaction, topics: Collection[str]) -> None:
    """`Transaction.tell`, of an engine that has no statement for it."""
    known = tx.get(SIGNALS, [(topic,) for topic in topics])
    tx.put(SIGNALS, [SignalRow(topic, known.get((topic,), _NEVER).count + 1) for topic in topics])


class Bell:
    """Wakes those who wait in this process, on whichever loop they are."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever the bell is rung."""
        event = asyncio.Event()
        self._listeners[event] = asyncio.get_running_loop()
        try:
            yield event
        finally:
            del self._listeners[event]

    def ring(self) -> None:
        """Called from any thread."""
        for event, loop in list(self._listeners.items()):
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(event.set)
