"""Outcomes of a job day by day, for a year: counted from its history in small steps, and cached.

    history    newest ◄───────────────────────────────────────────────── oldest
               ▒▒▒▒ new since last time      ████████ counted      ░░░░░░░ to be counted

A job that is due each minute has half a million occurrences in a year, and no store counts them by day. So the history
is read from the newest occurrence on while a user views the page, and the counts are kept. The chart of the year
appears at once and fills from right to left. Counting for all jobs together uses only a small share of the time,
however many users watch. Without viewers, counting stops.

An occurrence counts on the day of its instant, by the clock of its job's zone. Occurrences that an update withdrew do
not count: another version may restore them. Pruned occurrences stay counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import msgspec

from itinerary.errors import StoreError
from itinerary.model.queries import HistoryQuery, Page
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import DAY

__all__ = ["YEAR", "CollapsedDays", "DailyCounts", "DayCount", "YearCounts"]

YEAR: Final = 53 * 7
"""The number of counted days: the chart shows whole weeks."""
_SLICE: Final = 500
"""The number of occurrences that are read at once. Stores of this process run on the engine's own loop."""
_COUNTED_AT_ONCE: Final = 0.04
"""The seconds for which the first viewer of a page waits for counts."""
_SHARE: Final = 7
"""In the background, each step of counting is followed by a pause of this many times its duration."""
_LOOKS_FOR: Final = 30.0
"""The seconds for which a view counts as active."""
_JOBS_MAX: Final = 200
_COVERED_MAX: Final = 1_000


class DayCount:
    """The counts of a job on one day."""

    __slots__ = ("place", "states")

    def __init__(self) -> None:
        self.states: Counter[OccurrenceState] = Counter()
        self.place = -1
        """The place in the history of the last of these occurrences that ended."""


class CollapsedDays(msgspec.Struct, frozen=True):
    """A collapsed range: one row for many instants, on the days `[first, last]`."""

    first: int
    last: int
    state: OccurrenceState
    count: int


class YearCounts(msgspec.Struct, frozen=True):
    """The known counts of a year. Days are numbered from the epoch, by the clock of the zone."""

    today: int
    days: Mapping[int, DayCount]
    covered: tuple[CollapsedDays, ...]
    is_whole: bool
    """True if everything has been counted."""


async def _nothing() -> None:
    """Do nothing: the step of a job without a view."""


class _Tally:
    """The counts of one job."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.days: dict[int, DayCount] = {}
        self.covered: dict[int, CollapsedDays] = {}
        self.top = 0
        """History from this place on is new."""
        self.gaps: list[tuple[int, int]] = []
        """History that is not counted: from before one place down to another; the newest gap is last."""
        self.step: Callable[[], Awaitable[None]] = _nothing
        """Counts one more slice."""
        self.looked_at = float("-inf")

    def begin(self, page: Page, day_of: Callable[[int], int]) -> None:
        """Count new occurrences on the first page of a history, and note the gap behind it."""
        places = [row.place for row in page.rows if row.place is not None]
        if not places or places[0] < self.top:
            return
        self._count((row for row in page.rows if row.place is not None and row.place >= self.top), day_of)
        if page.next is not None and page.next > self.top:
            self.gaps.append((page.next, self.top))
        self.top = places[0] + 1

    async def proceed(self, snapshot: StoreSnapshot, job: JobNumber, since: int, day_of: Callable[[int], int]) -> None:
        """Count one more slice of the newest gap. Another task may count the same slice concurrently."""
        gap = before, floor = self.gaps[-1]
        page = await snapshot.store.read(HistoryQuery(job, before, min(_SLICE, before - floor)))
        if gap not in self.gaps:
            return
        self._count((row for row in page.rows if row.place is not None and row.place >= floor), day_of)
        self.gaps.remove(gap)  # only after the read: the store may have an outage
        is_old = bool(page.rows) and (page.rows[-1].ended_at or 0) < since
        if page.next is not None and page.next > floor and not is_old:
            self.gaps.append((page.next, floor))

    def forget(self, before: int) -> None:
        """Remove days that are no longer part of the year."""
        for day in [day for day in self.days if day < before]:
            del self.days[day]
        for ref in [ref for ref, covered in self.covered.items() if covered.last < before]:
            del self.covered[ref]

    def _count(self, rows: Iterable[OccurrenceRow], day_of: Callable[[int], int]) -> None:
        for row in rows:
            if row.is_withdrawn:
                continue
            if (window := row.window) is not None and row.started_at is None:
                if len(self.covered) < _COVERED_MAX:
                    last = day_of(max(window.end - 1, window.start))
                    self.covered[row.ref] = CollapsedDays(day_of(window.start), last, row.status, window.count)
                continue
            day = self.days.setdefault(day_of(row.instant), DayCount())
            day.states[row.status] += 1
            day.place = max(day.place, -1 if row.place is None else row.place)


class DailyCounts:
    """The counts for all viewers, on one event loop: a part while they wait, the rest in the background."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._tallies: dict[JobNumber, _Tally] = {}
        self._task: asyncio.Task[None] | None = None

    async def year(self, snapshot: StoreSnapshot, job: JobNumber, zone: str, newest: Page) -> YearCounts:
        """Return the known counts of a job's last year. `newest` is the current first page of its history."""

        def day_of(instant: int) -> int:
            return (instant // SECOND + snapshot.offset(zone, instant)) // DAY

        tally = self._tallies.pop(job, None)
        is_new = tally is None or tally.zone != zone
        if tally is None or tally.zone != zone:
            tally = _Tally(zone)
        self._tallies[job] = tally  # at the end: the job that was viewed last is dropped last
        if len(self._tallies) > _JOBS_MAX:
            del self._tallies[next(iter(self._tallies))]
        today, since = day_of(snapshot.now), snapshot.now - (YEAR + 1) * DAY * SECOND
        tally.begin(newest, day_of)
        tally.step = lambda: tally.proceed(snapshot, job, since, day_of)
        tally.looked_at = began = self._clock()
        while is_new and tally.gaps and self._clock() - began < _COUNTED_AT_ONCE:
            await tally.step()
        self._proceed()
        tally.forget(today - YEAR)
        return YearCounts(today, tally.days, tuple(tally.covered.values()), not tally.gaps)

    def _proceed(self) -> None:
        """Start background counting if a job needs it. Raises the error of the previous task, if it failed."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()
        if self._task is None and self._wanted() is not None:
            self._task = asyncio.create_task(self._count_on(), name="counting")

    def _wanted(self) -> _Tally | None:
        """Return a viewed job that has uncounted history, latest view first."""
        since = self._clock() - _LOOKS_FOR
        return next((one for one in reversed(self._tallies.values()) if one.gaps and one.looked_at >= since), None)

    async def _count_on(self) -> None:
        while (tally := self._wanted()) is not None:
            began = self._clock()
            try:
                await tally.step()
            except StoreError:  # viewers receive the error from their own reads, which restart the counting
                return
            await self._sleep((self._clock() - began) * _SHARE)
