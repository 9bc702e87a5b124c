"""The stage in which tasks run: from the start of an occurrence to the end of its last task.

After each event (an attempt ended, a timer is due, the occurrence is closed), `settle` does the same steps:

- apply the failure strategies, and begin, stop and skip tasks accordingly
- show the resulting state
- write everything as one change

`lifecycle` decides which stage is next.
"""

from __future__ import annotations

from typing import Final

from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.completion import named, tried
from itinerary.core.loop.failure import FailureDecision, decide, is_doomed
from itinerary.core.loop.occurrence import OccurrenceRun
from itinerary.core.loop.task_progress import BEGUN, IN_FLIGHT, OVERTIME, StopReason, TaskPhase, TaskProgress
from itinerary.model.attempts import AttemptKey, Outcome, PodMoved, Stopped
from itinerary.model.states import OccurrenceState, TaskState, shown_state

__all__ = [
    "attempt_ended",
    "attempt_moved",
    "first_state",
    "launch",
    "lose_attempts",
    "settle",
    "tasks_on_time",
    "transaction_ended",
    "withhold",
]

_GATED: Final = TaskPhase.GATED
_LAUNCHED: Final = frozenset({TaskPhase.RUNNING, TaskPhase.STOPPING})


def launch(run: OccurrenceRun, task: TaskProgress, now: int, out: CommandBatch) -> None:
    """Launch an attempt whose row is durable, unless it was asked to end before that.

    An attempt that outlives its node is asked to end here, when that decision is durable (protocol rule 28).
    """
    if task.phase is not _GATED:
        if task.outlives and task.phase is TaskPhase.STOPPING:
            out.stops.append(task.key(run.ref))
        return
    if task.stop_reason is not None:
        withhold(run, task, task.stop_reason, now)
        return
    task.launch(now)
    definition = task.task
    out.assignments.append(
        run.assignment(task.key(run.ref), definition.name, task.config.executor, definition.definition, now)
    )


def withhold(run: OccurrenceRun, task: TaskProgress, reason: StopReason, now: int) -> None:
    """End an attempt whose row is durable without launching it: it must no longer run here."""
    task.withhold(run.ref, reason, now)
    if run.interruption is not None:
        task.wait_to_retry(run.plan.name, run.key, now)
    else:
        task.finish(TaskState.CANCELLED)
    run.writer.note(task.row(run.ref), task.tries[-1])


def first_state(run: OccurrenceRun) -> OccurrenceState:
    """Return the state of the first tasks when they begin (O8): pods alone are being created."""
    begin = decide(run.tasks, run.start_config.config.job.mode, is_closing=run.closing is not None).begin
    is_creating = bool(begin) and all(task.outlives for task in begin)
    return OccurrenceState.CONTAINER_CREATING if is_creating else OccurrenceState.RUNNING


def settle(run: OccurrenceRun, now: int, out: CommandBatch, *, is_shown: bool = False) -> bool:
    """Act on the progress of the tasks. Return True when all tasks are done.

    `is_shown` is True if the occurrence already shows the state of its first tasks, and none of them has begun.
    """
    writer = run.writer
    gate: list[TaskProgress] = []
    while True:
        decision = decide(run.tasks, run.start_config.config.job.mode, is_closing=run.closing is not None)
        changed = _hold_back(run, decision, now, out)
        if not changed:
            break
    if decision.is_over:
        return True
    if not is_shown:
        _show(run, now)
    if not writer.is_held:
        gate = _begin(run, decision, now)
        if gate:
            _show(run, now)
    takes = run.start_config.limits if gate and not run.has_shares else ()
    if not writer.is_held:
        gate += _end_what_outlives(run)
    gives_back = run.only_waits and run.has_shares and bool(run.start_config.limits)
    run.has_shares = (run.has_shares or bool(takes)) and not gives_back
    writer.write(out, gate=gate, takes=takes, gives_back=gives_back)
    return False


def _show(run: OccurrenceRun, now: int) -> None:
    """Show the state that the tasks in flight amount to (O8)."""
    if run.interruption is not None:
        in_flight = [task.shown for task in run.tasks if task.phase in IN_FLIGHT]
        if in_flight:  # waiting tasks are not shown: whether they run again is not known yet
            run.writer.show(shown_state(in_flight, more=False), now)
        return
    more = any(task.phase is TaskPhase.WAITING for task in run.tasks)
    run.writer.show(shown_state([task.shown for task in run.tasks if task.phase in BEGUN], more=more), now)


def _hold_back(run: OccurrenceRun, decision: FailureDecision, now: int, out: CommandBatch) -> bool:
    """Skip and stop the tasks that must not run. Return True if this finished a task at once."""
    changed = False
    if not (decision.skip or decision.stop):
        return changed
    reason = run.stop_reason() if run.closing else StopReason(_blamed(decision.because))
    for task in decision.skip:
        task.finish(TaskState.SKIPPED, reason=reason.by)
        run.writer.note(task.row(run.ref))
    for task in decision.stop:
        match task.phase:
            case TaskPhase.RUNNING:
                if not task.outlives:
                    out.stops.append(task.key(run.ref))
                task.stop(reason, now + run.node.kill_grace)
            case TaskPhase.GATED:
                task.stop_reason = task.stop_reason or reason  # so it is not launched when its row is durable
            case TaskPhase.RETRYING:
                task.stop_reason = reason
                task.finish(TaskState.CANCELLED)
                run.writer.note(task.row(run.ref))
                changed = True
            case _:
                pass  # it is being stopped already
    return changed


def _begin(run: OccurrenceRun, decision: FailureDecision, now: int) -> list[TaskProgress]:
    """Prepare the attempts that may begin or be retried now. The launch follows when their rows are durable."""
    if run.interruption is not None:
        return []
    begun = [*decision.begin]
    if run.holds_slot and run.closing is None:
        begun += [
            task
            for task in run.tasks
            if task.phase is TaskPhase.RETRYING and task.retry_at <= now and task not in decision.stop
        ]
    for task in begun:
        run.writer.note(attempt=task.prepare(run.ref, now))
        if len(run.tasks) > 1 or task.number > 1:
            run.writer.note(task.row(run.ref))
    return begun


def _end_what_outlives(run: OccurrenceRun) -> list[TaskProgress]:
    """Return the tasks that must end, and whose executors are notified when that is durable.

    If this node dies in between, a node that adopts the tasks knows of the decision, and does not begin them again.
    """
    told = [task for task in run.tasks if task.must_be_told]
    for task in told:
        task.must_be_told = False
        run.writer.note(task.row(run.ref))
    return told


def _blamed(task: TaskProgress | None) -> str:
    return "" if task is None else f"task {task.task.name} failed"


# -- attempts --------------------------------------------------------------------------------------------------------


def attempt_ended(run: OccurrenceRun, key: AttemptKey, outcome: Outcome, now: int, out: CommandBatch) -> bool:
    """Handle the end of an attempt. Return False if it came too late and changes nothing."""
    task = run.task_at(key.place)
    if task is None or key.number != task.number or task.phase not in _LAUNCHED:
        return False
    if task.outcome is not None:
        return False
    _end(run, task, outcome, now, out)
    return True


def transaction_ended(run: OccurrenceRun, task: TaskProgress, now: int, out: CommandBatch, *, committed: bool) -> None:
    """Handle the end of a task transaction, which decides the outcome of its attempt (D6)."""
    outcome, task.outcome = task.outcome, None
    task.has_committed = task.has_committed or committed
    if outcome is not None:
        _end(run, task, outcome, now, out)
    elif committed and task.phase is TaskPhase.DONE and task.status is not TaskState.SUCCESS:
        task.has_committed_after_all()
        run.writer.note(task.row(run.ref), task.tries[-1])


def _end(run: OccurrenceRun, task: TaskProgress, outcome: Outcome, now: int, out: CommandBatch) -> None:
    if run.writer.lent_to is not None and run.writer.lent_to == task.key(run.ref):
        task.outcome = outcome  # the result of its transaction follows soon, and decides
        return
    names = task.end(run.ref, outcome, now)
    out.news.append(tried(run, task, now))
    if (interruption := run.interruption) is not None and task.is_interrupted:
        interruption.has_run = interruption.has_run or not isinstance(outcome, Stopped) or outcome.was_called
        interruption.has_abandoned |= isinstance(outcome, Stopped) and outcome.abandoned and outcome.was_called
        task.wait_to_retry(run.plan.name, run.key, now)
    elif task.may_retry(names) and not is_doomed(task, run.tasks, is_closing=run.closing is not None):
        task.wait_to_retry(run.plan.name, run.key, now)
    else:
        task.finish(reason=_last_line(task.tries[-1].error))
    run.writer.note(task.row(run.ref), task.tries[-1])


def lose_attempts(run: OccurrenceRun, why: str, now: int, out: CommandBatch) -> bool:
    """Kill the running attempts of an occurrence, and record them as lost. Return True if there were any."""
    running = [task for task in run.tasks if task.is_running and not task.outlives]
    for task in running:
        out.kills.append(task.key(run.ref))
        task.lost_by = why
        _end(run, task, Stopped(abandoned=True), now, out)
    return bool(running)


def attempt_moved(run: OccurrenceRun, report: PodMoved, now: int, out: CommandBatch) -> bool:
    """Handle a new state of the pod of an attempt: in creation, running, or terminating.

    The state is written at once, so that people see it within a second.
    """
    key, state = report.key, report.state
    task = run.task_at(key.place)
    if task is None or key.number != task.number or task.phase not in _LAUNCHED:
        return False
    if state not in _MAY_MOVE_TO:
        why = f"a task in flight is never {state}"
        out.log(LogLevel.WARNING, "transition.refused", **named(run), task=task.task.name, to=state, why=why)
    elif task.phase is TaskPhase.RUNNING:  # an attempt that was asked to end shows as `terminating` anyway
        task.moved_to = None if state is OccurrenceState.RUNNING else state
        if task.outlives:
            run.writer.note(attempt=task.seen(run.ref))
        if report.error is not None:
            task.doom(report.error, now + run.node.kill_grace)
            if not task.outlives:
                out.stops.append(key)
        out.is_urgent = True
    return True


def tasks_on_time(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Stop attempts that are over their time, and abandon attempts that did not end when asked."""
    for task in run.tasks:
        wakes_at = task.wakes_at()
        if wakes_at is None or wakes_at > now:
            continue
        if task.phase is TaskPhase.RUNNING:
            if not task.outlives:
                out.stops.append(task.key(run.ref))
            task.stop(OVERTIME, now + run.node.kill_grace)
            out.log(LogLevel.WARNING, "attempt.overtime", **named(run), task=task.task.name, attempt=task.number)
        elif task.phase is TaskPhase.STOPPING:
            out.kills.append(task.key(run.ref))
            out.log(LogLevel.WARNING, "attempt.given_up", **named(run), task=task.task.name, attempt=task.number)
            _end(run, task, Stopped(abandoned=True), now, out)


_MAY_MOVE_TO: Final = frozenset(
    {OccurrenceState.CONTAINER_CREATING, OccurrenceState.RUNNING, OccurrenceState.TERMINATING}
)
"""The states that an executor may report for an attempt."""


def _last_line(text: str | None) -> str | None:
    """Return the last line of a traceback, which has the message."""
    lines = (text or "").strip().splitlines()
    return lines[-1][:200] if lines else None
