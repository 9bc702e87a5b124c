"""Due and undecided instants, from the store: an instant without a row, or a row that is neither started nor marked.

    watermark                                now
        │◄──── expected by the timeline ────►│        below the watermark everything has a row (protocol rule 19)
        │   less rows, less windows          │  =  instants without a decision
        │   rows that are still `prerun`     │  =  instants that are claimed and not started

An occurrence that waits for a slot, a limit or the queue is decided: its row says this, and it counts as waiting. The
same holds for recovery runs after an outage, which are paced. A job whose code no node has stays undecided, since no
node will ever run it.

The node is not asked. If the node hangs, the undecided instants are found here nevertheless.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from itinerary.core.recovery.match import PackedInstants, stands_for_itself, windows_of
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.queries import ActiveQuery
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import StoreRead, decided_between, windows_after

__all__ = ["ROWS_MAX", "Elsewhere", "OverdueInstant", "OverdueInstants", "here", "look_for_undecided"]

Elsewhere: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function where it does not block the loop."""
ROWS_MAX: Final = 5_000
"""The maximum number of rows to read: the longest due first, and of each queue the first."""
_STRIDE: Final = 3_600 * SECOND
_STRIDES_MAX: Final = 24
"""The maximum number of hours searched from the watermark on. The search ends at the first with a missing row."""


class OverdueInstant(msgspec.Struct, frozen=True):
    """An instant that is due and has not started."""

    job: JobNumber
    instant: int
    due_at: int
    status: OccurrenceState | None
    """None: there is no row."""
    is_skipped: bool = False
    """True if a pause or a skip of this instant applies and is not recorded yet, so the instant will not run."""

    @property
    def is_undecided(self) -> bool:
        """True if there is no decision about the instant."""
        return self.status in (None, OccurrenceState.PRERUN)


class OverdueInstants(msgspec.Struct, frozen=True):
    """The instants that are due and have not started, the longest due first."""

    instants: tuple[OverdueInstant, ...]
    in_queue: int
    """The number of rows that are due and have not started, decided or not, up to ROWS_MAX."""

    @property
    def oldest(self) -> OverdueInstant | None:
        """The instant that has been due and undecided for longest."""
        return next((one for one in self.instants if one.is_undecided), None)


async def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run the function on the caller's loop."""
    return function(*arguments)


async def look_for_undecided(
    read: StoreRead, timeline: Timeline, watermark: int, now: int, elsewhere: Elsewhere = here
) -> OverdueInstants:
    """Return the instants that are due before `now` and have not started.

    Args:
        read: Reads from the store.
        timeline: The timeline, as new as the store.
        watermark: The instant below which everything has a row.
        now: The time of the store.
        elsewhere: Runs a long computation outside the loop.
    """
    missing = await _missing(read, timeline, watermark, now, elsewhere)
    rows = await read(ActiveQuery(due_before=now, limit=ROWS_MAX))
    unstarted = [row for row in rows if row.started_at is None]
    live = [_as_instant(row) for row in unstarted if not row.is_recovery]
    found = sorted([*missing, *live], key=lambda one: one.due_at)
    return OverdueInstants(tuple(found), len(unstarted))


def _as_instant(row: OccurrenceRow) -> OverdueInstant:
    return OverdueInstant(row.job, row.instant, row.due_at, row.status)


async def _missing(
    read: StoreRead, timeline: Timeline, watermark: int, now: int, elsewhere: Elsewhere
) -> list[OverdueInstant]:
    """Return the instants without a row, of the first hour that has any."""
    windows = await windows_after(read, watermark)
    for start in range(watermark, now, _STRIDE)[:_STRIDES_MAX]:
        end = min(start + _STRIDE, now)
        keys = [key async for page in decided_between(read, start, end) for key in page]
        found: list[OverdueInstant] = await elsewhere(_without_row, timeline, start, end, keys, windows)
        if found:
            return found
    return []


def _without_row(
    timeline: Timeline, start: int, end: int, keys: Sequence[Key], windows: Sequence[OccurrenceRow]
) -> list[OverdueInstant]:
    expected = timeline.expected(start, end)
    if not len(expected):
        return []
    matching = PackedInstants(expected)
    answering, gaps = windows_of(windows)
    rows, _ = matching.rows([key for key in keys if stands_for_itself(key)])
    lacks = (rows == 0) & (matching.spans([*answering, *gaps]) == 0)
    columns = (expected.jobs[lacks].tolist(), expected.instants[lacks].tolist(), (expected.skips[lacks] != 0).tolist())
    return [
        OverdueInstant(JobNumber(job), instant, instant, None, is_skipped)
        for job, instant, is_skipped in zip(*columns, strict=True)
    ]
