"""The instants that a change of a job adds and removes: two enumerations, compared (R7).

    the timeline without the entry    ─► instants ┐
                                                  ├─► added, removed, kept
    the timeline with it              ─► instants ┘

The job's `UpdatePolicy` decides when the new version takes effect; `hand_over` decides what `graceful` means. The same
comparison is shown before a change, with an entry that is not stored yet, and after it, with the stored entry. The
comparison begins when the change is entered, so the last instants of the old version count as kept. A window, a number
of instants and always `INSTANTS_MAX` bound the comparison. If a bound ended it early, its `end` shows that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.compiled import Layer
from itinerary.core.timeline.expected import Expected
from itinerary.core.timeline.history import FOREVER, HistorySegment, JobActive, JobHistory
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import ZoneBook
from itinerary.errors import ItineraryError, ScheduleFaulty, WindowError
from itinerary.model.rows import EntryRow, JobRow
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import EARLIEST

__all__ = ["INSTANTS_MAX", "Difference", "Handover", "compare", "hand_over"]

INSTANTS_MAX: Final = 10_000
"""The largest number of instants that are compared on either side."""
_DAY: Final = 86_400 * SECOND
_HORIZON_MAX: Final = 3_660 * _DAY
"""The longest look ahead for next instants. The rarest schedules run on leap days."""
_FIRST_HORIZON: Final = 3_600 * SECOND
"""The window of the first enumeration of a comparison."""

Numbers = NDArray[np.int64]


class Difference(msgspec.Struct, frozen=True):
    """The effect of a change in `[start, end)`: instants in microseconds, in order."""

    start: int
    end: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    kept: tuple[int, ...]
    first_at: int | None = None
    """The first instant that runs once the change is in effect; None if there is none."""


class Handover(NamedTuple):
    """The way in which a graceful change replaces a schedule."""

    effective_from: int
    """The time when the new version takes effect: a second after the last old instant."""
    first_at: int | None
    """The start of the new instants; None if they start with the new version's first one."""


def compare(
    job: JobRow, entries: Iterable[EntryRow], revision: int, *, window_for: int | None = None, count: int | None = None
) -> Difference:
    """Compare the instants of a job before and after the entries of one revision.

    Args:
        job: The job that changes.
        entries: All entries that decide about its instants, zone data included, up to that revision or later.
        revision: The revision of the change.
        window_for: The longest time to compare. The default is 30 days, or ten years if `count` is given.
        count: The largest number of instants to compare.

    Raises:
        ItineraryError: The job cannot be enumerated, before or after the change.
    """
    entries = list(entries)
    made = [entry for entry in entries if entry.revision == revision]
    assert made, "a change has an entry"
    before = Timeline.of([entry for entry in entries if entry.revision < revision], [job])
    after = before.extended(made)
    start = made[-1].entered_at
    limit = min(count or INSTANTS_MAX, INSTANTS_MAX)
    if window_for is None:
        window_for = _DAY * 30 if count is None else _HORIZON_MAX
    end, old, new = _until_enough(job, before, after, start, min(start + window_for, FOREVER), limit)
    both = np.union1d(old, new)
    if len(both) > limit:
        end = int(both[limit])
        old, new = old[old < end], new[new < end]
    return Difference(
        start,
        end,
        tuple(np.setdiff1d(new, old).tolist()),
        tuple(np.setdiff1d(old, new).tolist()),
        tuple(np.intersect1d(old, new).tolist()),
        after.next_run(job.number, made[-1].effective_from - 1),
    )


def hand_over(timeline: Timeline, job: JobRow, now: int, body: str, zones: Iterable[EntryRow] = ()) -> Handover | None:
    """Decide when a graceful change takes effect.

    The next old instant still runs. The first new instant is the first one that lies at least half of the new
    schedule's own interval after it:

        daily, 05:00 to 09:00    old  2 Jan 05:00    new  2 Jan 09:00 (4 h later: left out), 3 Jan 09:00
        daily, 05:00 to 03:00    old  2 Jan 05:00    new  3 Jan 03:00 (22 h later)

    The interval of an instant is the elapsed time since the instant before it. So at most one new instant is left out,
    and a schedule that does not change loses none.

    Args:
        timeline: The timeline before the change.
        job: The job that changes.
        now: The time of the change.
        body: The definition of the new version.
        zones: Zone data that is entered with the change.

    Returns:
        The handover, or None if the change takes effect at once because no old instant is to run.
    """
    try:
        last_at = timeline.next_run(job.number, now)
    except ItineraryError:
        return None  # the version in force cannot be enumerated, so none of its instants will run
    if last_at is None:
        return None
    book = timeline.zones.extended(zones)
    try:
        first_at = _first_new(job, body, book, last_at)
    except ItineraryError:
        first_at = None  # the comparison reports why the new schedule cannot be enumerated
    return Handover(last_at + SECOND, first_at)


def _first_new(job: JobRow, body: str, book: ZoneBook, last_at: int) -> int | None:
    """Return where the new instants begin; None if they begin right after the last old one."""
    following = _following(job, body, book, last_at + SECOND)
    if not following:
        return None
    before = _preceding(job, body, book, last_at + SECOND)
    if before is not None:
        interval = following[0] - before
    elif len(following) > 1:
        interval = following[1] - following[0]
    else:
        return None  # a single instant has no interval
    if 2 * (following[0] - last_at) >= interval:
        return None
    return following[1] if len(following) > 1 else following[0] + SECOND


def _following(job: JobRow, body: str, book: ZoneBook, start: int) -> list[int]:
    """Return the first two instants of a definition from `start` on, or fewer if there are not two."""
    horizon = _DAY
    while True:
        found = _of_definition(job, body, book, start, min(start + horizon, FOREVER))
        if len(found) > 1 or horizon >= _HORIZON_MAX:
            return [int(instant) for instant in found[:2]]
        horizon *= 2


def _preceding(job: JobRow, body: str, book: ZoneBook, end: int) -> int | None:
    """Return the last instant of a definition before `end`; None if there is none."""
    horizon = _DAY
    while True:
        found = _of_definition(job, body, book, max(end - horizon, EARLIEST * SECOND), end)
        if len(found) or horizon >= _HORIZON_MAX:
            return int(found[-1]) if len(found) else None
        horizon *= 2


def _of_definition(job: JobRow, body: str, book: ZoneBook, start: int, end: int) -> Numbers:
    """Return the instants that a definition would have in `[start, end)` if it were always in force."""
    history = JobHistory((HistorySegment(start, FOREVER, job.version + 1, body, JobActive()),))
    return _enumerated(job, Layer.of([(job.number, history)], start, end, book).expected(start, end))


def _until_enough(
    job: JobRow, before: Timeline, after: Timeline, start: int, end: int, count: int
) -> tuple[int, Numbers, Numbers]:
    """Enumerate up to `end`, or until there are more than `count` instants.

    The horizon doubles each time, so a long window of a frequent job costs as little as a short one.
    """
    horizon = _FIRST_HORIZON
    while True:
        wanted = min(start + horizon, end)
        reached, old, new = _within(job, before, after, start, wanted)
        if wanted == end or reached < wanted or len(np.union1d(old, new)) > count:
            return reached, old, new
        horizon *= 2


def _within(job: JobRow, before: Timeline, after: Timeline, start: int, end: int) -> tuple[int, Numbers, Numbers]:
    end = min(end, FOREVER)
    while True:
        try:
            return end, _instants(before, job, start, end), _instants(after, job, start, end)
        except WindowError:
            end = start + (end - start) // 2


def _instants(timeline: Timeline, job: JobRow, start: int, end: int) -> Numbers:
    return _enumerated(job, timeline.expected(start, end, [job.number]))


def _enumerated(job: JobRow, expected: Expected) -> Numbers:
    for gap in expected.gaps:
        raise ScheduleFaulty(f"job {job.name!r} cannot be enumerated: {gap.reason}")
    return expected.instants
