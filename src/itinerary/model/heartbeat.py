"""What nodes tell a store of themselves, and hear of each other (protocol rule 16)."""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.model.rows import NodeRow, Ref

__all__ = ["Beat", "alive", "died", "has_died"]

_DIED: Final = "died"
"""The key of `about` that says that other nodes found the node dead. A node that leaves by itself has no such key."""


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: all that a node must hear regularly, in one round trip."""

    now: int
    """The store's time, as of some moment before the answer: a lower bound (protocol rule 23)."""
    revision: int
    watermark: int
    nodes: tuple[NodeRow, ...]
    """Those that have not left, and those that left within the last hour."""
    mail: tuple[Ref, ...]
    """Occurrences of this node that somebody has cancelled or adjusted."""


def died(about: str) -> str:
    """Note in what a node told of itself that other nodes found it dead."""
    return msgspec.json.encode({**_table(about), _DIED: True}).decode()


def alive(about: str) -> str:
    """Remove that note, for a node that has sent a heartbeat after all."""
    table = _table(about)
    return about if table.pop(_DIED, None) is None else msgspec.json.encode(table).decode()


def has_died(row: NodeRow) -> bool:
    """True if a node is gone and did not say so itself: it was killed, or its machine was lost."""
    return row.left_at is not None and bool(_table(row.about).get(_DIED))


def _table(about: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(about, type=dict[str, object])
    except msgspec.MsgspecError:  # another release wrote something else there
        return {}
