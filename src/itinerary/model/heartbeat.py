"""The heartbeat of a node, and the store's answer to it (protocol rule 16)."""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.model.rows import NodeRow, Ref

__all__ = ["HeartbeatReply", "alive", "died", "has_died"]

_DIED: Final = "died"
"""The key of `about` that marks a node which other nodes declared dead. A node that leaves by itself has no such
key."""


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: everything that a node must learn regularly, in one round trip."""

    now: int
    """The store's time at some moment before the answer: a lower bound (protocol rule 23)."""
    revision: int
    watermark: int
    nodes: tuple[NodeRow, ...]
    """Nodes that have not left, and nodes that left within the last hour."""
    mail: tuple[Ref, ...]
    """Occurrences of this node that another caller has cancelled or adjusted."""


def died(about: str) -> str:
    """Mark a node as declared dead by other nodes, in its `about` text."""
    return msgspec.json.encode({**_table(about), _DIED: True}).decode()


def alive(about: str) -> str:
    """Remove that mark, for a node that sent a heartbeat later."""
    table = _table(about)
    return about if table.pop(_DIED, None) is None else msgspec.json.encode(table).decode()


def has_died(row: NodeRow) -> bool:
    """True if a node is gone without having signed off: it was killed, or its machine was lost."""
    return row.left_at is not None and bool(_table(row.about).get(_DIED))


def _table(about: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(about, type=dict[str, object])
    except msgspec.MsgspecError:  # written in another form by another release
        return {}
