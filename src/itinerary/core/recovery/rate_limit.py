"""How fast a backlog is released (R3): so many recovery runs a second, in small portions.

After an outage of days there may be a hundred thousand runs to be made up for, and all of them are due. If they were
taken up as fast as there is room for them, what is due now would stand between them at the store and in the loop. So
they are taken up at a set pace, and leave some of the node's slots to others however long they take.

A portion is a tenth of a second's worth: small enough that nothing waits behind one, and large enough that the loop is
not woken for each run. What was not used up is kept for a second at most.
"""

from __future__ import annotations

from typing import Final

from itinerary.schedules.durations import SECOND

__all__ = ["Pace", "kept_free"]

_PORTION_EVERY: Final = SECOND // 10
_KEPT_FREE: Final = 5


def kept_free(slots: int) -> int:
    """How many of a node's slots recovery leaves to others: a fifth. With fewer than five it uses all of them."""
    return slots // _KEPT_FREE


class Pace:
    """How many may be begun by now."""

    __slots__ = ("_left", "_per_second", "_since")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._left = 0
        """In millionths of one, so that nothing is lost by rounding."""
        self._since: int | None = None

    def change(self, per_second: int) -> None:
        """So many a second from now on; what was not used up counts for no more than a second of that."""
        self._per_second = per_second
        self._left = min(self._left, per_second * SECOND)

    def ready(self, now: int) -> int:
        """How many may be begun now. If the clock was set, it begins anew."""
        if self._since is None or now < self._since:
            self._since, self._left = now - _PORTION_EVERY, 0
        passed = (now - self._since) // _PORTION_EVERY * _PORTION_EVERY
        self._since += passed
        self._left = min(self._left + passed * self._per_second, self._per_second * SECOND)
        return self._left // SECOND

    def use(self, count: int) -> None:
        """So many were begun."""
        self._left -= count * SECOND

    @property
    def next_at(self) -> int:
        """When there will be more, or a part of one."""
        return 0 if self._since is None else self._since + _PORTION_EVERY
