"""The clocks of a simulated world: the store's, which is the truth, and those of the nodes, which may be wrong.

    store      epoch ────────────────────────────►    steady, in step with the loop
    machine           ──────┐        ┌──────────►     runs fast or slow, jumps ahead and back (N6)
                            └────────┘

A machine's clock should only go forward, freezes included, as CLOCK_BOOTTIME does (protocol rule 23). A virtual machine
that is moved to another host may see otherwise. How long a sleep takes is right in any case: that is the loop's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["NodeClock", "StoreClock", "microseconds"]

_MILLION: Final = 1_000_000


def microseconds(seconds: float) -> int:
    """A time of the loop in microseconds, exactly as it was meant."""
    return round(seconds * _MILLION)


class StoreClock:
    """The time of the store, in microseconds since the epoch: the one that decides."""

    def __init__(self, loop_time: Callable[[], float], begins_at: int) -> None:
        self._loop_time = loop_time
        self.begins_at = begins_at
        """What it showed when the loop's time was 0."""

    def __call__(self) -> int:
        return self.begins_at + round(self._loop_time() * _MILLION)

    def loop_time_of(self, instant: int) -> float:
        """When that is, on the loop."""
        return (instant - self.begins_at) / _MILLION


class NodeClock:
    """What one machine believes. A `ports.Clock`, which is wrong by as much as its machine's clock is."""

    def __init__(self, store: StoreClock, loop_time: Callable[[], float], *, ahead: int = 0, drift: int = 0) -> None:
        self._store = store
        self._loop_time = loop_time
        self._ahead = ahead
        self._drift = drift
        """Microseconds that it gains in a second."""

    def now(self) -> int:
        return self._store() + self._wrong_by()

    def elapsed(self) -> int:
        return round(self._loop_time() * _MILLION) + self._wrong_by()

    def _wrong_by(self) -> int:
        return self._ahead + round(self._loop_time() * self._drift) if self._drift else self._ahead

    def jump(self, by: int) -> None:
        """Set it: ahead, or, if negative, back."""
        self._ahead += by
