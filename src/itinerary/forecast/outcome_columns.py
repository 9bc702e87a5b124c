"""What becomes of runs, in columns beside theirs."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.forecast.simulator import Performance, Runs
from itinerary.model.states import OccurrenceState

__all__ = ["CODES", "NEVER", "STATES", "Course", "Memory", "Numbers", "Together", "Which", "key_of"]

Numbers: TypeAlias = NDArray[np.int64]
Which: TypeAlias = NDArray[np.bool_]

STATES: Final = tuple(OccurrenceState)
"""A state is a number here: its place in this."""
NEVER: Final = -1
"""The start of what never started."""
CODES: Final = {state: number for number, state in enumerate(STATES)}


class Course(NamedTuple):
    """What becomes of runs, in columns beside theirs."""

    starts: Numbers
    """NEVER: it did not start."""
    ends: Numbers
    states: Numbers

    @classmethod
    def empty(cls, count: int) -> Course:
        """Room for so many."""
        return cls(np.full(count, NEVER), np.zeros(count, np.int64), np.zeros(count, np.int64))

    @classmethod
    def of(cls, performance: Performance, since: int) -> Course:
        """What came of a performance, with its times counted from a moment; what still runs ends NEVER."""
        rows = performance.rows
        starts = [NEVER if row.started_at is None else row.started_at - since for row in rows]
        ends = [NEVER if row.ended_at is None else row.ended_at - since for row in rows]
        states = [CODES[row.status] for row in rows]
        return cls(np.array(starts, np.int64), np.array(ends, np.int64), np.array(states, np.int64))

    def write(self, into: Course, places: Numbers | slice, since: int) -> None:
        """Enter these into other columns, as times that count from that moment."""
        into.starts[places] = np.where(self.starts == NEVER, NEVER, self.starts + since)
        into.ends[places] = self.ends + since
        into.states[places] = self.states


class Memory:
    """What was played before, by what it was: of families, and of crowds."""

    def __init__(self) -> None:
        self.families: defaultdict[int, dict[int, dict[bytes, Together]]] = defaultdict(dict)
        """By the first job, then by how many runs there are, then by what these are."""
        self.crowds: defaultdict[int, dict[tuple[int, int], dict[bytes, Together]]] = defaultdict(dict)
        """By the first job, then by how many runs there are and how long it lasts, then by what these are."""


class Together(NamedTuple):
    """Runs that were played together."""

    until: int
    """When nothing was under way any more, or nobody waited any more, from their first instant on."""
    course: Course

    @property
    def size(self) -> int:
        """How many there were."""
        return len(self.course.starts)


def key_of(runs: Runs, delays: Numbers | None, first: int, last: int) -> bytes:
    """Runs as they are remembered: which jobs, and how far from each other."""
    parts = [runs.jobs[first:last], runs.instants[first:last] - runs.instants[first]]
    if delays is not None:
        parts.append(delays[first:last])
    return np.concatenate(parts).tobytes()
