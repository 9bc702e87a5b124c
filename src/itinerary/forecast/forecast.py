"""A complete forecast: a window of time with its outages, and the outcome of every instant.

    ── up ──────────┤ outage ├── up ─────────────────┤ outage ├── up ──►
     `isolated_runs` no node  │ recovery, and the runs that are due
                              │ until it has finished: one simulation
                              └ then `isolated_runs` again

When a node goes down, its runs are orphaned, or run again afterwards if the job says so. Runs that waited are recovered
with the rest, unless the job marks missed runs as missed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from itinerary.core.recovery.strategies import overlap_of_recovery
from itinerary.core.timeline.expected import UnknownRange
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.errors import ConfigError, WindowError
from itinerary.forecast.isolated_runs import IsolatedRuns, family_numbers
from itinerary.forecast.outcome_columns import CODES, NEVER, Numbers, RunOutcomes, SimulationCache, Which
from itinerary.forecast.simulator import Enough, ForecastRuns, ForecastSimulator, RecoveryBacklog
from itinerary.forecast.task_durations import TaskDurations
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.paging import read_timeline
from itinerary.stores.store import EngineStore

__all__ = ["INSTANTS_MAX", "ForecastColumns", "Outage", "foresee", "staged"]

INSTANTS_MAX: Final = 10_000_000
_PIECE: Final = 86_400 * SECOND


class Outage(NamedTuple):
    """A time `[start, end)` without a running node."""

    start: int
    end: int


class ForecastColumns(NamedTuple):
    """The outcomes of all instants in a window: a row for each occurrence, by instant and then by job."""

    start: int
    end: int
    jobs: Numbers
    instants: Numbers
    outcomes: RunOutcomes
    is_recovery: Which
    counts: Numbers
    """The number of instants of each row: more than one for a compressed run or a collapsed range."""
    gaps: tuple[UnknownRange, ...]
    made_up_at: tuple[int, ...]
    """The end of recovery after each outage."""

    def __len__(self) -> int:
        return len(self.jobs)


async def staged(
    register: Callable[[Store], Awaitable[None]], start: int, *, settings: Settings, takes: TaskDurations
) -> ForecastSimulator:
    """Return a simulator with the jobs that `register` registers at `start`."""
    engine = MemoryEngine(lambda: start)
    store = EngineStore(engine)
    await store.open()
    await register(store)
    node = await store.join("forecast", "forecast", "{}")
    plans = PlanCache(await read_timeline(store.read), shares=settings.limits)
    return ForecastSimulator(engine, node, plans, settings=settings, takes=takes)


def foresee(
    stage: ForecastSimulator,
    start: int,
    end: int,
    outages: Sequence[Outage] = (),
    handle: Callable[[float], None] = lambda _: None,
) -> ForecastColumns:
    """Return the outcomes of all instants in `[start, end)`.

    Args:
        stage: The simulator.
        start: The start of the window, in microseconds.
        end: The end of the window, in microseconds.
        outages: The outages in the window.
        hear: Receives the progress, from 0 to 1.
    """
    outages = _checked(outages, start, end)
    runs, gaps = _expected(stage, start, end)
    parts: list[_Part] = []
    made_up_at: list[int] = []
    backlog: RecoveryBacklog | None = None
    memory = SimulationCache()
    bounds = [start, *(bound for outage in outages for bound in outage), end]
    for number, (since, until) in enumerate(zip(bounds[0::2], bounds[1::2], strict=True)):
        low, high = np.searchsorted(runs.instants, (since, until)).tolist()
        some = ForecastRuns(runs.jobs[low:high], runs.instants[low:high])
        part = _Segment(stage, some, memory, lambda done: handle((low + done * (high - low)) / max(len(runs), 1)))  # noqa: B023 - called in this iteration
        if backlog is not None:
            made_up_at.append(part.make_up(backlog))
        part.proceed()
        if number < len(outages):
            backlog = RecoveryBacklog(*outages[number], part.cut_off(until))
        parts.append(part.result())
    whole = _joined(parts)
    return ForecastColumns(start, end, *whole, gaps, tuple(made_up_at))


def _checked(outages: Sequence[Outage], start: int, end: int) -> list[Outage]:
    found = sorted(outages)
    for outage in found:
        if not start <= outage.start < outage.end <= end:
            raise ConfigError("an outage must begin before it ends, and lie in the time that is simulated")
    for earlier, later in pairwise(found):
        if later.start <= earlier.end:
            raise ConfigError("two outages overlap, or touch; make them one")
    return found


def _expected(stage: ForecastSimulator, start: int, end: int) -> tuple[ForecastRuns, tuple[UnknownRange, ...]]:
    jobs: list[Numbers] = []
    instants: list[Numbers] = []
    gaps: list[UnknownRange] = []
    count = 0
    for since in range(start, end, _PIECE):
        expected = stage.plans.timeline.expected(since, min(since + _PIECE, end))
        runs = expected.is_to_run
        jobs.append(expected.jobs[runs])
        instants.append(expected.instants[runs])
        gaps += expected.gaps
        count += len(instants[-1])
        if count > INSTANTS_MAX:
            raise WindowError(f"more than {INSTANTS_MAX:,} instants are due in that time; simulate a shorter one")
    all_jobs, all_instants = np.concatenate(jobs), np.concatenate(instants)
    order = np.lexsort((all_jobs, all_instants))
    return ForecastRuns(all_jobs[order], all_instants[order]), tuple(dict.fromkeys(gaps))


class _Part(NamedTuple):
    """Rows of a part of the window."""

    jobs: Numbers
    instants: Numbers
    outcomes: RunOutcomes
    is_recovery: Which
    counts: Numbers


class _Segment:
    """A time in which a node runs."""

    def __init__(
        self, stage: ForecastSimulator, runs: ForecastRuns, memory: SimulationCache, handle: Callable[[float], None]
    ) -> None:
        self._stage, self._runs, self._memory, self._handle = stage, runs, memory, handle
        self._first = 0
        """The position of the first run after recovery; recovery includes the earlier ones."""
        none = np.zeros(0, np.int64)
        self._made = _Part(none, none, RunOutcomes.empty(0), none.astype(np.bool_), none)
        self._live = RunOutcomes.empty(0)
        self._gone = np.zeros(0, np.bool_)

    def make_up(self, backlog: RecoveryBacklog) -> int:
        """Simulate the recovery from an outage, and return its end."""
        performance = self._stage.play(self._runs, backlog=backlog, is_enough=self._is_made_up())
        rows = performance.rows
        self._first = performance.size
        outcomes = RunOutcomes.of(performance, 0)
        running = np.flatnonzero(outcomes.ends == NEVER)
        for place in running.tolist():
            alone = self._stage.alone(rows[place].job)
            outcomes.ends[place] = outcomes.starts[place] + alone.lasting
            outcomes.states[place] = CODES[alone.state]
        is_recovery = np.array([row.is_recovery for row in rows], np.bool_)
        self._made = _Part(
            np.array([row.job for row in rows], np.int64),
            np.array([row.instant for row in rows], np.int64),
            outcomes,
            is_recovery,
            np.array([1 if row.window is None else row.window.count for row in rows], np.int64),
        )
        return int(outcomes.ends[is_recovery].max(initial=backlog.end))

    def _is_made_up(self) -> Enough:
        """Return the predicate that ends recovery: no backlog is left, and no family has overlapping runs."""
        runs = self._runs
        families = family_numbers(self._stage, np.unique(runs.jobs))
        family_of = dict(zip(np.unique(runs.jobs).tolist(), families.tolist(), strict=True))
        of_runs = np.array([family_of[job] for job in runs.jobs.tolist()], np.int64)

        def is_enough(now: int, rows: Sequence[OccurrenceRow]) -> bool:
            if any(row.is_recovery for row in rows):
                return False
            for row in rows:
                alone, family = self._stage.alone(row.job), family_of.get(row.job, 0)
                if alone.is_restless or row.started_at is None:
                    return False
                low, high = np.searchsorted(runs.instants, (now, row.started_at + alone.lasting), "right")
                if family and (of_runs[low:high] == family).any():
                    return False
            return True

        return is_enough

    def proceed(self) -> None:
        """Simulate the runs after recovery."""
        rest = ForecastRuns(self._runs.jobs[self._first :], self._runs.instants[self._first :])
        self._live = IsolatedRuns(
            self._stage, rest, memory=self._memory, others=self._made.outcomes, handle=self._handle
        ).decide()

    def cut_off(self, at: int) -> tuple[ClaimRequest, ...]:
        """End the node: orphan its runs, and return the claims that the next start must recover."""
        rest = self._all()
        starts, ends, states = rest.outcomes
        wanted = []
        gone = np.zeros(len(rest.jobs), np.bool_)
        for place in np.flatnonzero(ends > at).tolist():
            plan = self._stage.plan(JobNumber(int(rest.jobs[place])))
            config = plan.start_config.config.job
            has_begun = starts[place] != NEVER and starts[place] < at
            is_again = config.on_orphan.reruns
            ends[place] = at
            if has_begun and not is_again:
                states[place] = CODES[OccurrenceState.ORPHANED]
            elif not has_begun and config.recovery.strategy.only_marks:
                starts[place], states[place] = NEVER, CODES[OccurrenceState.MISSED]
            else:
                gone[place] = True
                instant = int(rest.instants[place])
                waits = overlap_of_recovery(config.overlap).queues
                wanted.append(
                    ClaimRequest(
                        Key(instant, plan.number, Kind.SCHEDULED),
                        plan.version,
                        plan.due_at(instant),
                        OccurrenceState.QUEUED if waits else OccurrenceState.PRERUN,
                        is_recovery=True,
                        priority=config.priority,
                        reason="recovered: its node went before it ended",
                    )
                )
        self._gone = gone
        return tuple(wanted)

    def _all(self) -> _Part:
        live = len(self._live.starts)
        made = self._made
        jobs = np.concatenate([made.jobs, self._runs.jobs[self._first :]])
        instants = np.concatenate([made.instants, self._runs.instants[self._first :]])
        pairs = zip(made.outcomes, self._live, strict=True)
        outcomes = RunOutcomes(*(np.concatenate(pair) for pair in pairs))
        self._made = _Part(
            jobs,
            instants,
            outcomes,
            np.concatenate([made.is_recovery, np.zeros(live, np.bool_)]),
            np.concatenate([made.counts, np.ones(live, np.int64)]),
        )
        self._live, self._first = RunOutcomes.empty(0), len(self._runs)
        return self._made

    def result(self) -> _Part:
        """Return all rows."""
        whole = self._all()
        if not self._gone.any():
            return whole
        keep = ~self._gone
        outcomes = RunOutcomes(*(column[keep] for column in whole.outcomes))
        return _Part(whole.jobs[keep], whole.instants[keep], outcomes, whole.is_recovery[keep], whole.counts[keep])


def _joined(parts: Sequence[_Part]) -> _Part:
    jobs = np.concatenate([part.jobs for part in parts])
    instants = np.concatenate([part.instants for part in parts])
    order = np.lexsort((jobs, instants))
    outcomes = RunOutcomes(
        *(np.concatenate(columns)[order] for columns in zip(*(part.outcomes for part in parts), strict=True))
    )
    return _Part(
        jobs[order],
        instants[order],
        outcomes,
        np.concatenate([part.is_recovery for part in parts])[order],
        np.concatenate([part.counts for part in parts])[order],
    )
