"""The watchdog: reports when the event loop of the tasks' coroutines is blocked (X4).

A coroutine that computes for a minute, or waits without `await`, blocks every other coroutine on its loop. The node
runs on another loop, so it continues to run and can name the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from itinerary.schedules.durations import SECOND

__all__ = ["Watchdog"]

_LOOK_INTERVAL: Final = 1.0
_PATIENCE: Final = 2 * SECOND
"""The time for which a loop may be busy before the watchdog logs it."""


class Watchdog:
    """A monitor of another event loop. `blocked_for` returns how long that loop has not answered, and what it runs."""

    def __init__(self, blocked_for: Callable[[], tuple[int, str | None]], log: Any) -> None:
        self._blocked_for, self._log = blocked_for, log

    async def run(self) -> None:
        """Check until cancelled. Log the start and the end of every blockade."""
        longest, who = 0, None
        while True:
            await asyncio.sleep(_LOOK_INTERVAL)
            blocked_for, what = self._blocked_for()
            if blocked_for >= _PATIENCE:
                if not longest:
                    self._log.warning(
                        "loop.blocked",
                        task=what,
                        seconds=blocked_for // SECOND,
                        hint="a coroutine must await; make it a plain function, and it runs in a thread",
                    )
                longest, who = blocked_for, what or who
            elif longest:
                self._log.warning("loop.free_again", task=who, seconds=longest // SECOND)
                longest, who = 0, None
