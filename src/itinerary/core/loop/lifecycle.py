"""The stages of an occurrence that has started, and the moves between them.

    CHECKING ─► GREETING ─► WORKING ─► TELLING ─► ENDING
    requirements  on_start     tasks    on_complete   written

The work of each stage is in its own module. This module decides their order, and what happens when a stage is done,
when the occurrence is closed, and when a timer fires.

The on_complete hooks run before the end is written (X7). If the node dies in between, another node ends the occurrence
and calls the hooks again, so hooks are called at least once. The price: the overlap slot is held while the hooks run.
"""

from __future__ import annotations

from typing import Final, assert_never

from itinerary.core.loop import completion as ending
from itinerary.core.loop import conditions_and_hooks as errands
from itinerary.core.loop import tasks as working
from itinerary.core.loop.change_writer import ChangeWriter
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.events import OccurrenceStarted
from itinerary.core.loop.occurrence import LIVE, SHUTDOWN, Closing, OccurrenceRun, SideCallKind, Stage
from itinerary.core.loop.task_progress import StopReason, TaskPhase, TaskProgress
from itinerary.model.attempts import AttemptKey, Ended, Outcome, PodMoved, Report, Stopped, Succeeded
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import OwnerWrite, Started
from itinerary.schedules.durations import format_duration

__all__ = [
    "FAILING",
    "begin",
    "begin_interrupted",
    "begin_plainly",
    "close",
    "give_way",
    "greet",
    "is_waiting",
    "limited",
    "on_time",
    "orphan",
    "proceed",
    "reported",
    "wakes_at",
    "written",
]

EXECUTION_TIMEOUT: Final = "execution timeout"
FAILING: Final = frozenset({EXECUTION_TIMEOUT, errands.A_REQUIREMENT})
"""Causes that close an occurrence as failed. Other causes cancel it."""

_NEVER: Final = 2**63 - 1
_WORKING: Final = Stage.TASKS
_GATED: Final = TaskPhase.GATED
_RUNNING: Final = OccurrenceState.RUNNING
_WORKS: Final = frozenset({OccurrenceState.RUNNING, OccurrenceState.CONTAINER_CREATING})
"""States of running tasks, which the start may have written already."""


def begin(run: OccurrenceRun, answer: Started, now: int, out: CommandBatch) -> None:
    """Begin an occurrence that has started here: check requirements, call on_start hooks, or launch tasks."""
    assert run.request is not None, "it was asked for"
    run.fence, run.started_at, run.seen_at = answer.fence, answer.started_at, now
    run.writer = ChangeWriter(run.ref, answer.fence, answer.sequence, run.request.to)
    out.follow.append(run.ref)
    recovery = run.start_config.config.job.recovery.strategy if run.is_recovery else None
    out.news.append(OccurrenceStarted(run.ref, run.key, run.plan.name, run.due_at, run.started_at, recovery))
    definition = run.plan.definition
    if definition.requires:
        run.stage = Stage.CONDITIONS
        errands.check(run, 0, now, out)
    elif definition.on_start:
        _greet(run, 0, now, out)
    else:
        _work(run, now, out)


def begin_interrupted(run: OccurrenceRun, answer: Started, now: int, out: CommandBatch) -> None:
    """Record a start and launch nothing: a shutdown came before the function could be called (R9)."""
    assert run.request is not None, "it was asked for"
    assert run.interruption is not None, "the shutdown has said why"
    run.fence, run.started_at, run.seen_at = answer.fence, answer.started_at, now
    run.writer = ChangeWriter(run.ref, answer.fence, answer.sequence, run.request.to)
    run.stage = _WORKING
    run.expires_at = now + run.start_config.execution_timeout
    out.follow.append(run.ref)
    for task in run.tasks:
        if task.phase is _GATED and not task.outlives:
            working.withhold(run, task, StopReason(SHUTDOWN, why=run.interruption.why), now)


def begin_plainly(run: OccurrenceRun, answer: Started, now: int, out: CommandBatch) -> int:
    """Begin an occurrence whose one task is launched at once. Return when the occurrence needs attention.

    Fast path of `begin` for nearly all occurrences, of which ten thousand may begin in the same second.
    """
    task, ref, started_at = run.tasks[0], run.ref, answer.started_at
    run.stage = _WORKING
    run.fence, run.started_at, run.seen_at = answer.fence, started_at, now
    run.writer = ChangeWriter(ref, answer.fence, answer.sequence, _RUNNING)
    task.launch(now)
    defined, config = task.task, task.config
    out.assignments.append(run.assignment(task.key(ref), defined.name, config.executor, defined.definition, now))
    out.follow.append(ref)
    out.news.append(OccurrenceStarted(ref, run.key, run.plan.name, run.due_at, started_at))
    run.expires_at = expires_at = now + run.start_config.execution_timeout
    overtime_at = task.overtime_at
    run.alarm_at = alarm_at = min(overtime_at, expires_at)
    return alarm_at


def greet(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Call the on_start hooks, and continue from there."""
    _greet(run, 0, now, out)


def _greet(run: OccurrenceRun, index: int, now: int, out: CommandBatch) -> None:
    run.stage = Stage.START_HOOKS
    if errands.notify(run, SideCallKind.ON_START, index, now, out):
        _work(run, now, out)


def _work(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    run.stage = _WORKING
    run.expires_at = now + run.start_config.execution_timeout
    was_checked = run.writer.state not in _WORKS
    if was_checked:
        run.writer.step(working.first_state(run), now, "its requirements are met")
    has_begun = False
    for task in run.tasks:
        if task.phase is _GATED:  # its row was written with the start
            working.launch(run, task, now, out)
            has_begun = True
    if not has_begun:
        _settle(run, now, out, is_shown=was_checked)


def _settle(run: OccurrenceRun, now: int, out: CommandBatch, *, is_shown: bool = False) -> None:
    if working.settle(run, now, out, is_shown=is_shown):
        _notify(run, 0, now, out)


def _notify(run: OccurrenceRun, index: int, now: int, out: CommandBatch) -> None:
    run.stage = Stage.COMPLETE_HOOKS
    if index == 0 and run.plan.definition.on_complete:
        run.writer.write(out, is_urgent=True)  # keeps the results if this node dies while hooks run
    if errands.notify(run, SideCallKind.ON_COMPLETE, index, now, out):
        ending.end(run, now, out)


# -- reports, answers and requests -----------------------------------------------------------------------------------


def reported(run: OccurrenceRun, report: Report, now: int, out: CommandBatch) -> bool:
    """Handle a report of an executor. Return False if it came too late and changes nothing."""
    match report:
        case Ended(key, outcome) if key.place < 0:
            return _errand_ended(run, key, outcome, now, out)
        case _ if run.stage is not _WORKING:
            return False
        case Ended(key, Succeeded() as outcome) if _is_all(run, key):
            _complete(run, outcome, now, out)
            return True
        case Ended(key, outcome):
            counts = working.attempt_ended(run, key, outcome, now, out)
        case PodMoved():
            counts = working.attempt_moved(run, report, now, out)
        case _:
            assert_never(report)
    if counts:
        _settle(run, now, out)
    return counts


def _is_all(run: OccurrenceRun, key: AttemptKey) -> bool:
    """True if only the end is left to write after this attempt succeeded: the usual case."""
    task = run.tasks[0]
    return (
        len(run.tasks) == 1
        and task.is_at(key)
        and run.closing is None
        and not run.plan.definition.on_complete
        and run.writer.is_clean
    )


def _complete(run: OccurrenceRun, outcome: Succeeded, now: int, out: CommandBatch) -> None:
    """Complete an occurrence whose only task has succeeded.

    Fast path for `attempt_ended` and everything that follows it.
    """
    (task,) = run.tasks
    task.end(run.ref, outcome, now)
    task.finish()
    out.news.append(ending.tried(run, task, now))
    run.stage = Stage.ENDING
    run.writer.complete(out, task.row(run.ref), task.tries[-1], now)


def _errand_ended(run: OccurrenceRun, key: AttemptKey, outcome: Outcome, now: int, out: CommandBatch) -> bool:
    side_call = run.side_call
    if side_call is None or side_call.key != key or not run.runs_errand:
        return False
    side_call.stop_at = side_call.kill_at = None
    errands.complain(run, side_call, outcome, out)
    match side_call.kind:
        case SideCallKind.ON_START:
            _greet(run, side_call.index + 1, now, out)
        case SideCallKind.ON_COMPLETE:
            _notify(run, side_call.index + 1, now, out)
        case SideCallKind.CONDITION | SideCallKind.ACTION:
            verdict = errands.judge(run, side_call, outcome, now, out)
            if isinstance(verdict, Closing):
                run.side_call = None
                close(run, verdict, now, out)
            elif verdict:
                _greet(run, 0, now, out)
        case _:
            assert_never(side_call.kind)
    return True


def written(run: OccurrenceRun, change: OwnerWrite, now: int, out: CommandBatch) -> None:
    """Launch the work that waited for a change that is now durable, and write what was held back."""
    for waiting in run.writer.written(change):
        if isinstance(waiting, TaskProgress):
            working.launch(run, waiting, now, out)
        else:
            errands.launch(run, waiting, now, out)
    proceed(run, now, out)


def proceed(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Write what was held back, and act on the progress of the tasks."""
    if run.stage is _WORKING:
        _settle(run, now, out)
    elif run.stage is Stage.ENDING:
        run.writer.write(out, is_urgent=True)
        if not run.writer.unanswered and not run.writer.is_held:
            run.stage = Stage.DONE
            state, why = ending.outcome(run)
            out.news.append(ending.finished(run, state, now, why))


def limited(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Handle a refusal for lack of a share: ask again later, or drop the write if the occurrence is being closed."""
    run.writer.limited()
    if run.closing is None:
        run.resume_at = run.next_ask(now)
    else:
        ending.give_up(run, run.closing.by)
        proceed(run, now, out)


def close(run: OccurrenceRun, closing: Closing, now: int, out: CommandBatch) -> bool:
    """Close the whole occurrence; no task is spared (X2). Return False if its end is decided already."""
    if run.stage not in LIVE or run.stage is Stage.COMPLETE_HOOKS or run.closing is not None:
        return False
    run.closing = closing
    run.resume_at = None
    if run.side_call is not None:
        if run.runs_errand:
            out.kills.append(run.side_call.key)
        run.side_call = None
    if run.writer.is_refused:
        ending.give_up(run, closing.by)
    run.stage = Stage.TASKS
    _settle(run, now, out)
    return True


def orphan(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """End an occurrence whose orchestrator has been silent for too long, and call its hooks (O4, X7)."""
    ending.orphan(run, now, out)
    _notify(run, 0, now, out)


def give_way(run: OccurrenceRun, why: str, now: int, out: CommandBatch) -> bool:
    """Kill running work that other nodes may soon take over and run (protocol rule 18).

    This node or another one retries the killed attempts: the write that begins the next attempt decides which node may.
    Return True if something ran.
    """
    if run.stage is not Stage.TASKS or not working.lose_attempts(run, why, now, out):
        return False
    _settle(run, now, out)
    return True


# -- time ------------------------------------------------------------------------------------------------------------


def on_time(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Handle a due timer: the end of a wait, a limit on a check or hook, a timeout, or a retry."""
    if run.resume_at is not None and run.resume_at <= now:
        _resume(run, now, out)
    if errands.side_call_on_time(run, now, out):
        side_call = run.side_call
        assert side_call is not None, "it was given up"
        _errand_ended(run, side_call.key, Stopped(abandoned=True), now, out)
    if run.stage is Stage.TASKS:
        if run.closing is None and now >= run.expires_at:
            after = format_duration(run.start_config.config.job.execution_timeout)
            why = f"over its execution timeout of {after}"
            close(run, Closing(OccurrenceState.FAILED, EXECUTION_TIMEOUT, why), now, out)
        else:
            working.tasks_on_time(run, now, out)
            _settle(run, now, out)


def _resume(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    if not run.holds_slot:
        return
    if run.writer.is_refused:
        run.resume_at = None
        run.writer.ask_again(out)
    else:
        errands.look_again(run, now, out)


def wakes_at(run: OccurrenceRun) -> int | None:
    """Return when the occurrence needs attention, if nothing happens before."""
    waits, stage = run.place != 0, run.stage
    at = _NEVER if waits or run.resume_at is None else run.resume_at
    if (side_call := run.side_call) is not None:
        at = min(at, side_call.stop_at or _NEVER, side_call.kill_at or _NEVER)
    if stage is _WORKING:
        cannot_retry = waits or run.writer.is_held or run.interruption is not None
        for task in run.tasks:
            wakes = task.wakes_at()
            if wakes is not None and wakes < at and not (cannot_retry and task.phase is TaskPhase.RETRYING):
                at = wakes
        if run.closing is None and run.expires_at < at:
            at = run.expires_at
    elif waits and stage is Stage.CONDITIONS:
        at = min(at, run.deadline_at or _NEVER)
    return None if at == _NEVER else at


def is_waiting(run: OccurrenceRun) -> bool:
    """True if the occurrence only waits, for time or a share of a limit, and needs no slot of the node."""
    if run.stage is Stage.CONDITIONS:
        return run.resume_at is not None
    return run.stage is Stage.TASKS and (run.only_waits or run.writer.is_refused)


def wants_slot(run: OccurrenceRun, now: int) -> bool:
    """True if the wait has ended, and the occurrence resumes as soon as it has a slot of the node again."""
    if run.resume_at is not None:
        return run.resume_at <= now
    return any(task.phase is TaskPhase.RETRYING and task.retry_at <= now for task in run.tasks)


def has_waited_too_long(run: OccurrenceRun, now: int, out: CommandBatch) -> bool:
    """Fail an occurrence that got no slot to check its requirement before the deadline. Return True if it failed."""
    if run.stage is not Stage.CONDITIONS or run.deadline_at is None or now < run.deadline_at:
        return False
    why = "a requirement was not met when it was last looked at, and there was no slot to look at it again in time"
    return close(run, Closing(OccurrenceState.FAILED, errands.A_REQUIREMENT, why), now, out)
