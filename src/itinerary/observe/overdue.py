"""What is due and undecided, by the store: an instant without a row, or a row that nobody has begun or marked.

    watermark                                now
        │◄──── expected by the timeline ────►│        below the watermark everything has a row (protocol rule 19)
        │   less rows, less windows          │  =  instants that nobody has decided about
        │   rows that are still `prerun`     │  =  instants that somebody has claimed, and not begun

What waits for a slot, a limit or its turn is decided: its row says so, and it is counted as waiting. So is what makes
up for an outage at its pace. A job that no node has the code of stays undecided: nobody will ever run it.

The node is not asked. If it hangs, what it leaves undone is seen here all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from itinerary.core.recovery.match import Matching, stands_for_itself, windows_of
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.queries import Active
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import Read, decided_between, windows_after

__all__ = ["ROWS_MAX", "Elsewhere", "Instant", "Undecided", "here", "look_for_undecided"]

Elsewhere: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function where it holds up nobody."""
ROWS_MAX: Final = 5_000
"""How many rows are looked at: what is longest due comes first, and of the lines what stands first in each."""
_STRIDE: Final = 3_600 * SECOND
_STRIDES_MAX: Final = 24
"""How far one looks from the watermark on, an hour at a time: to the first hour in which something is missing."""


class Instant(msgspec.Struct, frozen=True):
    """Something that was due and has not begun."""

    job: JobNumber
    instant: int
    due_at: int
    status: OccurrenceState | None
    """None: there is not even a row."""
    is_skipped: bool = False
    """It is not to run: a pause or a name passes over it, and that is still to be recorded."""

    @property
    def is_undecided(self) -> bool:
        """Whether nobody has decided about it."""
        return self.status in (None, OccurrenceState.PRERUN)


class Undecided(msgspec.Struct, frozen=True):
    """What has not begun though it is due: the longest due first."""

    instants: tuple[Instant, ...]
    in_queue: int
    """How many rows are due and have not begun, decided or not, up to ROWS_MAX."""

    @property
    def oldest(self) -> Instant | None:
        """What has been due and undecided for longest."""
        return next((one for one in self.instants if one.is_undecided), None)


async def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Computes on the loop that asks."""
    return function(*arguments)


async def look_for_undecided(
    read: Read, timeline: Timeline, watermark: int, now: int, elsewhere: Elsewhere = here
) -> Undecided:
    """What is due before `now` and has not begun. The timeline should be as new as the store; `elsewhere` runs what
    would hold up the loop."""
    missing = await _missing(read, timeline, watermark, now, elsewhere)
    rows = await read(Active(due_before=now, limit=ROWS_MAX))
    unstarted = [row for row in rows if row.started_at is None]
    live = [_as_instant(row) for row in unstarted if not row.is_recovery]
    found = sorted([*missing, *live], key=lambda one: one.due_at)
    return Undecided(tuple(found), len(unstarted))


def _as_instant(row: OccurrenceRow) -> Instant:
    return Instant(row.job, row.instant, row.due_at, row.status)


async def _missing(read: Read, timeline: Timeline, watermark: int, now: int, elsewhere: Elsewhere) -> list[Instant]:
    """Instants without a row, of the first hour in which there are such."""
    windows = await windows_after(read, watermark)
    for start in range(watermark, now, _STRIDE)[:_STRIDES_MAX]:
        end = min(start + _STRIDE, now)
        keys = [key async for page in decided_between(read, start, end) for key in page]
        found: list[Instant] = await elsewhere(_without_row, timeline, start, end, keys, windows)
        if found:
            return found
    return []


def _without_row(
    timeline: Timeline, start: int, end: int, keys: Sequence[Key], windows: Sequence[OccurrenceRow]
) -> list[Instant]:
    expected = timeline.expected(start, end)
    if not len(expected):
        return []
    matching = Matching(expected)
    answering, gaps = windows_of(windows)
    rows, _ = matching.rows([key for key in keys if stands_for_itself(key)])
    lacks = (rows == 0) & (matching.spans([*answering, *gaps]) == 0)
    columns = (expected.jobs[lacks].tolist(), expected.instants[lacks].tolist(), (expected.skips[lacks] != 0).tolist())
    return [
        Instant(JobNumber(job), instant, instant, None, is_skipped)
        for job, instant, is_skipped in zip(*columns, strict=True)
    ]
