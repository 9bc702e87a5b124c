"""The stored records of one instant of a job (D2): occurrence, task runs and attempts.

    Occurrence 1 ── n TaskRun 1 ── n Attempt

The occurrence's row is the lock: the node that creates it wins the race. `owner` and `fence` determine whose writes are
accepted. Rows are created often and read by programs, so they hold plain numbers: instants in microseconds since the
epoch. `report` turns them into text for people.

The one danger is text from outside. The store would refuse an error message with a NUL character, and then never write
the batch that contains it (protocol rule 12). So every free-text field is cleaned when the row is built, and no caller
can forget it.
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

__all__ = ["Attempt", "Kind", "Occurrence", "TaskRun", "Window"]


class Kind(StrEnum):
    """The origin of an occurrence. The recovery of an instant is its scheduled occurrence, with the same id."""

    SCHEDULED = "scheduled"
    RECOVERY = "recovery"
    REPLAY = "replay"
    TRIGGER = "trigger"
    BACKFILL = "backfill"

    @property
    def is_by_schedule(self) -> bool:
        """True if it belongs to an instant that the schedule made due. An audit looks for these."""
        return self in {Kind.SCHEDULED, Kind.RECOVERY}


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instants in `[start, end)` that one row covers.

    The row is a compressed run, or a collapsed range of skipped or missed instants.
    """

    start: int
    end: int
    count: int


class Occurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A due instant of a job."""

    id: OccurrenceId
    job: JobId
    job_version: int
    kind: Kind
    instant: int
    """The nominal instant: from the schedule, from the original, or the time of the trigger request."""
    status: OccurrenceState
    owner: IncarnationId | None = None
    fence: int = 0
    """The fence. Every takeover raises it, and writes with a lower fence are refused."""
    started_at: int | None = None
    ended_at: int | None = None
    overrides: Overrides = NOTHING
    """Values set for this occurrence alone, until it starts."""
    config: FrozenConfig | None = None
    """The configuration with which it started. None before the start."""
    window: Window | None = None
    request_key: str | None = None
    """The key of a trigger. Two requests with the same key are one request."""
    replay_of: OccurrenceId | None = None
    replay_number: int | None = None
    only_tasks: tuple[str, ...] | None = None
    """The tasks that a replay runs again. None: all tasks."""
    reason: str | None = None
    """The reason for its state, or for the request."""

    def __post_init__(self) -> None:
        _clean(self, "reason")


class TaskRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A task of an occurrence."""

    id: TaskRunId
    occurrence: OccurrenceId
    task: TaskId
    name: str
    order: int
    status: TaskState
    retries: int = 0
    """Attempts beyond the first."""
    cancelled_by: str | None = None
    """The cause of a cancellation: a failing task, a person, the execution timeout, a shutdown."""
    reason: str | None = None
    result: str | None = None
    """The returned value, as JSON text (see `result_json`)."""
    started_at: int | None = None
    """The start of its first attempt."""
    ended_at: int | None = None
    """The end of its last attempt. None while more attempts may follow, and if no node observed the end."""

    def __post_init__(self) -> None:
        _clean(self, "cancelled_by")
        _clean(self, "reason")


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An attempt of a task run."""

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


def _clean(row: msgspec.Struct, field: str) -> None:
    text = getattr(row, field)
    if text is not None:
        force_setattr(row, field, clean_text(text))
