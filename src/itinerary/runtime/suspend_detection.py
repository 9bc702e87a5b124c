"""Time that passed without this node: the machine was suspended, or somebody stopped the process (N6).

    the node     ── turn ── turn ──┐                              ┌── turn ── turn ──
    its clock    ──────────────────┴── an hour, all at once ──────┴──────────────────    sleep of the machine included
    the store    ────────────────────────────────────────────────────────────────────

Nobody's clock is wrong then, so no comparison of clocks shows it: the store and the node agree before and after. What
shows it is a turn that should take a second or so and took an hour. Still the node's time has jumped, as far as the
node can tell: others may have taken its work, its index is old, and whoever reads the log wants to know why everything
was late. So it is on record like any other jump.

A clock that was set looks the same at first. It differs from the store's afterwards: so nothing is believed until an
answer of the store has agreed, and what turns out to be a clock that jumped is forgotten here (`forget`).

The other clock, which stands still while the machine sleeps, tells a machine that slept from a process that was
stopped, or did not get to run. Where there is none, it is called a stop.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from itinerary.runtime.clock import StoreClock
from itinerary.schedules.durations import SECOND

__all__ = ["SLEPT", "STOPPED", "Standstill", "StoodStill"]

SLEPT: Final = "the machine was suspended"
STOPPED: Final = "this process was stopped, or did not get to run"
_TURNS: Final = 5
"""In the time that is worth telling: so often it is looked, and so much later it may be noticed."""


class StoodStill(NamedTuple):
    """For how long, and by what."""

    lasted: int
    why: str


class Standstill:
    """Notices that time has passed without this node."""

    def __init__(self, clock: StoreClock, least: int) -> None:
        """Less than `least` is not worth telling: a loop is late now and then."""
        self._clock, self._least, self._turn = clock, least, least // _TURNS
        self._turned_at = self._both()
        self._found: StoodStill | None = None

    def _both(self) -> tuple[int, int]:
        return self._clock.elapsed(), self._clock.awake()

    async def turn(self) -> None:
        """Wait for as long as a turn should take, and see how long it took."""
        self._turned_at = self._both()
        await asyncio.sleep(self._turn / SECOND)
        (before, awake_before), (after, awake_after) = self._turned_at, self._both()
        lasted = after - before - self._turn
        if lasted < self._least:
            return
        was_awake = awake_after - awake_before - self._turn
        earlier = 0 if self._found is None else self._found.lasted
        self._found = StoodStill(earlier + lasted, SLEPT if was_awake < lasted // 2 else STOPPED)

    def forget(self) -> None:
        """It was a clock that jumped."""
        self._found, self._turned_at = None, self._both()

    def take(self) -> StoodStill | None:
        """What was noticed since the last time, now that the store has agreed."""
        found, self._found = self._found, None
        return found
