"""Who goes first for which occurrence: all nodes come to the same answer, without talking to each other (N3).

For each instant of each job every node throws the same dice for everybody who is there, and the highest number has it
(rendezvous hashing). When one of five nodes goes, its fifth is spread over the other four, and nothing else moves. Who
lacks the code of a job takes no part in it, and does not keep others from it (protocol rule 5).

This is about who claims ahead of the instant, and about nothing else: it shares the load, and saves races. Nobody may
rely on it. Two nodes that disagree about who is there both claim, and one of them wins; what none of them claims has no
row a moment after its instant, and the sweep makes one.
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
    """Those who share the work with this node, as far as it knows."""

    lacks: Mapping[NodeNumber, frozenset[JobNumber]]
    """Each of them, and the jobs whose code it has not got."""


ALONE: Final = Members({})


def is_mine(members: Members, me: NodeNumber, jobs: Numbers, instants: Numbers) -> NDArray[np.bool_]:
    """Of which of these occurrences this node goes first."""
    mine, best = thrown_by(me, jobs, instants), np.zeros(len(jobs), np.uint64)
    for other, lacks in members.lacks.items():
        thrown = thrown_by(other, jobs, instants)
        if lacks:
            thrown[np.isin(jobs, list(lacks))] = 0
        np.maximum(best, thrown, out=best)
    return mine >= best


def thrown_by(node: NodeNumber, jobs: Numbers, instants: Numbers) -> NDArray[np.uint64]:
    """A node's dice: 64 bits that depend on all three and look like chance (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        bits = jobs.astype(np.uint64) * _JOB ^ instants.astype(np.uint64) * _INSTANT ^ np.uint64(node) * _NODE
        for shift, factor in _MIXERS:
            bits = (bits ^ (bits >> shift)) * factor
        mixed: NDArray[np.uint64] = bits ^ (bits >> _LAST_SHIFT)
    return mixed
