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
from itinerary.core.loop.change_writer import ChangeWriter
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.failure import outcome_of
from itinerary.core.loop.occurrence import SHUTDOWN, Closing, OccurrenceRun, Stage, cancelling
from itinerary.core.loop.task_progress import TaskPhase, TaskProgress
from itinerary.core.recovery.rescue import orphaned_by, way_to_stale
from itinerary.core.timeline.job_plan import JobPlan
from itinerary.model.queries import Detail
from itinerary.model.retries import is_lost
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import TakeoverWrite
from itinerary.schedules.durations import parse_duration

__all__ = ["ask_for", "proceed"]

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


def ask_for(run: OccurrenceRun, row: OccurrenceRow, plan: JobPlan) -> None:
    """Prepare the takeover write. The occurrence belongs to this node from that write on."""
    run.plan, run.found = plan, row
    run.taking = TakeoverWrite(
        row.ref,
        row.fence,
        None,
        f"node {run.node.name} goes on with it",
        owner=run.node.node,
        expires_after=run.may_take(),
    )


def proceed(run: OccurrenceRun, detail: Detail, now: int, out: CommandBatch) -> None:
    """Resume an occurrence that belongs to this node now."""
    row = detail.row
    assert row.started_at is not None, "it had begun"
    assert detail.config is not None, "and was started with something"
    run.start_config = start_config = run.plan.terms_as_frozen(detail.config)
    run.fence, run.started_at, run.seen_at = row.fence, row.started_at, now
    run.last_run_at = detail.last_run_at
    run.expires_at = now + start_config.config.job.execution_timeout
    run.has_shares = not start_config.limits or row.holds is not None
    run.side_calls_made = row.fence << _ERRANDS_SHIFT
    run.writer = ChangeWriter(row.ref, row.fence, row.sequence, row.status)
    run.tasks = _restored(run, detail, now)
    _adopt(run, detail, now, out)
    out.follow.append(run.ref)
    run.stage = Stage.TASKS
    if _is_over(run):
        run.closing = _closed(run, row)
        lifecycle.proceed(run, now, out)
    elif row.cancelled_by is not None:
        lifecycle.close(run, cancelling(row.cancelled_by), now, out)
    elif (lost := _lost_beside_pods(run)) is not None:
        lifecycle.close(run, _ended_by_rescue(run, lost), now, out)
    elif (ended := _ended_with_the_occurrence(run)) is not None:
        lifecycle.close(run, _closed_by(ended, row), now, out)
    elif row.status in _CHECKING and run.plan.definition.requires:
        _check_again(run, row, now, out)
    elif run.plan.definition.on_start and not detail.attempts and _has_all_before_it(run):
        lifecycle.greet(run, now, out)
    else:
        lifecycle.proceed(run, now, out)


def _restored(run: OccurrenceRun, detail: Detail, now: int) -> list[TaskProgress]:
    rows = {task.place: task for task in detail.tasks}
    found = []
    for task, config in zip(run.plan.tasks, run.start_config.tasks, strict=True):
        tries = [attempt for attempt in detail.attempts if attempt.place == task.order]
        progress = TaskProgress.restored(task, config, rows.get(task.order), tries)
        if progress.phase is TaskPhase.RETRYING:
            progress.wait_to_retry(run.plan.name, run.key, progress.tries[-1].ended_at or now)
        found.append(progress)
    if any(progress.phase is not TaskPhase.DONE for progress in found):
        return [_reopened(progress) for progress in found]
    return found


def _adopt(run: OccurrenceRun, detail: Detail, now: int, out: CommandBatch) -> None:
    """Continue the attempts in flight in pods. A pod that no node has seen yet may have to be created first."""
    row, rows = detail.row, {task.place: task for task in detail.tasks}
    assert row.started_at is not None, "it had begun"
    least = now + run.node.kill_grace
    for attempt in detail.attempts:
        task = run.task_at(attempt.place)
        if attempt.status in TASK_FINAL or task is None:
            continue
        task.adopt(attempt, rows.get(attempt.place), row.status, row.started_at, least)
        key, definition = task.key(run.ref), task.task
        has_begun = attempt.status is TaskState.RUNNING
        out.assignments.append(
            run.assignment(
                key, definition.name, task.config.executor, definition.definition, task.started_at, has_begun=has_begun
            )
        )


def _lost_beside_pods(run: OccurrenceRun) -> TaskProgress | None:
    """Return a task that was lost for good with its node while pods of other tasks continued, or None.

    In that case the pods are ended, and then the occurrence is orphaned.
    """
    if not any(task.phase is TaskPhase.RUNNING for task in run.tasks):
        return None
    done = (task for task in run.tasks if task.phase is TaskPhase.DONE and task.tries)
    return next((task for task in done if is_lost(task.tries[-1])), None)


def _reopened(task: TaskProgress) -> TaskProgress:
    """Return the task, reset to waiting if it was skipped because its node shut down.

    That node did not finish the occurrence, which now runs again.
    """
    was_passed_over = task.status is TaskState.SKIPPED and task.reason == SHUTDOWN
    return TaskProgress(task.task, task.config) if was_passed_over else task


def _ended_with_the_occurrence(run: OccurrenceRun) -> TaskProgress | None:
    """Return a task that was skipped or cancelled because the whole occurrence was closed, or None.

    The cause was a timeout, a requirement or a shutdown. The node died while it closed the occurrence, so the
    occurrence is closed again.
    """
    for task in run.tasks:
        by = _by(task)
        if task.status is TaskState.SKIPPED and by in lifecycle.FAILING:
            return task
        if task.status is TaskState.CANCELLED and (by in lifecycle.FAILING or by == SHUTDOWN):
            return task
    return None


def _is_over(run: OccurrenceRun) -> bool:
    return all(task.phase is TaskPhase.DONE for task in run.tasks)


def _has_all_before_it(run: OccurrenceRun) -> bool:
    return all(task.phase is TaskPhase.WAITING for task in run.tasks)


def _check_again(run: OccurrenceRun, row: OccurrenceRow, now: int, out: CommandBatch) -> None:
    """Check the requirements from the first one on. The deadline of the first one counts from the start."""
    run.stage = Stage.CONDITIONS
    if row.status is OccurrenceState.ACTION_PENDING:
        run.writer.step(OccurrenceState.ACTION_RUNNING, now)
    assert row.started_at is not None, "it had begun"
    run.deadline_at = row.started_at + parse_duration(run.plan.definition.requires[0].deadline)
    errands.check(run, 0, now, out)


def _closed(run: OccurrenceRun, row: OccurrenceRow) -> Closing | None:
    """Return how an occurrence was closed whose tasks are all done. Return None if its tasks decide the outcome."""
    for task in run.tasks:
        if task.tries and is_lost(task.tries[-1]):
            return _ended_by_rescue(run, task)
    if (why := orphaned_by(task.row(run.ref) for task in run.tasks)) is not None:
        return Closing(OccurrenceState.ORPHANED, "the scheduler", why)
    if outcome_of(run.tasks)[0] is not OccurrenceState.COMPLETED:
        return None
    for task in run.tasks:
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


def _ended_by_rescue(run: OccurrenceRun, task: TaskProgress) -> Closing:
    """Return the closing for a task that was lost with its node or ran too long. Only the hooks are left to call."""
    why = task.reason or "nobody knows how far it came"
    if task.status is not TaskState.TIMEOUT:
        return Closing(OccurrenceState.ORPHANED, "the scheduler", why)
    has_way = way_to_stale(run.writer.state) is not None
    return Closing(OccurrenceState.FAILED_STALE if has_way else OccurrenceState.FAILED, "the scheduler", why)
