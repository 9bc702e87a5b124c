"""The rows of an occurrence: itself, its tasks, their attempts, its audit trail. Also the tables to look some up by."""

from __future__ import annotations

from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows.keys import JobNumber, Key, NodeNumber, Ref, Row
from itinerary.model.states import OccurrenceState, TaskState

__all__ = [
    "ActiveRow",
    "AttemptRow",
    "OccurrenceRow",
    "OverlapQueueRow",
    "TaskRow",
    "TransitionRow",
    "WaitingRow",
    "WindowRow",
]


class OccurrenceRow(Row, frozen=True):
    """A due instant of a job. The row is the lock."""

    ref: Ref
    instant: int
    job: JobNumber
    kind: Kind
    request: str
    version: int
    due_at: int
    """The earliest start: its instant plus the jitter."""
    is_recovery: bool
    priority: int
    created_at: int
    created_by: NodeNumber | None
    status: OccurrenceState
    owner: NodeNumber | None
    fence: int
    """The fence. Every takeover raises it, and writes with a lower fence are refused."""
    sequence: int = 0
    """The number of writes by its owner. A repeated write is recognised by it."""
    adjustments: int = 0
    """The number of changes of its overrides."""
    started_at: int | None = None
    ended_at: int | None = None
    expires_at: int | None = None
    """The time from which the reaper may end it."""
    overrides: str | None = None
    """The values set for this occurrence alone, as JSON."""
    details: str | None = None
    """The request that caused it, as JSON: for example the tasks of a replay."""
    config: int | None = None
    """The configuration with which it started, as a number of ConfigRow."""
    own_config: str | None = None
    """The text of the configuration of an occurrence that has overrides: no other occurrence shares it."""
    window_start: int | None = None
    window_end: int | None = None
    window_count: int | None = None
    holds: str | None = None
    """The limits of which it holds a share, as a JSON list."""
    cancelled_by: str | None = None
    """The requester and the reason of a cancellation. The request remains until the state is final."""
    is_withdrawn: bool = False
    """True if an update cancelled it before its start. A later version may restore it (R7)."""
    reason: str | None = None
    touched_by: NodeNumber | None = None
    """The last node that intervened."""
    place: int | None = None
    """The place in its job's history, counted from 0. None while it has not ended."""

    @property
    def key(self) -> Key:
        """The identity of the occurrence."""
        return Key(self.instant, self.job, self.kind, self.request)

    @property
    def window(self) -> Window | None:
        """The instants that it covers, if more than its own."""
        if self.window_start is None or self.window_end is None or self.window_count is None:
            return None
        return Window(self.window_start, self.window_end, self.window_count)


class TaskRow(Row, frozen=True):
    """A task of an occurrence. Its key is the place in the job."""

    ref: Ref
    place: int
    name: str
    status: TaskState
    retries: int = 0
    cancelled_by: str | None = None
    reason: str | None = None
    result: str | None = None


class AttemptRow(Row, frozen=True):
    """An attempt of a task. Its key is the task's place and the attempt's number from 1."""

    ref: Ref
    place: int
    number: int
    status: TaskState
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    output: str | None = None


class TransitionRow(Row, frozen=True):
    """A line of the audit trail."""

    ref: Ref
    sequence: int
    """The number of the write that made it. `line` distinguishes the lines of one write."""
    line: int
    before: OccurrenceState | None
    after: OccurrenceState
    at: int
    node: NodeNumber | None
    why: str | None = None


class ActiveRow(Row, frozen=True):
    """An occurrence that is neither final nor queued. This table finds them without reading history."""

    job: JobNumber
    ref: Ref
    due_at: int


class OverlapQueueRow(Row, frozen=True):
    """An entry in the overlap queue of a job.

    A recovery backlog may have any length, so it is separate from the other entries. The first entry of either part is
    found without reading the rest.
    """

    job: JobNumber
    rank: int
    """0 for recovery, 1 for other occurrences."""
    instant: int
    ref: Ref


class WaitingRow(Row, frozen=True):
    """An occurrence that any node may start: it has no owner, or waits for a node with a free slot."""

    due_at: int
    ref: Ref


class WindowRow(Row, frozen=True):
    """An occurrence that covers more instants than its own (protocol rule 20), by the end of its window."""

    end: int
    ref: Ref
