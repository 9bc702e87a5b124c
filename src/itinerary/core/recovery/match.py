"""Expected instants, matched with stored rows: which instant has a row of its own, and which lies in a window.

Expected instants are one sorted column of integers, `job │ second`. A binary search finds a row in it. A window takes
two searches: +1 at its start and -1 at its end. The running sum is the number of windows around each instant. So n
instants, r rows and w windows take O((n + r + w) log n). Only rows without an expected instant are handled one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.expected import Expected
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.schedules.instants import MICROSECONDS

__all__ = ["GAP", "JobSpan", "PackedInstants", "stands_for_itself", "windows_of"]

GAP: Final = "gap"
"""The request in the key of a gap's row, so that its key differs from all rows of the same second."""

Numbers: TypeAlias = NDArray[np.int64]
_SECOND_BITS: Final = 34
_SECONDS: Final = 1 << _SECOND_BITS
"""A number larger than the count of seconds in the supported years."""


class JobSpan(NamedTuple):
    """A time `[start, end)` of one job."""

    job: JobNumber
    start: int
    end: int


def stands_for_itself(key: Key) -> bool:
    """True if a key belongs to an instant that its schedule made due. The audit and the sweep use only these."""
    return key.kind.is_by_schedule and key.request != GAP


def windows_of(rows: Iterable[OccurrenceRow]) -> tuple[list[JobSpan], list[JobSpan]]:
    """Return the windows that cover the instants inside them, and the gaps, whose instants are unknown.

    A gap is a window that counts nothing. The window of a replay is only an input of its run, and covers nothing.
    """
    answering: list[JobSpan] = []
    gaps: list[JobSpan] = []
    for row in rows:
        if row.window is not None and row.kind.is_by_schedule:
            (answering if row.window.count else gaps).append(JobSpan(row.job, row.window.start, row.window.end))
    return answering, gaps


class PackedInstants:
    """Expected instants, packed for comparison."""

    __slots__ = ("_base", "_packed")

    def __init__(self, expected: Expected) -> None:
        seconds = expected.instants // MICROSECONDS
        self._base = int(seconds.min()) if len(seconds) else 0
        self._packed = (expected.jobs << _SECOND_BITS) | (seconds - self._base)
        assert not len(seconds) or (np.diff(self._packed) > 0).all(), "expected instants are in order, each once"

    def rows(self, keys: Sequence[Key]) -> tuple[Numbers, list[Key]]:
        """Return how many of these keys each expected instant has, and the keys whose instants are not expected."""
        counts = np.zeros(len(self._packed), np.int64)
        wanted = self._pack([key.job for key in keys], [key.instant for key in keys])
        places = np.searchsorted(self._packed, wanted)
        found = np.zeros(len(keys), np.bool_)
        inside = places < len(self._packed)
        found[inside] = self._packed[places[inside]] == wanted[inside]
        np.add.at(counts, places[found], 1)
        return counts, [keys[number] for number in np.flatnonzero(~found).tolist()]

    def spans(self, spans: Iterable[JobSpan]) -> Numbers:
        """Return how many of these spans each expected instant lies in."""
        listed = list(spans)
        changes = np.zeros(len(self._packed) + 1, np.int64)
        jobs = [span.job for span in listed]
        for bounds, change in (([span.start for span in listed], 1), ([span.end for span in listed], -1)):
            # A span starts and ends at the first whole second that is not before its bound.
            places = np.searchsorted(self._packed, self._pack(jobs, bounds))
            np.add.at(changes, places, change)
        return np.cumsum(changes)[:-1]

    def inside(self, spans: Sequence[JobSpan]) -> Numbers:
        """Return how many expected instants lie in each of these spans."""
        jobs = [span.job for span in spans]
        first, last = (
            np.searchsorted(self._packed, self._pack(jobs, bounds))
            for bounds in ([span.start for span in spans], [span.end for span in spans])
        )
        counts: Numbers = last - first
        return counts

    def _pack(self, jobs: Sequence[int], instants: Sequence[int]) -> Numbers:
        seconds = -(-np.array(instants, np.int64) // MICROSECONDS) - self._base
        # A second outside the expected range must not match, and must not reach into another job's numbers.
        packed: Numbers = (np.array(jobs, np.int64) << _SECOND_BITS) + np.clip(seconds, -1, _SECONDS - 1)
        return packed
