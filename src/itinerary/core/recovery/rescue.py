"""The rescue of an occurrence whose node is gone or whose timeout has passed (protocol rules 17 and 18).

                          nothing in flight     in flight, on_orphan =
                                                leave          rerun
    prerun, pending       released              .              .
    queued                (it has no owner)     .              .
    condition_pending     goes on               .              .
    condition_running     goes on               .              .                the condition is checked again
    action_pending        goes on               .              .
    action_running        .                     orphaned       rerun            by way of condition_pending
    container_creating    goes on               orphaned       rerun
    running               goes on               orphaned       rerun
    terminating           goes on               orphaned       rerun
    retrying              goes on               orphaned       rerun

- *Released*: any node may start the occurrence.
- *Goes on*: the occurrence has started and has no owner. A node with a free slot resumes it where it was, for example
  between two tasks or before a retry.
- *Rerun*: the attempt in flight is lost, the occurrence goes to `retrying`, and a node with a free slot makes another
  attempt.
- *Orphaned*: the occurrence ends.

In these four cases the occurrence gives back its shares of limits. A started occurrence keeps its overlap slot until it
ends.

**Pods** continue without their node. So an occurrence with attempts in pods is *adopted* in every state. The occurrence
has no owner, and a node with a free slot follows the pods to their end (K4, protocol rule 28). Other attempts that ran
on the dead node itself are lost, as `on_orphan` decides. The occurrence is not orphaned while one of its pods may be
alive: the adopting node ends the pods first.

A **lost** attempt is one whose end no node recorded (see `model.retries`). Lost attempts do not count for the retry
policy; each task has its own limit of them.

Hooks are called before an end is written (X7), and only a node with the job's code can call them. So a rescue does not
end an occurrence that has hooks. The rescue ends its tasks and removes its owner. The node that resumes it only has to
call the hooks, and derives the final state from the tasks (see `core.loop.takeover`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from itinerary.core.timeline.job_plan import JobPlan
from itinerary.errors import RecordError
from itinerary.model.codec import from_json
from itinerary.model.config import FrozenConfig
from itinerary.model.policies import OnOrphan
from itinerary.model.queries import Detail
from itinerary.model.retries import LOST_MAX, is_lost
from itinerary.model.rows import AttemptRow, OccurrenceRow, TaskRow
from itinerary.model.states import FINAL, TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import TakeoverWrite
from itinerary.schedules.durations import SECOND

__all__ = ["FATES", "SILENT", "Rescue", "RescueOutcome", "orphaned_by", "reaped", "released", "rescued", "way_to_stale"]

SILENT: Final = "no heartbeat since"
"""The first words of the reason of tasks that were orphaned on a live node, because their orchestrator went silent."""
_UNKNOWN: Final = "and nobody knows how far it came"
"""The last words of the reason of tasks that were orphaned with their node."""


class RescueOutcome(StrEnum):
    """The effect of a rescue on an occurrence."""

    LEFT = "left"
    RELEASED = "released"
    GOES_ON = "goes on"
    ADOPTED = "adopted"
    RERUN = "rerun"
    ORPHANED = "orphaned"


_S: TypeAlias = OccurrenceState
_HOUR: Final = 3_600 * SECOND
_By: TypeAlias = Mapping[OnOrphan | None, RescueOutcome]
_BUSY: Final[_By] = {
    None: RescueOutcome.ORPHANED,
    OnOrphan.LEAVE: RescueOutcome.ORPHANED,
    OnOrphan.RERUN: RescueOutcome.RERUN,
}
_BEGUN: Final[_By] = {**_BUSY, None: RescueOutcome.GOES_ON}
_GOES_ON: Final[_By] = dict.fromkeys((None, *OnOrphan), RescueOutcome.GOES_ON)
_RELEASED: Final[_By] = dict.fromkeys((None, *OnOrphan), RescueOutcome.RELEASED)

FATES: Final[Mapping[OccurrenceState, _By]] = MappingProxyType(
    {
        _S.PRERUN: _RELEASED,
        _S.QUEUED: dict.fromkeys((None, *OnOrphan), RescueOutcome.LEFT),
        _S.PENDING: _RELEASED,
        _S.CONDITION_PENDING: _GOES_ON,
        _S.CONDITION_RUNNING: _GOES_ON,
        _S.ACTION_PENDING: _GOES_ON,
        _S.ACTION_RUNNING: _BUSY,
        _S.CONTAINER_CREATING: _BEGUN,
        _S.RUNNING: _BEGUN,
        _S.TERMINATING: _BEGUN,
        _S.RETRYING: _BEGUN,
    }
)
"""The fate by state, and by the job's `on_orphan` for attempts in flight; None if nothing is in flight."""

_RERUN_AS: Final = {_S.ACTION_RUNNING: _S.CONDITION_PENDING, _S.RETRYING: None}
"""The target state of a rerun, if not `retrying`; None if the state does not change."""

_STALE: Final[Mapping[OccurrenceState, tuple[OccurrenceState, ...]]] = {
    _S.RUNNING: (),
    _S.TERMINATING: (),
    _S.CONTAINER_CREATING: (_S.TERMINATING,),
    _S.RETRYING: (_S.PENDING, _S.RUNNING),
}
"""The states that can reach `failed_stale`, each with the states in between. In all other states no task has run."""


class Rescue(NamedTuple):
    """The fate of an occurrence, and the write that puts it into effect."""

    fate: RescueOutcome
    write: TakeoverWrite


def way_to_stale(state: OccurrenceState) -> tuple[OccurrenceState, ...] | None:
    """Return the states between `state` and `failed_stale`; None if it cannot be reached."""
    return _STALE.get(state)


def released(row: OccurrenceRow, why: str) -> Rescue:
    """Return the rescue of an occurrence that has not started."""
    assert row.started_at is None, "what has begun needs to be looked at more closely"
    return Rescue(FATES[row.status][None], TakeoverWrite(row.ref, row.fence, None, why, is_unstarted=True))


def rescued(detail: Detail, why: str, plan: JobPlan | None) -> Rescue:
    """Return the rescue of an occurrence that has started, by the table.

    The node that resumes it gets the full execution timeout. The timeout is also renewed now, since it may have expired
    while all nodes were down. Otherwise the reaper would end the occurrence before a node could resume it.

    Args:
        detail: The occurrence with its tasks and attempts.
        why: The reason of the rescue.
        plan: The plan of its job, if it can be read here.
    """
    fate, write = _by_the_table(detail, why, plan)
    if write.to in FINAL:
        return Rescue(fate, write)
    config = _config(detail)
    return Rescue(fate, replace(write, expires_after=_HOUR if config is None else config.job.execution_timeout))


def _by_the_table(detail: Detail, why: str, plan: JobPlan | None) -> Rescue:
    row = detail.row
    assert row.started_at is not None, "what has not begun is released"
    in_flight = [attempt for attempt in detail.attempts if attempt.status not in TASK_FINAL]
    pods = frozenset() if plan is None else {task.order for task in plan.tasks if task.outlives_its_node}
    if any(attempt.place in pods for attempt in in_flight):
        return Rescue(RescueOutcome.ADOPTED, _adopted(detail, [one for one in in_flight if one.place not in pods], why))
    is_busy = bool(in_flight) or row.status is OccurrenceState.ACTION_RUNNING
    fate = FATES[row.status][_wants(detail) if is_busy else None]
    if fate is RescueOutcome.RELEASED:
        fate = RescueOutcome.GOES_ON  # a started occurrence is not released: it has been pending since its start
    if fate is RescueOutcome.RERUN and _too_often(in_flight, detail.attempts):
        fate, why = RescueOutcome.ORPHANED, f"{why}; {LOST_MAX} attempts were lost like that, and it is not tried again"
    match fate:
        case RescueOutcome.ORPHANED:
            why = f"{why}, {_UNKNOWN}"
            if plan is None:
                why = f"{why}; no on_complete hook was called: the definition of the job cannot be read"
            to = None if _tells(plan) else OccurrenceState.ORPHANED
            return Rescue(fate, _ended(detail, plan, TaskState.FAILED, to, why))
        case RescueOutcome.RERUN:
            lost = _lost(in_flight, TaskState.FAILED, why)
            again = _RERUN_AS.get(row.status, OccurrenceState.RETRYING)
            return Rescue(fate, _taken(row, again, f"{why}; it is run again", attempts=lost))
        case _:
            return Rescue(fate, _taken(row, None, why))


def _adopted(detail: Detail, others: Sequence[AttemptRow], why: str) -> TakeoverWrite:
    """Remove the owner while the pods continue. The occurrence keeps its shares of limits; the `others` are lost."""
    why = f"{why}; its pods go on"
    is_rerun = _wants(detail).reruns and not _too_often(others, detail.attempts)
    ended = {} if is_rerun else {attempt.place for attempt in others}
    tasks = tuple(
        replace(task, status=TaskState.FAILED, reason=f"{why}, {_UNKNOWN}")
        for task in detail.tasks
        if task.place in ended
    )
    lost = _lost(others, TaskState.FAILED, why)
    return replace(_taken(detail.row, None, why, tasks=tasks, attempts=lost), gives_back=False)


def orphaned_by(tasks: Iterable[TaskRow]) -> str | None:
    """Return why an occurrence was orphaned whose tasks have ended and whose own end is not written.

    Returns:
        The reason, or None if the occurrence was not orphaned.
    """
    rows = list(tasks)
    if not all(task.status in TASK_FINAL for task in rows):
        return None
    reasons = (task.reason or "" for task in rows)
    return next((why for why in reasons if why.startswith(SILENT) or why.endswith(_UNKNOWN)), None)


def reaped(detail: Detail, why: str, plan: JobPlan | None) -> TakeoverWrite:
    """Return the write for an occurrence that is over its timeout and that no node has ended.

    An occurrence that was orphaned before, and whose hooks no node could call, stays orphaned.
    """
    way = way_to_stale(detail.row.status)
    if _tells(plan):
        return _ended(detail, plan, TaskState.TIMEOUT, None, why)
    if (orphaned := orphaned_by(detail.tasks)) is not None:
        return _ended(detail, plan, TaskState.FAILED, OccurrenceState.ORPHANED, f"{orphaned}; {why}")
    if way is None:
        return _ended(detail, plan, TaskState.TIMEOUT, OccurrenceState.FAILED, why)
    return replace(_ended(detail, plan, TaskState.TIMEOUT, OccurrenceState.FAILED_STALE, why), by_way_of=way)


def _tells(plan: JobPlan | None) -> bool:
    """True if the job has hooks for the end of an occurrence."""
    return plan is not None and bool(plan.definition.on_complete)


def _wants(detail: Detail) -> OnOrphan:
    """Return the job's `on_orphan` as of the start. An unreadable configuration means no rerun."""
    config = _config(detail)
    return OnOrphan.LEAVE if config is None else config.job.on_orphan


def _config(detail: Detail) -> FrozenConfig | None:
    """Return the configuration of the start, if it can be read."""
    try:
        return from_json(FrozenConfig, detail.config or "")
    except RecordError:
        return None


def _too_often(in_flight: Iterable[AttemptRow], attempts: Sequence[AttemptRow]) -> bool:
    lost = [attempt.place for attempt in attempts if is_lost(attempt)]
    return any(lost.count(attempt.place) >= LOST_MAX for attempt in in_flight)


def _taken(
    row: OccurrenceRow,
    to: OccurrenceState | None,
    why: str,
    *,
    tasks: tuple[TaskRow, ...] = (),
    attempts: tuple[AttemptRow, ...] = (),
) -> TakeoverWrite:
    """Take an occurrence from its owner, if the owner has written nothing since the row was read."""
    return TakeoverWrite(
        row.ref, row.fence, to, why, gives_back=True, tasks=tasks, attempts=attempts, sequence=row.sequence
    )


def _ended(
    detail: Detail, plan: JobPlan | None, status: TaskState, to: OccurrenceState | None, why: str
) -> TakeoverWrite:
    """End all tasks of an occurrence: started ones with `status`, the others as skipped.

    If the timeout expired before any task could start, all of them end with `status`.
    """
    in_flight = [attempt for attempt in detail.attempts if attempt.status not in TASK_FINAL]
    begun = {attempt.place for attempt in detail.attempts}
    all_begun = status is TaskState.TIMEOUT and way_to_stale(detail.row.status) is None
    tasks = tuple(
        replace(task, status=status if all_begun or task.place in begun else TaskState.SKIPPED, reason=why)
        for task in _tasks(detail, plan)
        if task.status not in TASK_FINAL
    )
    return _taken(detail.row, to, why, tasks=tasks, attempts=_lost(in_flight, status, why))


def _tasks(detail: Detail, plan: JobPlan | None) -> list[TaskRow]:
    """Return the rows of its tasks. The only task of a job has no row before its first attempt has ended."""
    rows = {task.place: task for task in detail.tasks}
    if plan is not None:
        for task in plan.tasks:
            rows.setdefault(task.order, TaskRow(detail.row.ref, task.order, task.name, TaskState.PENDING))
    return list(rows.values())


def _lost(attempts: Iterable[AttemptRow], status: TaskState, why: str) -> tuple[AttemptRow, ...]:
    return tuple(replace(attempt, status=status, ended_at=None, error=why) for attempt in attempts)
