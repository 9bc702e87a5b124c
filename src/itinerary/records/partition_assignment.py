"""Assign partitions to nodes. All nodes compute the same result without communication (E8).

Every node computes the same ranking of nodes for each partition, as the engine does for occurrences
(`core.recovery.membership`). Here each node has room for an equal share, and a partition whose first choice is full
goes to the next. So the shares of two nodes differ by one partition at most. When a node joins or leaves, most
partitions stay where they are.

The assignment is for balance only: the leases decide what a node may write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final

import numpy as np

from itinerary.core.recovery.membership import thrown_by
from itinerary.model.rows import NodeNumber

__all__ = ["share_of"]

_BITS: Final = 63


def share_of(me: NodeNumber, members: Collection[NodeNumber], partitions: Collection[str]) -> frozenset[str]:
    """Return the partitions that this node should hold.

    Args:
        me: The number of this node, which always counts as a member.
        members: The nodes that hold a seat.
        partitions: All partitions.
    """
    nodes = sorted({me, *members})
    names = sorted(partitions)
    if len(nodes) == 1:
        return frozenset(names)
    numbers = np.array([_number(name) for name in names], np.int64)
    nothing = np.zeros(len(names), np.int64)
    thrown = np.stack([thrown_by(node, numbers, nothing) for node in nodes]) if names else np.zeros((len(nodes), 0))
    ranking = np.argsort(thrown, axis=0, kind="stable")[::-1].T.tolist()
    room = [len(names) // len(nodes)] * len(nodes)
    mine, left_over = [], []
    for name, favourites in zip(names, ranking, strict=True):
        place = next((one for one in favourites if room[one]), None)
        if place is None:
            left_over.append((name, favourites))
            continue
        room[place] -= 1
        if nodes[place] == me:
            mine.append(name)
    spare = set(range(len(nodes)))
    for name, favourites in left_over:  # there are fewer than nodes: at most one more for each node
        place = next(one for one in favourites if one in spare)
        spare.discard(place)
        if nodes[place] == me:
            mine.append(name)
    return frozenset(mine)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> (64 - _BITS)
