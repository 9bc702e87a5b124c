"""Contention: periods in which more runs are active than the node has slots. All their runs are simulated together.

    ───┬──────────────────────────────┬────────► time
       │ some wait                    │
     begin: the last quiet instant    until: the next one

An instant is *quiet* when no run waits, and no family has overlapping runs. The end of a run that is active then is
already known: no later run can change it. For the next simulation, such a run is only a slot that is taken until then.

The result of a period is cached by its runs and by the slots that other runs take during it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from itinerary.forecast.outcome_columns import (
    NEVER,
    ConcurrentRuns,
    Numbers,
    RunOutcomes,
    SimulationCache,
    Which,
    key_of,
)
from itinerary.forecast.simulator import Enough, ForecastRuns, ForecastSimulator, Taken
from itinerary.model.rows import OccurrenceRow
from itinerary.schedules.durations import SECOND

__all__ = ["AllAlone", "Contention"]

_HORIZON: Final = 3_600 * SECOND
"""The first look-ahead of a period: most are shorter, and an index of one hour is built quickly."""
_FOREVER: Final = int(np.iinfo(np.int64).max)


class AllAlone(NamedTuple):
    """The outcome of an isolated run, by job."""

    jobs: Numbers
    """The jobs, in order."""
    lasting: Numbers
    states: Numbers
    is_restless: Which
    """True if the run releases its slot and needs it again."""


class Contention:
    """Runs with their outcomes: first as if slots were unlimited, then with the slots of the node."""

    def __init__(  # noqa: PLR0913 - all columns are needed
        self,
        stage: ForecastSimulator,
        runs: ForecastRuns,
        outcomes: RunOutcomes,
        alone: AllAlone,
        *,
        memory: SimulationCache,
        families: Numbers,
        groups: Numbers,
        delays: Numbers | None,
        others: RunOutcomes,
        handle: Callable[[float], None],
    ) -> None:
        """Create the calculation.

        Args:
            stage: The simulator.
            runs: The runs, by instant and then by job.
            course: The outcomes with unlimited slots.
            alone: The outcomes of isolated runs.
            memory: The cache of earlier simulations.
            families: The family of each run.
            groups: The group that each run was simulated with.
            delays: The delay of each run by jitter; None if there is none.
            others: Runs that take slots, and always get them in time.
            hear: Receives the progress, from 0 to 1.
        """
        self._stage, self._runs, self._outcomes, self._alone = stage, runs, outcomes, alone
        self._delays, self._handle = delays, handle
        self._places = np.searchsorted(alone.jobs, runs.jobs)
        running = others.starts != NEVER
        self._others = others.starts[running], others.ends[running]
        self._longest = int((outcomes.ends - runs.instants).max(initial=0))
        """The longest time from an instant to the end of its run."""
        self._quiet = _Quiet(self, families, groups)
        self._known = memory.crowds

    @property
    def runs(self) -> ForecastRuns:
        """The runs."""
        return self._runs

    def unquiet(self) -> tuple[Which, Numbers]:
        """Return which runs are not quiet by themselves, and until when: restless runs, and runs delayed by jitter."""
        restless = self._alone.is_restless[self._places]
        if self._delays is None:
            return restless, self._outcomes.ends
        until = np.where(restless, self._outcomes.ends, self._runs.instants + self._delays)
        return restless | (self._delays > 0), until

    @property
    def alone(self) -> AllAlone:
        """The outcome of an isolated run, by job."""
        return self._alone

    def decide(self) -> RunOutcomes:
        """Return the outcomes of all runs."""
        if not len(self._runs):
            return self._outcomes
        crowded_at = self._crowded(slice(None))
        done_until = int(self._runs.instants[0]) - 1
        while (at := self._next(crowded_at, done_until)) is not None:
            first = self._quiet.begin(at, done_until)
            done_until = self._play(first)
            self._handle(first / len(self._runs))
        return self._outcomes

    # -- find the periods --------------------------------------------------------------------------------------------

    def _next(self, crowded_at: Numbers, done_until: int) -> int | None:
        """Return the start of the next period. Runs that were delayed before may cause a new one."""
        instants = self._runs.instants
        low = int(np.searchsorted(instants, done_until - self._longest))
        high = int(np.searchsorted(instants, done_until, "right"))
        reach = int(self._outcomes.ends[low:high].max(initial=done_until))
        if reach > done_until:
            high = int(np.searchsorted(instants, reach, "right"))
            nearby = self._crowded(slice(low, high))
            nearby = nearby[nearby > done_until]
            if len(nearby) and nearby[0] <= reach:
                return int(nearby[0])
        later = crowded_at[int(np.searchsorted(crowded_at, reach, "right")) :]
        return int(later[0]) if len(later) else None

    def _crowded(self, which: slice) -> Numbers:
        """Return the instants at which a run starts while more are active than there are slots.

        A run that is skipped because of overlap counts too: the node needs a slot to decide that.
        """
        starts, ends = self._outcomes.starts[which], self._outcomes.ends[which]
        starts = np.where(starts == NEVER, ends, starts)
        if not len(starts):
            return starts
        first, last = int(starts.min()), int(ends.max())
        other_starts, other_ends = self._others
        near = (other_ends >= first) & (other_starts <= last)
        begins = np.concatenate([starts, other_starts[near]])
        finishes = np.sort(np.concatenate([ends, other_ends[near]]))
        begins.sort()
        # Starts count before ends of the same instant. If no run waits, that costs only computing time.
        under_way = np.arange(1, len(begins) + 1) - np.searchsorted(finishes, begins, "left")
        return begins[under_way > self._stage.settings.max_concurrent_jobs]

    # -- simulate ----------------------------------------------------------------------------------------------------

    def _play(self, first: int) -> int:
        """Simulate from a run on, and return the instant at which no run waits."""
        begin = int(self._runs.instants[first])
        taken = self._taken(first, begin)
        crowd = self._remembered(first, taken) or self._played(first, taken)
        places = slice(first, first + crowd.size)
        crowd.outcomes.write(self._outcomes, places, begin)
        self._longest = max(self._longest, int((self._outcomes.ends[places] - self._runs.instants[places]).max()))
        return begin + crowd.until

    def _taken(self, first: int, begin: int) -> _Taken:
        """Return the slots that other runs take from `begin` on: the first number, and the changes."""
        low = int(np.searchsorted(self._runs.instants, begin - self._longest))
        starts, ends = self._outcomes.starts[low:first], self._outcomes.ends[low:first]
        mine = ends[(starts != NEVER) & (starts < begin) & (ends > begin)]
        other_starts, other_ends = self._others
        near = (other_ends > begin) & (other_starts < begin + _HORIZON)
        before = near & (other_starts < begin)
        later = near & ~before
        moments = np.concatenate([mine, other_ends[near], other_starts[later]]) - begin
        steps = np.concatenate([np.full(len(mine) + int(near.sum()), -1), np.ones(int(later.sum()), np.int64)])
        order = np.lexsort((steps, moments))
        return _Taken(len(mine) + int(before.sum()), moments[order], steps[order])

    def _remembered(self, first: int, taken: _Taken) -> ConcurrentRuns | None:
        begin, instants = int(self._runs.instants[first]), self._runs.instants
        for (size, until), by_key in self._known[int(self._runs.jobs[first])].items():
            last = first + size
            if last > len(instants) or (last < len(instants) and instants[last] <= begin + until):
                continue
            crowd = by_key.get(key_of(self._runs, self._delays, first, last) + taken.key(until))
            if crowd is not None and self._quiet.is_after(first, crowd.outcomes, begin, begin + until):
                return crowd
        return None

    def _played(self, first: int, taken: _Taken) -> ConcurrentRuns:
        begin, instants = int(self._runs.instants[first]), self._runs.instants
        near = int(np.searchsorted(instants, begin + _HORIZON, "right"))
        performance = self._stage.play(
            self._some(first, near), taken=taken.told(begin), is_enough=self._quiet.watching(first)
        )
        if near < len(instants) and performance.size == near - first:
            runs = self._some(first, len(instants))
            performance = self._stage.play(runs, taken=taken.told(begin), is_enough=self._quiet.watching(first))
        outcomes = RunOutcomes.of(performance, begin)
        running = outcomes.ends == NEVER
        places = self._places[first : first + performance.size][running]
        outcomes.ends[running] = outcomes.starts[running] + self._alone.lasting[places]
        outcomes.states[running] = self._alone.states[places]
        crowd = ConcurrentRuns(performance.until - begin, outcomes)
        key = key_of(self._runs, self._delays, first, first + performance.size) + taken.key(crowd.until)
        by_size = self._known[int(self._runs.jobs[first])].setdefault((performance.size, crowd.until), {})
        by_size[key] = crowd
        return crowd

    def _some(self, first: int, last: int) -> ForecastRuns:
        return ForecastRuns(self._runs.jobs[first:last], self._runs.instants[first:last])


class _Taken(NamedTuple):
    """Slots that other runs take."""

    first: int
    """The number at first."""
    moments: Numbers
    """The instants of changes, relative to the first instant."""
    steps: Numbers

    def told(self, begin: int) -> Taken:
        """Return the slots in the form of the simulator."""
        return self.first, list(zip((self.moments + begin).tolist(), self.steps.tolist(), strict=True))

    def key(self, until: int) -> bytes:
        """Return the cache key of the slots up to an instant."""
        inside = self.moments <= until
        return self.first.to_bytes(8, "little") + self.moments[inside].tobytes() + self.steps[inside].tobytes()


class _Quiet:
    """The instants at which no run waits and no family has overlapping runs. Simulations begin and end there."""

    def __init__(self, crowds: Contention, families: Numbers, groups: Numbers) -> None:
        self._runs, self._alone = crowds.runs, crowds.alone
        self._next_of_family = _next_of(families, self._runs.instants)
        self._low, self._high = self._chains(groups, *crowds.unquiet())
        self._batches = np.unique(self._runs.instants)
        inside = np.searchsorted(self._low, self._batches, "left") - 1
        is_quiet = (inside < 0) | (self._high[np.maximum(inside, 0)] < self._batches)
        self._last_quiet = np.maximum.accumulate(np.where(is_quiet, np.arange(len(self._batches)), -1))

    def _chains(self, groups: Numbers, unquiet: Which, until: Numbers) -> tuple[Numbers, Numbers]:
        """Return the merged time ranges of runs that were simulated together, and of runs that are not quiet."""
        _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        lows, highs = np.full(len(sizes), _FOREVER), np.zeros(len(sizes), np.int64)
        np.minimum.at(lows, numbers, self._runs.instants)
        np.maximum.at(highs, numbers, self._runs.instants)
        lows = np.concatenate([lows[sizes > 1], self._runs.instants[unquiet]])
        highs = np.concatenate([highs[sizes > 1], until[unquiet]])
        if not len(lows):
            return np.array([_FOREVER]), np.array([_FOREVER])
        order = np.argsort(lows)
        lows, highs = lows[order], np.maximum.accumulate(highs[order])
        apart = np.concatenate([[True], lows[1:] > highs[:-1]])
        return lows[apart], highs[np.concatenate([apart[1:], [True]])]

    def begin(self, at: int, done_until: int) -> int:
        """Return the first run to simulate for contention at `at`: from the last quiet instant, after `done_until`."""
        batch = int(np.searchsorted(self._batches, at, "right")) - 1
        after = int(np.searchsorted(self._batches, done_until, "right"))
        batch = max(int(self._last_quiet[batch]), after)
        return int(np.searchsorted(self._runs.instants, self._batches[batch]))

    def _is_between_chains(self, moment: int) -> bool:
        place = int(np.searchsorted(self._low, moment, "right")) - 1
        return place < 0 or int(self._high[place]) <= moment

    def is_after(self, first: int, outcomes: RunOutcomes, begin: int, moment: int) -> bool:
        """True if an instant is quiet after runs with these outcomes."""
        if not self._is_between_chains(moment):
            return False
        ends = outcomes.ends + begin
        touches = self._next_of_family[first : first + len(ends)] <= ends
        return not (touches & (ends > moment)).any()

    def watching(self, first: int) -> Enough:
        """Return the predicate that ends a simulation at a quiet instant. The simulator calls it when no run waits."""
        later: dict[tuple[int, int], int] = {}

        def is_enough(now: int, rows: Sequence[OccurrenceRow]) -> bool:
            if not self._is_between_chains(now):
                return False
            for row in rows:
                job = int(np.searchsorted(self._alone.jobs, row.job))
                if self._alone.is_restless[job] or row.started_at is None:
                    return False
                key = (row.job, row.instant)
                if key not in later:
                    later[key] = self._next(first, *key)
                if later[key] <= row.started_at + self._alone.lasting[job]:
                    return False
            return True

        return is_enough

    def _next(self, first: int, job: int, instant: int) -> int:
        """Return the next instant of the family of a run."""
        low = first + int(np.searchsorted(self._runs.instants[first:], instant))
        high = first + int(np.searchsorted(self._runs.instants[first:], instant, "right"))
        return int(self._next_of_family[low + int(np.searchsorted(self._runs.jobs[low:high], job))])


def _next_of(families: Numbers, instants: Numbers) -> Numbers:
    """Return the next instant of each run's family; the largest number if there is none, or the run has no family."""
    order = np.lexsort((instants, families))
    following = np.full(len(instants), _FOREVER)
    same = families[order][1:] == families[order][:-1]
    following[order[:-1][same]] = instants[order][1:][same]
    following[families == 0] = _FOREVER
    return following
