"""An occurrence's rows: itself, its tasks, their attempts, its audit trail; and the tables by which some are found."""

from __future__ import annotations

from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows.keys import JobNumber, Key, NodeNumber, Ref, Row
from itinerary.model.states import OccurrenceState, TaskState

__all__ = ["ActiveRow", "AttemptRow", "LineRow", "OccurrenceRow", "TaskRow", "TransitionRow", "WaitingRow", "WindowRow"]


class OccurrenceRow(Row, frozen=True):
    """One due instant of a job; the row is the lock."""

    ref: Ref
    instant: int
    job: JobNumber
    kind: Kind
    request: str
    version: int
    due_at: int
    """When it may start: its instant, and the jitter on top."""
    is_recovery: bool
    priority: int
    created_at: int
    created_by: NodeNumber | None
    status: OccurrenceState
    owner: NodeNumber | None
    fence: int
    """Raised by everyone who takes it from its owner; writes that carry a lower one are refused."""
    sequence: int = 0
    """How many writes its owner has made: by this a repeated one is known."""
    adjustments: int = 0
    """How often its overrides have changed."""
    started_at: int | None = None
    ended_at: int | None = None
    expires_at: int | None = None
    """When the reaper may end it."""
    overrides: str | None = None
    """What was set for this one alone, as JSON."""
    details: str | None = None
    """What it was asked for with: the tasks of a replay, say; JSON."""
    config: int | None = None
    """What it was started with, as a number of ConfigRow."""
    own_config: str | None = None
    """The same, of one that has overrides: its text, since no other will share it."""
    window_start: int | None = None
    window_end: int | None = None
    window_count: int | None = None
    holds: str | None = None
    """The limits that it holds a share of, as a JSON list."""
    cancelled_by: str | None = None
    """Who asked for it to be cancelled, and why; the request stands until it is final."""
    is_withdrawn: bool = False
    """It was an update that cancelled it, before it started: a later version may bring it back (R7)."""
    reason: str | None = None
    touched_by: NodeNumber | None = None
    """Who intervened last."""
    place: int | None = None
    """Its place in its job's history, counted from 0; None while it has not ended."""

    @property
    def key(self) -> Key:
        """What makes it the same one."""
        return Key(self.instant, self.job, self.kind, self.request)

    @property
    def window(self) -> Window | None:
        """The instants that it answers for, if more than its own."""
        if self.window_start is None or self.window_end is None or self.window_count is None:
            return None
        return Window(self.window_start, self.window_end, self.window_count)


class TaskRow(Row, frozen=True):
    """One task of an occurrence: keyed by its place in the job."""

    ref: Ref
    place: int
    name: str
    status: TaskState
    retries: int = 0
    cancelled_by: str | None = None
    reason: str | None = None
    result: str | None = None


class AttemptRow(Row, frozen=True):
    """One try of a task: keyed by the task's place, and its own number from 1."""

    ref: Ref
    place: int
    number: int
    status: TaskState
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    output: str | None = None


class TransitionRow(Row, frozen=True):
    """One line of the audit trail."""

    ref: Ref
    sequence: int
    """The write that made it; the lines of one write are told apart by `line`."""
    line: int
    before: OccurrenceState | None
    after: OccurrenceState
    at: int
    node: NodeNumber | None
    why: str | None = None


class ActiveRow(Row, frozen=True):
    """An occurrence that is not final and does not stand in line, so that these are found without reading history."""

    job: JobNumber
    ref: Ref
    due_at: int


class LineRow(Row, frozen=True):
    """An occurrence that stands in line for its job's slot. A backlog of recovery may be of any length, so it is kept
    apart from what else stands there: its first is found without reading the rest."""

    job: JobNumber
    rank: int
    """0: it is recovery. 1: it is not."""
    instant: int
    ref: Ref


class WaitingRow(Row, frozen=True):
    """An occurrence that anybody may start: nobody's, or waiting for a node with room."""

    due_at: int
    ref: Ref


class WindowRow(Row, frozen=True):
    """An occurrence that answers for more instants than its own (protocol rule 20), found by where its window ends."""

    end: int
    ref: Ref
