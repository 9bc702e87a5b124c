"""The rate limit of recovery runs (R3): a number per second, in small batches.

After an outage of days, 100,000 recovery runs may be due at once. If they started as fast as slots allow, runs that are
due now would wait behind them at the store and in the loop. So recovery runs start at a fixed rate, and always leave
some of the node's slots to other runs.

A batch is the quota of a tenth of a second. No other run waits long behind a batch of that size, and the loop does not
wake up for each run. Unused quota is kept for one second at most.
"""

from __future__ import annotations

from typing import Final

from itinerary.schedules.durations import SECOND

__all__ = ["RecoveryRate", "kept_free"]

_PORTION_EVERY: Final = SECOND // 10
_KEPT_FREE: Final = 5


def kept_free(slots: int) -> int:
    """Return how many of a node's slots recovery leaves free: a fifth, or none if there are fewer than five slots."""
    return slots // _KEPT_FREE


class RecoveryRate:
    """A token bucket for recovery runs."""

    __slots__ = ("_left", "_per_second", "_since")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._left = 0
        """The unused quota in millionths of a run, so that rounding loses nothing."""
        self._since: int | None = None

    def change(self, per_second: int) -> None:
        """Set the rate. Keep at most one second of unused quota."""
        self._per_second = per_second
        self._left = min(self._left, per_second * SECOND)

    def ready(self, now: int) -> int:
        """Return how many runs may start now. A clock that was set back resets the quota."""
        if self._since is None or now < self._since:
            self._since, self._left = now - _PORTION_EVERY, 0
        passed = (now - self._since) // _PORTION_EVERY * _PORTION_EVERY
        self._since += passed
        self._left = min(self._left + passed * self._per_second, self._per_second * SECOND)
        return self._left // SECOND

    def use(self, count: int) -> None:
        """Subtract `count` started runs from the quota."""
        self._left -= count * SECOND

    @property
    def next_at(self) -> int:
        """The time of the next increase of the quota."""
        return 0 if self._since is None else self._since + _PORTION_EVERY
