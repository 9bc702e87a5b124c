"""Retry store calls during an outage of the event store, raise an alert, and resume (E7).

    no answer ── 1 s ── 2 s ── 4 s ── … ── 60 s ── 60 s ──►        each try is logged
                                       ▲
                        60 s after the first: one alert, in the log, as a metric, and to the program's hook
    an answer ──►  one notice, if there was an alert; and every waiting call is retried at once

Every store call can be repeated safely, so a retry is enough. All parts of a record scheduler share one
`RecordStoreRetry`: an answer to one of them ends the wait of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from itinerary.errors import StoreFull, StoreUnavailable
from itinerary.ports import Clock
from itinerary.records.metrics import RecordMetrics
from itinerary.runtime.slow_calls import logged_if_slow
from itinerary.schedules.durations import SECOND

__all__ = ["ALERT_AFTER", "RecordStoreRetry"]

T = TypeVar("T")

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
ALERT_AFTER: Final = 60.0
"""The length of an outage that raises an alert, in seconds."""


class RecordStoreRetry:
    """The retries of a record scheduler's store calls."""

    def __init__(
        self,
        desk: str,
        clock: Clock,
        log: Any,
        figures: RecordMetrics,
        *,
        alert: Callable[[str], None],
        on_over: Callable[[], None],
        slow_after: int,
    ) -> None:
        """Create it in the state without an outage.

        Args:
            desk: The name of the record scheduler.
            clock: The clock of the node.
            log: The logger.
            figures: The metrics, with the count of outages.
            alert: Called at the alert and at the end of that outage. Must not block.
            on_over: Called at the end of each outage, however short. Must not block.
            slow_after: A call longer than this is logged while it waits, in microseconds.
        """
        self._desk, self._clock, self._log, self._figures = desk, clock, log, figures
        self._alert, self._on_over, self._slow_after = alert, on_over, slow_after
        self._since: int | None = None
        self._is_alerted = False
        self._timer: asyncio.TimerHandle | None = None
        self._answers = asyncio.Event()
        self._answers.set()

    async def ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Call the store until it answers, and return the answer. Errors that a retry cannot fix are raised.

        Args:
            call: The store call.
            what: Words for the log, such as "read the log".
        """
        wait, tries = _FIRST_WAIT, 0
        while True:
            try:
                with logged_if_slow(self._log, f"records {self._desk}", what, self._slow_after):
                    answer = await call()
            except (StoreUnavailable, StoreFull) as error:
                tries += 1
                self._began()
                self._log.warning(
                    "records.store_unavailable",
                    desk=self._desk,
                    what=what,
                    error=str(error),
                    tries=tries,
                    asked_again_in=wait,
                )
                await self._wait(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                self._is_over()
                return answer

    def close(self) -> None:
        """Cancel the timer of the alert."""
        if self._timer is not None:
            self._timer.cancel()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._answers.wait()
        except TimeoutError:
            return

    def _began(self) -> None:
        self._answers.clear()
        if self._since is None:
            self._since = self._clock.elapsed()
            self._timer = asyncio.get_running_loop().call_later(ALERT_AFTER, self._lasts)

    def _lasts(self) -> None:
        self._is_alerted = True
        self._figures.outages += 1
        self._log.error(
            "records.outage",
            desk=self._desk,
            lasts_for=ALERT_AFTER,
            hint="nothing is lost: it goes on from where it was when the event store answers",
        )
        self._alert(f"desk {self._desk}: the event store has not answered for {ALERT_AFTER:.0f} s")

    def _is_over(self) -> None:
        if self._since is None:
            return
        lasted = (self._clock.elapsed() - self._since) / SECOND
        self._since = None
        self._answers.set()
        self.close()
        self._on_over()
        if self._is_alerted:
            self._is_alerted = False
            self._log.warning("records.outage_over", desk=self._desk, lasted=lasted)
            self._alert(f"desk {self._desk}: the event store answers again, after {lasted:.0f} s")
        else:
            self._log.info("records.store_answers_again", desk=self._desk, lasted=lasted)
