"""Takeover: resume an occurrence that began on a node that is gone (protocol rule 17).

    offered, no owner ─► CLAIMED ─► LINED_UP ─► (a slot of this node) ─► STARTING ─► taken, and read ─► resumed
                                                                             └─────► another node was faster: done

The occurrence waits for a slot of the node, like one that is to start. Then one write takes it and raises its fence, so
that no other node can write it, and this node reads it. The occurrence continues with the version and the frozen
configuration that it began with. The rescuer has made sure that none of its attempts is in flight (see `rescue`),
except in pods. Pods are adopted: their attempts are launched again, with the same number and the new fence, and the
executor looks for the existing pods.

Facts that only the old node knew are determined again, or not used. Requirements are checked from the first one on. A
hook may be called twice. If all tasks are done but did not all end by themselves, the occurrence was closed, and the
rows of its tasks say why.
"""

from __future__ import annotations

from typing import Final

from itinerary.core.loop import conditions_and_hooks as errands
from itinerary.core.loop import lifecycle
from itinerary.core.loop.change_writer import Pen
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.failure import outcome_of
from itinerary.core.loop.occurrence import SHUTDOWN, Closing, Course, Stage, cancelling
from itinerary.core.loop.task_progress import Phase, TaskProgress
from itinerary.core.recovery.rescue import orphaned_by, way_to_stale
from itinerary.core.timeline.job_plan import JobPlan
from itinerary.model.queries import Detail
from itinerary.model.retries import is_lost
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import Intervention
from itinerary.schedules.durations import parse_duration

__all__ = ["ask_for", "go_on"]

_CHECKING: Final = frozenset(
    {
        OccurrenceState.CONDITION_PENDING,
        OccurrenceState.CONDITION_RUNNING,
        OccurrenceState.ACTION_PENDING,
        OccurrenceState.ACTION_RUNNING,
    }
)
_ERRANDS_SHIFT: Final = 20
"""Checks and hook calls are numbered, and not stored. This shift gives each fence its own range of numbers."""


def ask_for(course: Course, row: OccurrenceRow, plan: JobPlan) -> None:
    """Prepare the takeover write. The occurrence belongs to this node from that write on."""
    course.plan, course.found = plan, row
    course.taking = Intervention(
        row.ref,
        row.fence,
        None,
        f"node {course.here.name} goes on with it",
        owner=course.here.node,
        expires_after=course.may_take(),
    )


def go_on(course: Course, detail: Detail, now: int, out: Outbox) -> None:
    """Resume an occurrence that belongs to this node now."""
    row = detail.row
    assert row.started_at is not None, "it had begun"
    assert detail.config is not None, "and was started with something"
    course.terms = terms = course.plan.terms_as_frozen(detail.config)
    course.fence, course.started_at, course.seen_at = row.fence, row.started_at, now
    course.last_run_at = detail.last_run_at
    course.expires_at = now + terms.config.job.execution_timeout
    course.has_shares = not terms.limits or row.holds is not None
    course.errands_run = row.fence << _ERRANDS_SHIFT
    course.pen = Pen(row.ref, row.fence, row.sequence, row.status)
    course.tasks = _restored(course, detail, now)
    _adopt(course, detail, now, out)
    out.follow.append(course.ref)
    course.stage = Stage.WORKING
    if _is_over(course):
        course.closing = _closed(course, row)
        lifecycle.go_on(course, now, out)
    elif row.cancelled_by is not None:
        lifecycle.close(course, cancelling(row.cancelled_by), now, out)
    elif (lost := _lost_beside_pods(course)) is not None:
        lifecycle.close(course, _ended_by_rescue(course, lost), now, out)
    elif (ended := _ended_with_the_occurrence(course)) is not None:
        lifecycle.close(course, _closed_by(ended, row), now, out)
    elif row.status in _CHECKING and course.plan.definition.requires:
        _check_again(course, row, now, out)
    elif course.plan.definition.on_start and not detail.attempts and _has_all_before_it(course):
        lifecycle.greet(course, now, out)
    else:
        lifecycle.go_on(course, now, out)


def _restored(course: Course, detail: Detail, now: int) -> list[TaskProgress]:
    rows = {task.place: task for task in detail.tasks}
    found = []
    for task, config in zip(course.plan.tasks, course.terms.tasks, strict=True):
        tries = [attempt for attempt in detail.attempts if attempt.place == task.order]
        progress = TaskProgress.restored(task, config, rows.get(task.order), tries)
        if progress.phase is Phase.RETRYING:
            progress.wait_to_retry(course.plan.name, course.key, progress.tries[-1].ended_at or now)
        found.append(progress)
    if any(progress.phase is not Phase.DONE for progress in found):
        return [_reopened(progress) for progress in found]
    return found


def _adopt(course: Course, detail: Detail, now: int, out: Outbox) -> None:
    """Continue the attempts in flight in pods. A pod that no node has seen yet may have to be created first."""
    row, rows = detail.row, {task.place: task for task in detail.tasks}
    assert row.started_at is not None, "it had begun"
    least = now + course.here.kill_grace
    for attempt in detail.attempts:
        task = course.task_at(attempt.place)
        if attempt.status in TASK_FINAL or task is None:
            continue
        task.adopt(attempt, rows.get(attempt.place), row.status, row.started_at, least)
        key, definition = task.key(course.ref), task.task
        has_begun = attempt.status is TaskState.RUNNING
        out.assignments.append(
            course.assignment(
                key, definition.name, task.config.executor, definition.definition, task.started_at, has_begun=has_begun
            )
        )


def _lost_beside_pods(course: Course) -> TaskProgress | None:
    """Return a task that was lost for good with its node while pods of other tasks continued, or None.

    In that case the pods are ended, and then the occurrence is orphaned.
    """
    if not any(task.phase is Phase.RUNNING for task in course.tasks):
        return None
    done = (task for task in course.tasks if task.phase is Phase.DONE and task.tries)
    return next((task for task in done if is_lost(task.tries[-1])), None)


def _reopened(task: TaskProgress) -> TaskProgress:
    """Return the task, reset to waiting if it was skipped because its node shut down.

    That node did not finish the occurrence, which now runs again.
    """
    was_passed_over = task.status is TaskState.SKIPPED and task.reason == SHUTDOWN
    return TaskProgress(task.task, task.config) if was_passed_over else task


def _ended_with_the_occurrence(course: Course) -> TaskProgress | None:
    """Return a task that was skipped or cancelled because the whole occurrence was closed, or None.

    The cause was a timeout, a requirement or a shutdown. The node died while it closed the occurrence, so the
    occurrence is closed again.
    """
    for task in course.tasks:
        by = _by(task)
        if task.status is TaskState.SKIPPED and by in lifecycle.FAILING:
            return task
        if task.status is TaskState.CANCELLED and (by in lifecycle.FAILING or by == SHUTDOWN):
            return task
    return None


def _is_over(course: Course) -> bool:
    return all(task.phase is Phase.DONE for task in course.tasks)


def _has_all_before_it(course: Course) -> bool:
    return all(task.phase is Phase.WAITING for task in course.tasks)


def _check_again(course: Course, row: OccurrenceRow, now: int, out: Outbox) -> None:
    """Check the requirements from the first one on. The deadline of the first one counts from the start."""
    course.stage = Stage.CHECKING
    if row.status is OccurrenceState.ACTION_PENDING:
        course.pen.step(OccurrenceState.ACTION_RUNNING, now)
    assert row.started_at is not None, "it had begun"
    course.deadline_at = row.started_at + parse_duration(course.plan.definition.requires[0].deadline)
    errands.check(course, 0, now, out)


def _closed(course: Course, row: OccurrenceRow) -> Closing | None:
    """Return how an occurrence was closed whose tasks are all done. Return None if its tasks decide the outcome."""
    for task in course.tasks:
        if task.tries and is_lost(task.tries[-1]):
            return _ended_by_rescue(course, task)
    if (why := orphaned_by(task.row(course.ref) for task in course.tasks)) is not None:
        return Closing(OccurrenceState.ORPHANED, "the scheduler", why)
    if outcome_of(course.tasks)[0] is not OccurrenceState.COMPLETED:
        return None
    for task in course.tasks:
        if task.status is not TaskState.SUCCESS:
            return _closed_by(task, row)
    return None


def _closed_by(task: TaskProgress, row: OccurrenceRow) -> Closing:
    """Return the closing that cancelled or skipped this task.

    The cause is a requirement, a timeout, a person or a shutdown. Otherwise the rescuer found the occurrence before any
    task had begun.
    """
    by = _by(task) or "the scheduler"
    outcome = OccurrenceState.ORPHANED
    if by in lifecycle.FAILING:
        outcome = OccurrenceState.FAILED
    elif row.cancelled_by is not None or task.status is TaskState.CANCELLED or by == SHUTDOWN:
        outcome = OccurrenceState.CANCELLED
    return Closing(outcome, by, by)


def _by(task: TaskProgress) -> str | None:
    """Return the cause for which a task was cancelled or skipped."""
    return task.stop_reason.by if task.stop_reason is not None else task.reason


def _ended_by_rescue(course: Course, task: TaskProgress) -> Closing:
    """Return the closing for a task that was lost with its node or ran too long. Only the hooks are left to call."""
    why = task.reason or "nobody knows how far it came"
    if task.status is not TaskState.TIMEOUT:
        return Closing(OccurrenceState.ORPHANED, "the scheduler", why)
    has_way = way_to_stale(course.pen.state) is not None
    return Closing(OccurrenceState.FAILED_STALE if has_way else OccurrenceState.FAILED, "the scheduler", why)
