"""Simulate occurrences on the real core and the real ledger, without real time.

    runs ─► the core (`core.Scheduler`) ─► claims, starts, writes ─► the ledger, in memory
                  ▲                    └─► launches ─► end at their simulated time ─┐
                  └─────────────────────── the results ◄────────────────────────────┘

The same code as in a node makes all decisions here: node slots, overlap, limits, timeouts, retries, the queue of
recovery. Only waits take no real time: the store answers at once, tasks end exactly at their time, conditions are met,
hooks do nothing. Time jumps from one event to the next.

A simulation begins with an empty scheduler state and continues until no run is active, or until the caller's predicate
ends it. The result has the number of runs it included: later runs are another simulation. Other active runs only reduce
the slots of the node, until they end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, assert_never

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.occurrence import NodeContext
from itinerary.core.loop.scheduler import Scheduler
from itinerary.core.recovery.rate_limit import kept_free
from itinerary.core.recovery.sweep import Sweep
from itinerary.core.timeline.index import JobTable, ScheduledRunIndex, ScheduledRuns
from itinerary.core.timeline.job_plan import JobPlan, PlanCache
from itinerary.forecast.task_durations import TaskDurations
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Outcome, Stopped, Succeeded
from itinerary.model.queries import ActiveQuery, ByRefQuery, WaitingQuery
from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import ClaimRequest, Refusal, StartRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OCCURRENCES, OVERLAP_QUEUE, WAITING, Table

__all__ = [
    "Enough",
    "ForecastRuns",
    "ForecastSimulator",
    "IsolatedRun",
    "RecoveryBacklog",
    "SimulationResult",
    "Taken",
    "done",
]

T = TypeVar("T")
Numbers: TypeAlias = NDArray[np.int64]

_AT_ONCE: Final = 2_000
"""The number of claims or starts in one request, as in a node."""
_TURNS_MAX: Final = 100_000
"""The limit of iterations at one instant: above it, the core is in an endless loop."""
_MET: Final = Succeeded("true")

Taken: TypeAlias = tuple[int, Sequence[tuple[int, int]]]
"""Node slots that other runs take: the first number, and the changes with their instants, in order."""
Enough: TypeAlias = Callable[[int, Sequence[OccurrenceRow]], bool]
"""A predicate that ends a simulation. Called when no run waits, with the instant and the active runs."""


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that does not wait: the memory store answers at once."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        returned: T = stop.value
        return returned
    raise AssertionError("the memory store waits for nothing")


class ForecastRuns(NamedTuple):
    """Due runs in columns, by instant and then by job, without skipped ones."""

    jobs: Numbers
    instants: Numbers

    def __len__(self) -> int:
        return len(self.jobs)


class RecoveryBacklog(NamedTuple):
    """The work of recovery after a time `[start, end)` without a node."""

    start: int
    end: int
    carried: tuple[ClaimRequest, ...] = ()
    """Claims that were active or waiting when the last node ended, and continue."""


class SimulationResult(NamedTuple):
    """The result of a simulation."""

    size: int
    """The number of runs that it included."""
    until: int
    """The end of the simulation."""
    rows: list[OccurrenceRow]
    """The rows of the ledger, including those of recovery, by instant and then by job."""
    retried: bool
    """True if a run waited for a retry."""


class IsolatedRun(NamedTuple):
    """The outcome of an isolated run."""

    lasting: int
    state: OccurrenceState
    is_restless: bool
    """True if the run releases its slot and needs it again."""


class ForecastSimulator:
    """A simulator with jobs, the settings of a node, and task durations. Its simulations are independent."""

    def __init__(
        self,
        engine: MemoryEngine,
        node: NodeNumber,
        plans: PlanCache,
        *,
        settings: Settings,
        takes: TaskDurations,
    ) -> None:
        """Create a simulator.

        Args:
            engine: The memory store with the jobs on its timeline; copied for each simulation.
            node: The node number in the store.
            plans: The plans of the jobs.
            settings: The settings of the node.
            takes: The durations of tasks.
        """
        self.engine, self.node, self.plans = engine, node, plans
        # A node claims ahead and checks the past, since it may be late. A simulation is never late.
        self.settings = replace(settings, pre_schedule_interval=1, grace_period=0)
        self.grace_period, self.late_for = settings.grace_period, settings.late_for
        self._takes = takes
        self._lasting: dict[str, dict[str, int]] = {}
        bodies = {self.plan(job).start_config.json for job in plans.timeline.jobs}
        self.configs = done(engine.write(lambda tx: ledger.number_configs(tx, bodies)))
        """The numbers of configurations."""
        self._alone: dict[tuple[Hashable, ...], IsolatedRun] = {}
        self.performances = self.played = 0
        """The number of simulations, and the number of their runs."""

    def lasts(self, job: JobNumber, name: str, task: str) -> int:
        """Return the duration of a task."""
        known = self._lasting.get(name)
        if known is None:
            known = self._lasting[name] = self._takes.of(self.plan(job))
        return known[task]

    def plan(self, job: JobNumber) -> JobPlan:
        """Return the plan of a job."""
        plan = self.plans.plan(job, self.plans.timeline.jobs[job].version)
        assert isinstance(plan, JobPlan), plan
        return plan

    def alone(self, job: JobNumber) -> IsolatedRun:
        """Return the outcome of an isolated run of a job."""
        plan = self.plan(job)
        definition = plan.definition
        lasting = tuple(self.lasts(job, plan.name, task.name) for task in plan.tasks)
        hooks = (len(definition.requires), len(definition.on_start), len(definition.on_complete))
        # Jobs with the same settings and durations have the same outcome.
        like = (plan.start_config.json, plan.start_config.limits, lasting, hooks)
        known = self._alone.get(like)
        if known is None:
            instant = self.plans.timeline.jobs[job].registered_at // SECOND * SECOND + SECOND
            performance = self.play(ForecastRuns(np.array([job]), np.array([instant])))
            (row,) = performance.rows
            assert row.ended_at is not None, "a performance goes on until all have ended"
            known = self._alone[like] = IsolatedRun(row.ended_at - row.due_at, row.status, performance.retried)
        return known

    def play(
        self,
        runs: ForecastRuns,
        first: int = 0,
        *,
        backlog: RecoveryBacklog | None = None,
        taken: Taken = (0, ()),
        is_enough: Enough = lambda _now, under_way: not under_way,
    ) -> SimulationResult:
        """Simulate from a run on, or from the end of a backlog.

        Args:
            runs: The runs.
            first: The position of the first run.
            backlog: The work of recovery.
            taken: Node slots that other runs take.
            is_enough: Ends the simulation; called when no run waits, with the instant and the active runs. By default
                the simulation ends when no run is active.
        """
        play = _Play(self, runs, first, backlog, taken, is_enough)
        performance = play.run()
        self.performances, self.played = self.performances + 1, self.played + len(performance.rows)
        return performance

    def sweep(self, plan: SweepPlan) -> Sweep:
        """Return the sweep over a time without a node."""
        return Sweep(plan, self.plans.timeline, (), (), grace_period=self.grace_period)

    def index_of(self, runs: ForecastRuns) -> m.IndexBuilt:
        """Return the message with the index of runs for the core."""
        timeline = self.plans.timeline
        numbers = np.unique(runs.jobs)
        table = JobTable(f"{number:09}" for number in numbers.tolist())
        places = np.searchsorted(numbers, runs.jobs)
        index = ScheduledRunIndex(ScheduledRuns(table, places, runs.instants))
        jobs = [(JobNumber(number), timeline.jobs[JobNumber(number)].version) for number in numbers.tolist()]
        return m.IndexBuilt(timeline.revision, index, jobs, numbers, self.plans)


class _Play:
    """A simulation in progress."""

    def __init__(
        self,
        stage: ForecastSimulator,
        runs: ForecastRuns,
        first: int,
        backlog: RecoveryBacklog | None,
        taken: Taken,
        is_enough: Enough,
    ) -> None:
        self.stage, self.runs, self.first = stage, runs, first
        self.backlog, self.is_enough = backlog, is_enough
        self.now = int(runs.instants[first]) if backlog is None else backlog.end
        self.engine = stage.engine.copied(lambda: self.now)
        self.store = EngineStore(self.engine)
        settings = stage.settings
        self.scheduler = Scheduler(settings, NodeContext(stage.node, "forecast", settings.kill_grace, stage.late_for))
        self.inbox: list[m.Message] = []
        self.ends: list[tuple[int, int, AttemptKey, Outcome]] = []
        """The ends of attempts; those of stopped attempts are ignored."""
        self.running: set[AttemptKey] = set()
        self.followed: dict[Ref, None] = {}
        self.beats_at = self.offers_at = self.now
        self.fed = first
        self.numbers = count()
        self.taken, self.changes = taken[0], deque(taken[1])
        self.retried = False
        if self.taken:
            self._tell_slots()

    def run(self) -> SimulationResult:
        """Run the simulation."""
        if self.backlog is not None:
            self._make_up(self.backlog)
        self.inbox.append(self.stage.index_of(self.runs))
        while True:
            self.fed = int(np.searchsorted(self.runs.instants, self.now, "right"))
            self._settle()
            if self._is_over():
                break
            self.now = self._next_at()
        rows = done(self.engine.read(lambda tx: tx.scan(OCCURRENCES, limit=2**62, by_name=True)))
        return SimulationResult(self.fed - self.first, self.now, rows, self.retried)

    @property
    def slots(self) -> int:
        """The number of node slots that other runs leave free."""
        return self.stage.settings.max_concurrent_jobs - self.taken

    @property
    def room(self) -> int:
        """The number of unowned occurrences that can start: the core's limit for a backlog.

        Nothing else is unowned here.
        """
        if self.backlog is None and self.running:
            return 0
        return self.slots - kept_free(self.slots) - len(self.followed)

    def _tell_slots(self) -> None:
        self.inbox.append(m.SettingsChanged(replace(self.stage.settings, max_concurrent_jobs=self.slots)))

    def _is_over(self) -> bool:
        """True if no run waits and the predicate ends the simulation, or if nothing is left."""
        if len(self.followed) >= self.slots > 0:
            return False  # a run may wait for a slot
        if self._has(OVERLAP_QUEUE) or self._has(WAITING):
            return False
        under_way = done(self.store.read(ActiveQuery()))
        if not under_way and self.fed == len(self.runs):
            return True
        if any(row.status is not OccurrenceState.RUNNING for row in under_way):
            return False
        return self.is_enough(self.now, under_way)

    def _next_at(self) -> int:
        times = [self.scheduler.next_at, self.ends[0][0] if self.ends else None]
        if self.changes:
            times.append(self.changes[0][0])
        if self.fed < len(self.runs):
            times.append(int(self.runs.instants[self.fed]))
        if self.room > 0 and self._has(WAITING):
            times.append(max(self.offers_at, self.now + 1))  # a run waits to be offered to the core
        return max(min(at for at in times if at is not None), self.now)

    def _has(self, table: Table[Any]) -> bool:
        """True if a table has rows."""
        return bool(done(self.engine.read(lambda tx: tx.scan(table, limit=1))))

    # -- the core and its commands -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        self._handle()
        for _ in range(_TURNS_MAX):
            next_at = self.scheduler.next_at
            if not self.inbox and (next_at is None or next_at > self.now):
                return
            inbox, self.inbox = self.inbox, []
            for command in self.scheduler.iterate(self.now, inbox):
                self._carry_out(command)
        raise AssertionError(f"the core turns in circles at {self.now}")

    def _handle(self) -> None:
        """Put the events up to now into the inbox."""
        if self.changes and self.changes[0][0] <= self.now:
            while self.changes and self.changes[0][0] <= self.now:
                self.taken += self.changes.popleft()[1]
            self._tell_slots()
        reports = []
        while self.ends and self.ends[0][0] <= self.now:
            _, _, key, outcome = heapq.heappop(self.ends)
            if key in self.running:
                self.running.remove(key)
                reports.append(Ended(key, outcome))
        if self.now - self.beats_at >= self.stage.settings.orchestrator_heartbeat_interval:
            self.beats_at = self.now
            self.inbox.append(m.Heartbeats(list(self.followed)))
        if reports:
            self.inbox.append(m.AttemptsReported(reports))
        if self.offers_at <= self.now and self.room > 0:
            self.offers_at = self.now + self.stage.settings.loop_interval
            if waiting := done(self.store.read(WaitingQuery(self.now, self.room))):
                self.inbox.append(m.WorkOffered(waiting))
        if not self.inbox:
            self.inbox.append(m.Heartbeats(()))  # time has passed, and the core must check its timers

    def _carry_out(self, command: c.Command) -> None:  # noqa: C901, PLR0912 - a list of all commands
        match command:
            case c.Claim(revision, wanted):
                for low in range(0, len(wanted), _AT_ONCE):
                    some = wanted[low : low + _AT_ONCE]
                    self.inbox.append(m.ClaimsAnswered(some, done(self.store.claim(self.stage.node, revision, some))))
            case c.StartRuns(revision, starts):
                for low in range(0, len(starts), _AT_ONCE):
                    self._start(revision, starts[low : low + _AT_ONCE])
            case c.Write(changes):
                if changes:
                    self.retried |= any(step.to is OccurrenceState.RETRYING for one in changes for step in one.steps)
                    answers = done(self.engine.write(partial(ledger.write, owner=self.stage.node, changes=changes)))
                    self.inbox.append(m.WritesAnswered(changes, answers))
            case c.Launch(assignments):
                for assignment in assignments:
                    self._launch(assignment)
            case c.Stop(attempts) | c.Kill(attempts):
                for key in attempts:
                    if key in self.running:
                        heapq.heappush(self.ends, (self.now, next(self.numbers), key, Stopped()))
            case c.Follow(refs):
                self.followed.update(dict.fromkeys(refs))
            case c.Forget(refs):
                for ref in refs:
                    del self.followed[ref]
            case c.ReadRows(refs):
                self._read(refs)
            case c.Exit(error=error):
                raise AssertionError(f"the core gave up: {error}")
            case c.Release() | c.TakeUp() | c.RebuildIndex():
                raise AssertionError(f"nothing moves on a stage, and the core wants {command}")
            case c.KeepStatistics() | c.Reply() | c.Announce() | c.Log():
                pass
            case _:
                assert_never(command)

    def _start(self, revision: int, starts: Sequence[StartRequest]) -> None:
        if any(0 < request.late_until < self.now for request in starts):
            self._pass()  # the sweeps of a running node have reached this instant
        node, takeover_after, configs = self.stage.node, self.stage.settings.takeover_after, self.stage.configs
        work = partial(ledger.start, owner=node, revision=revision, starts=starts, takeover_after=takeover_after)
        answers = done(self.engine.write(lambda tx: work(tx, configs=configs)))
        self.inbox.append(m.StartsAnswered(starts, answers))
        if any(request.overlap.replaces for request in starts) and (
            mail := done(self.store.beat(self.stage.node)).mail
        ):
            done(self.store.beat(self.stage.node, mail))
            self._read(mail)  # a running occurrence is asked to end, for one that replaces it

    def _read(self, refs: Sequence[Ref]) -> None:
        self.inbox.append(m.RowsRead(list(done(self.store.read(ByRefQuery(tuple(refs)))).values())))

    def _launch(self, assignment: Assignment) -> None:
        key, facts = assignment.key, assignment.facts
        takes = self.stage.lasts(facts.key.job, facts.job, facts.task) if key.place >= 0 else 0
        self.running.add(key)
        heapq.heappush(self.ends, (self.now + takes, next(self.numbers), key, _MET))

    # -- recovery ----------------------------------------------------------------------------------------------------

    def _make_up(self, backlog: RecoveryBacklog) -> None:
        """Write the sweep of a starting node over the time without one."""
        self.now = backlog.start
        self._pass()
        self.now = backlog.end
        plan = done(self.store.begin_sweep(self.stage.node, backlog.end))
        assert plan is not None, "nothing of it is decided yet"
        steps = list(self.stage.sweep(plan).steps())
        if backlog.carried:
            steps[0] = replace(steps[0], wanted=(*backlog.carried, *steps[0].wanted))
        for step in steps:
            self._advance(step)

    def _pass(self) -> None:
        """Move the watermark to the present: nothing is missing."""
        if (plan := done(self.store.begin_sweep(self.stage.node, self.now))) is not None:
            self._advance(SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", is_last=True))

    def _advance(self, step: SweepStep) -> None:
        answer = done(self.store.advance_sweep(self.stage.node, self.stage.plans.timeline.revision, step))
        assert not isinstance(answer, Refusal), answer
