"""The outcomes of runs, as columns parallel to those of the runs."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.forecast.simulator import ForecastRuns, SimulationResult
from itinerary.model.states import OccurrenceState

__all__ = ["CODES", "NEVER", "STATES", "ConcurrentRuns", "Numbers", "RunOutcomes", "SimulationCache", "Which", "key_of"]

Numbers: TypeAlias = NDArray[np.int64]
Which: TypeAlias = NDArray[np.bool_]

STATES: Final = tuple(OccurrenceState)
"""The states; a state is represented by its position here."""
NEVER: Final = -1
"""The start of a run that never started."""
CODES: Final = {state: number for number, state in enumerate(STATES)}


class RunOutcomes(NamedTuple):
    """The outcomes of runs, as columns parallel to those of the runs."""

    starts: Numbers
    """The starts; NEVER for a run that did not start."""
    ends: Numbers
    states: Numbers

    @classmethod
    def empty(cls, count: int) -> RunOutcomes:
        """Return columns for `count` runs."""
        return cls(np.full(count, NEVER), np.zeros(count, np.int64), np.zeros(count, np.int64))

    @classmethod
    def of(cls, performance: SimulationResult, since: int) -> RunOutcomes:
        """Return the outcomes of a simulation, with times relative to `since`. An active run ends NEVER."""
        rows = performance.rows
        starts = [NEVER if row.started_at is None else row.started_at - since for row in rows]
        ends = [NEVER if row.ended_at is None else row.ended_at - since for row in rows]
        states = [CODES[row.status] for row in rows]
        return cls(np.array(starts, np.int64), np.array(ends, np.int64), np.array(states, np.int64))

    def write(self, into: RunOutcomes, places: Numbers | slice, since: int) -> None:
        """Write these outcomes into other columns, with times relative to `since`."""
        into.starts[places] = np.where(self.starts == NEVER, NEVER, self.starts + since)
        into.ends[places] = self.ends + since
        into.states[places] = self.states


class SimulationCache:
    """The cache of earlier simulations: of families, and of contention."""

    def __init__(self) -> None:
        self.families: defaultdict[int, dict[int, dict[bytes, ConcurrentRuns]]] = defaultdict(dict)
        """By the first job, then by the number of runs, then by the runs."""
        self.crowds: defaultdict[int, dict[tuple[int, int], dict[bytes, ConcurrentRuns]]] = defaultdict(dict)
        """By the first job, then by the number of runs and the duration, then by the runs."""


class ConcurrentRuns(NamedTuple):
    """Runs that were simulated together."""

    until: int
    """The end of the simulation, relative to the first instant: no run was active, or no run waited."""
    outcomes: RunOutcomes

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.outcomes.starts)


def key_of(runs: ForecastRuns, delays: Numbers | None, first: int, last: int) -> bytes:
    """Return the cache key of runs: their jobs, and their distances."""
    parts = [runs.jobs[first:last], runs.instants[first:last] - runs.instants[first]]
    if delays is not None:
        parts.append(delays[first:last])
    return np.concatenate(parts).tobytes()
