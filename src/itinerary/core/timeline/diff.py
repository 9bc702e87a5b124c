"""What a change of a job adds and takes away: two enumerations, compared (R7).

    the timeline without the entry    ─► instants ┐
                                                  ├─► added, removed, kept
    the timeline with it              ─► instants ┘

When the new version takes effect is for its `UpdatePolicy` to say; what `graceful` means is decided here (`hand_over`).
The same comparison is shown before a change is made, with an entry that is not in the store yet, and told afterwards
with the one that is. It begins when the change is entered, so that the last instants of the old version are among those
that are kept, and it is bounded: by a window, by a number of instants, and always by `INSTANTS_MAX`. Where it had to
end earlier than it was asked to, its `end` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.compiled import Layer
from itinerary.core.timeline.expected import Expected
from itinerary.core.timeline.history import FOREVER, Active, History, Stretch
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import ZoneBook
from itinerary.errors import ItineraryError, ScheduleFaulty, WindowError
from itinerary.model.rows import EntryRow, JobRow
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import EARLIEST

__all__ = ["INSTANTS_MAX", "Difference", "Handover", "compare", "hand_over"]

INSTANTS_MAX: Final = 10_000
"""The most instants of either side that are compared."""
_DAY: Final = 86_400 * SECOND
_HORIZON_MAX: Final = 3_660 * _DAY
"""How far ahead the next instants are looked for: rare schedules are those of leap days."""
_FIRST_HORIZON: Final = 3_600 * SECOND
"""How far the first enumeration of a comparison reaches."""

Numbers = NDArray[np.int64]


class Difference(msgspec.Struct, frozen=True):
    """What a change means in `[start, end)`: instants in microseconds, in order."""

    start: int
    end: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    kept: tuple[int, ...]
    first_at: int | None = None
    """The first instant to run from when the change takes effect; None if there is none."""


class Handover(NamedTuple):
    """How a graceful change replaces a schedule."""

    effective_from: int
    """When the new version takes effect: a second after the last old instant."""
    first_at: int | None
    """Where the new instants begin; None: with the first one that the new version has."""


def compare(
    job: JobRow, entries: Iterable[EntryRow], revision: int, *, window_for: int | None = None, count: int | None = None
) -> Difference:
    """What the entries of one revision change for a job. `entries` are all that decide about its instants, zone data
    included, up to that revision or later.

    `window_for` and `count` bound what is compared: the shorter one decides, and without either it is a month. Raises
    an ItineraryError if the job cannot be enumerated, before or after.
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
    """Decide when a graceful change takes effect; None: at once, since no instant of the old version is to run.

    The next old instant still runs. The first new instant is the first one that lies at least half of the new
    schedule's own interval after it:

        daily, 05:00 to 09:00    old  2 Jan 05:00    new  2 Jan 09:00 (4 h later: left out), 3 Jan 09:00
        daily, 05:00 to 03:00    old  2 Jan 05:00    new  3 Jan 03:00 (22 h later)

    The interval of an instant is the distance from the instant before it, in elapsed time. So at most one new instant
    is left out, and a schedule that does not change loses none.

    Args:
        timeline: The timeline before the change.
        job: The job that changes.
        now: The time of the change.
        body: The definition of the new version.
        zones: Zone data that is entered with the change.
    """
    try:
        last_at = timeline.next_run(job.number, now)
    except ItineraryError:
        return None  # what is in force cannot be enumerated, and nothing of it will run
    if last_at is None:
        return None
    book = timeline.zones.extended(zones)
    try:
        first_at = _first_new(job, body, book, last_at)
    except ItineraryError:
        first_at = None  # the comparison reports why the new schedule cannot be enumerated
    return Handover(last_at + SECOND, first_at)


def _first_new(job: JobRow, body: str, book: ZoneBook, last_at: int) -> int | None:
    """Where new instants begin, if that is not right after the last old one."""
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
    """The first two instants of a definition from `start` on, if there are as many."""
    horizon = _DAY
    while True:
        found = _of_definition(job, body, book, start, min(start + horizon, FOREVER))
        if len(found) > 1 or horizon >= _HORIZON_MAX:
            return [int(instant) for instant in found[:2]]
        horizon *= 2


def _preceding(job: JobRow, body: str, book: ZoneBook, end: int) -> int | None:
    """The last instant of a definition before `end`, if there is one."""
    horizon = _DAY
    while True:
        found = _of_definition(job, body, book, max(end - horizon, EARLIEST * SECOND), end)
        if len(found) or horizon >= _HORIZON_MAX:
            return int(found[-1]) if len(found) else None
        horizon *= 2


def _of_definition(job: JobRow, body: str, book: ZoneBook, start: int, end: int) -> Numbers:
    """The instants that a definition has in `[start, end)`, if it is always in force."""
    history = History((Stretch(start, FOREVER, job.version + 1, body, Active()),))
    return _enumerated(job, Layer.of([(job.number, history)], start, end, book).expected(start, end))


def _until_enough(
    job: JobRow, before: Timeline, after: Timeline, start: int, end: int, count: int
) -> tuple[int, Numbers, Numbers]:
    """Enumerate up to `end`, or until there are more than `count` instants: the horizon doubles until then, so that a
    long window of a frequent job costs no more than a short one."""
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
