"""The progress of one task of an occurrence.

    WAITING ─► GATED ─► RUNNING ─► DONE
                 ▲         │  └──► STOPPING ─► DONE
                 └─ RETRYING ◄─┴──────┘

GATED is the time in which the row of an attempt is being written. The attempt is launched when the row is durable, and
not before (protocol rule 8). Each attempt leaves an `AttemptRow` in `tries`, so that the end of the occurrence and its
report need nothing from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto
from typing import Final, NamedTuple

from msgspec.structs import replace

from itinerary.model.attempts import AttemptKey, Failed, Outcome, Stopped, Succeeded
from itinerary.model.config import EffectiveConfig
from itinerary.model.ids import attempt_id, job_id, task_run_id
from itinerary.model.reasons import BEFORE_THE_CALL
from itinerary.model.retries import LOST_MAX, costs_no_retry, is_lost, may_retry, retry_wait
from itinerary.model.rows import AttemptRow, Key, Ref, TaskRow
from itinerary.model.states import TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.task import Task

__all__ = ["BEGUN", "IN_FLIGHT", "NEVER", "OVERTIME", "StopReason", "TaskPhase", "TaskProgress"]


NEVER: Final = 2**63 - 1
"""The overtime instant of an attempt that has no task timeout."""


class TaskPhase(IntEnum):
    """Phase of a task in the loop. An integer, because sets find integers faster."""

    WAITING = auto()
    GATED = auto()
    RUNNING = auto()
    STOPPING = auto()
    RETRYING = auto()
    DONE = auto()


# In Python 3.11, access to an enum member is as slow as the creation of a small object, and mass starts need many.
_GATED: Final = TaskPhase.GATED
_RUNNING: Final = TaskPhase.RUNNING
_STOPPING: Final = TaskPhase.STOPPING
_RETRYING: Final = TaskPhase.RETRYING
_DONE: Final = TaskPhase.DONE
_FAILURES: Final = frozenset({TaskState.FAILED, TaskState.TIMEOUT})

BEGUN: Final = frozenset({TaskPhase.GATED, TaskPhase.RUNNING, TaskPhase.STOPPING, TaskPhase.RETRYING})
"""Phases of a task that has begun and is not done."""
IN_FLIGHT: Final = frozenset({TaskPhase.GATED, TaskPhase.RUNNING, TaskPhase.STOPPING})
"""Phases in which an attempt runs or is about to run."""


class StopReason(NamedTuple):
    """The reason why an attempt was asked to end: overtime, or a request."""

    by: str
    is_overtime: bool = False
    why: str | None = None
    """The event behind the request, if `by` does not say it."""


OVERTIME: Final = StopReason("task timeout", is_overtime=True)

_SHOWN: Final = {
    TaskPhase.GATED: OccurrenceState.RUNNING,
    TaskPhase.RUNNING: OccurrenceState.RUNNING,
    TaskPhase.STOPPING: OccurrenceState.TERMINATING,
    TaskPhase.RETRYING: OccurrenceState.RETRYING,
}


class TaskProgress:
    """A task of an occurrence, and its attempts."""

    __slots__ = (
        "_key",
        "config",
        "doomed_by",
        "has_committed",
        "kill_at",
        "lost_by",
        "moved_to",
        "must_be_told",
        "number",
        "outcome",
        "outlives",
        "overtime_at",
        "phase",
        "reason",
        "result",
        "retry_at",
        "started_at",
        "status",
        "stop_reason",
        "task",
        "tries",
    )

    def __init__(self, task: Task, config: EffectiveConfig) -> None:
        self.task, self.config = task, config
        self.phase = TaskPhase.WAITING
        self.status = TaskState.PENDING
        self.number = 0
        """The number of the newest attempt; 0 before the first."""
        self.started_at = self.overtime_at = self.retry_at = self.kill_at = 0
        self.stop_reason: StopReason | None = None
        self.reason: str | None = None
        self.result: str | None = None
        self.moved_to: OccurrenceState | None = None
        """The state that the executor reports, if it is more precise than running: for example, a pod in creation."""
        self.has_committed = False
        """True if the task transaction has committed, and the success of the attempt with it (D6)."""
        self.outcome: Outcome | None = None
        """The outcome of the attempt, while it is not known whether its transaction has committed."""
        self.lost_by: str | None = None
        """Why the attempt in flight is given up as lost. No component sees its end, and the task is retried."""
        self.outlives = task.outlives_its_node
        """True if the attempt continues without this node, in a pod (K4).

        The attempt is recorded as running only when its pod was seen, and stopped only when that decision is durable
        (protocol rule 28).
        """
        self.must_be_told = False
        """True if the attempt must end, and its executor is notified when that is durable."""
        self.doomed_by: str | None = None
        """Why the attempt in flight cannot succeed, as its executor says. The attempt is stopped, and has failed."""
        self.tries: list[AttemptRow] = []
        self._key: AttemptKey | None = None
        """The cached key of the newest attempt."""

    @classmethod
    def restored(
        cls, task: Task, config: EffectiveConfig, row: TaskRow | None, tries: Sequence[AttemptRow]
    ) -> TaskProgress:
        """Return the progress of a task on a node that is gone, from its rows.

        Unless the task is adopted, none of its attempts is in flight. A task that has begun and is not done is retried.
        """
        found = cls(task, config)
        found.tries = sorted(
            (attempt for attempt in tries if attempt.status in TASK_FINAL), key=lambda attempt: attempt.number
        )
        if found.tries:
            last = found.tries[-1]
            found.number, found.started_at, found.status = last.number, last.started_at or 0, last.status
            found.phase = TaskPhase.RETRYING
        if row is not None and row.status in TASK_FINAL:
            found.phase, found.status = TaskPhase.DONE, row.status
            found.reason, found.result = row.reason, row.result
            found.stop_reason = None if row.cancelled_by is None else StopReason(row.cancelled_by)
        return found

    # -- changes -----------------------------------------------------------------------------------------------------

    def prepare(self, ref: Ref, now: int | None) -> AttemptRow:
        """Begin the next attempt. Return its row, which must be written first."""
        self.phase, self.status = TaskPhase.GATED, TaskState.RUNNING
        self.number += 1
        self._key = AttemptKey(ref, self.task.order, self.number)  # ahead of the instant, when there is time for it
        self.started_at = 0
        self.stop_reason = self.moved_to = self.outcome = self.lost_by = self.doomed_by = None
        if self.outlives:
            self.moved_to, self.must_be_told = OccurrenceState.CONTAINER_CREATING, False
            return AttemptRow(ref, self.task.order, self.number, TaskState.PENDING, now)
        return AttemptRow(ref, self.task.order, self.number, TaskState.RUNNING, now)

    def adopt(
        self, attempt: AttemptRow, row: TaskRow | None, state: OccurrenceState, began_at: int, least: int
    ) -> None:
        """Continue an attempt in flight that began on a node that is gone.

        Args:
            attempt: The row of the attempt.
            row: The row of the task, if there is one.
            state: The last known state of the occurrence.
            began_at: The start of the occurrence, used if the row of the attempt has no start.
            least: The earliest instant at which the attempt may be over its time, so that its state can be read first.
        """
        self.phase, self.status, self.number = TaskPhase.RUNNING, TaskState.RUNNING, attempt.number
        self.started_at = attempt.started_at or began_at
        self.overtime_at = max(self._overtime_after(self.started_at), least)
        self.moved_to = None if state is OccurrenceState.RUNNING else state
        if row is not None and row.reason == OVERTIME.by:
            self.overtime_at = self.started_at  # it was over its time: ask it to end once more

    def seen(self, ref: Ref) -> AttemptRow:
        """Return the row of an attempt whose pod was seen: for later nodes, the attempt has begun."""
        return AttemptRow(ref, self.task.order, self.number, TaskState.RUNNING, self.started_at)

    def launch(self, now: int) -> None:
        """Record the launch of an attempt whose row is durable."""
        self.phase, self.started_at = _RUNNING, now
        self.overtime_at = self._overtime_after(now)

    def _overtime_after(self, instant: int) -> int:
        """Return when an attempt that began at an instant is over its task timeout.

        Without a task timeout that is `NEVER`: the execution timeout ends the attempt.
        """
        timeout = self.config.task_timeout
        return NEVER if timeout is None else instant + timeout

    def shift(self, by: int) -> None:
        """Move all timers by the jump of the clock, so that durations stay the same."""
        self.kill_at, self.retry_at = self.kill_at + by, self.retry_at + by
        self.overtime_at = NEVER if self.overtime_at == NEVER else self.overtime_at + by

    def stop(self, reason: StopReason, kill_at: int) -> None:
        """Record that the attempt was asked to end."""
        self.phase, self.stop_reason, self.kill_at = TaskPhase.STOPPING, reason, kill_at
        self.must_be_told = self.outlives

    def doom(self, error: str, kill_at: int) -> None:
        """Record that the attempt cannot succeed: it is stopped, and fails with this error."""
        self.phase, self.kill_at, self.doomed_by = TaskPhase.STOPPING, kill_at, error
        self.must_be_told = self.outlives

    def end(self, ref: Ref, outcome: Outcome, now: int) -> tuple[str, ...]:
        """Record the end of the attempt. Return the names of the exception that ended it, if one did."""
        status, error, names = self._judged(outcome)
        is_uncalled = isinstance(outcome, Stopped) and not outcome.was_called
        began_at = None if is_uncalled else self.started_at or None
        ended_at = now if self.lost_by is None or status is TaskState.SUCCESS else None
        row = AttemptRow(ref, self.task.order, self.number, status, began_at, ended_at, error, outcome.output)
        self.tries.append(row)
        self.status, self.outcome = status, None
        if isinstance(outcome, Succeeded):
            self.result = outcome.result
        return names

    def _judged(self, outcome: Outcome) -> tuple[TaskState, str | None, tuple[str, ...]]:
        """Return the status, the error and the exception names for an outcome.

        A success counts even after a request to end, because the work is done.
        """
        stopped = self.stop_reason
        match outcome:
            case _ if self.has_committed:
                return TaskState.SUCCESS, None, ()
            case Succeeded():
                return TaskState.SUCCESS, None, ()
            case _ if self.lost_by is not None:
                return TaskState.FAILED, self.lost_by, ()
            case _ if self.doomed_by is not None and stopped is None:
                return TaskState.FAILED, self.doomed_by, ()
            case Failed(error, names) if stopped is None:
                return TaskState.FAILED, error, names
            case Stopped() if stopped is None:
                return TaskState.FAILED, "it was stopped, and not by the scheduler", ()
            case Failed() | Stopped() if stopped is not None and stopped.is_overtime:
                given_up = ", and was given up" if isinstance(outcome, Stopped) and outcome.abandoned else ""
                if isinstance(outcome, Stopped) and not outcome.was_called:
                    given_up = _UNCALLED
                return TaskState.TIMEOUT, f"over its time{given_up}", ()
            case _:
                because = "" if stopped is None or stopped.why is None else f": {stopped.why}"
                return TaskState.CANCELLED, f"cancelled{_how_far(outcome)}{because}", ()

    def has_committed_after_all(self) -> None:
        """Record the success of a task that counted as failed, because its transaction has committed."""
        self.has_committed = True
        self.tries[-1] = replace(self.tries[-1], status=TaskState.SUCCESS, error=None)
        self.finish(TaskState.SUCCESS)

    def may_retry(self, names: tuple[str, ...]) -> bool:
        """True if the retry policy allows another attempt after this one."""
        if self.status not in _FAILURES:
            return False
        if is_lost(self.tries[-1]):
            return self._lost_attempts <= LOST_MAX
        return may_retry(self.config.retry, self.number - self._uncounted, names)

    @property
    def _lost_attempts(self) -> int:
        """The number of attempts that were lost with a node."""
        return sum(is_lost(attempt) for attempt in self.tries)

    @property
    def _uncounted(self) -> int:
        """The number of attempts that do not count for the retry policy."""
        return sum(costs_no_retry(attempt) for attempt in self.tries)

    def wait_to_retry(self, job: str, key: Key, now: int) -> None:
        """Plan the next attempt: after a delay, or at once if the last attempt costs no retry."""
        self.phase = TaskPhase.RETRYING
        self.retry_at = now
        if not costs_no_retry(self.tries[-1]):
            run = task_run_id(key.id(job_id(job)), self.task.id)
            number = self.number - self._uncounted
            self.retry_at = now + retry_wait(self.config.retry, number, attempt_id(run, self.number))

    def withhold(self, ref: Ref, reason: StopReason, now: int) -> None:
        """End an attempt whose row is written, and that is not launched."""
        error = None if reason.why is None else f"cancelled{_UNCALLED}: {reason.why}"
        self.tries.append(AttemptRow(ref, self.task.order, self.number, TaskState.CANCELLED, None, now, error))
        self.status, self.stop_reason = TaskState.CANCELLED, reason

    @property
    def is_interrupted(self) -> bool:
        """True if the shutdown of its node ended the last attempt."""
        return self.status is TaskState.CANCELLED and self.stop_reason is not None and self.stop_reason.why is not None

    def take_back(self, reason: StopReason) -> None:
        """Withdraw the attempt that was about to begin. Its row was never written."""
        self.number -= 1
        self.stop_reason = reason
        self.finish(TaskState.CANCELLED if self.number else TaskState.SKIPPED, reason=reason.by)

    def finish(self, status: TaskState | None = None, *, reason: str | None = None) -> None:
        """Finish the task, with the status of its last attempt or another one."""
        self.phase = _DONE
        if status is not None:
            self.status = status
        self.reason = reason

    # -- status ------------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> OccurrenceState:
        """The task as a state of an occurrence (O8)."""
        if self.moved_to is not None and (self.phase is _GATED or self.phase is _RUNNING):
            return self.moved_to
        return _SHOWN[self.phase]

    @property
    def is_running(self) -> bool:
        """True if an attempt of the task runs, as far as is known."""
        return (self.phase is _RUNNING or self.phase is _STOPPING) and self.outcome is None

    def is_at(self, key: AttemptKey) -> bool:
        """True if this attempt is the one that runs, and is not being stopped or finished."""
        return self.phase is _RUNNING and key.number == self.number and self.outcome is None

    @property
    def has_failed(self) -> bool:
        """True if the task has failed for good."""
        return self.phase is _DONE and self.status in _FAILURES

    def wakes_at(self) -> int | None:
        """Return when the task needs attention, if nothing happens before."""
        if self.outcome is not None:
            return None
        phase = self.phase
        if phase is _RUNNING:
            return self.overtime_at
        if phase is _STOPPING:
            return self.kill_at
        return self.retry_at if phase is _RETRYING else None

    def key(self, ref: Ref) -> AttemptKey:
        """Return the key of the newest attempt."""
        key = self._key
        if key is None or key.number != self.number:
            key = self._key = AttemptKey(ref, self.task.order, self.number)
        return key

    def row(self, ref: Ref) -> TaskRow:
        """Return the row of the task. A task that waits to retry is stored as running."""
        cancelled_by, reason = None, self.reason
        if self.phase is _STOPPING and self.stop_reason is not None:
            reason = self.stop_reason.by  # a node that adopts the attempt needs this
        if self.status is TaskState.CANCELLED and self.stop_reason is not None and self.phase is not _RETRYING:
            cancelled_by = self.stop_reason.by
        return TaskRow(
            ref,
            self.task.order,
            self.task.name,
            TaskState.RUNNING if self.phase is TaskPhase.RETRYING else self.status,
            max(self.number - 1, 0),
            cancelled_by,
            reason,
            self.result,
        )


_UNCALLED: Final = f" {BEFORE_THE_CALL}"


def _how_far(outcome: Outcome) -> str:
    """Return how far a cancelled attempt had come, as far as its executor knows."""
    if not isinstance(outcome, Stopped):
        return ""
    if not outcome.was_called:
        return _UNCALLED
    return ", and given up" if outcome.abandoned else ""
