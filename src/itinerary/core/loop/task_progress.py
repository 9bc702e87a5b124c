"""How far one task of an occurrence is.

    WAITING ─► GATED ─► RUNNING ─► DONE
                 ▲         │  └──► STOPPING ─► DONE
                 └─ RETRYING ◄─┴──────┘

GATED is the time in which an attempt's row is being written: it is launched when that is durable, and not before
(protocol rule 8). Every try leaves an `AttemptRow` in `tries`, so that the end of the occurrence and its report need
nothing from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto
from typing import Final, NamedTuple

from msgspec.structs import replace

from itinerary.model.attempts import AttemptKey, Failed, Outcome, Stopped, Succeeded
from itinerary.model.config import EffectiveConfig
from itinerary.model.ids import attempt_id, job_id, task_run_id
from itinerary.model.job import Task
from itinerary.model.reasons import BEFORE_THE_CALL
from itinerary.model.retries import LOST_MAX, costs_no_retry, is_lost, may_retry, retry_wait
from itinerary.model.rows import AttemptRow, Key, Ref, TaskRow
from itinerary.model.states import TASK_FINAL, OccurrenceState, TaskState

__all__ = ["BEGUN", "IN_FLIGHT", "NEVER", "OVERTIME", "Phase", "StopReason", "TaskProgress"]


NEVER: Final = 2**63 - 1
"""The instant at which an attempt without a task timeout is over its own time."""


class Phase(IntEnum):
    """Where a task is, as the loop sees it. A number, since those are found in sets quicker."""

    WAITING = auto()
    GATED = auto()
    RUNNING = auto()
    STOPPING = auto()
    RETRYING = auto()
    DONE = auto()


# To get at a member of an enumeration takes Python 3.11 as long as to make a small object, and a herd asks often.
_GATED: Final = Phase.GATED
_RUNNING: Final = Phase.RUNNING
_STOPPING: Final = Phase.STOPPING
_RETRYING: Final = Phase.RETRYING
_DONE: Final = Phase.DONE
_FAILURES: Final = frozenset({TaskState.FAILED, TaskState.TIMEOUT})

BEGUN: Final = frozenset({Phase.GATED, Phase.RUNNING, Phase.STOPPING, Phase.RETRYING})
"""In flight: begun, and not done."""
IN_FLIGHT: Final = frozenset({Phase.GATED, Phase.RUNNING, Phase.STOPPING})
"""An attempt is being made, or about to be."""


class StopReason(NamedTuple):
    """Why an attempt was asked to end: it was over its time, or somebody wanted it to."""

    by: str
    is_overtime: bool = False
    why: str | None = None
    """What happened, if `by` does not say it."""


OVERTIME: Final = StopReason("task timeout", is_overtime=True)

_SHOWN: Final = {
    Phase.GATED: OccurrenceState.RUNNING,
    Phase.RUNNING: OccurrenceState.RUNNING,
    Phase.STOPPING: OccurrenceState.TERMINATING,
    Phase.RETRYING: OccurrenceState.RETRYING,
}


class TaskProgress:
    """One task of one occurrence."""

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
        self.phase = Phase.WAITING
        self.status = TaskState.PENDING
        self.number = 0
        """Of the newest attempt; 0 before the first."""
        self.started_at = self.overtime_at = self.retry_at = self.kill_at = 0
        self.stop_reason: StopReason | None = None
        self.reason: str | None = None
        self.result: str | None = None
        self.moved_to: OccurrenceState | None = None
        """What its executor says of it, where that knows more than that it runs: a pod that is being created."""
        self.has_committed = False
        """Its transaction has committed, and its success with it (D6)."""
        self.outcome: Outcome | None = None
        """How the attempt ended, while it is not known yet whether its transaction has committed."""
        self.lost_by: str | None = None
        """Why the attempt in flight is given up as lost: nobody will see its end, and it is made again."""
        self.outlives = task.outlives_its_node
        """What it runs in goes on without this node (K4): it is seen before it is said to run, and is ended only when
        that is durable (protocol rule 28)."""
        self.must_be_told = False
        """It is to end, and its executor hears of that when it is written."""
        self.doomed_by: str | None = None
        """Why nothing can come of the attempt in flight, as its executor says: it is ended for that, and has failed."""
        self.tries: list[AttemptRow] = []
        self._key: AttemptKey | None = None
        """What its newest attempt was last called by."""

    @classmethod
    def restored(
        cls, task: Task, config: EffectiveConfig, row: TaskRow | None, tries: Sequence[AttemptRow]
    ) -> TaskProgress:
        """How far it had come on a node that is gone, from its rows. Unless it is adopted, none of its attempts is in
        flight any more; if it had begun and is not done, it is to be tried again."""
        found = cls(task, config)
        found.tries = sorted(
            (attempt for attempt in tries if attempt.status in TASK_FINAL), key=lambda attempt: attempt.number
        )
        if found.tries:
            last = found.tries[-1]
            found.number, found.started_at, found.status = last.number, last.started_at or 0, last.status
            found.phase = Phase.RETRYING
        if row is not None and row.status in TASK_FINAL:
            found.phase, found.status = Phase.DONE, row.status
            found.reason, found.result = row.reason, row.result
            found.stop_reason = None if row.cancelled_by is None else StopReason(row.cancelled_by)
        return found

    # -- what happens to it ------------------------------------------------------------------------------------------

    def prepare(self, ref: Ref, now: int | None) -> AttemptRow:
        """Begin the next attempt: its row is to be written first."""
        self.phase, self.status = Phase.GATED, TaskState.RUNNING
        self.number += 1
        self._key = AttemptKey(ref, self.task.order, self.number)  # ahead of its instant, when there is time for it
        self.started_at = 0
        self.stop_reason = self.moved_to = self.outcome = self.lost_by = self.doomed_by = None
        if self.outlives:
            self.moved_to, self.must_be_told = OccurrenceState.CONTAINER_CREATING, False
            return AttemptRow(ref, self.task.order, self.number, TaskState.PENDING, now)
        return AttemptRow(ref, self.task.order, self.number, TaskState.RUNNING, now)

    def adopt(
        self, attempt: AttemptRow, row: TaskRow | None, state: OccurrenceState, began_at: int, least: int
    ) -> None:
        """Go on with an attempt that is in flight, and that a node began which is gone. It was in that state, as far as
        is known; `least` is the least time that is left to see how it is by now."""
        self.phase, self.status, self.number = Phase.RUNNING, TaskState.RUNNING, attempt.number
        self.started_at = attempt.started_at or began_at
        self.overtime_at = max(self._overtime_after(self.started_at), least)
        self.moved_to = None if state is OccurrenceState.RUNNING else state
        if row is not None and row.reason == OVERTIME.by:
            self.overtime_at = self.started_at  # it was over its time, and is asked to end once more

    def seen(self, ref: Ref) -> AttemptRow:
        """What its attempt runs in has been seen to be there: from now on it has begun, for whoever comes after."""
        return AttemptRow(ref, self.task.order, self.number, TaskState.RUNNING, self.started_at)

    def launch(self, now: int) -> None:
        """Its row is written: it runs."""
        self.phase, self.started_at = _RUNNING, now
        self.overtime_at = self._overtime_after(now)

    def _overtime_after(self, instant: int) -> int:
        """When an attempt that began at an instant is over its own time. Without a task timeout it never is: the
        execution timeout ends it."""
        timeout = self.config.task_timeout
        return NEVER if timeout is None else instant + timeout

    def shift(self, by: int) -> None:
        """The clock has jumped: what is to happen after so long still does."""
        self.kill_at, self.retry_at = self.kill_at + by, self.retry_at + by
        self.overtime_at = NEVER if self.overtime_at == NEVER else self.overtime_at + by

    def stop(self, reason: StopReason, kill_at: int) -> None:
        """It has been asked to end."""
        self.phase, self.stop_reason, self.kill_at = Phase.STOPPING, reason, kill_at
        self.must_be_told = self.outlives

    def doom(self, error: str, kill_at: int) -> None:
        """Nothing can come of it any more: it is ended, and has failed for this."""
        self.phase, self.kill_at, self.doomed_by = Phase.STOPPING, kill_at, error
        self.must_be_told = self.outlives

    def end(self, ref: Ref, outcome: Outcome, now: int) -> tuple[str, ...]:
        """The attempt is over. Returns the names of the exception that ended it, if one did."""
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
        """Success is success, even of one that was asked to end: what it did is done."""
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
        """It was taken for failed, and then its transaction turned out to stand: so it has succeeded."""
        self.has_committed = True
        self.tries[-1] = replace(self.tries[-1], status=TaskState.SUCCESS, error=None)
        self.finish(TaskState.SUCCESS)

    def may_retry(self, names: tuple[str, ...]) -> bool:
        """Whether its policy allows another attempt after this one."""
        if self.status not in _FAILURES:
            return False
        if is_lost(self.tries[-1]):
            return self._lost_attempts <= LOST_MAX
        return may_retry(self.config.retry, self.number - self._uncounted, names)

    @property
    def _lost_attempts(self) -> int:
        """How many of its attempts were lost with a node."""
        return sum(is_lost(attempt) for attempt in self.tries)

    @property
    def _uncounted(self) -> int:
        """The number of attempts that do not count for its retry policy."""
        return sum(costs_no_retry(attempt) for attempt in self.tries)

    def wait_to_retry(self, job: str, key: Key, now: int) -> None:
        """It will be tried again: after a while, or at once, if the last attempt costs no retry."""
        self.phase = Phase.RETRYING
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
        """True if the shutdown of its node ended its last attempt."""
        return self.status is TaskState.CANCELLED and self.stop_reason is not None and self.stop_reason.why is not None

    def take_back(self, reason: StopReason) -> None:
        """The attempt that was to be made is not made after all: its row was never written."""
        self.number -= 1
        self.stop_reason = reason
        self.finish(TaskState.CANCELLED if self.number else TaskState.SKIPPED, reason=reason.by)

    def finish(self, status: TaskState | None = None, *, reason: str | None = None) -> None:
        """It is done, with the status of its last attempt or another."""
        self.phase = _DONE
        if status is not None:
            self.status = status
        self.reason = reason

    # -- what is said of it ------------------------------------------------------------------------------------------

    @property
    def shown(self) -> OccurrenceState:
        """What it is, as a state of an occurrence (O8)."""
        if self.moved_to is not None and (self.phase is _GATED or self.phase is _RUNNING):
            return self.moved_to
        return _SHOWN[self.phase]

    @property
    def is_running(self) -> bool:
        """Whether an attempt of it runs, as far as is known."""
        return (self.phase is _RUNNING or self.phase is _STOPPING) and self.outcome is None

    def is_at(self, key: AttemptKey) -> bool:
        """Whether this attempt is the one that runs, and nothing else is being done about it."""
        return self.phase is _RUNNING and key.number == self.number and self.outcome is None

    @property
    def has_failed(self) -> bool:
        """Whether it has failed for good."""
        return self.phase is _DONE and self.status in _FAILURES

    def wakes_at(self) -> int | None:
        """When something must be done about it, if nothing happens before."""
        if self.outcome is not None:
            return None
        phase = self.phase
        if phase is _RUNNING:
            return self.overtime_at
        if phase is _STOPPING:
            return self.kill_at
        return self.retry_at if phase is _RETRYING else None

    def key(self, ref: Ref) -> AttemptKey:
        """Its newest attempt."""
        key = self._key
        if key is None or key.number != self.number:
            key = self._key = AttemptKey(ref, self.task.order, self.number)
        return key

    def row(self, ref: Ref) -> TaskRow:
        """The task run, as it is stored. One that will be tried again is not over, whatever became of its attempt."""
        cancelled_by, reason = None, self.reason
        if self.phase is _STOPPING and self.stop_reason is not None:
            reason = self.stop_reason.by  # who adopts it will want to know
        if self.status is TaskState.CANCELLED and self.stop_reason is not None and self.phase is not _RETRYING:
            cancelled_by = self.stop_reason.by
        return TaskRow(
            ref,
            self.task.order,
            self.task.name,
            TaskState.RUNNING if self.phase is Phase.RETRYING else self.status,
            max(self.number - 1, 0),
            cancelled_by,
            reason,
            self.result,
        )


_UNCALLED: Final = f" {BEFORE_THE_CALL}"


def _how_far(outcome: Outcome) -> str:
    """How far a cancelled attempt had come, as far as its executor knows."""
    if not isinstance(outcome, Stopped):
        return ""
    if not outcome.was_called:
        return _UNCALLED
    return ", and given up" if outcome.abandoned else ""
