"""The jumps of a node's time, as they are kept (N6): the last few, and how many there were.

They go into what the node tells of itself, which is in the store from the next heartbeat on, for as long as its row is
there. The log has all of them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.model.reasons import WENT_BACK

__all__ = ["ONLY_DOUBTED", "WAS_SET", "WENT_BACK", "ClockJump", "ClockJumps"]

WAS_SET: Final = "a clock was set: the store's, or this machine's"
ONLY_DOUBTED: Final = "it was only in doubt"

_KEPT: Final = 10


class ClockJump(msgspec.Struct, frozen=True):
    """One of them: when it was known, by the store's time; by how much; and what it was. In microseconds."""

    at: int
    by: int
    why: str


class ClockJumps(msgspec.Struct):
    """All of one node."""

    count: int = 0
    last: tuple[ClockJump, ...] = ()

    def note(self, at: int, by: int, why: str) -> None:
        """One more."""
        self.count += 1
        self.last = (*self.last, ClockJump(at, by, why))[-_KEPT:]
