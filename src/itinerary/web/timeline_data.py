"""The data of the timeline page: past and upcoming runs of each job in a window of time.

    rows       the latest occurrences that ended by the end of the window, from each job's history; unfinished ones
    expected   the instants that are due by the jobs' timelines: upcoming ones, and those without a row in the history
    windows    collapsed ranges, one row for many instants: a pause, an outage

All reads are bounded. If a job has more occurrences in the window than a page can read, only the newest part is read.
For the rest only the number of due instants is known, and shown as such (`unread`); a shorter window shows them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.audit_queries import PointersQuery, PointerTable
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ActiveQuery, ByKeyQuery, RecentQuery
from itinerary.model.rows import JobNumber, JobRow, Key, OccurrenceRow
from itinerary.model.states import FINAL
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.web.charts.marks import Tone, tone_of

__all__ = ["CollapsedRange", "Item", "JobLane", "Numbers", "lanes_of"]

Numbers: TypeAlias = NDArray[np.int64]

_ROWS_MAX: Final = 4_000
"""The maximum number of rows that are read for a page."""
_INSTANTS_MAX: Final = 250_000
"""The approximate maximum number of instants that are enumerated for a page."""
_PARTS: Final = 168
_TOO_MANY: Final = "so many are due in so long a window that they are not foreseen here; look at a shorter one"
_SPARE: Final = 16
_KEYS_MAX: Final = 500
_ACTIVE_MAX: Final = 2_000
_WINDOWS_MAX: Final = 500
_AFTERWARDS: Final = 3_600 * SECOND
"""An occurrence that started in the window may end this much later."""


class Item(msgspec.Struct, frozen=True):
    """An occurrence: a run from its start to its end, or a moment."""

    start: int
    end: int
    tone: Tone
    state: str
    ref: int | None
    """None: there is no row yet."""


class CollapsedRange(msgspec.Struct, frozen=True):
    """A collapsed range: one row for many instants."""

    start: int
    end: int
    tone: Tone
    state: str
    ref: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class JobLane:
    """A job in the window."""

    job: str
    items: tuple[Item, ...]
    """The occurrences that have a row, by their starts."""
    unread: Numbers
    """Instants that were due and were not read."""
    coming: Numbers
    """Upcoming instants."""
    passed_over: Numbers
    """Upcoming instants that will be skipped: the job is paused, or a user skipped them."""
    ranges: tuple[CollapsedRange, ...]
    gap: str | None
    """Why the due instants are unknown, if so."""

    @property
    def size(self) -> int:
        """The number of marks to draw."""
        return len(self.items) + len(self.unread) + len(self.coming) + len(self.passed_over)


class _Due(NamedTuple):
    to_run: Numbers
    skipped: Numbers


async def lanes_of(snapshot: StoreSnapshot, jobs: Sequence[JobRow], start: int, end: int) -> list[JobLane]:
    """Return the past and upcoming runs of these jobs in `[start, end)`."""
    numbers = [job.number for job in jobs]
    due, gaps = await asyncio.to_thread(_due, snapshot.timeline, numbers, start, end)
    rows, read_from = await _ended(snapshot, numbers, due, start, end)
    active = await snapshot.store.read(ActiveQuery(limit=_ACTIVE_MAX))
    for row in active:
        if row.job in rows:
            rows[row.job].append(row)
    missing = _missing(snapshot, rows, due, read_from, min(end, snapshot.now))
    for row in (await snapshot.store.read(ByKeyQuery(missing))).values() if missing else ():
        rows[row.job].append(row)
    ranges = await _ranges(snapshot, frozenset(numbers), start, end)
    window = _Window(start, end, snapshot.now)
    return [_lane(window, job, rows[job.number], due[job.number], read_from[job.number], ranges, gaps) for job in jobs]


def _due(
    timeline: Timeline, jobs: Sequence[JobNumber], start: int, end: int
) -> tuple[dict[JobNumber, _Due], dict[JobNumber, str]]:
    """Return the due instants in the window, by the timelines of these jobs."""
    nothing = np.array([], np.int64)
    found = dict.fromkeys(jobs, _Due(nothing, nothing))
    try:
        few = _foreseeable(timeline, jobs, start, end)
        expected = timeline.expected(start, end, few)
    except ItineraryError as error:
        return found, dict.fromkeys(jobs, str(error))
    for job in few:  # sorted by job, then by instant
        first, last = np.searchsorted(expected.jobs, [job, job + 1])
        instants, skips = expected.instants[first:last], expected.skips[first:last]
        found[job] = _Due(instants[skips == 0], instants[skips != 0])
    gaps = dict.fromkeys(set(jobs).difference(few), _TOO_MANY)
    return found, gaps | {gap.job: gap.reason for gap in expected.gaps}


def _foreseeable(timeline: Timeline, jobs: Sequence[JobNumber], start: int, end: int) -> list[JobNumber]:
    """Return the jobs whose instants in the window are few enough, all together, to be enumerated.

    Two short samples of the window give the estimate. Jobs that are due least often come first.
    """
    part = (end - start) // _PARTS
    often: Counter[JobNumber] = Counter()
    for begin in (start, (start + end) // 2):
        seen = Counter(timeline.expected(begin, begin + part, list(jobs)).jobs.tolist())
        often |= Counter({JobNumber(job): count for job, count in seen.items()})
    left, few = _INSTANTS_MAX, list[JobNumber]()
    for job in sorted(jobs, key=lambda job: often[job]):
        left -= often[job] * _PARTS
        if left >= 0:
            few.append(job)
    return few


async def _ended(
    snapshot: StoreSnapshot, jobs: Sequence[JobNumber], due: Mapping[JobNumber, _Due], start: int, end: int
) -> tuple[dict[JobNumber, list[OccurrenceRow]], dict[JobNumber, int]]:
    """Read ended occurrences, and the time from which on they are complete.

    Jobs with few occurrences in the window are read whole, and leave their unused share to the others.
    """
    expected = {job: int(np.searchsorted(due[job].to_run, snapshot.now)) + _SPARE for job in jobs}
    rows: dict[JobNumber, list[OccurrenceRow]] = {job: [] for job in jobs}
    read_from = dict.fromkeys(jobs, start)
    ended_before = None if end > snapshot.now else end + _AFTERWARDS
    left = _ROWS_MAX
    for is_first in (True, False):  # once more for jobs that ran more often than they were due
        asked = expected if is_first else {job: _ROWS_MAX for job in jobs if read_from[job] > start}
        for limit, few in _shared(asked, left).items():
            some = [job for job in few if len(rows[job]) < limit]
            found = await snapshot.store.read(RecentQuery(tuple(some), limit, ended_before))
            for job in some:
                rows[job] = list(found.get(job, ()))
                left -= len(rows[job])
                is_cut = len(rows[job]) >= limit
                read_from[job] = max(start, _oldest(rows[job])) if is_cut else start
    return rows, read_from


def _oldest(rows: Iterable[OccurrenceRow]) -> int:
    return min(row.ended_at or row.instant for row in rows)


def _shared(wanted: Mapping[JobNumber, int], left: int) -> dict[int, list[JobNumber]]:
    """Share `left` rows among jobs. Returns jobs by their limit.

    Small wishes are granted, and the other jobs share the rest. Limits are powers of two, so that few queries are
    needed.
    """
    by_limit: defaultdict[int, list[JobNumber]] = defaultdict(list)
    for place, job in enumerate(sorted(wanted, key=lambda job: wanted[job])):
        limit = min(wanted[job], left // (len(wanted) - place))
        if limit > 0:
            by_limit[1 << (limit.bit_length() - 1 if limit < wanted[job] else (limit - 1).bit_length())].append(job)
            left -= limit
    return by_limit


def _missing(
    snapshot: StoreSnapshot,
    rows: Mapping[JobNumber, Sequence[OccurrenceRow]],
    due: Mapping[JobNumber, _Due],
    read_from: Mapping[JobNumber, int],
    until: int,
) -> tuple[Key, ...]:
    """Return due instants without a row: they ended much later, or are in a collapsed range."""
    missing: list[Key] = []
    for job, one in due.items():
        floor = max(read_from[job], snapshot.timeline.jobs[job].history_floor)
        passed = one.to_run[(one.to_run >= floor) & (one.to_run < until)]
        lacking = np.setdiff1d(passed, _instants(rows[job]))[: _KEYS_MAX - len(missing)]
        missing += [Key(instant, job, Kind.SCHEDULED) for instant in lacking.tolist()]
    return tuple(missing)


def _instants(rows: Iterable[OccurrenceRow]) -> Numbers:
    return np.array([row.instant for row in rows if row.kind is Kind.SCHEDULED], np.int64)


async def _ranges(
    snapshot: StoreSnapshot, jobs: frozenset[JobNumber], start: int, end: int
) -> dict[JobNumber, list[CollapsedRange]]:
    page = await snapshot.store.read(PointersQuery(PointerTable.WINDOWS, (start + 1,), _WINDOWS_MAX))
    found: defaultdict[JobNumber, list[CollapsedRange]] = defaultdict(list)
    for _, row in page.found:
        window = None if row is None else row.window
        if row is None or window is None or row.job not in jobs or window.start >= end or row.started_at is not None:
            continue
        found[row.job].append(
            CollapsedRange(window.start, window.end, tone_of(row.status), str(row.status), row.ref, window.count)
        )
    return found


class _Window(NamedTuple):
    start: int
    end: int
    now: int


def _lane(
    window: _Window,
    job: JobRow,
    rows: Iterable[OccurrenceRow],
    due: _Due,
    read_from: int,
    ranges: Mapping[JobNumber, Sequence[CollapsedRange]],
    gaps: Mapping[JobNumber, str],
) -> JobLane:
    kept = {row.ref: row for row in rows}.values()
    items = [_item(row, window.now) for row in kept if row.window is None or row.started_at is not None]
    inside = [item for item in items if item.end >= window.start and item.start < window.end]
    without = np.setdiff1d(due.to_run, _instants(kept))
    return JobLane(
        job.name,
        tuple(sorted(inside, key=lambda item: item.start)),
        unread=without[without < min(read_from, window.now)],
        coming=without[without > window.now],
        passed_over=due.skipped[due.skipped > window.now],
        ranges=tuple(ranges.get(job.number, ())),
        gap=gaps.get(job.number),
    )


def _item(row: OccurrenceRow, now: int) -> Item:
    """Return the place of a row on the timeline: at its instant, if it never ran."""
    if row.started_at is None:
        at = row.instant if row.status in FINAL else row.due_at
        return Item(at, at, tone_of(row.status), str(row.status), row.ref)
    end = row.ended_at or max(now, row.started_at)
    return Item(row.started_at, end, tone_of(row.status), str(row.status), row.ref)
