"""The nodes of a store: which run, since when, which occurrences they hold, and what they report about themselves.

A node proves with each heartbeat that it runs. Other nodes decide by their own clocks whether a silent node is dead
(protocol rule 16). This module only reports the time since the last heartbeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from itinerary.model.heartbeat import has_died
from itinerary.model.overload import OverloadExtent
from itinerary.model.queries import ActiveQuery, NodesQuery
from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.model.states import OccurrenceState
from itinerary.ports import Store
from itinerary.read.snapshot import moment, seconds
from itinerary.runtime.clock_jumps import ClockJumps
from itinerary.runtime.machine import is_gone
from itinerary.schedules.durations import SECOND

__all__ = [
    "DIED_FOR",
    "SILENT_FOR",
    "BehindSeen",
    "JumpSeen",
    "NodeSeen",
    "NodeState",
    "died_since",
    "heard_of",
    "lacked_by_all",
    "nodes_seen",
]

SILENT_FOR: Final = 30 * SECOND
"""The time without a heartbeat after which a node is shown as silent."""
DIED_FOR: Final = 3_600 * SECOND
"""How long a node that died is still listed."""
_WAITING: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})


class NodeState(StrEnum):
    """The status of a node."""

    RUNNING = "running"
    SILENT = "silent"
    """The node has not left, and has sent no heartbeat for half a minute."""
    LEFT = "left"
    DIED = "died"
    """The node was killed or its machine was lost: other nodes found it dead, or its process is gone."""


class JumpSeen(msgspec.Struct, frozen=True):
    """A jump of a node's clock."""

    at: datetime | None
    by_seconds: float
    why: str


class BehindSeen(msgspec.Struct, frozen=True):
    """A node that cannot keep up."""

    by_seconds: float
    since: datetime | None
    waiting: int
    """Runs that are due and have not started."""
    bottleneck: str
    """`slots`, `cpu`, `store` or `unknown`."""
    sentence: str
    advice: str


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A start of a node."""

    node: str
    number: int
    state: NodeState
    host: str | None
    process: int | None
    version: str | None
    joined_at: datetime | None
    heard_at: datetime | None
    silent_seconds: float | None
    """Seconds since the last heartbeat; None if the node has left."""
    left_at: datetime | None
    heartbeats: int
    holds: int
    """The number of occurrences that the node owns and that have not ended."""
    runs: int
    """The number of those that have started."""
    lacks: tuple[str, ...] | None
    """Jobs whose code the node does not have; None if there are too many to list."""
    clock_jumps: int
    last_jumps: tuple[JumpSeen, ...]
    behind: BehindSeen | None = None
    """How far a running node is behind the due instants; None if it keeps up."""


class _About(msgspec.Struct):
    host: str | None = None
    process: int | None = None
    version: str | None = None
    lacks: list[JobNumber] | None = msgspec.field(default_factory=list)
    clock_jumps: ClockJumps = msgspec.field(default_factory=ClockJumps)
    behind: OverloadExtent | None = None


async def nodes_seen(
    store: Store, now: int, names: dict[JobNumber, str], *, limit: int, gone: bool = False
) -> list[NodeSeen]:
    """Return the nodes that joined last, newest first.

    Args:
        store: The store.
        now: The store's time, in microseconds.
        names: The names of jobs, by number.
        limit: The maximum number of nodes.
        gone: True for all nodes. Else nodes that have left are omitted, except those that died within the last hour.
    """
    rows = [
        row for row in await store.read(NodesQuery()) if gone or row.left_at is None or died_since(row, now - DIED_FOR)
    ]
    held: Counter[NodeNumber] = Counter()
    begun: Counter[NodeNumber] = Counter()
    for occurrence in await store.read(ActiveQuery(with_queued=False)):
        if occurrence.owner is not None:
            held[occurrence.owner] += 1
            begun[occurrence.owner] += occurrence.status not in _WAITING
    return [_seen(row, now, names, held[row.number], begun[row.number]) for row in rows[:limit]]


def _seen(row: NodeRow, now: int, names: dict[JobNumber, str], holds: int, runs: int) -> NodeSeen:
    about = _about(row)
    jumps = about.clock_jumps
    return NodeSeen(
        node=row.name,
        number=row.number,
        state=_state(row, now),
        host=about.host,
        process=about.process,
        version=about.version,
        joined_at=moment(row.joined_at),
        heard_at=moment(_heard(row)),
        silent_seconds=None if row.left_at is not None else seconds(_heard(row), now),
        left_at=moment(row.left_at),
        heartbeats=row.counter,
        holds=holds,
        runs=runs,
        lacks=None if about.lacks is None else tuple(names[job] for job in about.lacks if job in names),
        clock_jumps=jumps.count,
        last_jumps=tuple(JumpSeen(moment(jump.at), jump.by / SECOND, jump.why) for jump in jumps.last),
        behind=_behind(about.behind) if heard_of(row, now) else None,
    )


def _behind(behind: OverloadExtent | None) -> BehindSeen | None:
    if behind is None:
        return None
    return BehindSeen(
        behind.by / SECOND,
        moment(behind.since),
        behind.waiting,
        behind.bottleneck.value,
        behind.sentence,
        behind.advice,
    )


def _heard(row: NodeRow) -> int:
    return max(row.beat_at, row.joined_at)


def _state(row: NodeRow, now: int) -> NodeState:
    if row.left_at is not None:
        return NodeState.DIED if has_died(row) else NodeState.LEFT
    if is_gone(row.about):
        return NodeState.DIED
    return NodeState.RUNNING if heard_of(row, now) else NodeState.SILENT


def _about(row: NodeRow) -> _About:
    try:
        return msgspec.json.decode(row.about, type=_About)
    except msgspec.MsgspecError:  # a node of another release, for example
        return _About()


def heard_of(row: NodeRow, now: int) -> bool:
    """True if a node seems to run: it has not left, and its last heartbeat is recent."""
    return row.left_at is None and _heard(row) > now - SILENT_FOR and not is_gone(row.about)


def died_since(row: NodeRow, since: int) -> bool:
    """True if other nodes found this one dead at `since` or later."""
    return row.left_at is not None and row.left_at >= since and has_died(row)


def lacked_by_all(rows: Sequence[NodeRow], now: int) -> frozenset[JobNumber]:
    """Return the jobs whose code no running node has; empty if no node runs or one does not report its jobs."""
    said = [_about(row).lacks for row in rows if heard_of(row, now)]
    lists = [frozenset(lacks) for lacks in said if lacks is not None]
    return frozenset.intersection(*lists) if lists and len(lists) == len(said) else frozenset()
