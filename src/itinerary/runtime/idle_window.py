"""The idle window: a time in which the loop has nothing to do, and other work can run.

A sweep or a rebuild of the index takes a tenth of a second or more beside thousands of occurrences a second. Such work
runs on other threads, but these threads share the interpreter lock with the loop. Instants are whole seconds. Work that
begins just before an instant makes all starts of that instant late.

    the loop      ── starts ── ends ── claims ──│······ nothing until 12:00:05 ······│── starts ──
    the sweeper           waits ────────────────│─► sweeps

Such work therefore waits until the loop reports that it is idle. The wait is short: a loop that is never idle does not
stop other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from itinerary.schedules.durations import SECOND

__all__ = ["Comes", "IdleWindow", "any_time"]

Comes: TypeAlias = Callable[[], Awaitable[None]]
"""A function that waits for a good moment."""

_LONG_ENOUGH: Final = 0.3
"""Seconds that the waiting work usually needs, at most."""
_PATIENCE: Final = 1.0
"""Seconds after which the work no longer waits."""


class IdleWindow:
    """The idle time that the loop reports. Waiting tasks run on the same event loop."""

    def __init__(self, elapsed: Callable[[], int]) -> None:
        self._elapsed = elapsed
        self._until = 0
        self._has_begun = asyncio.Event()

    def begin(self, seconds: float) -> None:
        """Report that the loop has nothing to do for this time. 0 means that the loop is busy."""
        self._until = self._elapsed() + round(seconds * SECOND)
        if seconds >= _LONG_ENOUGH:
            self._has_begun.set()

    async def comes(self) -> None:
        """Wait for a long enough idle window, but at most `_PATIENCE` seconds."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while self._until - self._elapsed() < _LONG_ENOUGH * SECOND:
                    self._has_begun.clear()
                    await self._has_begun.wait()
        except TimeoutError:
            return


async def any_time() -> None:
    """Return at once: without a loop, no starts can be late."""
