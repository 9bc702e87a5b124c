"""The jumps of a node's clock (N6): the last few, and the total number.

The jumps are part of the node's description, which the next heartbeat writes to the store. The store keeps them as long
as the row of the node. The log has all jumps.
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
    """A jump: when the node noticed it, in store time; its size; its cause. Times are in microseconds."""

    at: int
    by: int
    why: str


class ClockJumps(msgspec.Struct):
    """The jumps of one node."""

    count: int = 0
    last: tuple[ClockJump, ...] = ()

    def note(self, at: int, by: int, why: str) -> None:
        """Record a jump."""
        self.count += 1
        self.last = (*self.last, ClockJump(at, by, why))[-_KEPT:]
