"""The course of one occurrence, from its claim to its end: what the loop keeps of each.

    WANTED ─► CLAIMED ─► STARTING ─► CHECKING ─► GREETING ─► WORKING ─► TELLING ─► ENDING ─► OVER
                  └► LINED_UP ┘       (conditions)  (on_start)   (tasks)  (on_complete)

A stage says who is to move next; the state (O1) is what people see, and moves only as the one table allows. The way to
a start is the scheduler's affair, and from there on `working`, `errands` and `ending` take it further: they are told
what happened, and put what should be done into an outbox.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple

from msgspec.structs import replace

from itinerary.core.loop.change_writer import Pen
from itinerary.core.loop.task_progress import BEGUN, IN_FLIGHT, Phase, StopReason, TaskProgress
from itinerary.core.recovery.strategies import overlap_of_recovery
from itinerary.core.timeline.history import Paused
from itinerary.core.timeline.job_plan import HOOK_TIMEOUT, JobPlan, Terms, check_timeout
from itinerary.model.attempts import Assignment, AttemptKey, Facts, ZoneSpan
from itinerary.model.audit_trail import marked
from itinerary.model.job import JsonObject
from itinerary.model.occurrence import Kind, Window
from itinerary.model.overrides import Level
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, Key, NodeNumber, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Intervention, Start
from itinerary.schedules.durations import SECOND

__all__ = [
    "LIVE",
    "SHUTDOWN",
    "UNSTARTED",
    "Closing",
    "Course",
    "Errand",
    "ErrandKind",
    "Here",
    "Interruption",
    "Stage",
    "cancelling",
]


class Stage(IntEnum):
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


SHUTDOWN: Final = "shutdown"
"""Who closes what runs on a node that is shut down."""


class Closing(NamedTuple):
    """Somebody ends the occurrence as a whole: a person, its timeout, a shutdown."""

    outcome: OccurrenceState
    by: str
    why: str


def cancelling(by: str) -> Closing:
    """Somebody wants it to end."""
    return Closing(OccurrenceState.CANCELLED, by, by)


class Interruption:
    """A shutdown asks all attempts of an occurrence to end, and begins no further one (see `shutdown`)."""

    __slots__ = ("has_abandoned", "has_run", "why", "withheld")

    def __init__(self, why: str) -> None:
        self.why = why
        self.has_run = False
        """Whether a function was interrupted that had been called."""
        self.has_abandoned = False
        """Whether an attempt was given up: what it runs may still go on in this process."""
        self.withheld: list[AttemptRow] = []
        """Attempts whose write was refused for lack of a share of a limit."""


class Here(NamedTuple):
    """What all courses of a node have in common."""

    node: NodeNumber
    name: str
    kill_grace: int
    late_for: int
    """How late an instant may be and still simply run: see `Settings.late_for`."""
    turn: int = SECOND
    """The longest time between two iterations: whoever asks for something again and again does so in such steps."""


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
        "begun_at",
        "cancelled_by",
        "closing",
        "deadline_at",
        "due_at",
        "ended_as",
        "errand",
        "errands_run",
        "expires_at",
        "fence",
        "found",
        "has_shares",
        "held_by",
        "here",
        "holds_slot",
        "interruption",
        "is_marked",
        "is_recovery",
        "key",
        "lacked",
        "lacks",
        "last_fence",
        "last_run_at",
        "lined_up_at",
        "made_at",
        "misses",
        "only_tasks",
        "overrides",
        "passes_held",
        "pen",
        "place",
        "plan",
        "ref",
        "request",
        "resume_at",
        "seen_at",
        "skip",
        "stage",
        "started_at",
        "taking",
        "tasks",
        "terms",
        "unsure",
        "was_early",
        "window",
        "zones",
    )

    pen: Pen[TaskProgress | Errand]
    """Its writes; it has one from its start on."""

    def __init__(self, here: Here, key: Key, plan: JobPlan, due_at: int) -> None:  # noqa: PLR0915 - all that is kept
        self.here, self.key, self.plan, self.due_at = here, key, plan, due_at
        self.stage = Stage.WANTED
        self.ref = Ref(0)
        self.fence: int | None = None
        """What it is held by before its start; None for one that anybody may start."""
        self.last_fence = 0
        """The fence that its row had when it came here: with a higher one it is another's, or free again."""
        self.adjustments = 0
        self.overrides: str | None = None
        self.terms: Terms = plan.terms
        self.tasks: list[TaskProgress] = []
        self.request: Start | None = None
        self.only_tasks: tuple[str, ...] | None = None
        """Of a replay: the tasks that are run again, if not all."""
        self.skip: str | None = None
        """Why it is recorded as skipped when it is due, in place of its start."""
        self.found: OccurrenceRow | None = None
        """Of one that began on another node, which is gone: its row, as it was found."""
        self.taking: Intervention | None = None
        """The write that makes it this node's, until that is made."""
        self.started_at = self.expires_at = self.seen_at = self.alarm_at = self.lined_up_at = 0
        self.misses = 0
        """How many heartbeats its orchestrator had missed in a row when the loop last looked."""
        self.begun_at = 0
        """When the loop heard that it has started: a moment after `started_at`."""
        self.place = 0
        """Where it stands in line; 0: nowhere."""
        self.last_run_at: int | None = None
        self.window: Window | None = None
        self.zones: tuple[ZoneSpan, ...] = ()
        """Of one that answers for a window: the zone data in it."""
        self.is_recovery = self.holds_slot = self.is_marked = False
        self.has_shares = True
        """Whether it holds its shares of limits: not while it waits to retry, or for a requirement."""
        self.closing: Closing | None = None
        self.interruption: Interruption | None = None
        self.cancelled_by: str | None = None
        """Who wanted it to end while its start was being written."""
        self.lacks = ""
        self.made_at = key.instant
        """When it was to run: its instant, or when it was asked for. A later pause of its job holds it."""
        self.held_by: Paused | None = None
        """The pause that holds it."""
        self.passes_held = False
        """Its job is paused, and it was asked for since."""
        self.unsure = ""
        """Why it waits and is not skipped yet: the node of the run in its job's slot is silent."""
        self.lacked = self.was_early = 0
        """The limit that had no share for its start."""
        self.ended_as: OccurrenceState | None = None
        """What became of it without a start here, where that is known."""
        self.errand: Errand | None = None
        self.errands_run = 0
        self.resume_at: int | None = None
        """When it goes on: a requirement is looked at again, a limit asked for again."""
        self.deadline_at: int | None = None
        """Until when the requirement that it waits for must be met."""

    @property
    def state(self) -> OccurrenceState:
        """What people see."""
        if self.stage is Stage.CLAIMED and (self.lacks or self.unsure):
            return OccurrenceState.PENDING
        if self.taking is not None and self.found is not None:
            return self.found.status
        if self.stage in _BEFORE_THE_START:
            return _BEFORE_THE_START[self.stage]
        if self.has_begun:
            return self.pen.stored_state
        assert self.ended_as is not None, "it is no longer this node's, and nobody asks"
        return self.ended_as

    @property
    def has_begun(self) -> bool:
        """Whether it was started here."""
        return self.started_at != 0

    def next_ask(self, now: int) -> int:
        """When to ask again for a share of a limit that had none left: soon, and then less and less often."""
        self.lacked += 1
        return now + self.here.turn * min(1 << (self.lacked - 1), _ASKS_AFTER_MAX)

    @property
    def only_waits(self) -> bool:
        """Whether none of its tasks runs, or is being ended, and some wait to be tried again."""
        waits = False
        for task in self.tasks:
            if task.phase is Phase.RETRYING:
                waits = True
            elif task.phase in BEGUN:
                return False
        return waits

    @property
    def can_lose_tasks(self) -> bool:
        """Whether an attempt of it runs, as far as is known, that would end with this node."""
        return any(task.is_running and not task.outlives for task in self.tasks)

    @property
    def outlives_its_node(self) -> bool:
        """Whether what runs of it goes on without this node, all of it: pods (K4)."""
        begun = [task for task in self.tasks if task.phase in IN_FLIGHT]
        return self.stage is Stage.WORKING and bool(begun) and all(task.outlives for task in begun)

    @property
    def runs_errand(self) -> bool:
        """Whether something besides its tasks is being run, or asked to end."""
        return self.errand is not None and (self.errand.stop_at is not None or self.errand.kill_at is not None)

    def refit(self, plan: JobPlan, overrides: str | None, adjustments: int) -> None:
        """Make ready to start it as another version of its job, or with other overrides. Raises if these make no
        sense, and leaves everything as it was."""
        self.terms = plan.terms_of(overrides)
        self.plan, self.overrides, self.adjustments = plan, overrides, adjustments
        self.prepare()

    def pass_over(self, why: str | None) -> None:
        """Its instant is to be skipped, for this reason, or is to run after all."""
        self.skip = why
        if self.request is not None:
            self.request = marked(replace(self.request, skip=why))

    def shift(self, by: int) -> None:
        """The clock has jumped: what is to happen after so long still does (N6)."""
        self.seen_at, self.expires_at, self.begun_at = self.seen_at + by, self.expires_at + by, self.begun_at + by
        self.resume_at = None if self.resume_at is None else self.resume_at + by
        self.deadline_at = None if self.deadline_at is None else self.deadline_at + by
        if (errand := self.errand) is not None:
            errand.stop_at = None if errand.stop_at is None else errand.stop_at + by
            errand.kill_at = None if errand.kill_at is None else errand.kill_at + by
        for task in self.tasks:
            task.shift(by)

    def prepare(self) -> None:
        """Make the request that starts it, ahead of its instant: then there is no time to lose."""
        plan, terms, ref = self.plan, self.terms, self.ref
        job, definition = terms.config.job, plan.definition
        tasks = self.tasks = [
            TaskProgress(task, config)
            for task, config in zip(plan.tasks, terms.tasks, strict=True)
            if self.only_tasks is None or task.name in self.only_tasks
        ]
        attempts: tuple[AttemptRow, ...] = ()
        checks = bool(definition.requires)
        if not checks and not definition.on_start:
            first = tasks if terms.is_parallel else tasks[:1]
            attempts = tuple([task.prepare(ref, None) for task in first])
        request = Start(
            ref,
            self.fence,
            self.adjustments,
            terms.json,
            self.may_take(),
            self._overlap(),
            None if self.is_recovery else job.max_queued,
            terms.limits,
            OccurrenceState.CONDITION_PENDING if checks else self._first_state(attempts),
            tuple([task.row(ref) for task in tasks]) if len(tasks) > 1 else (),
            attempts,
            None if self.fence is not None else self.last_fence,
            self.skip,
            self.due_at + self.here.late_for,
            self.passes_held,
            self.key.job,
            self.key.instant if self.key.kind is Kind.SCHEDULED else None,
        )
        self.request = marked(request)

    def _overlap(self) -> Overlap:
        """The policy for the case that another run of the job is in the slot: the job's, with two exceptions.

        Recovery runs one after another (R2). A run that a person asked for waits for its turn where the job says
        `skip` (R4): the policy bounds what the schedule makes due. A request that says `skip` itself is skipped.
        """
        config = self.terms.config.job
        if self.is_recovery:
            return overlap_of_recovery(config.overlap)
        is_asked = not self.key.kind.is_by_schedule
        if is_asked and config.overlap.skips and config.source("overlap") is not Level.OCCURRENCE:
            return Overlap.QUEUE
        return config.overlap

    def _first_state(self, attempts: tuple[AttemptRow, ...]) -> OccurrenceState:
        """What its first tasks amount to when they begin (O8): pods alone are being created."""
        if attempts and all(task.outlives for task in self.tasks if task.phase in BEGUN):
            return OccurrenceState.CONTAINER_CREATING
        return OccurrenceState.RUNNING

    def may_take(self) -> int:
        """How long it may take from its start to its end, if everything takes as long as it may: after that it is the
        reaper's."""
        plan, terms = self.plan, self.terms
        if terms is plan.terms and plan.may_take is not None:
            return plan.may_take
        definition, config, grace = plan.definition, terms.config.job, self.here.kill_grace
        hooks = (len(definition.on_start) + len(definition.on_complete)) * (HOOK_TIMEOUT + grace)
        last_looks = 2 * len(definition.requires) * (check_timeout(config) + grace)
        may_take = config.execution_timeout + grace + plan.waits_for + last_looks + hooks
        if terms is plan.terms:
            plan.may_take = may_take
        return may_take

    def task_at(self, place: int) -> TaskProgress | None:
        """The task of that place."""
        for task in self.tasks:
            if task.task.order == place:
                return task
        return None

    def assignment(
        self, key: AttemptKey, title: str, executor: str, run: JsonObject, now: int, *, has_begun: bool = False
    ) -> Assignment:
        """One attempt, as an executor needs it."""
        plan, window = self.plan, self.window
        facts = Facts(
            job=plan.name,
            version=plan.version,
            task=title,
            node=self.here.name,
            key=self.key,
            attempt=key.number,
            started_at=now,
            last_run_at=self.last_run_at,
            is_recovery=self.is_recovery,
        )
        if window is not None:
            facts = replace(facts, window=window, schedule=plan.definition.schedule, zones=self.zones)
        return Assignment(key, executor, run, facts, None, self.fence or 0, has_begun)

    def stop_reason(self) -> StopReason:
        """Why its tasks are asked to end, when it is closed."""
        assert self.closing is not None, "only what is closed has one"
        return StopReason(self.closing.by)


_ASKS_AFTER_MAX: Final = 16
"""The most turns of the loop between two requests for a share of a limit."""
_BEFORE_THE_START: Final = {
    Stage.WANTED: OccurrenceState.PRERUN,
    Stage.CLAIMED: OccurrenceState.PRERUN,
    Stage.LINED_UP: OccurrenceState.PENDING,
    Stage.STARTING: OccurrenceState.PENDING,
}
