"""The absences of a store, as one node saw them (N5): the last few, and how many there were.

While a store is away nothing can be written to it, least of all that it is away. So whoever asks a day later why
something was late finds a node that was there all the time, and nothing else. The node remembers from when to when it
had no answer, and tells it with its next heartbeat; it stays in what is known of the node, as jumps of its clock do.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.schedules.durations import SECOND

__all__ = ["StoreAbsence", "StoreAbsences"]

_KEPT: Final = 10
_LEAST: Final = SECOND
"""What was over within this is not worth telling: an answer gets lost now and then."""


class StoreAbsence(msgspec.Struct, frozen=True):
    """One of them, by the store's time, in microseconds: from the first question that had no answer to the next one
    that had."""

    since: int
    until: int


class StoreAbsences(msgspec.Struct):
    """All of one node."""

    count: int = 0
    last: tuple[StoreAbsence, ...] = ()

    def note(self, since: int, until: int) -> None:
        """One more, if it was long enough."""
        if until - since >= _LEAST:
            self.count += 1
            self.last = (*self.last, StoreAbsence(since, until))[-_KEPT:]
