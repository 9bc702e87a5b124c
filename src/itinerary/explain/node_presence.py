"""Which nodes were present and when, and the store outages and clock jumps that each node recorded.

A node's row has the times of its joining, its last heartbeat and its leaving. For a dead node, another node writes the
time of leaving later. For such a node, the last heartbeat counts. Between the last sign of life of one node and the
joining of the next, no node was present.
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

__all__ = ["HeartbeatGap", "NodePresence", "ObservedClockJump", "StoreAway", "overlap"]

_T = TypeVar("_T")

_SILENT_FOR: Final = 4
"""A node without a heartbeat for this number of heartbeat intervals does not count as present."""
_LEFT_WITHIN: Final = 2
"""A node that left within this number of intervals after its last heartbeat wrote that time itself."""
_FIRST: Final = 1
"""The number of the first node that a store ever had."""
_INTERVAL: Final = 5 * SECOND
"""The heartbeat interval of a node that did not record its own."""


class HeartbeatGap(NamedTuple):
    """A time without a heartbeat from any node."""

    since: int | None
    """None: no earlier node is known."""
    until: int | None
    """None: no node has joined since."""
    last: NodeRow | None
    following: NodeRow | None

    def words(self, time: LocalTime) -> str:
        """Return the absence as half a sentence."""
        if self.since is None and self.until is None:
            return "no node is known to have ever been there"
        if self.since is None:
            assert self.until is not None, "one of them is known"
            return f"no node was there before {time.brief(self.until)}"
        said_so = self.last is not None and self.since == self.last.left_at
        there = "there" if said_so else "heard of"  # a dead node may have lived a moment longer than its last heartbeat
        if self.until is None:
            return f"no node has been {there} since {time.brief(self.since)}"
        return f"no node was {there} from {time.brief(self.since)} to {time.brief(self.until)}"


class StoreAway(NamedTuple):
    """A time in which the store did not answer a node."""

    node: NodeRow
    since: int
    until: int

    def words(self, time: LocalTime) -> str:
        """Return the store outage as half a sentence."""
        return (
            f"the store did not answer node {self.node.name} from {time.brief(self.since)} to {time.brief(self.until)}"
        )


class ObservedClockJump(NamedTuple):
    """A jump of a node's clock: when the node noticed it, how far, and the kind of jump."""

    node: NodeRow
    at: int
    by: int
    why: str

    @property
    def since(self) -> int:
        """The start of the time that the node did not see, such as a sleep. A clock that was set back skips no time."""
        return self.at - (self.by if self.by > 0 and self.why != WENT_BACK else 0)

    @property
    def until(self) -> int:
        """The time at which the node noticed the jump."""
        return self.at

    def words(self, time: LocalTime) -> str:
        """Return the jump as half a sentence."""
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
    """The part of a node's report about itself that matters here."""

    heartbeat_interval: int = _INTERVAL
    lacks: list[JobNumber] | None = msgspec.field(default_factory=list)
    clock_jumps: _Jumps = msgspec.field(default_factory=_Jumps)
    store_absences: _Away = msgspec.field(default_factory=_Away)


class NodePresence:
    """The known nodes, at one moment."""

    def __init__(self, nodes: Iterable[NodeRow], now: int) -> None:
        self._nodes = sorted(nodes, key=lambda node: (node.joined_at, node.number))
        self._by_number = {node.number: node for node in self._nodes}
        self._now = now

    def row(self, number: NodeNumber | None) -> NodeRow | None:
        """Return the row of a node; None if the node is not known."""
        return None if number is None else self._by_number.get(number)

    def name(self, number: NodeNumber | None) -> str:
        """Return the name of a node for a sentence, also of a node that is no longer kept."""
        row = self.row(number)
        if row is not None:
            return f"node {row.name}"
        return "no node" if number is None else f"node number {number} (no longer kept)"

    def is_there(self, node: NodeRow) -> bool:
        """True if a node is present now, judged by its heartbeats."""
        return node.left_at is None and node.beat_at >= self._now - _SILENT_FOR * _about(node).heartbeat_interval

    def is_silent(self, node: NodeRow) -> bool:
        """True if a heartbeat of the node is overdue."""
        return node.beat_at < self._now - _LEFT_WITHIN * _about(node).heartbeat_interval

    @property
    def present(self) -> list[NodeRow]:
        """The nodes that are present now."""
        return [node for node in self._nodes if self.is_there(node)]

    def last_seen(self, node: NodeRow) -> int:
        """Return the time of the last sign of life of a node."""
        if node.left_at is not None and self._said_so(node):
            return node.left_at
        return max(node.beat_at, node.joined_at)

    def _said_so(self, node: NodeRow) -> bool:
        """True if the node itself wrote that it left, and not another node on its behalf.

        Another node does that after a long silence, or at once if it starts on the same machine and finds the process
        gone. So if another node started around that time, the answer is False.
        """
        if has_died(node):
            return False
        interval, left_at = _about(node).heartbeat_interval, node.left_at or 0
        if left_at > node.beat_at + _LEFT_WITHIN * interval:
            return False
        return not any(node.beat_at - interval < other.joined_at <= left_at for other in self._nodes if other != node)

    def was_heard_after(self, node: NodeRow, at: int) -> bool:
        """True if the node had a heartbeat after a moment."""
        return node.beat_at > at

    def lacking(self, job: JobNumber) -> list[NodeRow]:
        """Return the nodes that are present now and have no code for a job."""
        return [node for node in self.present if job in (_about(node).lacks or ())]

    # -- times -------------------------------------------------------------------------------------------------------

    def absence(self, start: int, end: int) -> HeartbeatGap | None:
        """Return the absence of all nodes that covers most of `[start, end)`, at its full length."""
        return _longest(self._holes(), lambda hole: overlap(hole.since, hole.until, start, end))

    def _holes(self) -> list[HeartbeatGap]:
        found: list[HeartbeatGap] = []
        last: NodeRow | None = None
        until: int | None = None
        for node in self._nodes:  # in the order of joining
            is_first = last is None and node.number == _FIRST  # before another first row, nodes may be pruned
            if is_first or (until is not None and until < node.joined_at):
                found.append(HeartbeatGap(until, node.joined_at, last, node))
            if self.is_there(node):
                return found  # from here on, a node is present
            seen = self.last_seen(node)
            if until is None or seen >= until:
                until, last = seen, node
        found.append(HeartbeatGap(until, None, last, None))
        return found

    def there_at(self, instant: int) -> list[NodeRow]:
        """Return the nodes that were present at an instant."""
        return [
            node
            for node in self._nodes
            if node.joined_at <= instant and (self.is_there(node) or instant <= self.last_seen(node))
        ]

    def store_away(self, start: int, end: int, nodes: Iterable[NodeRow] | None = None) -> StoreAway | None:
        """Return the store outage that covers most of `[start, end)`, of the given nodes or of all."""
        notes = [
            StoreAway(node, note.since, note.until)
            for node in (self._nodes if nodes is None else nodes)
            for note in _about(node).store_absences.last
        ]
        return _longest(notes, lambda note: overlap(note.since, note.until, start, end))

    def jump(self, start: int, end: int, nodes: Iterable[NodeRow] | None = None) -> ObservedClockJump | None:
        """Return the clock jump that covers most of `[start, end)`, of the given nodes or of all."""
        notes = [
            ObservedClockJump(node, note.at, note.by, note.why)
            for node in (self._nodes if nodes is None else nodes)
            for note in _about(node).clock_jumps.last
        ]
        return _longest(notes, lambda note: overlap(note.since, note.until, start, end))


def _about(node: NodeRow) -> _About:
    """Return a node's report about itself; the defaults if another release wrote it in another form."""
    try:
        return msgspec.json.decode(node.about, type=_About)
    except msgspec.MsgspecError:
        return _About()


def overlap(start: int | None, end: int | None, low: int, high: int) -> int:
    """Return how much of `[low, high)` a time covers; None leaves the time open at that end."""
    return (high if end is None else min(end, high)) - (low if start is None else max(start, low))


def _longest(items: Sequence[_T], length: Callable[[_T], int]) -> _T | None:
    found = [item for item in items if length(item) > 0]
    return max(found, key=length) if found else None
