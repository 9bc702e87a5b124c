"""The one table of what becomes of an occurrence whose node is gone, or that is over its time (protocol rules 17, 18).

                          nothing in flight     in flight, on_orphan =
                                                leave          rerun
    prerun, pending       released              .              .
    queued                (it is nobody's)      .              .
    condition_pending     goes on               .              .
    condition_running     goes on               .              .                a question is asked again
    action_pending        goes on               .              .
    action_running        .                     orphaned       rerun            by way of condition_pending
    container_creating    goes on               orphaned       rerun
    running               goes on               orphaned       rerun
    terminating           goes on               orphaned       rerun
    retrying              goes on               orphaned       rerun

What is in flight in **pods** goes on without its node, so it is neither lost nor run again: whatever the state, the
occurrence is *adopted*. It is nobody's, and who has room follows the pods to their end (K4, protocol rule 28). If other
tasks of it were in flight on the node itself, those are lost as `on_orphan` says. But it is not orphaned while a pod of
it may be alive: who adopts it ends the pods first.

*Released*: anybody may start it. *Goes on*: it has begun and is nobody's, and whoever has room goes on with it where it
was, between two tasks, say, or before a retry. *Rerun*: the attempt in flight is lost, the occurrence goes to
`retrying`, and whoever has room makes another attempt. *Orphaned*: it ends. In all of these it gives back its shares of
limits; what has begun keeps its job's slot until it ends.

A **lost** attempt is one whose end nobody saw (see `model.retries`): it does not count for the retry policy, and there
is a bound on how many of a task there may be.

Hooks are told of an end before it is written (X7), and only a node that has the code can tell them. So where there are
any, what should end is not ended here: its tasks are, and it is nobody's. Who goes on with it finds nothing left to do
but to tell the hooks, and from how the tasks ended it knows what to write (see `continuing`).
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
from itinerary.model.writes import Intervention
from itinerary.schedules.durations import SECOND

__all__ = ["FATES", "SILENT", "Fate", "Rescue", "orphaned_by", "reaped", "released", "rescued", "way_to_stale"]

SILENT: Final = "no heartbeat since"
"""How the reason of tasks begins that were orphaned on a living node, since their orchestrator fell silent."""
_UNKNOWN: Final = "and nobody knows how far it came"
"""How the reason of tasks ends that were orphaned with their node."""


class Fate(StrEnum):
    """What becomes of it."""

    LEFT = "left"
    RELEASED = "released"
    GOES_ON = "goes on"
    ADOPTED = "adopted"
    RERUN = "rerun"
    ORPHANED = "orphaned"


_S: TypeAlias = OccurrenceState
_HOUR: Final = 3_600 * SECOND
_By: TypeAlias = Mapping[OnOrphan | None, Fate]
_BUSY: Final[_By] = {None: Fate.ORPHANED, OnOrphan.LEAVE: Fate.ORPHANED, OnOrphan.RERUN: Fate.RERUN}
_BEGUN: Final[_By] = {**_BUSY, None: Fate.GOES_ON}
_GOES_ON: Final[_By] = dict.fromkeys((None, *OnOrphan), Fate.GOES_ON)
_RELEASED: Final[_By] = dict.fromkeys((None, *OnOrphan), Fate.RELEASED)

FATES: Final[Mapping[OccurrenceState, _By]] = MappingProxyType(
    {
        _S.PRERUN: _RELEASED,
        _S.QUEUED: dict.fromkeys((None, *OnOrphan), Fate.LEFT),
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
"""By state, and by what its job wants of what is in flight; None: nothing is."""

_RERUN_AS: Final = {_S.ACTION_RUNNING: _S.CONDITION_PENDING, _S.RETRYING: None}
"""Where a rerun goes, if not to `retrying`; None: it is there already."""

_STALE: Final[Mapping[OccurrenceState, tuple[OccurrenceState, ...]]] = {
    _S.RUNNING: (),
    _S.TERMINATING: (),
    _S.CONTAINER_CREATING: (_S.TERMINATING,),
    _S.RETRYING: (_S.PENDING, _S.RUNNING),
}
"""From where the table has a way to `failed_stale`, and by way of what. What has not come to its tasks has not run."""


class Rescue(NamedTuple):
    """What is to be done about one, and what that is called."""

    fate: Fate
    write: Intervention


def way_to_stale(state: OccurrenceState) -> tuple[OccurrenceState, ...] | None:
    """The states on the way to `failed_stale`; None if there is no way."""
    return _STALE.get(state)


def released(row: OccurrenceRow, why: str) -> Rescue:
    """What is done about one that has not begun."""
    assert row.started_at is None, "what has begun needs to be looked at more closely"
    return Rescue(FATES[row.status][None], Intervention(row.ref, row.fence, None, why, is_unstarted=True))


def rescued(detail: Detail, why: str, plan: JobPlan | None) -> Rescue:
    """What is done about one that has begun, by the table. `plan` is that of its job, if it can be read here.

    Whoever takes it up has all of its time for it. Until somebody does, nobody has, so it gets that time now: it may
    have run out while everybody was gone, and would be the reaper's before anybody could look at it.
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
        return Rescue(Fate.ADOPTED, _adopted(detail, [one for one in in_flight if one.place not in pods], why))
    is_busy = bool(in_flight) or row.status is OccurrenceState.ACTION_RUNNING
    fate = FATES[row.status][_wants(detail) if is_busy else None]
    if fate is Fate.RELEASED:
        fate = Fate.GOES_ON  # it has been pending since it began
    if fate is Fate.RERUN and _too_often(in_flight, detail.attempts):
        fate, why = Fate.ORPHANED, f"{why}; {LOST_MAX} attempts were lost like that, and it is not tried again"
    match fate:
        case Fate.ORPHANED:
            why = f"{why}, {_UNKNOWN}"
            if plan is None:
                why = f"{why}; no on_complete hook was called: the definition of the job cannot be read"
            to = None if _tells(plan) else OccurrenceState.ORPHANED
            return Rescue(fate, _ended(detail, plan, TaskState.FAILED, to, why))
        case Fate.RERUN:
            lost = _lost(in_flight, TaskState.FAILED, why)
            again = _RERUN_AS.get(row.status, OccurrenceState.RETRYING)
            return Rescue(fate, _taken(row, again, f"{why}; it is run again", attempts=lost))
        case _:
            return Rescue(fate, _taken(row, None, why))


def _adopted(detail: Detail, others: Sequence[AttemptRow], why: str) -> Intervention:
    """It is nobody's, its pods go on, and it keeps its shares of limits. The `others` ran on the node: lost."""
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
    """Return why an occurrence was orphaned whose tasks are over and whose end is not written; None if it was not."""
    rows = list(tasks)
    if not all(task.status in TASK_FINAL for task in rows):
        return None
    reasons = (task.reason or "" for task in rows)
    return next((why for why in reasons if why.startswith(SILENT) or why.endswith(_UNKNOWN)), None)


def reaped(detail: Detail, why: str, plan: JobPlan | None) -> Intervention:
    """What is done about one that is over its time, and that nobody has ended. One that was orphaned before, and whose
    hooks no node could call, stays orphaned."""
    way = way_to_stale(detail.row.status)
    if _tells(plan):
        return _ended(detail, plan, TaskState.TIMEOUT, None, why)
    if (orphaned := orphaned_by(detail.tasks)) is not None:
        return _ended(detail, plan, TaskState.FAILED, OccurrenceState.ORPHANED, f"{orphaned}; {why}")
    if way is None:
        return _ended(detail, plan, TaskState.TIMEOUT, OccurrenceState.FAILED, why)
    return replace(_ended(detail, plan, TaskState.TIMEOUT, OccurrenceState.FAILED_STALE, why), by_way_of=way)


def _tells(plan: JobPlan | None) -> bool:
    """Whether hooks want to hear of its end."""
    return plan is not None and bool(plan.definition.on_complete)


def _wants(detail: Detail) -> OnOrphan:
    """What its job wants, as it was when it began. What cannot be read is not run again."""
    config = _config(detail)
    return OnOrphan.LEAVE if config is None else config.job.on_orphan


def _config(detail: Detail) -> FrozenConfig | None:
    """What it began with, if that can be read."""
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
) -> Intervention:
    """It is nobody's from now on, if its owner has written nothing since it was looked at."""
    return Intervention(
        row.ref, row.fence, to, why, gives_back=True, tasks=tasks, attempts=attempts, sequence=row.sequence
    )


def _ended(
    detail: Detail, plan: JobPlan | None, status: TaskState, to: OccurrenceState | None, why: str
) -> Intervention:
    """All of its tasks are over: what had begun with that status. What ran out of time before any of them could begin
    is over its time all the same."""
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
    """The rows of its tasks. The only task of a job has none before its first attempt is over."""
    rows = {task.place: task for task in detail.tasks}
    if plan is not None:
        for task in plan.tasks:
            rows.setdefault(task.order, TaskRow(detail.row.ref, task.order, task.name, TaskState.PENDING))
    return list(rows.values())


def _lost(attempts: Iterable[AttemptRow], status: TaskState, why: str) -> tuple[AttemptRow, ...]:
    return tuple(replace(attempt, status=status, ended_at=None, error=why) for attempt in attempts)
