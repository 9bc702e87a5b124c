"""The statistics of a node's loop, one row for each `loop_interval` (L10).

Rows come newest first, in pages. The store keeps them for `keep_for`, so the rows of a node that has left or died are
available too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from itinerary.errors import NotFoundError, WindowError
from itinerary.model.queries import NodesQuery, StatisticsQuery
from itinerary.model.rows import NodeRow, StatisticsRow
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.read.snapshot import at
from itinerary.schedules.durations import SECOND

__all__ = ["LoopSeen", "LoopSummary", "StatisticsSeen", "loop_summary", "statistics_seen"]

_SUMMED_FOR: Final = 60 * SECOND
_SUMMED_MAX: Final = 600


class LoopSeen(msgspec.Struct, frozen=True):
    """The statistics of a loop in one interval."""

    at: datetime
    """The end of the interval."""
    iterations: int
    longest_seconds: float
    """The duration of the longest iteration."""
    average_seconds: float
    total_seconds: float
    """The duration of all iterations: how long the loop was busy."""
    active: int
    """The number of occurrences that the node held."""
    index_size: int
    """The number of runs in the scheduled run index."""
    inbox_depth: int
    messages: int
    """The number of messages that the loop handled."""


class StatisticsSeen(msgspec.Struct, frozen=True):
    """A page of statistics of one start of a node, newest first."""

    node: str
    number: int
    """The number of this start of the node."""
    rows: tuple[LoopSeen, ...]
    next: int | None
    """The beginning of the next page, in microseconds, for the argument `until`. None: this is the last page."""


class LoopSummary(msgspec.Struct, frozen=True):
    """The statistics of a loop over the last minute."""

    node: str
    iterations: int
    longest_seconds: float
    average_seconds: float
    active: int
    index_size: int
    inbox_depth: int
    messages: int


async def statistics_seen(store: Store, node: str | None, *, since: int, until: int, limit: int) -> StatisticsSeen:
    """Read the statistics of `[since, until)`, in microseconds, newest first.

    Args:
        store: The store.
        node: A name, for its newest start, or the number of one start; None for the node that joined last.
        since: The first instant.
        until: The instant before which to read.
        limit: The maximum number of rows in a page.

    Raises:
        NotFoundError: The store has no such node.
        WindowError: The window is empty.
    """
    if until <= since:
        raise WindowError("the window of the statistics is empty: its end is not later than its start")
    row = _node_called(await store.read(NodesQuery()), node)
    found = await store.read(StatisticsQuery(row.number, since, limit + 1, until, newest_first=True))
    page = found[:limit]
    return StatisticsSeen(row.name, row.number, tuple(map(_seen, page)), page[-1].at if len(found) > limit else None)


async def loop_summary(store: Store, node: NodeRow, now: int) -> LoopSummary | None:
    """Return a summary of the last minute of a node's loop; None if there are no statistics."""
    since = now - _SUMMED_FOR
    rows = await store.read(StatisticsQuery(node.number, since, _SUMMED_MAX, now + SECOND, newest_first=True))
    if not rows:
        return None
    iterations, newest = sum(row.iterations for row in rows), rows[0]
    return LoopSummary(
        node=node.name,
        iterations=iterations,
        longest_seconds=max(row.longest_us for row in rows) / SECOND,
        average_seconds=sum(row.total_us for row in rows) / max(iterations, 1) / SECOND,
        active=newest.active,
        index_size=newest.index_size,
        inbox_depth=max(row.inbox_depth for row in rows),
        messages=sum(row.messages for row in rows),
    )


def _node_called(rows: Sequence[NodeRow], called: str | None) -> NodeRow:
    """Find a start of a node; `rows` come newest first."""
    for row in rows:
        if called is None or called in (row.name, str(row.number)):
            return row
    if called is None:
        raise NotFoundError(
            "no node has run on this store yet, so there are no statistics; start one: `itinerary up APP`"
        )
    raise NotFoundError(
        f"there is no node {shown(called)} in the store; `itinerary nodes --all` lists names and numbers"
    )


def _seen(row: StatisticsRow) -> LoopSeen:
    return LoopSeen(
        at=at(row.at),
        iterations=row.iterations,
        longest_seconds=row.longest_us / SECOND,
        average_seconds=row.total_us / max(row.iterations, 1) / SECOND,
        total_seconds=row.total_us / SECOND,
        active=row.active,
        index_size=row.index_size,
        inbox_depth=row.inbox_depth,
        messages=row.messages,
    )
