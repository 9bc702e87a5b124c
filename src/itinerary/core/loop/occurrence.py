"""An occurrence on its node, from its claim to its end: everything that the loop knows about it.

    WANTED ─► CLAIMED ─► STARTING ─► CHECKING ─► GREETING ─► WORKING ─► TELLING ─► ENDING ─► OVER
                  └► LINED_UP ┘       (conditions)  (on_start)   (tasks)  (on_complete)

A stage says which component acts next. The state (O1) is visible to people, and changes only as the transition table
allows. `claims` and `starts` lead an occurrence to its start. From there on, `tasks`, `conditions_and_hooks` and
`completion` handle each event, and put their commands into a command batch.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple

from msgspec.structs import replace

from itinerary.core.loop.change_writer import ChangeWriter
from itinerary.core.loop.task_progress import BEGUN, IN_FLIGHT, StopReason, TaskPhase, TaskProgress
from itinerary.core.recovery.strategies import overlap_of_recovery
from itinerary.core.timeline.history import JobPaused
from itinerary.core.timeline.job_plan import HOOK_TIMEOUT, JobPlan, StartConfig, check_timeout
from itinerary.model.attempts import Assignment, AttemptInfo, AttemptKey, ZoneSpan
from itinerary.model.audit_trail import marked
from itinerary.model.occurrence import Kind, Window
from itinerary.model.overrides import OverrideLevel
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, Key, NodeNumber, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.task import JsonObject
from itinerary.model.writes import StartRequest, TakeoverWrite
from itinerary.schedules.durations import SECOND

__all__ = [
    "LIVE",
    "SHUTDOWN",
    "UNSTARTED",
    "Closing",
    "Interruption",
    "NodeContext",
    "OccurrenceRun",
    "SideCall",
    "SideCallKind",
    "Stage",
    "cancelling",
]


class Stage(IntEnum):
    """The component that acts next."""

    CLAIMING = auto()
    """The store: the row is being created."""
    CLAIMED = auto()
    """Time: the occurrence waits for its instant, in `prerun`."""
    WAITING_FOR_SLOT = auto()
    """A slot of this node: the occurrence is due and waits for one."""
    STARTING = auto()
    """The store: the start is being written."""
    CONDITIONS = auto()
    """The requirements."""
    START_HOOKS = auto()
    """The on_start hooks."""
    TASKS = auto()
    """The tasks."""
    COMPLETE_HOOKS = auto()
    """The on_complete hooks."""
    ENDING = auto()
    """The store: the end is being written."""
    DONE = auto()
    """None: the occurrence has ended, or belongs to another node."""


UNSTARTED: Final = frozenset({Stage.CLAIMED, Stage.WAITING_FOR_SLOT, Stage.STARTING})
"""Stages in which the occurrence has a row and has not begun."""
LIVE: Final = frozenset({Stage.CONDITIONS, Stage.START_HOOKS, Stage.TASKS, Stage.COMPLETE_HOOKS})
"""Stages in which the occurrence has begun here, and its end is not yet being written."""


SHUTDOWN: Final = "shutdown"
"""The recorded cause of closing an occurrence on a node that shuts down."""


class Closing(NamedTuple):
    """The end of a whole occurrence, by a person, its timeout or a shutdown."""

    outcome: OccurrenceState
    by: str
    why: str


def cancelling(by: str) -> Closing:
    """Return the closing for a cancel request."""
    return Closing(OccurrenceState.CANCELLED, by, by)


class Interruption:
    """A shutdown that asks all attempts of an occurrence to end and begins no others (see `shutdown`)."""

    __slots__ = ("has_abandoned", "has_run", "why", "withheld")

    def __init__(self, why: str) -> None:
        self.why = why
        self.has_run = False
        """True if a function was interrupted after it had been called."""
        self.has_abandoned = False
        """True if an attempt was abandoned: its work may still run in this process."""
        self.withheld: list[AttemptRow] = []
        """Attempts whose write was refused for lack of a share of a limit."""


class NodeContext(NamedTuple):
    """Facts about the node that all its occurrences share."""

    node: NodeNumber
    name: str
    kill_grace: int
    late_for: int
    """How late an instant may be and still run normally: see `Settings.late_for`."""
    turn: int = SECOND
    """The longest time between two iterations, and the unit of the delay before a request is repeated."""


class SideCallKind(Enum):
    """Kinds of calls besides tasks. The value replaces the place of a task, so no call is taken for a task."""

    ON_START = -1
    CONDITION = -2
    ACTION = -3
    ON_COMPLETE = -4


class SideCall:
    """A condition check, action or hook call of an occurrence."""

    __slots__ = ("index", "key", "kill_at", "kind", "stop_at", "title")

    def __init__(self, kind: SideCallKind, index: int, title: str, key: AttemptKey) -> None:
        self.kind, self.index, self.title, self.key = kind, index, title, key
        self.stop_at: int | None = None
        """When the call is asked to end; None before it runs, and after that request."""
        self.kill_at: int | None = None
        """When the call is abandoned."""


class OccurrenceRun:
    """An occurrence on this node."""

    __slots__ = (
        "adjustments",
        "alarm_at",
        "begun_at",
        "cancelled_by",
        "closing",
        "deadline_at",
        "due_at",
        "ended_as",
        "expires_at",
        "fence",
        "found",
        "has_shares",
        "held_by",
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
        "node",
        "only_tasks",
        "overrides",
        "passes_held",
        "place",
        "plan",
        "ref",
        "request",
        "resume_at",
        "seen_at",
        "side_call",
        "side_calls_made",
        "skip",
        "stage",
        "start_config",
        "started_at",
        "taking",
        "tasks",
        "unsure",
        "was_early",
        "window",
        "writer",
        "zones",
    )

    writer: ChangeWriter[TaskProgress | SideCall]
    """The change writer of the occurrence, which exists from its start on."""

    def __init__(self, node: NodeContext, key: Key, plan: JobPlan, due_at: int) -> None:  # noqa: PLR0915 - all fields
        self.node, self.key, self.plan, self.due_at = node, key, plan, due_at
        self.stage = Stage.CLAIMING
        self.ref = Ref(0)
        self.fence: int | None = None
        """The fence of this node's claim before the start; None for an occurrence that any node may start."""
        self.last_fence = 0
        """The fence of the row when this node received it. With a higher fence the row has another owner, or none."""
        self.adjustments = 0
        self.overrides: str | None = None
        self.start_config: StartConfig = plan.start_config
        self.tasks: list[TaskProgress] = []
        self.request: StartRequest | None = None
        self.only_tasks: tuple[str, ...] | None = None
        """For a replay: the tasks to run again, if not all."""
        self.skip: str | None = None
        """The reason to record the occurrence as skipped when it is due, instead of starting it."""
        self.found: OccurrenceRow | None = None
        """For an occurrence that began on a node that is gone: its row, as this node found it."""
        self.taking: TakeoverWrite | None = None
        """The takeover write, until the store has answered it."""
        self.started_at = self.expires_at = self.seen_at = self.alarm_at = self.lined_up_at = 0
        self.misses = 0
        """The number of heartbeats in a row that the orchestrator had missed at the last check."""
        self.begun_at = 0
        """When the loop received the start, a moment after `started_at`."""
        self.place = 0
        """The ticket number in the slot queue; 0 if not queued."""
        self.last_run_at: int | None = None
        self.window: Window | None = None
        self.zones: tuple[ZoneSpan, ...] = ()
        """For an occurrence that covers a window: the zone data in the window."""
        self.is_recovery = self.holds_slot = self.is_marked = False
        self.has_shares = True
        """True if the occurrence holds its shares of limits. False while it waits to retry, or for a requirement."""
        self.closing: Closing | None = None
        self.interruption: Interruption | None = None
        self.cancelled_by: str | None = None
        """The origin of a cancel request that came while the start was being written."""
        self.lacks = ""
        """The limit that had no share for the start."""
        self.made_at = key.instant
        """When the occurrence was to run: its instant, or the time of its request. A later pause holds it."""
        self.held_by: JobPaused | None = None
        """The pause that holds the occurrence."""
        self.passes_held = False
        """True if the occurrence was requested after its job was paused."""
        self.unsure = ""
        """Why the occurrence waits and is not skipped yet: the node of the run in the overlap slot is silent."""
        self.lacked = self.was_early = 0
        """How many times a share of a limit was missing, and how many times the start was too early."""
        self.ended_as: OccurrenceState | None = None
        """The outcome of an occurrence that did not start here, if it is known."""
        self.side_call: SideCall | None = None
        self.side_calls_made = 0
        self.resume_at: int | None = None
        """When to check a requirement again, or to ask for a share of a limit again."""
        self.deadline_at: int | None = None
        """The deadline of the requirement that the occurrence waits for."""

    @property
    def state(self) -> OccurrenceState:
        """The state that people see."""
        if self.stage is Stage.CLAIMED and (self.lacks or self.unsure):
            return OccurrenceState.PENDING
        if self.taking is not None and self.found is not None:
            return self.found.status
        if self.stage in _BEFORE_THE_START:
            return _BEFORE_THE_START[self.stage]
        if self.has_begun:
            return self.writer.stored_state
        assert self.ended_as is not None, "it is no longer this node's, and nobody asks"
        return self.ended_as

    @property
    def has_begun(self) -> bool:
        """True if the occurrence was started here."""
        return self.started_at != 0

    def next_ask(self, now: int) -> int:
        """Return when to ask again for a missing share of a limit: soon at first, then less and less often."""
        self.lacked += 1
        return now + self.node.turn * min(1 << (self.lacked - 1), _ASKS_AFTER_MAX)

    @property
    def only_waits(self) -> bool:
        """True if no task runs or is being stopped, and at least one waits to retry."""
        waits = False
        for task in self.tasks:
            if task.phase is TaskPhase.RETRYING:
                waits = True
            elif task.phase in BEGUN:
                return False
        return waits

    @property
    def can_lose_tasks(self) -> bool:
        """True if an attempt that would end with this node runs, as far as is known."""
        return any(task.is_running and not task.outlives for task in self.tasks)

    @property
    def outlives_its_node(self) -> bool:
        """True if all running work of the occurrence continues without this node: pods (K4)."""
        begun = [task for task in self.tasks if task.phase in IN_FLIGHT]
        return self.stage is Stage.TASKS and bool(begun) and all(task.outlives for task in begun)

    @property
    def runs_errand(self) -> bool:
        """True if a check, action or hook runs or is being stopped."""
        return self.side_call is not None and (self.side_call.stop_at is not None or self.side_call.kill_at is not None)

    def refit(self, plan: JobPlan, overrides: str | None, adjustments: int) -> None:
        """Prepare to start the occurrence with another version of its job, or with other overrides.

        Raises:
            ItineraryError: The overrides are not valid. The occurrence is unchanged.
        """
        self.start_config = plan.terms_of(overrides)
        self.plan, self.overrides, self.adjustments = plan, overrides, adjustments
        self.prepare()

    def pass_over(self, why: str | None) -> None:
        """Set the reason to skip the occurrence, or None to run it."""
        self.skip = why
        if self.request is not None:
            self.request = marked(replace(self.request, skip=why))

    def shift(self, by: int) -> None:
        """Move all timers by the jump of the clock, so that durations stay the same (N6)."""
        self.seen_at, self.expires_at, self.begun_at = self.seen_at + by, self.expires_at + by, self.begun_at + by
        self.resume_at = None if self.resume_at is None else self.resume_at + by
        self.deadline_at = None if self.deadline_at is None else self.deadline_at + by
        if (side_call := self.side_call) is not None:
            side_call.stop_at = None if side_call.stop_at is None else side_call.stop_at + by
            side_call.kill_at = None if side_call.kill_at is None else side_call.kill_at + by
        for task in self.tasks:
            task.shift(by)

    def prepare(self) -> None:
        """Build the start request ahead of the instant, when there is time for it."""
        plan, start_config, ref = self.plan, self.start_config, self.ref
        job, definition = start_config.config.job, plan.definition
        tasks = self.tasks = [
            TaskProgress(task, config)
            for task, config in zip(plan.tasks, start_config.tasks, strict=True)
            if self.only_tasks is None or task.name in self.only_tasks
        ]
        attempts: tuple[AttemptRow, ...] = ()
        checks = bool(definition.requires)
        if not checks and not definition.on_start:
            first = tasks if start_config.is_parallel else tasks[:1]
            attempts = tuple([task.prepare(ref, None) for task in first])
        request = StartRequest(
            ref,
            self.fence,
            self.adjustments,
            start_config.json,
            self.may_take(),
            self._overlap(),
            None if self.is_recovery else job.max_queued,
            start_config.limits,
            OccurrenceState.CONDITION_PENDING if checks else self._first_state(attempts),
            tuple([task.row(ref) for task in tasks]) if len(tasks) > 1 else (),
            attempts,
            None if self.fence is not None else self.last_fence,
            self.skip,
            self.due_at + self.node.late_for,
            self.passes_held,
            self.key.job,
            self.key.instant if self.key.kind is Kind.SCHEDULED else None,
        )
        self.request = marked(request)

    def _overlap(self) -> Overlap:
        """Return the overlap policy of the start: that of the job, with two exceptions.

        Recovery runs one after another (R2). A run that a person requested waits for its turn where the job says `skip`
        (R4): that policy limits the runs of the schedule. A request that says `skip` itself is skipped.
        """
        config = self.start_config.config.job
        if self.is_recovery:
            return overlap_of_recovery(config.overlap)
        is_asked = not self.key.kind.is_by_schedule
        if is_asked and config.overlap.skips and config.source("overlap") is not OverrideLevel.OCCURRENCE:
            return Overlap.QUEUE
        return config.overlap

    def _first_state(self, attempts: tuple[AttemptRow, ...]) -> OccurrenceState:
        """Return the state of the first tasks when they begin (O8): pods alone are being created."""
        if attempts and all(task.outlives for task in self.tasks if task.phase in BEGUN):
            return OccurrenceState.CONTAINER_CREATING
        return OccurrenceState.RUNNING

    def may_take(self) -> int:
        """Return the longest possible duration from start to end. After that, the reaper ends the occurrence."""
        plan, start_config = self.plan, self.start_config
        if start_config is plan.start_config and plan.may_take is not None:
            return plan.may_take
        definition, config, grace = plan.definition, start_config.config.job, self.node.kill_grace
        hooks = (len(definition.on_start) + len(definition.on_complete)) * (HOOK_TIMEOUT + grace)
        last_looks = 2 * len(definition.requires) * (check_timeout(config) + grace)
        may_take = config.execution_timeout + grace + plan.waits_for + last_looks + hooks
        if start_config is plan.start_config:
            plan.may_take = may_take
        return may_take

    def task_at(self, place: int) -> TaskProgress | None:
        """Return the task with that place, or None."""
        for task in self.tasks:
            if task.task.order == place:
                return task
        return None

    def assignment(
        self, key: AttemptKey, title: str, executor: str, run: JsonObject, now: int, *, has_begun: bool = False
    ) -> Assignment:
        """Return the assignment of one attempt for an executor."""
        plan, window = self.plan, self.window
        facts = AttemptInfo(
            job=plan.name,
            version=plan.version,
            task=title,
            node=self.node.name,
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
        """Return why the tasks of a closed occurrence are stopped."""
        assert self.closing is not None, "only what is closed has one"
        return StopReason(self.closing.by)


_ASKS_AFTER_MAX: Final = 16
"""The most turns of the loop between two requests for a share of a limit."""
_BEFORE_THE_START: Final = {
    Stage.CLAIMING: OccurrenceState.PRERUN,
    Stage.CLAIMED: OccurrenceState.PRERUN,
    Stage.WAITING_FOR_SLOT: OccurrenceState.PENDING,
    Stage.STARTING: OccurrenceState.PENDING,
}
