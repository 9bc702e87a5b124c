"""The roll: which other nodes are there at present, by this node's own clock.

A node that has not been heard of for two heartbeats is not counted on, long before it is taken for dead (`rescuer`): a
mistake costs nothing but balance. One that says that it lacks the code of very many jobs is not counted on either, and
counts on nobody: it claims what it can, and others race with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from itinerary.core.recovery.membership import ALONE, Members
from itinerary.model.heartbeat import Beat
from itinerary.model.overload import Behind
from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.model.stalled import STALLED_MAX, StalledPartition
from itinerary.ports import Clock
from itinerary.runtime.clock_jumps import ClockJumps
from itinerary.runtime.store_outages import StoreAbsences

__all__ = ["LACKS_MAX", "Roll", "told_about"]

LACKS_MAX: Final = 1_000
"""A node that lacks the code of more jobs than this does not list them."""
_SILENCE_MAX: Final = 2
"""Heartbeats that may be missed before others do not count on a node."""


class _About(msgspec.Struct):
    """What a node tells of itself, as far as it matters here."""

    lacks: list[JobNumber] | None = msgspec.field(default_factory=list)


def told_about(
    about: str,
    lacks: frozenset[JobNumber],
    jumps: ClockJumps,
    absences: StoreAbsences,
    interval: int,
    behind: Behind | None = None,
    stalled: Sequence[StalledPartition] = (),
) -> str:
    """What a node tells of itself, with how often it will be heard of, in microseconds, the jobs whose code it lacks,
    how its time has jumped, when its store did not answer, how far it is behind, and which of its partitions of records
    are not scheduled."""
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


class Roll:
    """Who is there."""

    def __init__(self, node: NodeNumber, interval: int, clock: Clock) -> None:
        self._node, self._silence_max, self._clock = node, interval * _SILENCE_MAX, clock
        self._seen: dict[NodeNumber, tuple[int, int]] = {}
        self._members = ALONE

    def hear(self, beat: Beat, *, shares: bool) -> Members | None:
        """The answer to a heartbeat has come. Returns who shares the work, if that has changed; nobody shares it with
        one that does not share."""
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
        """Whether none of the others that are there joined before this node."""
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
    """What a node says that it lacks; None if that is too much to say, or if it speaks another language."""
    try:
        return msgspec.json.decode(node.about, type=_About).lacks
    except msgspec.MsgspecError:
        return None
