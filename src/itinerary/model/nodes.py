"""What nodes tell a store of themselves, and hear of each other (PROTOCOL 16)."""

from __future__ import annotations

import msgspec

from itinerary.model.rows import NodeRow, Ref

__all__ = ["Beat"]


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: all that a node must hear regularly, in one round trip."""

    now: int
    """The store's time, as of some moment before the answer: a lower bound (PROTOCOL 23)."""
    revision: int
    watermark: int
    nodes: tuple[NodeRow, ...]
    """Those that have not left, and those that left within the last hour."""
    mail: tuple[Ref, ...]
    """Occurrences of this node that somebody has cancelled or adjusted."""
