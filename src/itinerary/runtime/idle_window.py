"""A lull: the loop has nothing to do for a while, so now is the time for what can be done at any time.

A sweep and a rebuilding of the index take a tenth of a second or more beside thousands of occurrences a second: on
other threads, but these share one lock with the loop, the interpreter's. Instants are whole seconds. Whoever begins
such work just before one makes all of its starts late.

    the loop      ── starts ── ends ── claims ──│······ nothing until 12:00:05 ······│── starts ──
    the sweeper           waits ────────────────│─► sweeps

So before it begins, it waits until the loop says that it has nothing to do; but not for long: a loop that is never idle
keeps nobody from their work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from itinerary.schedules.durations import SECOND

__all__ = ["Comes", "Lull", "any_time"]

Comes: TypeAlias = Callable[[], Awaitable[None]]
"""Waits for a good moment."""

_LONG_ENOUGH: Final = 0.3
"""Seconds that what waits for a lull usually takes, at most."""
_PATIENCE: Final = 1.0
"""Seconds after which it does not wait any longer."""


class Lull:
    """Says when the loop has nothing to do. Whoever waits is on the same event loop."""

    def __init__(self, elapsed: Callable[[], int]) -> None:
        self._elapsed = elapsed
        self._until = 0
        self._has_begun = asyncio.Event()

    def begin(self, seconds: float) -> None:
        """The loop has nothing to do for so long; 0: it is busy."""
        self._until = self._elapsed() + round(seconds * SECOND)
        if seconds >= _LONG_ENOUGH:
            self._has_begun.set()

    async def comes(self) -> None:
        """Wait for a lull that is long enough, or until patience is at its end."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while self._until - self._elapsed() < _LONG_ENOUGH * SECOND:
                    self._has_begun.clear()
                    await self._has_begun.wait()
        except TimeoutError:
            return


async def any_time() -> None:
    """Every moment is a good one: there is no loop whose starts could be late."""
