"""A world in one table: a scheduler, a clock that the test moves, a real store in memory, and tasks by script.

    world = World()
    world.job("etl", "extract", "load", mode="parallel", failure="fail_fast")
    world.does("load", fails("boom", after=2))
    world.run(10)                          ten seconds pass, and everything happens that should
    world.story()                          the whole report of the (last) occurrence, as one line for each task
    world.trail()                          its audit trail

Claims, starts and writes are answered by the real ledger: see `hands`. Kinds of commands can be kept back (`keep`) and
let go later, so that answers come when a test wants them to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.occurrence import NodeContext
from itinerary.core.loop.scheduler import Scheduler
from itinerary.model.attempts import Report
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition, Requirement
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import OverrideLevel, read_overrides
from itinerary.model.queries import ActiveQuery, Detail, DetailsQuery, HistoryQuery, JobsQuery, WaitingQuery
from itinerary.model.rows import EntryKind, JobNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.task import Task
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest, UnstartedReconciler
from itinerary.model.writes import AdjustRequest, CancelRequest, TakeoverWrite
from itinerary.schedules import Schedule, every
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from tests.unit.core.hands import Hands, done
from tests.unit.core.scripted import SECOND, Act
from tests.unit.core.stories import story_of, trail_of

__all__ = ["SECOND", "START", "World", "done"]

START = 1_800_000_000 * SECOND
"""When every world begins: a whole hour, and nothing is due before it."""
ROUNDS_MAX = 100
"""A loop that has more to do at one and the same moment is turning in circles."""


class World(Hands):
    """One node and its store; `beside` another one it shares that one's store and clock."""

    def __init__(self, *, beside: World | None = None, name: str = "a", **settings: Any) -> None:
        shared: list[int] = [START - 3 * SECOND] if beside is None else beside._shared
        store = EngineStore(MemoryEngine(lambda: shared[0])) if beside is None else beside.store
        if beside is None:
            done(store.open())
        else:
            beside.others.append(self)
        super().__init__(store, shared, name, Settings(**settings))
        self.others: list[World] = []
        node = NodeContext(self.node, name, self.settings.kill_grace, self.settings.late_for)
        self.scheduler = Scheduler(self.settings, node)
        self.commands: list[c.Command] = []
        """Everything that the core has asked for."""
        self.is_silent = False
        """Whether the orchestrators have fallen silent."""
        self._ticks_at = self._beats_at = self.now

    # -- what there is -----------------------------------------------------------------------------------------------

    def job(
        self,
        name: str,
        *tasks: str,
        schedule: Schedule | None = None,
        of_tasks: dict[str, dict[str, Any]] | None = None,
        requires: tuple[Requirement, ...] = (),
        on_start: tuple[str, ...] = (),
        on_complete: tuple[str, ...] = (),
        judge: UnstartedReconciler | None = None,
        is_heard: bool = True,
        **overrides: Any,
    ) -> JobNumber:
        """Register a job, or its next version: due each hour, the first time at START. The nodes hear of it at once, or
        find out by a refusal."""
        own = of_tasks or {}
        listed = tuple(
            Task(
                id=task_id(job_id(name), task),
                name=task,
                order=order,
                definition={"python": f"tasks:{task}"},
                overrides=read_overrides(own.get(task, {}), OverrideLevel.TASK),
            )
            for order, task in enumerate(tasks or ("main",))
        )
        definition = Definition(
            schedule=(schedule or every("1h")).to_json(),
            overrides=read_overrides(overrides, OverrideLevel.JOB),
            tasks=listed,
            requires=requires,
            on_start=on_start,
            on_complete=on_complete,
        )
        entry = TimelineEntryRequest(
            job=name,
            kind=EntryKind.VERSION,
            request=f"version {self._version(name) + 1}",
            by="anna",
            from_version=self._version(name),
            body=to_json(definition).decode(),
        )
        (entered,) = done(self.store.amend([entry], judge))
        assert isinstance(entered, EntryAccepted), entered
        for world in (self, *self.others) if is_heard else ():
            world.send(m.JobChanged(entered.revision))
        return entered.job

    def _version(self, name: str) -> int:
        return next((row.version for row in done(self.store.read(JobsQuery())) if row.name == name), 0)

    def does(self, name: str, *acts: Act) -> None:
        """Say what a task does, attempt by attempt; also a hook, or a requirement."""
        self.script.acts[name] = list(acts)

    # -- time --------------------------------------------------------------------------------------------------------

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that is due meanwhile."""
        self.run_to((self.now - START) / SECOND + seconds)

    def run_to(self, seconds: float) -> None:
        """The same, up to so many seconds after START."""
        until, worlds = START + round(seconds * SECOND), [self, *self.others]
        while True:
            for world in worlds:
                world._settle()
            at = min(time for world in worlds for time in world._times())
            if at > until:
                break
            self._shared[0] = max(at, self.now)
        self._shared[0] = until
        for world in worlds:
            world._settle()

    def _times(self) -> list[int]:
        if self.exited is not None:
            return [self.now + 3600 * SECOND]
        times = (self.scheduler.next_at, self.script.next_at, self._flush_at, self._ticks_at, self._beats_at)
        return [time for time in times if time is not None]

    def _settle(self) -> None:
        next_at: int | None = None
        for _ in range(ROUNDS_MAX):
            self._handle()
            next_at = self.scheduler.next_at
            if self.exited is not None or (not self.inbox and (next_at is None or next_at > self.now)):
                return
            self.turn()
        raise AssertionError(f"the loop turns in circles; its inbox has {self.inbox}, it is due at {next_at}")

    def turn(self, *messages: m.Message) -> list[c.Command]:
        """One iteration with all that is in the inbox, and what it asks for carried out."""
        inbox, self.inbox = [*self.inbox, *messages], []
        asked = self.scheduler.iterate(self.now, inbox, inbox_depth=0, took=1)
        self.commands += asked
        for command in asked:
            if isinstance(command, self._keeps):
                self.kept.append(command)
            else:
                self._carry_out(command)
        return asked

    def let_go(self, settle: bool = True) -> None:
        """Carry out what was kept back."""
        kept, self.kept, self._keeps = self.kept, [], ()
        for command in kept:
            self._carry_out(command)
        if settle:
            self.run()

    def _handle(self) -> None:
        if self.exited is not None:
            return
        if reports := self.script.due():
            self.inbox.append(m.AttemptsReported(reports))
        if self._flush_at is not None and self._flush_at <= self.now:
            self._flush()
        if self._beats_at <= self.now:
            self._beats_at = self.now + self.settings.orchestrator_heartbeat_interval
            if self._followed and not self.is_silent:
                self.inbox.append(m.Heartbeats(list(self._followed)))
        if self._ticks_at <= self.now:
            self._ticks_at = self.now + self.settings.loop_interval
            self._look_around()
            self.turn()

    def _look_around(self) -> None:
        mail = done(self.store.beat(self.node)).mail
        if mail:
            done(self.store.beat(self.node, mail))
            self.read(*mail)
        waiting = list(done(self.store.read(WaitingQuery(self.now, 500))))
        overdue = done(self.store.read(ActiveQuery(None, self.now - self.settings.takeover_after)))
        waiting += [row for row in overdue if row.started_at is None and row.owner not in (None, self.node)]
        begun = done(self.store.read(ActiveQuery()))
        waiting += [row for row in begun if row.started_at is not None and row.owner is None]
        if waiting:
            self.inbox.append(m.WorkOffered(waiting))

    # -- people ------------------------------------------------------------------------------------------------------

    def ask(self, message: m.Message) -> Any:
        """Send a message whose reply is `"asked"`, and return the answer."""
        self.answers.pop("asked", None)
        self.send(message)
        self.run()
        return self.answers["asked"]

    def cancel(self, ref: Ref | None = None, by: str = "anna: wrong data") -> Any:
        """Cancel an occurrence as a person does: durably, and then by message. Returns what the loop says."""
        ref = self.ref if ref is None else ref
        done(self.store.control(None, [CancelRequest(ref, by)]))
        return self.ask(m.CancelRequested(ref, by, "asked"))

    def adjust(self, ref: Ref, overrides: str) -> None:
        """Give an occurrence that has not started other overrides, durably; its node finds mail."""
        done(self.store.control(None, [AdjustRequest(ref, overrides)]))

    def intervene(self, intervention: TakeoverWrite) -> None:
        """Somebody who is not the owner does something."""
        done(self.store.intervene(done(self.store.join("incarnation of others", "others", "{}")), [intervention]))

    def shut_down(self) -> None:
        """The node shall end."""
        self.send(m.ShutdownRequested("it was asked to"))
        self.run()

    def report(self, report: Report) -> None:
        """An executor says something, now."""
        self.script.report(report)
        self.run()

    # -- what came of it ---------------------------------------------------------------------------------------------

    @property
    def rows(self) -> list[OccurrenceRow]:
        """All occurrences, in the order of their instants."""
        rows = list(done(self.store.read(ActiveQuery())))
        for job in done(self.store.read(JobsQuery())):
            rows += done(self.store.read(HistoryQuery(job.number))).rows
        return sorted(rows, key=lambda row: row.key)

    @property
    def ref(self) -> Ref:
        """The first occurrence."""
        return self.rows[0].ref

    @property
    def statuses(self) -> list[str]:
        return [str(row.status) for row in self.rows]

    def detail(self, ref: Ref | None = None) -> Detail:
        found: Sequence[Detail] = done(self.store.read(DetailsQuery((self.ref if ref is None else ref,))))
        return found[0]

    def story(self, ref: Ref | None = None) -> str:
        """The whole report, times in seconds since its instant."""
        detail = self.detail(ref)
        name = next(row.name for row in done(self.store.read(JobsQuery())) if row.number == detail.row.job)
        return story_of(name, detail)

    def trail(self, ref: Ref | None = None) -> str:
        """The audit trail: states, and where somebody said why, that too."""
        return trail_of(self.detail(ref))

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The fields of all lines of the log with that event."""
        return [
            {**command.fields, "level": str(command.level)}
            for command in self.commands
            if isinstance(command, c.Log) and command.event == event
        ]

    def launches(self) -> list[tuple[str, int, float]]:
        """What was launched: the task, its attempt, and when, in seconds since START."""
        return [
            (one.facts.task, one.key.number, (one.facts.started_at - START) / SECOND) for one in self.script.launched
        ]

    def at_rest(self) -> None:
        """Nothing runs, and nothing is on its way: whatever was taken has been given back."""
        scheduler = self.scheduler._scheduler
        assert (scheduler.unwritten, scheduler.asked, scheduler.live, len(scheduler.line)) == (0, 0, {}, 0)
        assert scheduler.line.free == self.settings.max_concurrent_jobs
        assert not self._followed
