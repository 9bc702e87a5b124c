"""How a job went, day by day, for a year: counted from its history, a little at a time, and remembered.

    history    newest ◄───────────────────────────────────────────────── oldest
               ▒▒▒▒ new since last time      ████████ counted      ░░░░░░░ to be counted

A job that is due each minute has half a million occurrences in a year, and no store has them by day. So they are walked
through from the newest on while somebody looks, and what was counted is kept. A picture of the year is there at once,
and completes itself from the right to the left. All jobs together are counted for no more than a small share of the
time, however many people look; when nobody does, it ends.

An occurrence counts on the day of its instant, by the clock of its job's zone. Those that an update withdrew do not
count: another version may bring them back. What is forgotten after it was counted stays counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import msgspec

from itinerary.errors import StoreError
from itinerary.model.queries import History, Page
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.read.snapshot import Ground
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import DAY

__all__ = ["YEAR", "Counting", "Covered", "DayCount", "Year"]

YEAR: Final = 53 * 7
"""Days that are counted: a picture has whole weeks."""
_SLICE: Final = 500
"""Occurrences that are read at once: the stores of a process are asked on the engine's own loop."""
_COUNTED_AT_ONCE: Final = 0.04
"""Seconds for which somebody who looks first waits for it."""
_SHARE: Final = 7
"""In the background nothing is counted for so many times as long as something was."""
_LOOKS_FOR: Final = 30.0
"""Seconds for which somebody who has looked is taken to look still."""
_JOBS_MAX: Final = 200
_COVERED_MAX: Final = 1_000


class DayCount:
    """One day of a job."""

    __slots__ = ("place", "states")

    def __init__(self) -> None:
        self.states: Counter[OccurrenceState] = Counter()
        self.place = -1
        """The place in the history of the last of them that ended."""


class Covered(msgspec.Struct, frozen=True):
    """A row that answers for many instants: days in `[first, last]`."""

    first: int
    last: int
    state: OccurrenceState
    count: int


class Year(msgspec.Struct, frozen=True):
    """What is known of a year by now. Days are counted from the epoch, on the clock of the zone."""

    today: int
    days: Mapping[int, DayCount]
    covered: tuple[Covered, ...]
    is_whole: bool
    """Everything has been counted."""


async def _nothing() -> None:
    """Before anybody has looked."""


class _Tally:
    """What has been counted of one job."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.days: dict[int, DayCount] = {}
        self.covered: dict[int, Covered] = {}
        self.top = 0
        """Everything from this place on is new."""
        self.gaps: list[tuple[int, int]] = []
        """What is to be counted: places before one, down to another; the newest last."""
        self.step: Callable[[], Awaitable[None]] = _nothing
        """Counts one slice more."""
        self.looked_at = float("-inf")

    def begin(self, page: Page, day_of: Callable[[int], int]) -> None:
        """Count what is new on the first page of a history, and note what is to be counted behind it."""
        places = [row.place for row in page.rows if row.place is not None]
        if not places or places[0] < self.top:
            return
        self._count((row for row in page.rows if row.place is not None and row.place >= self.top), day_of)
        if page.next is not None and page.next > self.top:
            self.gaps.append((page.next, self.top))
        self.top = places[0] + 1

    async def go_on(self, ground: Ground, job: JobNumber, since: int, day_of: Callable[[int], int]) -> None:
        """Count one slice more, of the newest that is not counted. It may be that another one does so meanwhile."""
        gap = before, floor = self.gaps[-1]
        page = await ground.store.read(History(job, before, min(_SLICE, before - floor)))
        if gap not in self.gaps:
            return
        self._count((row for row in page.rows if row.place is not None and row.place >= floor), day_of)
        self.gaps.remove(gap)  # not before it was read: the store may be away
        is_old = bool(page.rows) and (page.rows[-1].ended_at or 0) < since
        if page.next is not None and page.next > floor and not is_old:
            self.gaps.append((page.next, floor))

    def forget(self, before: int) -> None:
        """Days that are no longer part of the year."""
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
                    self.covered[row.ref] = Covered(day_of(window.start), last, row.status, window.count)
                continue
            day = self.days.setdefault(day_of(row.instant), DayCount())
            day.states[row.status] += 1
            day.place = max(day.place, -1 if row.place is None else row.place)


class Counting:
    """Counts for all who look, on one loop: a little while they wait, the rest in the background while they look."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._tallies: dict[JobNumber, _Tally] = {}
        self._task: asyncio.Task[None] | None = None

    async def year(self, ground: Ground, job: JobNumber, zone: str, newest: Page) -> Year:
        """A job's last year, as far as it is counted; `newest` is the first page of its history, as it is now."""

        def day_of(instant: int) -> int:
            return (instant // SECOND + ground.offset(zone, instant)) // DAY

        tally = self._tallies.pop(job, None)
        is_new = tally is None or tally.zone != zone
        if tally is None or tally.zone != zone:
            tally = _Tally(zone)
        self._tallies[job] = tally  # at the end: who is looked at last is forgotten last
        if len(self._tallies) > _JOBS_MAX:
            del self._tallies[next(iter(self._tallies))]
        today, since = day_of(ground.now), ground.now - (YEAR + 1) * DAY * SECOND
        tally.begin(newest, day_of)
        tally.step = lambda: tally.go_on(ground, job, since, day_of)
        tally.looked_at = began = self._clock()
        while is_new and tally.gaps and self._clock() - began < _COUNTED_AT_ONCE:
            await tally.step()
        self._go_on()
        tally.forget(today - YEAR)
        return Year(today, tally.days, tuple(tally.covered.values()), not tally.gaps)

    def _go_on(self) -> None:
        """Count on in the background, if there is something to count. Raises what went wrong there."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()
        if self._task is None and self._wanted() is not None:
            self._task = asyncio.create_task(self._count_on(), name="counting")

    def _wanted(self) -> _Tally | None:
        """What somebody looks at and is not counted yet, who looked last first."""
        since = self._clock() - _LOOKS_FOR
        return next((one for one in reversed(self._tallies.values()) if one.gaps and one.looked_at >= since), None)

    async def _count_on(self) -> None:
        while (tally := self._wanted()) is not None:
            began = self._clock()
            try:
                await tally.step()
            except StoreError:  # whoever looks is told by what they read themselves, and begins this anew
                return
            await self._sleep((self._clock() - began) * _SHARE)
