"""The stage: occurrences are played through on the real core and the real ledger, in no time.

    runs ─► the core (`core.Scheduler`) ─► claims, starts, writes ─► the ledger, in memory
                  ▲                    └─► launches ─► end when their time is over ─┐
                  └─────────────────────── what became of all that ◄────────────────┘

Whatever a node decides is decided here by the same code: slots of the node, overlap, limits, timeouts, retries, the
line that recovery stands in. Only what a node waits for takes no time: the store answers at once, tasks end exactly
when they should, conditions are met, hooks say nothing. Time jumps from one event to the next.

A performance begins with an empty board and goes on until nothing is left under way, or until whoever watches it says
that it has seen enough. It says how many runs that took: what comes later is another performance. Runs that are under
way beside it, and are of no other interest, are slots that the node has not: it gets them back when they end.
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
from itinerary.core.loop.occurrence import Here
from itinerary.core.loop.scheduler import Scheduler
from itinerary.core.recovery.rate_limit import kept_free
from itinerary.core.recovery.sweep import Sweep
from itinerary.core.timeline.index import JobTable, ScheduledRunIndex, ScheduledRuns
from itinerary.core.timeline.job_plan import JobPlan, PlanBook
from itinerary.forecast.task_durations import Takes
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Outcome, Stopped, Succeeded
from itinerary.model.queries import Active, ByRef, Waiting
from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import Refusal, Start, Wanted
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import LINES, OCCURRENCES, WAITING, Table

__all__ = ["Alone", "Backlog", "Enough", "Performance", "Runs", "Stage", "Taken", "done"]

T = TypeVar("T")
Numbers: TypeAlias = NDArray[np.int64]

_AT_ONCE: Final = 2_000
"""So many claims or starts are one request, as a node makes them."""
_TURNS_MAX: Final = 100_000
"""A core that has more to do at one and the same moment is turning in circles."""
_MET: Final = Succeeded("true")

Taken: TypeAlias = tuple[int, Sequence[tuple[int, int]]]
"""Slots of the node that others have: how many at first, and when that changes by how much, in order."""
Enough: TypeAlias = Callable[[int, Sequence[OccurrenceRow]], bool]
"""Asked whenever nobody waits, with the moment and what runs: whether a performance is over."""


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing: the memory store answers at once."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        returned: T = stop.value
        return returned
    raise AssertionError("the memory store waits for nothing")


class Runs(NamedTuple):
    """Runs in columns, by instant and then by job: what a schedule makes due, and is not skipped by it."""

    jobs: Numbers
    instants: Numbers

    def __len__(self) -> int:
        return len(self.jobs)


class Backlog(NamedTuple):
    """What is to be made up for when a node starts: nobody was there in `[start, end)`."""

    start: int
    end: int
    carried: tuple[Wanted, ...] = ()
    """What was under way or waited when the last one went, and goes on."""


class Performance(NamedTuple):
    """What came of it."""

    size: int
    """How many of the runs it took."""
    until: int
    """When it was over."""
    rows: list[OccurrenceRow]
    """What the ledger says of them, and of what was made up for, by instant and then by job."""
    retried: bool
    """Whether somebody waited to be tried again."""


class Alone(NamedTuple):
    """What becomes of a run that nothing touches."""

    lasting: int
    state: OccurrenceState
    is_restless: bool
    """Whether it gives its slot back meanwhile, and needs it again."""


class Stage:
    """Jobs, a node's settings, and how long tasks take. Performances on it know nothing of each other."""

    def __init__(
        self,
        engine: MemoryEngine,
        node: NodeNumber,
        plans: PlanBook,
        *,
        settings: Settings,
        takes: Takes,
    ) -> None:
        """`engine` has the jobs on its timeline; it is copied for each performance. `defaults` is the level above the
        jobs."""
        self.engine, self.node, self.plans = engine, node, plans
        # A node claims ahead and looks back, since it may be late. Here nothing ever is.
        self.settings = replace(settings, pre_schedule_interval=1, grace_period=0)
        self.grace_period, self.late_for = settings.grace_period, settings.late_for
        self._takes = takes
        self._lasting: dict[str, dict[str, int]] = {}
        bodies = {self.plan(job).terms.json for job in plans.timeline.jobs}
        self.configs = done(engine.write(lambda tx: ledger.number_configs(tx, bodies)))
        """The numbers of configurations."""
        self._alone: dict[tuple[Hashable, ...], Alone] = {}
        self.performances = self.played = 0
        """How many there were, and how many runs they had in all."""

    def lasts(self, job: JobNumber, name: str, task: str) -> int:
        """How long a task takes."""
        known = self._lasting.get(name)
        if known is None:
            known = self._lasting[name] = self._takes.of(self.plan(job))
        return known[task]

    def plan(self, job: JobNumber) -> JobPlan:
        """A job's plan."""
        plan = self.plans.plan(job, self.plans.timeline.jobs[job].version)
        assert isinstance(plan, JobPlan), plan
        return plan

    def alone(self, job: JobNumber) -> Alone:
        """What becomes of a run of a job that nothing touches."""
        plan = self.plan(job)
        definition = plan.definition
        lasting = tuple(self.lasts(job, plan.name, task.name) for task in plan.tasks)
        hooks = (len(definition.requires), len(definition.on_start), len(definition.on_complete))
        # Whatever its name, a job that is set up like another one and takes as long goes like that one.
        like = (plan.terms.json, plan.terms.limits, lasting, hooks)
        known = self._alone.get(like)
        if known is None:
            instant = self.plans.timeline.jobs[job].registered_at // SECOND * SECOND + SECOND
            performance = self.play(Runs(np.array([job]), np.array([instant])))
            (row,) = performance.rows
            assert row.ended_at is not None, "a performance goes on until all have ended"
            known = self._alone[like] = Alone(row.ended_at - row.due_at, row.status, performance.retried)
        return known

    def play(
        self,
        runs: Runs,
        first: int = 0,
        *,
        backlog: Backlog | None = None,
        taken: Taken = (0, ()),
        is_enough: Enough = lambda _now, under_way: not under_way,
    ) -> Performance:
        """Play from a run on, until it is enough: until nothing is under way, say. With a backlog, from its end on.

        `taken` are slots of the node that others have. `is_enough` is asked whenever nobody waits, with the moment and
        what runs.
        """
        play = _Play(self, runs, first, backlog, taken, is_enough)
        performance = play.run()
        self.performances, self.played = self.performances + 1, self.played + len(performance.rows)
        return performance

    def sweep(self, plan: SweepPlan) -> Sweep:
        """What a sweep over a time in which nobody was there decides."""
        return Sweep(plan, self.plans.timeline, (), (), grace_period=self.grace_period)

    def index_of(self, runs: Runs) -> m.IndexBuilt:
        """What the core is told of runs."""
        timeline = self.plans.timeline
        numbers = np.unique(runs.jobs)
        table = JobTable(f"{number:09}" for number in numbers.tolist())
        places = np.searchsorted(numbers, runs.jobs)
        index = ScheduledRunIndex(ScheduledRuns(table, places, runs.instants))
        jobs = [(JobNumber(number), timeline.jobs[JobNumber(number)].version) for number in numbers.tolist()]
        return m.IndexBuilt(timeline.revision, index, jobs, numbers, self.plans)


class _Play:
    """One performance, under way."""

    def __init__(
        self,
        stage: Stage,
        runs: Runs,
        first: int,
        backlog: Backlog | None,
        taken: Taken,
        is_enough: Enough,
    ) -> None:
        self.stage, self.runs, self.first = stage, runs, first
        self.backlog, self.is_enough = backlog, is_enough
        self.now = int(runs.instants[first]) if backlog is None else backlog.end
        self.engine = stage.engine.copied(lambda: self.now)
        self.store = EngineStore(self.engine)
        settings = stage.settings
        self.scheduler = Scheduler(settings, Here(stage.node, "forecast", settings.kill_grace, stage.late_for))
        self.inbox: list[m.Message] = []
        self.ends: list[tuple[int, int, AttemptKey, Outcome]] = []
        """What ends when; those that were stopped meanwhile are passed over."""
        self.running: set[AttemptKey] = set()
        self.followed: dict[Ref, None] = {}
        self.beats_at = self.offers_at = self.now
        self.fed = first
        self.numbers = count()
        self.taken, self.changes = taken[0], deque(taken[1])
        self.retried = False
        if self.taken:
            self._tell_slots()

    def run(self) -> Performance:
        """Play it."""
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
        return Performance(self.fed - self.first, self.now, rows, self.retried)

    @property
    def slots(self) -> int:
        """How many of the node's slots others leave it now."""
        return self.stage.settings.max_concurrent_jobs - self.taken

    @property
    def room(self) -> int:
        """For how many of those that anybody may start there is room: as many as the core takes of a backlog, which is
        the only thing that nobody owns here."""
        if self.backlog is None and self.running:
            return 0
        return self.slots - kept_free(self.slots) - len(self.followed)

    def _tell_slots(self) -> None:
        self.inbox.append(m.SettingsChanged(replace(self.stage.settings, max_concurrent_jobs=self.slots)))

    def _is_over(self) -> bool:
        """Whether nobody waits, and it is enough; or nothing is left at all."""
        if len(self.followed) >= self.slots > 0:
            return False  # somebody may wait for a slot
        if self._has(LINES) or self._has(WAITING):
            return False
        under_way = done(self.store.read(Active()))
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
            times.append(max(self.offers_at, self.now + 1))  # somebody waits to be offered to the core
        return max(min(at for at in times if at is not None), self.now)

    def _has(self, table: Table[Any]) -> bool:
        """Whether anything is in a table."""
        return bool(done(self.engine.read(lambda tx: tx.scan(table, limit=1))))

    # -- the core, and what it asks for ------------------------------------------------------------------------------

    def _settle(self) -> None:
        self._hear()
        for _ in range(_TURNS_MAX):
            next_at = self.scheduler.next_at
            if not self.inbox and (next_at is None or next_at > self.now):
                return
            inbox, self.inbox = self.inbox, []
            for command in self.scheduler.iterate(self.now, inbox):
                self._carry_out(command)
        raise AssertionError(f"the core turns in circles at {self.now}")

    def _hear(self) -> None:
        """What has happened by now."""
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
            if waiting := done(self.store.read(Waiting(self.now, self.room))):
                self.inbox.append(m.WorkOffered(waiting))
        if not self.inbox:
            self.inbox.append(m.Heartbeats(()))  # time has passed, and the core shall look

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

    def _start(self, revision: int, starts: Sequence[Start]) -> None:
        if any(0 < request.late_until < self.now for request in starts):
            self._pass()  # the sweeps of a node that runs have come this far
        node, takeover_after, configs = self.stage.node, self.stage.settings.takeover_after, self.stage.configs
        work = partial(ledger.start, owner=node, revision=revision, starts=starts, takeover_after=takeover_after)
        answers = done(self.engine.write(lambda tx: work(tx, configs=configs)))
        self.inbox.append(m.StartsAnswered(starts, answers))
        if any(request.overlap.replaces for request in starts) and (
            mail := done(self.store.beat(self.stage.node)).mail
        ):
            done(self.store.beat(self.stage.node, mail))
            self._read(mail)  # one that runs is asked to end, for another that takes its place

    def _read(self, refs: Sequence[Ref]) -> None:
        self.inbox.append(m.RowsRead(list(done(self.store.read(ByRef(tuple(refs)))).values())))

    def _launch(self, assignment: Assignment) -> None:
        key, facts = assignment.key, assignment.facts
        takes = self.stage.lasts(facts.key.job, facts.job, facts.task) if key.place >= 0 else 0
        self.running.add(key)
        heapq.heappush(self.ends, (self.now + takes, next(self.numbers), key, _MET))

    # -- what is made up for -----------------------------------------------------------------------------------------

    def _make_up(self, backlog: Backlog) -> None:
        """What the sweep of a node that starts does about the time in which nobody was there."""
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
