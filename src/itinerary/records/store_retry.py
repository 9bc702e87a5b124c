"""The event store is away: ask again, say so, and go on from where it was (E7).

    no answer ── 1 s ── 2 s ── 4 s ── … ── 60 s ── 60 s ──►        each try is in the log
                                       ▲
                        60 s after the first: one alert, in the log, as a figure, and to the desk's hook
    an answer ──►  one notice, if there was an alert; and everybody who waits asks at once

Everything that is asked of a store can be asked again, so nothing else has to be done about it. All parts of a desk
share this: what one of them finds out, the others need not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from itinerary.errors import StoreFull, StoreUnavailable
from itinerary.ports import Clock
from itinerary.records.metrics import Figures
from itinerary.runtime.slow_calls import logged_if_slow
from itinerary.schedules.durations import SECOND

__all__ = ["ALERT_AFTER", "Outage"]

T = TypeVar("T")

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
ALERT_AFTER: Final = 60.0
"""Seconds."""


class Outage:
    """How a desk asks its store."""

    def __init__(
        self,
        desk: str,
        clock: Clock,
        log: Any,
        figures: Figures,
        *,
        alert: Callable[[str], None],
        on_over: Callable[[], None],
        slow_after: int,
    ) -> None:
        """`alert` is told when the store has been away for long, and when that is over; `on_over` is told of the end of
        each absence, however short. Both must not wait. A call that takes longer than `slow_after` microseconds is
        logged while it waits."""
        self._desk, self._clock, self._log, self._figures = desk, clock, log, figures
        self._alert, self._on_over, self._slow_after = alert, on_over, slow_after
        self._since: int | None = None
        self._is_alerted = False
        self._timer: asyncio.TimerHandle | None = None
        self._answers = asyncio.Event()
        self._answers.set()

    @property
    def is_on(self) -> bool:
        """Whether the store does not answer at the moment."""
        return self._since is not None

    async def ask(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """What the store answers, however long that takes. Errors that asking again cannot mend are raised."""
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
        """Nobody asks any more."""
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
