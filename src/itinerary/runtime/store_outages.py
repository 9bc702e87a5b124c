"""The outages of a store, as one node saw them (N5): the last few, and the total number.

During an outage, the store cannot record the outage itself. A user who asks a day later why a run was late would find
only a node that was present all the time. The node therefore remembers the outage, and publishes it with its next
heartbeat. The outage stays in the node's description, like the jumps of its clock.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.schedules.durations import SECOND

__all__ = ["StoreAbsence", "StoreAbsences"]

_KEPT: Final = 10
_LEAST: Final = SECOND
"""The shortest outage to record: single answers get lost now and then."""


class StoreAbsence(msgspec.Struct, frozen=True):
    """An outage, from the first unanswered call to the next answered one, in store time and microseconds."""

    since: int
    until: int


class StoreAbsences(msgspec.Struct):
    """The outages of one node."""

    count: int = 0
    last: tuple[StoreAbsence, ...] = ()

    def note(self, since: int, until: int) -> None:
        """Record an outage, if it was long enough."""
        if until - since >= _LEAST:
            self.count += 1
            self.last = (*self.last, StoreAbsence(since, until))[-_KEPT:]
