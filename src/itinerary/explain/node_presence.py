"""Who was there: the nodes of a store, from when to when, and what each says of its own troubles.

A node's row says when it joined, when it was last heard of, and when it left. One that died says nothing: others said
for it that it left, later, so what counts is when it was last heard of. Between the last sign of one node and the next
one that joined, nobody was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from itinerary.explain.formatting import LocalTime, spoken
from itinerary.model.heartbeat import has_died
from itinerary.model.reasons import WENT_BACK
from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.schedules.durations import SECOND

__all__ = ["Absence", "Attendance", "Jump", "StoreAway", "overlap"]

_T = TypeVar("_T")

_SILENT_FOR: Final = 4
"""Who has not been heard of for so many heartbeats is not taken to be there."""
_LEFT_WITHIN: Final = 2
"""Who left within so many heartbeats after its last one said so itself."""
_FIRST: Final = 1
"""The number of the first node that a store ever had."""
_INTERVAL: Final = 5 * SECOND
"""How often a node is heard of that does not say it."""


class Absence(NamedTuple):
    """A time in which no node was heard of."""

    since: int | None
    """None: nobody is known to have been there before."""
    until: int | None
    """None: nobody has come since."""
    last: NodeRow | None
    following: NodeRow | None

    def words(self, time: LocalTime) -> str:
        """As it is told."""
        if self.since is None and self.until is None:
            return "no node is known to have ever been there"
        if self.since is None:
            assert self.until is not None, "one of them is known"
            return f"no node was there before {time.brief(self.until)}"
        said_so = self.last is not None and self.since == self.last.left_at
        there = "there" if said_so else "heard of"  # who died said nothing, and may have lived a moment longer
        if self.until is None:
            return f"no node has been {there} since {time.brief(self.since)}"
        return f"no node was {there} from {time.brief(self.since)} to {time.brief(self.until)}"


class StoreAway(NamedTuple):
    """A time in which the store did not answer a node."""

    node: NodeRow
    since: int
    until: int

    def words(self, time: LocalTime) -> str:
        """As it is told."""
        return (
            f"the store did not answer node {self.node.name} from {time.brief(self.since)} to {time.brief(self.until)}"
        )


class Jump(NamedTuple):
    """A jump of a node's time: when it was noted, how far, and what it was."""

    node: NodeRow
    at: int
    by: int
    why: str

    @property
    def since(self) -> int:
        """From when on time passed without the node: what was slept through, or set ahead. A clock that went back took
        no time."""
        return self.at - (self.by if self.by > 0 and self.why != WENT_BACK else 0)

    @property
    def until(self) -> int:
        """When it was noted."""
        return self.at

    def words(self, time: LocalTime) -> str:
        """As it is told."""
        how = f"{'back' if self.by < 0 else 'ahead'} by {spoken(abs(self.by))}"
        return f"the time of node {self.node.name} jumped {how}, noted at {time.brief(self.at)} ({self.why})"


class _AwayNote(msgspec.Struct):
    since: int
    until: int


class _JumpNote(msgspec.Struct):
    at: int
    by: int
    why: str


class _Away(msgspec.Struct):
    last: list[_AwayNote] = []


class _Jumps(msgspec.Struct):
    last: list[_JumpNote] = []


class _About(msgspec.Struct):
    """What a node tells of itself, as far as it matters here."""

    heartbeat_interval: int = _INTERVAL
    lacks: list[JobNumber] | None = msgspec.field(default_factory=list)
    clock_jumps: _Jumps = msgspec.field(default_factory=_Jumps)
    store_absences: _Away = msgspec.field(default_factory=_Away)


class Attendance:
    """All nodes that are known of, at one moment."""

    def __init__(self, nodes: Iterable[NodeRow], now: int) -> None:
        self._nodes = sorted(nodes, key=lambda node: (node.joined_at, node.number))
        self._by_number = {node.number: node for node in self._nodes}
        self._now = now

    def row(self, number: NodeNumber | None) -> NodeRow | None:
        """What is known of a node."""
        return None if number is None else self._by_number.get(number)

    def name(self, number: NodeNumber | None) -> str:
        """How a node is named."""
        row = self.row(number)
        if row is not None:
            return f"node {row.name}"
        return "no node" if number is None else f"node number {number} (no longer kept)"

    def is_there(self, node: NodeRow) -> bool:
        """Whether a node is there now, as far as one can see."""
        return node.left_at is None and node.beat_at >= self._now - _SILENT_FOR * _about(node).heartbeat_interval

    def is_silent(self, node: NodeRow) -> bool:
        """Whether a node should have been heard of since."""
        return node.beat_at < self._now - _LEFT_WITHIN * _about(node).heartbeat_interval

    @property
    def present(self) -> list[NodeRow]:
        """Who is there now."""
        return [node for node in self._nodes if self.is_there(node)]

    def last_seen(self, node: NodeRow) -> int:
        """The last sign of life of a node."""
        if node.left_at is not None and self._said_so(node):
            return node.left_at
        return max(node.beat_at, node.joined_at)

    def _said_so(self, node: NodeRow) -> bool:
        """Whether a node said itself that it leaves. Others say so for a dead one: after a long silence, or at once, if
        they start on its machine and find its process gone. So with another start around that time it is open."""
        if has_died(node):
            return False
        interval, left_at = _about(node).heartbeat_interval, node.left_at or 0
        if left_at > node.beat_at + _LEFT_WITHIN * interval:
            return False
        return not any(node.beat_at - interval < other.joined_at <= left_at for other in self._nodes if other != node)

    def was_heard_after(self, node: NodeRow, at: int) -> bool:
        """Whether a node was alive after a moment: it was heard of since."""
        return node.beat_at > at

    def lacking(self, job: JobNumber) -> list[NodeRow]:
        """Who is there now and lacks the code of a job."""
        return [node for node in self.present if job in (_about(node).lacks or ())]

    # -- times -------------------------------------------------------------------------------------------------------

    def absence(self, start: int, end: int) -> Absence | None:
        """The time without a node that has most of `[start, end)` in it, with its whole extent."""
        return _longest(self._holes(), lambda hole: overlap(hole.since, hole.until, start, end))

    def _holes(self) -> list[Absence]:
        found: list[Absence] = []
        last: NodeRow | None = None
        until: int | None = None
        for node in self._nodes:  # in the order in which they joined
            is_first = last is None and node.number == _FIRST  # others before it may have been forgotten
            if is_first or (until is not None and until < node.joined_at):
                found.append(Absence(until, node.joined_at, last, node))
            if self.is_there(node):
                return found  # from then on somebody is there
            seen = self.last_seen(node)
            if until is None or seen >= until:
                until, last = seen, node
        found.append(Absence(until, None, last, None))
        return found

    def there_at(self, instant: int) -> list[NodeRow]:
        """Who was there at an instant."""
        return [
            node
            for node in self._nodes
            if node.joined_at <= instant and (self.is_there(node) or instant <= self.last_seen(node))
        ]

    def store_away(self, start: int, end: int, nodes: Iterable[NodeRow] | None = None) -> StoreAway | None:
        """The time without an answer from the store that has most of `[start, end)` in it, of these nodes or all."""
        notes = [
            StoreAway(node, note.since, note.until)
            for node in (self._nodes if nodes is None else nodes)
            for note in _about(node).store_absences.last
        ]
        return _longest(notes, lambda note: overlap(note.since, note.until, start, end))

    def jump(self, start: int, end: int, nodes: Iterable[NodeRow] | None = None) -> Jump | None:
        """The jump of somebody's time that has most of `[start, end)` in it, of these nodes or all."""
        notes = [
            Jump(node, note.at, note.by, note.why)
            for node in (self._nodes if nodes is None else nodes)
            for note in _about(node).clock_jumps.last
        ]
        return _longest(notes, lambda note: overlap(note.since, note.until, start, end))


def _about(node: NodeRow) -> _About:
    """What a node says; nothing, if it speaks another language."""
    try:
        return msgspec.json.decode(node.about, type=_About)
    except msgspec.MsgspecError:
        return _About()


def overlap(start: int | None, end: int | None, low: int, high: int) -> int:
    """How much of `[low, high)` lies in a time that may be open at either end."""
    return (high if end is None else min(end, high)) - (low if start is None else max(start, low))


def _longest(items: Sequence[_T], length: Callable[[_T], int]) -> _T | None:
    found = [item for item in items if length(item) > 0]
    return max(found, key=length) if found else None
