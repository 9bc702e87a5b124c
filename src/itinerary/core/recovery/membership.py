"""The node that claims an occurrence first: all nodes compute the same answer, without communication (N3).

For each instant of each job, every node computes the same hash for each live node, and the highest hash wins
(rendezvous hashing). When one of five nodes leaves, its fifth is spread over the other four, and nothing else moves. A
node without the code of a job does not compete for it, and does not keep others from it (protocol rule 5).

The answer only decides which node claims ahead of the instant. This spreads the load and avoids races, and correctness
never depends on it. If two nodes disagree about the live nodes, both claim and one wins. An instant that no node claims
has no row just after its time, and the sweep creates one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.model.rows import JobNumber, NodeNumber

__all__ = ["ALONE", "Members", "is_mine", "thrown_by"]

Numbers: TypeAlias = NDArray[np.int64]

_JOB, _INSTANT, _NODE = (np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_MIXERS: Final = tuple(
    (np.uint64(shift), np.uint64(factor)) for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
)
_LAST_SHIFT: Final = np.uint64(31)


class Members(msgspec.Struct, frozen=True):
    """The other live nodes that this node knows of."""

    lacks: Mapping[NodeNumber, frozenset[JobNumber]]
    """The other nodes, each with the jobs whose code it does not have."""


ALONE: Final = Members({})


def is_mine(members: Members, me: NodeNumber, jobs: Numbers, instants: Numbers) -> NDArray[np.bool_]:
    """Return which of these occurrences this node claims first, as a mask."""
    mine, best = thrown_by(me, jobs, instants), np.zeros(len(jobs), np.uint64)
    for other, lacks in members.lacks.items():
        thrown = thrown_by(other, jobs, instants)
        if lacks:
            thrown[np.isin(jobs, list(lacks))] = 0
        np.maximum(best, thrown, out=best)
    return mine >= best


def thrown_by(node: NodeNumber, jobs: Numbers, instants: Numbers) -> NDArray[np.uint64]:
    """Return a node's hashes: 64 pseudo-random bits from node, job and instant (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        bits = jobs.astype(np.uint64) * _JOB ^ instants.astype(np.uint64) * _INSTANT ^ np.uint64(node) * _NODE
        for shift, factor in _MIXERS:
            bits = (bits ^ (bits >> shift)) * factor
        mixed: NDArray[np.uint64] = bits ^ (bits >> _LAST_SHIFT)
    return mixed
