"""The membership: which other nodes are present, by this node's own clock.

A node without a heartbeat for two intervals no longer counts as present, long before it is declared dead (`rescuer`). A
mistake here costs only balance. A node that lacks the code of very many jobs does not share work. Other nodes do not
count on it, and it counts on no other node. Such a node claims what it can, in competition with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from itinerary.core.recovery.membership import ALONE, Members
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.overload import OverloadExtent
from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.model.stalled import STALLED_MAX, StalledPartition
from itinerary.ports import Clock
from itinerary.runtime.clock_jumps import ClockJumps
from itinerary.runtime.store_outages import StoreAbsences

__all__ = ["LACKS_MAX", "Membership", "told_about"]

LACKS_MAX: Final = 1_000
"""A node that lacks the code of more jobs than this does not list them."""
_SILENCE_MAX: Final = 2
"""Heartbeats that a node may miss before it no longer counts as present."""


class _About(msgspec.Struct):
    """The part of a node's description that matters here."""

    lacks: list[JobNumber] | None = msgspec.field(default_factory=list)


def told_about(
    about: str,
    lacks: frozenset[JobNumber],
    jumps: ClockJumps,
    absences: StoreAbsences,
    interval: int,
    behind: OverloadExtent | None = None,
    stalled: Sequence[StalledPartition] = (),
) -> str:
    """Return the description that a node publishes with its heartbeat, as JSON.

    Args:
        about: The fixed part of the description, as JSON.
        lacks: The jobs whose code is not on the node.
        jumps: The jumps of the node's clock.
        absences: The store outages that the node has seen.
        interval: The heartbeat interval, in microseconds.
        behind: How far the node is behind; None if it keeps up.
        stalled: The partitions of records that the node does not schedule.
    """
    said = msgspec.json.decode(about)
    said["heartbeat_interval"] = interval
    said["lacks"] = sorted(lacks) if len(lacks) <= LACKS_MAX else None
    if jumps.count:
        said["clock_jumps"] = jumps
    if absences.count:
        said["store_absences"] = absences
    if behind is not None:
        said["behind"] = behind
    if stalled:
        said["stalled"] = list(stalled[:STALLED_MAX])
    return msgspec.json.encode(said).decode()


class Membership:
    """The nodes that are present."""

    def __init__(self, node: NodeNumber, interval: int, clock: Clock) -> None:
        self._node, self._silence_max, self._clock = node, interval * _SILENCE_MAX, clock
        self._seen: dict[NodeNumber, tuple[int, int]] = {}
        self._members = ALONE

    def handle(self, beat: HeartbeatReply, *, shares: bool) -> Members | None:
        """Handle the answer to a heartbeat.

        Args:
            beat: The answer.
            shares: False if this node shares no work: the result is then empty.

        Returns:
            The nodes that share the work, if they have changed; otherwise None.
        """
        now = self._clock.elapsed()
        present = [other for other in beat.nodes if other.number != self._node and self._is_there(other, beat.now, now)]
        self._seen = {
            number: seen for number, seen in self._seen.items() if number in {row.number for row in beat.nodes}
        }
        lacks = {row.number: frozenset(said) for row in present if (said := _lacks(row)) is not None} if shares else {}
        if lacks == self._members.lacks:
            return None
        self._members = Members(lacks)
        return self._members

    @property
    def is_first(self) -> bool:
        """True if no other present node joined before this node."""
        return all(self._node < other for other in self._members.lacks)

    def _is_there(self, other: NodeRow, store_now: int, now: int) -> bool:
        if other.left_at is not None:
            return False
        counter, since = self._seen.get(other.number, (other.counter, now - max(0, store_now - other.beat_at)))
        if counter != other.counter:
            since = now
        self._seen[other.number] = other.counter, since
        return now - since < self._silence_max


def _lacks(node: NodeRow) -> list[JobNumber] | None:
    """Return the jobs whose code a node lacks; None if there are too many to list, or the format is unknown."""
    try:
        return msgspec.json.decode(node.about, type=_About).lacks
    except msgspec.MsgspecError:
        return None
