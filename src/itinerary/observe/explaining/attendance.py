"""Who was there: the nodes of a store, from when to when, and what each says of its own troubles.

A node's row says when it joined, when it was last heard of, and when it left. One that died says nothing: others said
for it that it left, later, so what counts is when it was last heard of. Between the last sign of one node and the next
one that joined, nobody was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.observe.explaining.words import LocalTime, spoken
from itinerary.schedules.durations import SECOND

__all__ = ["Absence", "Attendance", "Jump", "StoreAway"]

_T = TypeVar("_T")

_SILENT_FOR: Final = 30 * SECOND
"""Who has not been heard of for so long is not taken to be there."""
_LEFT_WITHIN: Final = 10 * SECOND
"""Who left within so long after its last heartbeat said so itself."""


class Absence(NamedTuple):
    """A time in which no node was heard of."""

    start: int | None
    """None: nobody is known to have been there before."""
    end: int | None
    """None: nobody has come since."""
    last: NodeRow | None
    following: NodeRow | None

    def words(self, time: LocalTime) -> str:
        """As it is told."""
        if self.start is None and self.end is None:
            return "no node has ever been there"
        if self.start is None:
            assert self.end is not None, "one of them is known"
            return f"no node was there before {time.brief(self.end)}"
        if self.end is None:
            return f"no node has been there since {time.brief(self.start)}"
        return f"no node was there from {time.brief(self.start)} to {time.brief(self.end)}"


class StoreAway(NamedTuple):
    """A time in which the store did not answer a node."""

    node: NodeRow
    since: int
    until: int


class Jump(NamedTuple):
    """A jump of a node's time: when it was noted, how far, and what it was."""

    node: NodeRow
    at: int
    by: int
    why: str

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
        return node.left_at is None and node.beat_at >= self._now - _SILENT_FOR

    @property
    def present(self) -> list[NodeRow]:
        """Who is there now."""
        return [node for node in self._nodes if self.is_there(node)]

    def last_seen(self, node: NodeRow) -> int:
        """The last sign of life of a node."""
        if node.left_at is not None and node.left_at <= node.beat_at + _LEFT_WITHIN:
            return node.left_at
        return max(node.beat_at, node.joined_at)

    def lacking(self, job: JobNumber) -> list[NodeRow]:
        """Who is there now and lacks the code of a job."""
        return [node for node in self.present if job in (_about(node).lacks or ())]

    # -- times -------------------------------------------------------------------------------------------------------

    def absence(self, start: int, end: int) -> Absence | None:
        """The time without a node that has most of `[start, end)` in it, with its whole extent."""
        return _longest(self._holes(), lambda hole: _overlap(hole.start, hole.end, start, end))

    def _holes(self) -> list[Absence]:
        found: list[Absence] = []
        last: NodeRow | None = None
        until: int | None = None
        for node in self._nodes:  # in the order in which they joined
            if last is None or (until is not None and until < node.joined_at):
                found.append(Absence(until, node.joined_at, last, node))
            if self.is_there(node):
                return found  # from then on somebody is there
            seen = self.last_seen(node)
            if until is None or seen >= until:
                until, last = seen, node
        found.append(Absence(until, None, last, None))
        return found

    def store_away(self, start: int, end: int) -> StoreAway | None:
        """The time without an answer from the store that has most of `[start, end)` in it."""
        notes = [
            StoreAway(node, note.since, note.until) for node in self._nodes for note in _about(node).store_absences.last
        ]
        return _longest(notes, lambda note: _overlap(note.since, note.until, start, end))

    def jump(self, start: int, end: int) -> Jump | None:
        """The jump of somebody's time that has most of `[start, end)` in it."""
        notes = [
            Jump(node, note.at, note.by, note.why) for node in self._nodes for note in _about(node).clock_jumps.last
        ]
        return _longest(notes, lambda note: _overlap(note.at - abs(note.by), note.at, start, end))


def _about(node: NodeRow) -> _About:
    """What a node says; nothing, if it speaks another language."""
    try:
        return msgspec.json.decode(node.about, type=_About)
    except msgspec.MsgspecError:
        return _About()


def _overlap(start: int | None, end: int | None, low: int, high: int) -> int:
    return (high if end is None else min(end, high)) - (low if start is None else max(start, low))


def _longest(items: Sequence[_T], length: Callable[[_T], int]) -> _T | None:
    found = [item for item in items if length(item) > 0]
    return max(found, key=length) if found else None
