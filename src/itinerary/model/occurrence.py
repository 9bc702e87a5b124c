"""What happens to a job at one instant, as it is stored (D2, D3): occurrence, task runs, attempts, and the audit trail.

    Occurrence 1 ── n TaskRun 1 ── n Attempt
         └─ n Transition, one for each change of state

The occurrence's row is the lock: creating it is winning the race, and `owner` and `fence` say whose writes still count.
Rows are created often and read by machines, so they are plain and hold numbers: instants in microseconds since the
epoch. `report` turns them into what people read.

The one danger is text from outside. An error message with a NUL in it would be refused by the store, and the batch that
carries it would never be written (protocol rule 12). So every field of free text is cleaned as the row is built, and
no caller can forget to.
"""

from enum import StrEnum

import msgspec
from msgspec.structs import force_setattr

from itinerary.errors import RecordError
from itinerary.model.config import FrozenConfig
from itinerary.model.ids import AttemptId, IncarnationId, JobId, OccurrenceId, TaskId, TaskRunId
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.text import clean_text

__all__ = ["Attempt", "Kind", "Occurrence", "TaskRun", "Transition", "Window"]


class Kind(StrEnum):
    """Why an occurrence exists. Recovery of an instant is the scheduled occurrence of it, and has the same id."""

    SCHEDULED = "scheduled"
    RECOVERY = "recovery"
    REPLAY = "replay"
    TRIGGER = "trigger"
    BACKFILL = "backfill"

    @property
    def is_by_schedule(self) -> bool:
        """Whether it stands for an instant that the schedule made due: what an audit looks for."""
        return self in {Kind.SCHEDULED, Kind.RECOVERY}


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instants in `[start, end)` that one row answers for: a compressed run, or a stretch of skipped or missed."""

    start: int
    end: int
    count: int


class Occurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One due instant of a job."""

    id: OccurrenceId
    job: JobId
    job_version: int
    kind: Kind
    instant: int
    """The nominal instant: what the schedule says, what the original had, or when a trigger was asked for."""
    status: OccurrenceState
    owner: IncarnationId | None = None
    fence: int = 0
    """Raised by everyone who takes it from its owner; writes that carry a lower one are refused."""
    started_at: int | None = None
    ended_at: int | None = None
    overrides: Overrides = NOTHING
    """What was set for this one alone, until it starts."""
    config: FrozenConfig | None = None
    """What it was started with; None before that."""
    window: Window | None = None
    request_key: str | None = None
    """Of a trigger: what makes two requests the same one."""
    replay_of: OccurrenceId | None = None
    replay_number: int | None = None
    only_tasks: tuple[str, ...] | None = None
    """Of a replay: the tasks that are run again, if not all."""
    reason: str | None = None
    """Why it is in the state it is in, or was asked for."""

    def __post_init__(self) -> None:
        _clean(self, "reason")


class TaskRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One task of one occurrence."""

    id: TaskRunId
    occurrence: OccurrenceId
    task: TaskId
    name: str
    order: int
    status: TaskState
    retries: int = 0
    """Attempts beyond the first."""
    cancelled_by: str | None = None
    """Who ended it, if it was cancelled: a failing peer, a person, the execution timeout, a shutdown."""
    reason: str | None = None
    result: str | None = None
    """What it returned, as JSON text (see `result_json`)."""
    started_at: int | None = None
    """When its first attempt began."""
    ended_at: int | None = None
    """When its last attempt ended; None while more may follow, and if nobody saw the end."""

    def __post_init__(self) -> None:
        _clean(self, "cancelled_by")
        _clean(self, "reason")


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One try of a task run."""

    id: AttemptId
    task_run: TaskRunId
    number: int
    status: TaskState
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.status is TaskState.SKIPPED:
            raise RecordError("an attempt is never skipped; only a task run is")
        _clean(self, "error")


class Transition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of an occurrence's audit trail."""

    occurrence: OccurrenceId
    before: OccurrenceState | None
    """None when the row was created."""
    after: OccurrenceState
    at: int
    node: IncarnationId | None = None
    """None when a person or a store made the change."""
    why: str | None = None

    def __post_init__(self) -> None:
        _clean(self, "why")


def _clean(row: msgspec.Struct, field: str) -> None:
    text = getattr(row, field)
    if text is not None:
        force_setattr(row, field, clean_text(text))
