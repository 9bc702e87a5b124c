"""Many schedules at once: compiled into columns once, enumerated over any window.

`ScheduleTable` sorts schedules by kind and lets each kind compile its own batch, so the work of a window is a few
passes over arrays, however many schedules there are. Compiling looks at every schedule; enumerating does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from itinerary.schedules.base import Batch, Budget, Found, Schedule
from itinerary.schedules.instants import EARLIEST, LATEST, MICROSECONDS, InstantLike, window_seconds
from itinerary.schedules.zones import ZoneSource, packaged_zone

__all__ = ["ScheduleTable", "enumerate_many"]


@dataclass(frozen=True, slots=True)
class ScheduleTable:
    """Schedules compiled for enumeration. Build it with `ScheduleTable.compile`; it never changes."""

    schedules: tuple[Schedule, ...]
    _parts: tuple[tuple[NDArray[np.int64], Batch], ...] = field(repr=False, compare=False)
    _range: tuple[NDArray[np.int64], NDArray[np.int64]] | None = field(repr=False, compare=False)
    """The first and last active second of each schedule; None where no schedule has a `start` or an `end`."""

    @classmethod
    def compile(cls, schedules: Sequence[Schedule], zones: ZoneSource = packaged_zone) -> ScheduleTable:
        """Columns for many schedules, in the zones of one source. Raises for a schedule that is not complete."""
        rows_of: dict[type[Schedule], list[int]] = {}
        bounded = False
        for row, schedule in enumerate(schedules):
            schedule.require_ready()
            rows_of.setdefault(type(schedule), []).append(row)
            bounded = bounded or schedule.start is not None or schedule.end is not None
        parts = tuple(
            (np.array(rows, np.int64), kind.batch([schedules[row] for row in rows], zones))
            for kind, rows in rows_of.items()
        )
        return cls(tuple(schedules), parts, _ranges(schedules, zones) if bounded else None)

    def __len__(self) -> int:
        return len(self.schedules)

    def seconds(self, start: int, end: int, budget: Budget) -> Found:
        """Every instant in `[start, end)`, in seconds: which schedule, and when."""
        if start >= end or not self._parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        found = [(numbers, batch.enumerate(start, end, budget)) for numbers, batch in self._parts]
        if len(found) == 1:
            rows, seconds = found[0][1]  # one kind: its rows are the schedules' numbers
        else:
            rows = np.concatenate([numbers[rows] for numbers, (rows, _) in found])
            seconds = np.concatenate([seconds for _, (_, seconds) in found])
        if self._range is None:
            return rows, seconds
        low, high = self._range
        active = (seconds >= low[rows]) & (seconds <= high[rows])
        return rows[active], seconds[active]


def _ranges(schedules: Sequence[Schedule], zones: ZoneSource) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    whole = (EARLIEST, LATEST - 1)
    ranges = [s.active_range(zones) if s.start is not None or s.end is not None else whole for s in schedules]
    low, high = np.array(ranges, np.int64).T
    return low, high


def enumerate_many(
    schedules: Sequence[Schedule] | ScheduleTable,
    start: InstantLike,
    end: InstantLike,
    zones: ZoneSource = packaged_zone,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every instant of every schedule in `[start, end)`, unsorted.

    A caller with many windows compiles once: `table = ScheduleTable.compile(schedules)`. A table keeps the zones that
    it was compiled with.

    Returns:
        Two arrays: `numbers` (positions in `schedules`) and `instants` (microseconds since the epoch).
    """
    table = schedules if isinstance(schedules, ScheduleTable) else ScheduleTable.compile(schedules, zones)
    first, last = window_seconds(start, end)
    numbers, seconds = table.seconds(first, last, Budget())
    return numbers, seconds * MICROSECONDS
