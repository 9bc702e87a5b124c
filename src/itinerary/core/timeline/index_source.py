"""The source of the index: the jobs' schedules, compiled once, enumerated for each window.

This is the pure part of the index builder. The builder around it reads the jobs from the store and the time from the
clock, calls `window`, swaps the index and logs. One job never harms the others. A definition that does not parse, or a
custom schedule that misbehaves, is returned as a `Rejected` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.index import JobTable, ScheduledRuns
from itinerary.core.timeline.schedule_checks import check_usable, is_untrusted
from itinerary.errors import ItineraryError, WindowError
from itinerary.schedules import Schedule, ScheduleTable, ZoneSource, enumerate_many, from_json, packaged_zone

__all__ = ["IndexSource", "IndexWindow", "JobSchedule", "Rejected"]

JobSchedule: TypeAlias = tuple[str, Schedule | Mapping[str, Any] | str]
"""A job's id, and its schedule or the definition of that schedule."""


Numbers: TypeAlias = NDArray[np.int64]


class Rejected(NamedTuple):
    """A job that was left out of the index."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexWindow:
    """The result of one rebuild, for the index and for the log."""

    start: int
    end: int
    """The end of the window `[start, end)`, in microseconds."""
    runs: ScheduledRuns
    rejected: tuple[Rejected, ...]

    @property
    def job_count(self) -> int:
        """The number of enumerated jobs."""
        return len(self.runs.jobs)


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Jobs compiled for enumeration. Immutable: changed jobs need a new source."""

    jobs: JobTable
    _table: ScheduleTable
    """The built-in schedules of `jobs`, in the same order."""
    _numbers: Numbers
    """The job's number for each row of the table."""
    _untrusted: tuple[tuple[int, ScheduleTable], ...]
    """Jobs with custom schedules, each in a table of its own."""
    rejected: tuple[Rejected, ...]

    @classmethod
    def of(cls, jobs: Iterable[JobSchedule], zones: ZoneSource = packaged_zone) -> IndexSource:
        """Compile the jobs' schedules. Reject those that do not parse or are not complete."""
        schedules: dict[str, Schedule] = {}
        rejected: list[Rejected] = []
        for job, definition in jobs:
            try:
                schedule = definition if isinstance(definition, Schedule) else from_json(definition)
                check_usable(schedule, zones)
            except ItineraryError as error:
                rejected.append(Rejected(job, str(error)))
                continue
            if job in schedules:
                rejected.append(Rejected(job, "the job is listed twice; only its first schedule counts"))
                continue
            schedules[job] = schedule
        table = JobTable(schedules)
        trusted = [number for number, job in enumerate(table) if not is_untrusted(schedules[job])]
        untrusted = [number for number, job in enumerate(table) if is_untrusted(schedules[job])]
        return cls(
            table,
            ScheduleTable.compile([schedules[table[number]] for number in trusted], zones),
            np.array(trusted, np.int64),
            tuple((number, ScheduleTable.compile([schedules[table[number]]], zones)) for number in untrusted),
            tuple(rejected),
        )

    def window(self, now: int, *, grace_period: int, lookahead_window: int) -> IndexWindow:
        """Return every run in `[now - grace_period, now + lookahead_window)`, all in microseconds.

        If there are more runs than one enumeration may return, the lookahead is shortened, to an eighth at the least. A
        shorter index is rebuilt in time; without an index the node would be alive and start nothing.
        """
        start = now - grace_period
        end, rows, instants = self._fitting(start, now, lookahead_window, lookahead_window // 8)
        all_numbers, all_instants, rejected = [self._numbers[rows]], [instants], list(self.rejected)
        for number, table in self._untrusted:
            try:
                _, instants = enumerate_many(table, start, end)
            except ItineraryError as error:
                rejected.append(Rejected(self.jobs[number], str(error)))
            else:
                all_numbers.append(np.full(len(instants), number, np.int64))
                all_instants.append(instants)
        runs = ScheduledRuns(self.jobs, np.concatenate(all_numbers), np.concatenate(all_instants))
        return IndexWindow(start, end, runs, tuple(rejected))

    def _fitting(self, start: int, now: int, lookahead: int, shortest: int) -> tuple[int, Numbers, Numbers]:
        """Return the end of the window, and the rows and instants of the built-in schedules in it."""
        try:
            return now + lookahead, *enumerate_many(self._table, start, now + lookahead)
        except WindowError:
            if lookahead // 2 < max(shortest, 1):
                raise
            return self._fitting(start, now, lookahead // 2, shortest)
