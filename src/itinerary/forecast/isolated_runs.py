"""The outcomes of runs, without simulating the same situation twice.

A month of a thousand jobs has half a million runs, and simulating one costs as much as a node spends on it. But runs
can affect each other only through three things: the overlap slot of the job, a limit, and the slots of the node. So

    1  isolated      each job is simulated once, and all its runs first get that outcome
    2  families      jobs that share a limit, or one job without overlap: if two runs of a family are active at the same
                     time they are simulated together, until none is active
    3  contention    if more runs are active than the node has slots, all are simulated together (`contention`)

Correctness: while no run waits, no family has overlapping runs and slots are free, the core decides about each run
without the others. Proof by contradiction: at the first instant of a different decision, a run would find a slot taken.
But all runs that take a slot up to that instant were counted.

Speed: a simulation has the same result whenever the same jobs are due at the same distances and the same slots are
free, at any time of day. So results are cached by these values, and the next hour or day is not simulated again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import numpy as np

from itinerary.forecast.contention import AllAlone, Contention
from itinerary.forecast.outcome_columns import (
    CODES,
    ConcurrentRuns,
    Numbers,
    RunOutcomes,
    SimulationCache,
    Which,
    key_of,
)
from itinerary.forecast.simulator import ForecastRuns, ForecastSimulator
from itinerary.model.rows import JobNumber
from itinerary.schedules.durations import SECOND

__all__ = ["IsolatedRuns"]

_CUT_ROUNDS: Final = 12
"""The number of rounds after which runs that were simulated together stay together, so that the loop ends."""
_ENDLESS: Final = 3_600 * SECOND
"""A family whose runs overlap for longer than this is excluded from contention: its runs get their slots in time."""
_BEFORE_CROWDS: Final = 0.3
"""The progress that is reported before contention is simulated."""


class IsolatedRuns:
    """Runs and their outcomes."""

    def __init__(
        self,
        stage: ForecastSimulator,
        runs: ForecastRuns,
        *,
        memory: SimulationCache | None = None,
        others: RunOutcomes | None = None,
        handle: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Create the calculation.

        Args:
            stage: The simulator.
            runs: The runs, by instant and then by job.
            memory: The cache of earlier simulations on this simulator.
            others: Other active runs, which take slots.
            hear: Receives the progress, from 0 to 1.
        """
        self._stage, self._runs, self._handle = stage, runs, handle
        self._others = RunOutcomes.empty(0) if others is None else others
        self.outcomes = RunOutcomes.empty(len(runs))
        self._jobs, self._places = np.unique(runs.jobs, return_inverse=True)
        self._families = family_numbers(stage, self._jobs)
        self._delays = _delays(stage, runs, self._jobs, self._places)
        self._group = np.arange(len(runs))
        """The episode of each run, as the position of its first run."""
        self._memory = SimulationCache() if memory is None else memory

    def decide(self) -> RunOutcomes:
        """Return the outcomes of all runs."""
        if len(self._runs):
            alone = self._each_alone()
            self._families_together()
            self._all_together(alone)
        return self.outcomes

    # -- isolated jobs -----------------------------------------------------------------------------------------------

    def _each_alone(self) -> AllAlone:
        found = [self._stage.alone(JobNumber(number)) for number in self._jobs.tolist()]
        alone = AllAlone(
            self._jobs,
            np.array([one.lasting for one in found]),
            np.array([CODES[one.state] for one in found]),
            np.array([one.is_restless for one in found]),
        )
        starts = self._runs.instants if self._delays is None else self._runs.instants + self._delays
        self.outcomes.starts[:] = starts
        self.outcomes.ends[:] = starts + alone.lasting[self._places]
        self.outcomes.states[:] = alone.states[self._places]
        return alone

    # -- families ----------------------------------------------------------------------------------------------------

    def _families_together(self) -> None:
        """Simulate overlapping runs of a family together, until no other runs overlap."""
        families = self._families[self._places]
        members = np.flatnonzero(families)
        order = members[np.lexsort((self._runs.instants[members], families[members]))]
        if len(order) < 2:
            return
        for rounds in count(1):
            touching = self._touching(order, families[order])
            if not touching:
                return
            for number, group in enumerate(touching):
                self._play_together(group, is_cut=rounds <= _CUT_ROUNDS)
                self._handle(_BEFORE_CROWDS * number / len(touching))

    def _touching(self, order: Numbers, families: Numbers) -> list[Numbers]:
        """Return the overlapping runs of each family that are not all in one episode."""
        begin = int(self._runs.instants[0])
        starts, ends = self._runs.instants[order] - begin, self.outcomes.ends[order] - begin
        # Put the families one after the other on one axis, far enough apart that no end reaches into the next.
        offsets = families * (int(ends.max()) + 1)
        reached = np.maximum.accumulate(ends + offsets)
        bounds = np.flatnonzero(starts[1:] + offsets[1:] > reached[:-1]) + 1
        firsts = np.concatenate([[0], bounds])
        lasts = np.concatenate([bounds, [len(order)]])
        changes = np.concatenate([[0], np.cumsum(np.diff(self._group[order]) != 0)])
        several = changes[lasts - 1] > changes[firsts]
        return [order[first:last] for first, last in zip(firsts[several], lasts[several], strict=True)]

    def _play_together(self, members: Numbers, *, is_cut: bool) -> None:
        runs = ForecastRuns(self._runs.jobs[members], self._runs.instants[members])
        delays = None if self._delays is None else self._delays[members]
        first = 0
        while first < len(members):
            episode = self._remembered(runs, delays, first) or self._played(runs, delays, first)
            places = members[first : first + episode.size]
            episode.outcomes.write(self.outcomes, places, int(runs.instants[first]))
            self._group[places] = places[0] if is_cut else members[0]
            first += episode.size

    def _remembered(self, runs: ForecastRuns, delays: Numbers | None, first: int) -> ConcurrentRuns | None:
        """Return the cached outcome of the same runs, if no other run follows before their end."""
        since = runs.instants[first]
        for size, by_key in self._memory.families[int(runs.jobs[first])].items():
            last = first + size
            if last > len(runs):
                continue
            episode = by_key.get(key_of(runs, delays, first, last))
            if episode is not None and (last == len(runs) or runs.instants[last] - since > episode.until):
                return episode
        return None

    def _played(self, runs: ForecastRuns, delays: Numbers | None, first: int) -> ConcurrentRuns:
        performance = self._stage.play(runs, first)
        outcomes = RunOutcomes.of(performance, int(runs.instants[first]))
        episode = ConcurrentRuns(int(outcomes.ends.max()), outcomes)
        key = key_of(runs, delays, first, first + episode.size)
        self._memory.families[int(runs.jobs[first])].setdefault(episode.size, {})[key] = episode
        return episode

    # -- contention --------------------------------------------------------------------------------------------------

    def _all_together(self, alone: AllAlone) -> None:
        apart = self._endless()
        joint = np.flatnonzero(~apart)
        crowds = Contention(
            self._stage,
            ForecastRuns(self._runs.jobs[joint], self._runs.instants[joint]),
            RunOutcomes(*(column[joint] for column in self.outcomes)),
            alone,
            memory=self._memory,
            families=self._families[self._places[joint]],
            groups=self._group[joint],
            delays=None if self._delays is None else self._delays[joint],
            others=RunOutcomes(
                *(np.concatenate(pair) for pair in zip((c[apart] for c in self.outcomes), self._others, strict=True))
            ),
            handle=lambda part: self._handle(_BEFORE_CROWDS + (1 - _BEFORE_CROWDS) * part),
        )
        outcomes = crowds.decide()
        for column, found in zip(self.outcomes, outcomes, strict=True):
            column[joint] = found

    def _endless(self) -> Which:
        """Return which runs belong to a family whose runs overlap for too long."""
        lasts = np.zeros(len(self._runs), np.int64)
        np.maximum.at(lasts, self._group, self._runs.instants)
        endless = lasts - self._runs.instants > _ENDLESS
        return endless[self._group]


def family_numbers(stage: ForecastSimulator, jobs: Numbers) -> Numbers:
    """Return the family of each job; 0 for a job that affects no other run, not even its own."""
    families = np.zeros(len(jobs), np.int64)
    by_limit: dict[str, int] = {}
    for place, number in enumerate(jobs.tolist()):
        start_config = stage.plan(JobNumber(number)).start_config
        names = [limit.name for limit in start_config.limits]
        if not names and start_config.config.job.overlap.is_parallel:
            continue
        joined = {by_limit[name] for name in names if name in by_limit}
        family = min(joined, default=place + 1)
        families[place] = family
        for other in joined - {family}:
            families[families == other] = family
            by_limit = {name: family if of == other else of for name, of in by_limit.items()}
        by_limit |= dict.fromkeys(names, family)
    return families


def _delays(stage: ForecastSimulator, runs: ForecastRuns, jobs: Numbers, places: Numbers) -> Numbers | None:
    """Return the delay of each run after its instant; None if all are due on time."""
    plans = [stage.plan(JobNumber(number)) for number in jobs.tolist()]
    shaken = np.array([plan.jitters for plan in plans], np.bool_)
    if not shaken.any():
        return None
    delays = np.zeros(len(runs), np.int64)
    for place in np.flatnonzero(shaken[places]).tolist():
        instant = int(runs.instants[place])
        delays[place] = plans[places[place]].due_at(instant) - instant
    return delays
