"""Asking a store again until it answers.

Every call on a store, repeated, answers as the first time and changes nothing more: so a component that has something
to write simply goes on asking, and a node outlives the absence of its store. It says so once, and once more when the
store is back (N5).

A call that has not been answered after a heartbeat interval is logged while it still waits, and counts as a failure: a
node whose heartbeat hangs is out of touch, and must not judge the silence of others by that time (protocol rule 16).

Some errors no waiting mends. If one is about a single request of a batch, the others must not suffer for it: the batch
is halved until that one is found, and it alone is refused (protocol rule 12). A schema that has moved on is another
matter: nobody with this program has any business there, and the node ends (protocol rule 26).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from itinerary.errors import SchemaError, StoreError, StoreFull, StoreUnavailable
from itinerary.runtime.slow_calls import logged_if_slow
from itinerary.runtime.store_use import StoreUse
from itinerary.schedules.durations import SECOND

__all__ = ["FIRST_WAIT", "Patience"]

Q = TypeVar("Q")
T = TypeVar("T")

FIRST_WAIT: Final = 0.1
"""Seconds; each wait is twice as long as the one before it."""
_LONGEST_WAIT: Final = 5 * SECOND


class Patience:
    """One component's way of asking its store."""

    def __init__(
        self, component: str, log: Any, longest_wait: int = _LONGEST_WAIT, use: StoreUse | None = None
    ) -> None:
        """It waits twice as long each time, up to `longest_wait` microseconds: a node's heartbeat interval, so that a
        store which is away is asked about as often as it is when all is well. `use` adds up how long it takes."""
        self._use = use
        self._component, self._log, self._longest_wait = component, log, longest_wait / SECOND
        self.is_waiting = False
        """Whether the store does not answer at the moment."""
        self._is_said = False
        self.failures = 0
        """How often it has not answered, or not within a heartbeat interval, in all."""

    async def ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """What the store answers, however long that takes. Errors that asking again cannot mend are raised."""
        if self._use is None:
            return await self._ask(call, what)
        with self._use.call():
            return await self._ask(call, what)

    async def _ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        wait = FIRST_WAIT
        while True:
            try:
                answer = await self._timed(call, what)
            except (StoreUnavailable, StoreFull) as error:
                self.failures += 1
                self.is_waiting = True
                if not self._is_said:
                    self._is_said = True
                    self._log.warning(
                        "store.unavailable",
                        component=self._component,
                        what=what,
                        error=str(error),
                        hint="it is asked again until it answers",
                    )
                await asyncio.sleep(wait)
                wait = min(wait * 2, self._longest_wait)
            else:
                if self.is_waiting:
                    self.is_waiting = self._is_said = False
                    self._log.info("store.answers_again", component=self._component, what=what)
                return answer

    async def _timed(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Call it, and say so if the answer takes longer than a heartbeat interval."""
        after = round(self._longest_wait * SECOND)
        with logged_if_slow(self._log, self._component, what, after, on_slow=self._is_slow):
            return await call()

    def _is_slow(self) -> None:
        self.failures += 1
        self.is_waiting = True

    async def ask_each(
        self,
        call: Callable[[Sequence[Q]], Awaitable[Sequence[T]]],
        batch: Sequence[Q],
        what: str,
        refused: Callable[[Q, StoreError], T],
    ) -> Sequence[T]:
        """What the store answers to each of a batch, in order; what it cannot do at all is answered by `refused`."""
        try:
            return await self.ask(lambda: call(batch), what)
        except SchemaError:
            raise
        except StoreError as error:
            if len(batch) == 1:
                return [refused(batch[0], error)]
        middle = len(batch) // 2
        first = await self.ask_each(call, batch[:middle], what, refused)
        return [*first, *await self.ask_each(call, batch[middle:], what, refused)]
