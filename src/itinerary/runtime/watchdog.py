"""The watchdog: notices when the loop that the coroutines of tasks run on is blocked (X4).

A coroutine that computes for a minute, or waits without `await`, holds up every other coroutine on its loop. The engine
is not on that loop, so it goes on; and it can say who it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from itinerary.schedules.durations import SECOND

__all__ = ["Watchdog"]

_LOOK_INTERVAL: Final = 1.0
_PATIENCE: Final = 2 * SECOND
"""For how long a loop may be busy before somebody is told."""


class Watchdog:
    """Looks at a loop from outside. `blocked_for` says for how long it has not answered, and what it is busy with."""

    def __init__(self, blocked_for: Callable[[], tuple[int, str | None]], log: Any) -> None:
        self._blocked_for, self._log = blocked_for, log

    async def run(self) -> None:
        """Look, for ever; each blockade is logged when it is noticed, and when it is over."""
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
