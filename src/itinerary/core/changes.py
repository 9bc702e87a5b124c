"""What a change of a job adds and takes away: two enumerations, compared (R7).

    the timeline without the entry    ─► instants ┐
                                                  ├─► added, removed, kept
    the timeline with it              ─► instants ┘

When the new version takes effect is for its `UpdatePolicy` to say. The same comparison is shown before a change is
made, with an entry that is not in the store yet, and told afterwards with the one that is. It begins when the change is
entered, so that the last instants of the old version are among those that are kept, and it is bounded: by a window, by
a number of instants, and always by `INSTANTS_MAX`. Where it had to end earlier than it was asked to, its `end` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.stretches import FOREVER
from itinerary.core.timeline import Timeline
from itinerary.errors import ItineraryError, ScheduleFaulty, WindowError
from itinerary.model.rows import EntryRow, JobRow
from itinerary.schedules.durations import SECOND

__all__ = ["INSTANTS_MAX", "Difference", "compare", "graceful_from"]

INSTANTS_MAX: Final = 10_000
"""The most instants of either side that are compared."""
_DAY: Final = 86_400 * SECOND
_HORIZON_MAX: Final = 3_660 * _DAY
"""How far ahead the next instants are looked for: rare schedules are those of leap days."""

Numbers = NDArray[np.int64]


class Difference(msgspec.Struct, frozen=True):
    """What a change means in `[start, end)`: instants in microseconds, in order."""

    start: int
    end: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    kept: tuple[int, ...]


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
    if window_for is None and count is not None:
        end, old, new = _until_enough(job, before, after, start, limit)
    else:
        end, old, new = _within(job, before, after, start, start + (_DAY * 30 if window_for is None else window_for))
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
    )


def graceful_from(timeline: Timeline, job: JobRow, now: int) -> int | None:
    """When a graceful change takes effect: a second after the next instant that is to run; None if there is none, and
    nothing has to be waited for."""
    try:
        following = timeline.next_run(job.number, now)
    except ItineraryError:
        return None  # what is in force cannot be enumerated, and nothing of it will run
    return None if following is None else following + SECOND


def _until_enough(
    job: JobRow, before: Timeline, after: Timeline, start: int, count: int
) -> tuple[int, Numbers, Numbers]:
    """The instants of a horizon that is doubled until it holds more than so many."""
    horizon = _DAY
    while True:
        end, old, new = _within(job, before, after, start, start + horizon)
        if len(np.union1d(old, new)) > count or horizon >= _HORIZON_MAX or end < start + horizon:
            return end, old, new
        horizon *= 2


def _within(job: JobRow, before: Timeline, after: Timeline, start: int, end: int) -> tuple[int, Numbers, Numbers]:
    end = min(end, FOREVER)
    while True:
        try:
            return end, _instants(before, job, start, end), _instants(after, job, start, end)
        except WindowError:
            end = start + (end - start) // 2


def _instants(timeline: Timeline, job: JobRow, start: int, end: int) -> Numbers:
    expected = timeline.expected(start, end, [job.number])
    for gap in expected.gaps:
        raise ScheduleFaulty(f"job {job.name!r} cannot be enumerated: {gap.reason}")
    return expected.instants
