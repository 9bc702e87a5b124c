"""From runs to what becomes of them, without playing the same thing twice.

A month of a thousand jobs is half a million runs, and to play one of them costs as much as it costs a node. But a run
can only be touched by others through three things: its job's slot, a limit, and the slots of the node. So

    1  alone       each job is played once, and every run of it is taken to go like that
    2  families    jobs that share a limit, and else a job for itself, unless it may overlap: where two runs of a family
                   are under way at a time they are played together, for as long as something is under way
    3  crowds      where more are under way than the node has slots, everything is played together (`crowds`)

Why that is right: while nobody waits, no family touches itself and there are slots enough, the core decides about each
run without looking at the others. Suppose not, and take the first moment at which it would have decided otherwise:
somebody would have found a slot taken then. But whatever takes a slot up to that moment was counted.

And why that is quick: what is played comes to the same whenever the same jobs are due at the same distances and the
same slots are free, whatever the hour. So it is remembered by these, and what the next hour or the next day has again
is not played again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import numpy as np

from itinerary.forecast.contention import AllAlone, Crowds
from itinerary.forecast.outcome_columns import CODES, Course, Memory, Numbers, Together, Which, key_of
from itinerary.forecast.simulator import Runs, Stage
from itinerary.model.rows import JobNumber
from itinerary.schedules.durations import SECOND

__all__ = ["Episodes"]

_CUT_ROUNDS: Final = 12
"""After so many rounds what was played together stays together, so that there is an end to it."""
_ENDLESS: Final = 3_600 * SECOND
"""A family that touches itself for longer than this is in no crowd: it is taken to get its slots in time."""
_BEFORE_CROWDS: Final = 0.3
"""Which part of the work is done by then, as far as people are told."""


class Episodes:
    """Runs on a stage, and what becomes of them."""

    def __init__(
        self,
        stage: Stage,
        runs: Runs,
        *,
        memory: Memory | None = None,
        others: Course | None = None,
        hear: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`runs` are by instant and then by job. `memory` is of what was played before on this stage. `others` are
        under way beside them, and take up slots. `hear` is told which part of the work is done."""
        self._stage, self._runs, self._hear = stage, runs, hear
        self._others = Course.empty(0) if others is None else others
        self.course = Course.empty(len(runs))
        self._jobs, self._places = np.unique(runs.jobs, return_inverse=True)
        self._families = family_numbers(stage, self._jobs)
        self._delays = _delays(stage, runs, self._jobs, self._places)
        self._group = np.arange(len(runs))
        """To which episode a run belongs, as the place of that one's first run."""
        self._memory = Memory() if memory is None else memory

    def decide(self) -> Course:
        """What becomes of every run."""
        if len(self._runs):
            alone = self._each_alone()
            self._families_together()
            self._all_together(alone)
        return self.course

    # -- each job alone ----------------------------------------------------------------------------------------------

    def _each_alone(self) -> AllAlone:
        found = [self._stage.alone(JobNumber(number)) for number in self._jobs.tolist()]
        alone = AllAlone(
            self._jobs,
            np.array([one.lasting for one in found]),
            np.array([CODES[one.state] for one in found]),
            np.array([one.is_restless for one in found]),
        )
        starts = self._runs.instants if self._delays is None else self._runs.instants + self._delays
        self.course.starts[:] = starts
        self.course.ends[:] = starts + alone.lasting[self._places]
        self.course.states[:] = alone.states[self._places]
        return alone

    # -- families ----------------------------------------------------------------------------------------------------

    def _families_together(self) -> None:
        """Play together what touches in a family, until nothing does that was not played together."""
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
                self._hear(_BEFORE_CROWDS * number / len(touching))

    def _touching(self, order: Numbers, families: Numbers) -> list[Numbers]:
        """The runs that touch, of each family, and are not all of one episode."""
        begin = int(self._runs.instants[0])
        starts, ends = self._runs.instants[order] - begin, self.course.ends[order] - begin
        # Families one behind the other on one line, so far apart that no end reaches into the next.
        offsets = families * (int(ends.max()) + 1)
        reached = np.maximum.accumulate(ends + offsets)
        bounds = np.flatnonzero(starts[1:] + offsets[1:] > reached[:-1]) + 1
        firsts = np.concatenate([[0], bounds])
        lasts = np.concatenate([bounds, [len(order)]])
        changes = np.concatenate([[0], np.cumsum(np.diff(self._group[order]) != 0)])
        several = changes[lasts - 1] > changes[firsts]
        return [order[first:last] for first, last in zip(firsts[several], lasts[several], strict=True)]

    def _play_together(self, members: Numbers, *, is_cut: bool) -> None:
        runs = Runs(self._runs.jobs[members], self._runs.instants[members])
        delays = None if self._delays is None else self._delays[members]
        first = 0
        while first < len(members):
            episode = self._remembered(runs, delays, first) or self._played(runs, delays, first)
            places = members[first : first + episode.size]
            episode.course.write(self.course, places, int(runs.instants[first]))
            self._group[places] = places[0] if is_cut else members[0]
            first += episode.size

    def _remembered(self, runs: Runs, delays: Numbers | None, first: int) -> Together | None:
        """What such runs came to before: the same ones, and nothing more before it was over."""
        since = runs.instants[first]
        for size, by_key in self._memory.families[int(runs.jobs[first])].items():
            last = first + size
            if last > len(runs):
                continue
            episode = by_key.get(key_of(runs, delays, first, last))
            if episode is not None and (last == len(runs) or runs.instants[last] - since > episode.until):
                return episode
        return None

    def _played(self, runs: Runs, delays: Numbers | None, first: int) -> Together:
        performance = self._stage.play(runs, first)
        course = Course.of(performance, int(runs.instants[first]))
        episode = Together(int(course.ends.max()), course)
        key = key_of(runs, delays, first, first + episode.size)
        self._memory.families[int(runs.jobs[first])].setdefault(episode.size, {})[key] = episode
        return episode

    # -- crowds ------------------------------------------------------------------------------------------------------

    def _all_together(self, alone: AllAlone) -> None:
        apart = self._endless()
        joint = np.flatnonzero(~apart)
        crowds = Crowds(
            self._stage,
            Runs(self._runs.jobs[joint], self._runs.instants[joint]),
            Course(*(column[joint] for column in self.course)),
            alone,
            memory=self._memory,
            families=self._families[self._places[joint]],
            groups=self._group[joint],
            delays=None if self._delays is None else self._delays[joint],
            others=Course(
                *(np.concatenate(pair) for pair in zip((c[apart] for c in self.course), self._others, strict=True))
            ),
            hear=lambda part: self._hear(_BEFORE_CROWDS + (1 - _BEFORE_CROWDS) * part),
        )
        course = crowds.decide()
        for column, found in zip(self.course, course, strict=True):
            column[joint] = found

    def _endless(self) -> Which:
        """Which runs are of a family that touches itself for too long."""
        lasts = np.zeros(len(self._runs), np.int64)
        np.maximum.at(lasts, self._group, self._runs.instants)
        endless = lasts - self._runs.instants > _ENDLESS
        return endless[self._group]


def family_numbers(stage: Stage, jobs: Numbers) -> Numbers:
    """The family of each of these jobs; 0 of those that touch nobody, not even themselves."""
    families = np.zeros(len(jobs), np.int64)
    by_limit: dict[str, int] = {}
    for place, number in enumerate(jobs.tolist()):
        terms = stage.plan(JobNumber(number)).terms
        names = [limit.name for limit in terms.limits]
        if not names and terms.config.job.overlap.is_parallel:
            continue
        joined = {by_limit[name] for name in names if name in by_limit}
        family = min(joined, default=place + 1)
        families[place] = family
        for other in joined - {family}:
            families[families == other] = family
            by_limit = {name: family if of == other else of for name, of in by_limit.items()}
        by_limit |= dict.fromkeys(names, family)
    return families


def _delays(stage: Stage, runs: Runs, jobs: Numbers, places: Numbers) -> Numbers | None:
    """How much later than its instant each run is due; None if all are due on time."""
    plans = [stage.plan(JobNumber(number)) for number in jobs.tolist()]
    shaken = np.array([plan.jitters for plan in plans], np.bool_)
    if not shaken.any():
        return None
    delays = np.zeros(len(runs), np.int64)
    for place in np.flatnonzero(shaken[places]).tolist():
        instant = int(runs.instants[place])
        delays[place] = plans[places[place]].due_at(instant) - instant
    return delays
