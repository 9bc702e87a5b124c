"""The course of one occurrence, from its claim to its end: what the loop keeps of each.

    WANTED ─► CLAIMED ─► STARTING ─► CHECKING ─► GREETING ─► WORKING ─► TELLING ─► ENDING ─► OVER
                  └► LINED_UP ┘       (conditions)  (on_start)   (tasks)  (on_complete)

A stage says who is to move next; the state (O1) is what people see, and moves only as the one table allows. The way to
a start is the scheduler's affair, and from there on `working`, `errands` and `ending` take it further: they are told
what happened, and put what should be done into an outbox.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from itinerary.core.pen import Pen
from itinerary.core.plans import JobPlan, Terms
from itinerary.core.progress import StopReason, TaskProgress
from itinerary.model.job import JsonObject
from itinerary.model.occurrence import Window
from itinerary.model.rows import AttemptRow, Key, NodeNumber, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.work import Assignment, AttemptKey, Facts
from itinerary.model.writes import Start

__all__ = ["LIVE", "UNSTARTED", "Closing", "Course", "Errand", "ErrandKind", "Here", "Stage"]


class Stage(Enum):
    """Who is to move next."""

    WANTED = auto()
    """The store: its row is being created."""
    CLAIMED = auto()
    """Time: it waits for its instant, in `prerun`."""
    LINED_UP = auto()
    """A slot of this node: it is due, and waits for one."""
    STARTING = auto()
    """The store: its start is being written."""
    CHECKING = auto()
    """Its requirements."""
    GREETING = auto()
    """The hooks that are told of its start."""
    WORKING = auto()
    """Its tasks."""
    TELLING = auto()
    """The hooks that are told of its end."""
    ENDING = auto()
    """The store: its end is being written."""
    OVER = auto()
    """Nobody: it has ended, or is somebody else's."""


UNSTARTED: Final = frozenset({Stage.CLAIMED, Stage.LINED_UP, Stage.STARTING})
"""It has a row, and has not begun."""
LIVE: Final = frozenset({Stage.CHECKING, Stage.GREETING, Stage.WORKING, Stage.TELLING})
"""It has begun here, and its end is not yet decided and said."""


class Closing(NamedTuple):
    """Somebody ends the occurrence as a whole: a person, its timeout, a shutdown."""

    outcome: OccurrenceState
    by: str
    why: str


class Here(NamedTuple):
    """What all courses of a node have in common."""

    node: NodeNumber
    name: str
    kill_grace: int


class ErrandKind(Enum):
    """What is run besides tasks. Its value is where a task has its place, so that nothing is taken for a task."""

    ON_START = -1
    CONDITION = -2
    ACTION = -3
    ON_COMPLETE = -4


class Errand:
    """Something besides the tasks that is being run."""

    __slots__ = ("index", "key", "kill_at", "kind", "stop_at", "title")

    def __init__(self, kind: ErrandKind, index: int, title: str, key: AttemptKey) -> None:
        self.kind, self.index, self.title, self.key = kind, index, title, key
        self.stop_at: int | None = None
        """When it is asked to end; None until it runs, and after that."""
        self.kill_at: int | None = None
        """When it is given up."""


class Course:
    """One occurrence on this node."""

    __slots__ = (
        "adjustments",
        "alarm_at",
        "closing",
        "deadline_at",
        "due_at",
        "errand",
        "errands_run",
        "expires_at",
        "fence",
        "has_shares",
        "here",
        "holds_slot",
        "is_marked",
        "is_recovery",
        "key",
        "last_run_at",
        "lined_up_at",
        "overrides",
        "pen",
        "plan",
        "ref",
        "request",
        "resume_at",
        "seen_at",
        "stage",
        "started_at",
        "tasks",
        "terms",
        "why",
        "window",
    )

    pen: Pen[TaskProgress | Errand]
    """Its writes; it has one from its start on."""

    def __init__(self, here: Here, key: Key, plan: JobPlan, due_at: int) -> None:
        self.here, self.key, self.plan, self.due_at = here, key, plan, due_at
        self.stage = Stage.WANTED
        self.ref = Ref(0)
        self.fence: int | None = None
        """What it is held by before its start; None for one that anybody may start."""
        self.adjustments = 0
        self.overrides: str | None = None
        self.terms: Terms = plan.terms
        self.tasks: list[TaskProgress] = []
        self.request: Start | None = None
        self.started_at = self.expires_at = self.seen_at = self.alarm_at = self.lined_up_at = 0
        self.last_run_at: int | None = None
        self.window: Window | None = None
        self.is_recovery = self.holds_slot = self.is_marked = False
        self.has_shares = True
        """Whether it holds its shares of limits: not while it waits to retry, or for a requirement."""
        self.closing: Closing | None = None
        self.why: str | None = None
        """What its end will be explained with."""
        self.errand: Errand | None = None
        self.errands_run = 0
        self.resume_at: int | None = None
        """When it goes on: a requirement is looked at again, a limit asked for again."""
        self.deadline_at: int | None = None
        """Until when the requirement that it waits for must be met."""

    @property
    def state(self) -> OccurrenceState:
        """What people see."""
        if self.stage in _BEFORE_THE_START:
            return _BEFORE_THE_START[self.stage]
        return self.pen.state

    def prepare(self) -> None:
        """Make the request that starts it, ahead of its instant: then there is no time to lose."""
        plan, terms = self.plan, self.terms
        self.tasks = [TaskProgress(task, config) for task, config in zip(plan.tasks, terms.tasks, strict=True)]
        attempts: tuple[AttemptRow, ...] = ()
        checks = bool(plan.definition.requires)
        if not checks and not plan.definition.on_start:
            first = self.tasks if terms.is_parallel else self.tasks[:1]
            attempts = tuple(task.prepare(self.ref, None) for task in first)
        self.request = Start(
            self.ref,
            self.fence,
            self.adjustments,
            terms.json,
            terms.config.job.execution_timeout + plan.waits_for + self.here.kill_grace,
            terms.config.job.overlap,
            terms.config.job.max_queued,
            terms.limits,
            OccurrenceState.CONDITION_PENDING if checks else OccurrenceState.RUNNING,
            tuple(task.row(self.ref) for task in self.tasks) if len(self.tasks) > 1 else (),
            attempts,
        )

    def task_at(self, place: int) -> TaskProgress | None:
        """The task of that place."""
        return next((task for task in self.tasks if task.task.order == place), None)

    def assignment(self, key: AttemptKey, title: str, executor: str, run: JsonObject, now: int) -> Assignment:
        """One attempt, as an executor needs it."""
        plan = self.plan
        return Assignment(
            key,
            executor,
            run,
            Facts(
                job=plan.name,
                version=plan.version,
                task=title,
                node=self.here.name,
                key=self.key,
                attempt=key.number,
                started_at=now,
                last_run_at=self.last_run_at,
                window=self.window,
                is_recovery=self.is_recovery,
                schedule=None if self.window is None else plan.definition.schedule,
            ),
        )

    def stop_reason(self) -> StopReason:
        """Why its tasks are asked to end, when it is closed."""
        assert self.closing is not None, "only what is closed has one"
        return StopReason(self.closing.by)


_BEFORE_THE_START: Final = {
    Stage.WANTED: OccurrenceState.PRERUN,
    Stage.CLAIMED: OccurrenceState.PRERUN,
    Stage.LINED_UP: OccurrenceState.PENDING,
    Stage.STARTING: OccurrenceState.PENDING,
}
