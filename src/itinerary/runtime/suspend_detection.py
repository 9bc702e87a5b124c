"""The suspend detector: finds time that passed while the machine was suspended, or the process was stopped (N6).

    the node     ── turn ── turn ──┐                              ┌── turn ── turn ──
    its clock    ──────────────────┴── an hour, all at once ──────┴──────────────────    includes sleep of the machine
    the store    ────────────────────────────────────────────────────────────────────

All clocks are right in this case. A comparison of clocks shows nothing, because the store and the node agree before and
after. The sign is a turn that should take about a second and took an hour. For the node, time has still jumped. Other
nodes may have taken over its work, its index is old, and the log must show why everything was late. The node therefore
records this like any other jump.

A clock that was set looks the same at first, but then differs from the store's clock. A finding therefore counts only
after an answer of the store has agreed. If a clock has jumped, the detector drops its finding (`forget`).

A second clock, which stands still while the machine sleeps, distinguishes a suspended machine from a stopped process.
Without such a clock, the cause is reported as a stopped process.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from itinerary.runtime.clock import StoreClock
from itinerary.schedules.durations import SECOND

__all__ = ["SLEPT", "STOPPED", "StoodStill", "SuspendDetector"]

SLEPT: Final = "the machine was suspended"
STOPPED: Final = "this process was stopped, or did not get to run"
_TURNS: Final = 5
"""Turns within the shortest reported time. More turns notice a suspend sooner."""


class StoodStill(NamedTuple):
    """The duration for which the node stood still, and the cause."""

    lasted: int
    why: str


class SuspendDetector:
    """The detector of time that passed without this node."""

    def __init__(self, clock: StoreClock, least: int) -> None:
        """Create a detector. A time shorter than `least` is not reported, because a loop is late now and then."""
        self._clock, self._least, self._turn = clock, least, least // _TURNS
        self._turned_at = self._both()
        self._found: StoodStill | None = None

    def _both(self) -> tuple[int, int]:
        return self._clock.elapsed(), self._clock.awake()

    async def turn(self) -> None:
        """Wait for the duration of a turn, and compare with the time that has passed."""
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
        """Drop the finding: a clock has jumped."""
        self._found, self._turned_at = None, self._both()

    def take(self) -> StoodStill | None:
        """Return the finding since the last call. Call this when the store's clock has agreed."""
        found, self._found = self._found, None
        return found
