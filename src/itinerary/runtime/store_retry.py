"""Retries of store calls until the store answers.

A repeated store call gives the same answer as the first call, and changes nothing more. A component that has something
to write therefore repeats the call, and a node survives an outage of its store. The start and the end of the outage are
logged once each (N5).

A call without an answer after a heartbeat interval is logged while it still waits, and counts as a failure. A node
whose heartbeat hangs has lost contact, and must not count that time as silence of other nodes (protocol rule 16).

Waiting does not solve some errors. If the error concerns a single request of a batch, the other requests must not fail
with it. The batch is halved until that request is found, and only that one is refused (protocol rule 12). A newer
schema is different: this program version may not use the store, and the node stops (protocol rule 26).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from itinerary.errors import SchemaError, StoreError, StoreFull, StoreUnavailable
from itinerary.runtime.slow_calls import logged_if_slow
from itinerary.runtime.store_use import StoreUse
from itinerary.schedules.durations import SECOND

__all__ = ["FIRST_WAIT", "StoreRetry"]

Q = TypeVar("Q")
T = TypeVar("T")

FIRST_WAIT: Final = 0.1
"""Seconds before the first retry. Every later wait is twice as long as the one before."""
_LONGEST_WAIT: Final = 5 * SECOND


class StoreRetry:
    """The retries of one component's store calls."""

    def __init__(
        self, component: str, log: Any, longest_wait: int = _LONGEST_WAIT, use: StoreUse | None = None
    ) -> None:
        """Create the retries of a component.

        Args:
            component: The name for the log.
            log: The log of the node.
            longest_wait: The longest wait between retries, in microseconds. With a node's heartbeat interval, a store
                in an outage gets about as many calls as usual.
            use: Adds up the duration of the calls.
        """
        self._use = use
        self._component, self._log, self._longest_wait = component, log, longest_wait / SECOND
        self.is_waiting = False
        """True if the store does not answer at the moment."""
        self._is_said = False
        self.failures = 0
        """The number of calls that the store has not answered, or not within a heartbeat interval."""

    async def ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Call the store until it answers, without a time limit.

        Args:
            call: Makes the call.
            what: A description of the call, for the log.

        Raises:
            StoreError: If a retry cannot help.
        """
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
        """Make the call, and log it if the answer takes longer than a heartbeat interval."""
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
        """Call the store with a batch, and return the answers in order.

        Args:
            call: Makes the call with a part of the batch.
            batch: The requests.
            what: A description of the call, for the log.
            refused: Makes the answer to a request that the store cannot carry out.

        Raises:
            SchemaError: If the schema of the store is newer than this program.
        """
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
