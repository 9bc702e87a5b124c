"""Asking a store again until it answers.

Every call on a store, repeated, answers as the first time and changes nothing more: so a component that has something
to write simply goes on asking, and a node outlives the absence of its store. It says so once, and once more when the
store is back (N5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from itinerary.errors import StoreFull, StoreUnavailable

__all__ = ["Patience"]

T = TypeVar("T")

_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 5.0


class Patience:
    """One component's way of asking its store."""

    def __init__(self, component: str, log: Any) -> None:
        self._component, self._log = component, log
        self.is_waiting = False
        """Whether the store does not answer at the moment."""

    async def ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """What the store answers, however long that takes. Errors that asking again cannot mend are raised."""
        wait = _FIRST_WAIT
        while True:
            try:
                answer = await call()
            except (StoreUnavailable, StoreFull) as error:
                if not self.is_waiting:
                    self.is_waiting = True
                    self._log.warning(
                        "store.unavailable",
                        component=self._component,
                        what=what,
                        error=str(error),
                        hint="it is asked again until it answers",
                    )
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                if self.is_waiting:
                    self.is_waiting = False
                    self._log.info("store.answers_again", component=self._component, what=what)
                return answer
