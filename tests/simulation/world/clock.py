"""The clocks of a simulated world: the store clock is right, the clocks of the nodes may be wrong.

    store      epoch ────────────────────────────►    steady, in step with the loop
    machine           ──────┐        ┌──────────►     runs fast or slow, jumps forward and back (N6)
                            └────────┘

A machine's clock should only go forward, also during a freeze, as CLOCK_BOOTTIME does (protocol rule 23). On a virtual
machine that moves to another host, the clock may jump. The duration of a sleep is always right: the loop measures it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["NodeClock", "SimulatedStoreClock", "microseconds"]

_MILLION: Final = 1_000_000


def microseconds(seconds: float) -> int:
    """Convert seconds of the loop to whole microseconds."""
    return round(seconds * _MILLION)


class SimulatedStoreClock:
    """The store's time in microseconds since the epoch. This clock is authoritative."""

    def __init__(self, loop_time: Callable[[], float], begins_at: int) -> None:
        self._loop_time = loop_time
        self.begins_at = begins_at
        """The store's time when the loop's time was 0."""

    def __call__(self) -> int:
        return self.begins_at + round(self._loop_time() * _MILLION)

    def loop_time_of(self, instant: int) -> float:
        """Return the loop's time at an instant."""
        return (instant - self.begins_at) / _MILLION


class NodeClock:
    """A `ports.Clock` with the error of one machine's clock."""

    def __init__(
        self, store: SimulatedStoreClock, loop_time: Callable[[], float], *, ahead: int = 0, drift: int = 0
    ) -> None:
        self._store = store
        self._loop_time = loop_time
        self._ahead = ahead
        self._drift = drift
        """The microseconds that the clock gains per second."""

    def now(self) -> int:
        return self._store() + self._wrong_by()

    def elapsed(self) -> int:
        return round(self._loop_time() * _MILLION) + self._wrong_by()

    def _wrong_by(self) -> int:
        return self._ahead + round(self._loop_time() * self._drift) if self._drift else self._ahead

    def jump(self, by: int) -> None:
        """Move the clock by some microseconds: forward, or back if negative."""
        self._ahead += by
