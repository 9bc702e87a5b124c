"""Asking a store again until it answers.

Every call on a store, repeated, answers as the first time and changes nothing more: so a component that has something
to write simply goes on asking, and a node outlives the absence of its store. It says so once, and once more when the
store is back (N5).

Some errors no waiting mends. If one is about a single request of a batch, the others must not suffer for it: the batch
is halved until that one is found, and it alone is refused (PROTOCOL 12). A schema that has moved on is another matter:
nobody with this program has any business there, and the node ends (26).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from itinerary.errors import SchemaError, StoreError, StoreFull, StoreUnavailable
from itinerary.schedules.durations import SECOND

__all__ = ["FIRST_WAIT", "Patience"]

Q = TypeVar("Q")
T = TypeVar("T")

FIRST_WAIT: Final = 0.1
"""Seconds; each wait is twice as long as the one before it."""
_LONGEST_WAIT: Final = 5 * SECOND


class Patience:
    """One component's way of asking its store."""

    def __init__(self, component: str, log: Any, longest_wait: int = _LONGEST_WAIT) -> None:
        """It waits twice as long each time, up to `longest_wait` microseconds: a node's heartbeat interval, so that a
        store which is away is asked about as often as it is when all is well."""
        self._component, self._log, self._longest_wait = component, log, longest_wait / SECOND
        self.is_waiting = False
        """Whether the store does not answer at the moment."""
        self.failures = 0
        """How often it has not answered, in all."""

    async def ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """What the store answers, however long that takes. Errors that asking again cannot mend are raised."""
        wait = FIRST_WAIT
        while True:
            try:
                answer = await call()
            except (StoreUnavailable, StoreFull) as error:
                self.failures += 1
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
                wait = min(wait * 2, self._longest_wait)
            else:
                if self.is_waiting:
                    self.is_waiting = False
                    self._log.info("store.answers_again", component=self._component, what=what)
                return answer

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
