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
from itinerary.core.loop.change_writer import Pen
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.events import Began
from itinerary.core.loop.occurrence import LIVE, SHUTDOWN, Closing, Course, ErrandKind, Stage
from itinerary.core.loop.task_progress import Phase, StopReason, TaskProgress
from itinerary.model.attempts import AttemptKey, Ended, Moved, Outcome, Report, Stopped, Succeeded
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Change, Started
from itinerary.schedules.durations import format_duration

__all__ = [
    "FAILING",
    "begin",
    "begin_interrupted",
    "begin_plainly",
    "close",
    "give_way",
    "go_on",
    "greet",
    "is_waiting",
    "limited",
    "on_time",
    "orphan",
    "reported",
    "wakes_at",
    "written",
]

EXECUTION_TIMEOUT: Final = "execution timeout"
FAILING: Final = frozenset({EXECUTION_TIMEOUT, errands.A_REQUIREMENT})
"""Causes that close an occurrence as failed. Other causes cancel it."""

_NEVER: Final = 2**63 - 1
_WORKING: Final = Stage.WORKING
_GATED: Final = Phase.GATED
_RUNNING: Final = OccurrenceState.RUNNING
_WORKS: Final = frozenset({OccurrenceState.RUNNING, OccurrenceState.CONTAINER_CREATING})
"""States of running tasks, which the start may have written already."""


def begin(course: Course, answer: Started, now: int, out: Outbox) -> None:
    """Begin an occurrence that has started here: check requirements, call on_start hooks, or launch tasks."""
    assert course.request is not None, "it was asked for"
    course.fence, course.started_at, course.seen_at = answer.fence, answer.started_at, now
    course.pen = Pen(course.ref, answer.fence, answer.sequence, course.request.to)
    out.follow.append(course.ref)
    recovery = course.terms.config.job.recovery.strategy if course.is_recovery else None
    out.news.append(Began(course.ref, course.key, course.plan.name, course.due_at, course.started_at, recovery))
    definition = course.plan.definition
    if definition.requires:
        course.stage = Stage.CHECKING
        errands.check(course, 0, now, out)
    elif definition.on_start:
        _greet(course, 0, now, out)
    else:
        _work(course, now, out)


def begin_interrupted(course: Course, answer: Started, now: int, out: Outbox) -> None:
    """Record a start and launch nothing: a shutdown came before the function could be called (R9)."""
    assert course.request is not None, "it was asked for"
    assert course.interruption is not None, "the shutdown has said why"
    course.fence, course.started_at, course.seen_at = answer.fence, answer.started_at, now
    course.pen = Pen(course.ref, answer.fence, answer.sequence, course.request.to)
    course.stage = _WORKING
    course.expires_at = now + course.terms.execution_timeout
    out.follow.append(course.ref)
    for task in course.tasks:
        if task.phase is _GATED and not task.outlives:
            working.withhold(course, task, StopReason(SHUTDOWN, why=course.interruption.why), now)


def begin_plainly(course: Course, answer: Started, now: int, out: Outbox) -> int:
    """Begin an occurrence whose one task is launched at once. Return when the occurrence needs attention.

    Fast path of `begin` for nearly all occurrences, of which ten thousand may begin in the same second.
    """
    task, ref, started_at = course.tasks[0], course.ref, answer.started_at
    course.stage = _WORKING
    course.fence, course.started_at, course.seen_at = answer.fence, started_at, now
    course.pen = Pen(ref, answer.fence, answer.sequence, _RUNNING)
    task.launch(now)
    defined, config = task.task, task.config
    out.assignments.append(course.assignment(task.key(ref), defined.name, config.executor, defined.definition, now))
    out.follow.append(ref)
    out.news.append(Began(ref, course.key, course.plan.name, course.due_at, started_at))
    course.expires_at = expires_at = now + course.terms.execution_timeout
    overtime_at = task.overtime_at
    course.alarm_at = alarm_at = min(overtime_at, expires_at)
    return alarm_at


def greet(course: Course, now: int, out: Outbox) -> None:
    """Call the on_start hooks, and continue from there."""
    _greet(course, 0, now, out)


def _greet(course: Course, index: int, now: int, out: Outbox) -> None:
    course.stage = Stage.GREETING
    if errands.tell(course, ErrandKind.ON_START, index, now, out):
        _work(course, now, out)


def _work(course: Course, now: int, out: Outbox) -> None:
    course.stage = _WORKING
    course.expires_at = now + course.terms.execution_timeout
    was_checked = course.pen.state not in _WORKS
    if was_checked:
        course.pen.step(working.first_state(course), now, "its requirements are met")
    has_begun = False
    for task in course.tasks:
        if task.phase is _GATED:  # its row was written with the start
            working.launch(course, task, now, out)
            has_begun = True
    if not has_begun:
        _settle(course, now, out, is_shown=was_checked)


def _settle(course: Course, now: int, out: Outbox, *, is_shown: bool = False) -> None:
    if working.settle(course, now, out, is_shown=is_shown):
        _tell(course, 0, now, out)


def _tell(course: Course, index: int, now: int, out: Outbox) -> None:
    course.stage = Stage.TELLING
    if index == 0 and course.plan.definition.on_complete:
        course.pen.write(out, is_urgent=True)  # keeps the results if this node dies while hooks run
    if errands.tell(course, ErrandKind.ON_COMPLETE, index, now, out):
        ending.end(course, now, out)


# -- reports, answers and requests -----------------------------------------------------------------------------------


def reported(course: Course, report: Report, now: int, out: Outbox) -> bool:
    """Handle a report of an executor. Return False if it came too late and changes nothing."""
    match report:
        case Ended(key, outcome) if key.place < 0:
            return _errand_ended(course, key, outcome, now, out)
        case _ if course.stage is not _WORKING:
            return False
        case Ended(key, Succeeded() as outcome) if _is_all(course, key):
            _complete(course, outcome, now, out)
            return True
        case Ended(key, outcome):
            counts = working.attempt_ended(course, key, outcome, now, out)
        case Moved():
            counts = working.attempt_moved(course, report, now, out)
        case _:
            assert_never(report)
    if counts:
        _settle(course, now, out)
    return counts


def _is_all(course: Course, key: AttemptKey) -> bool:
    """True if only the end is left to write after this attempt succeeded: the usual case."""
    task = course.tasks[0]
    return (
        len(course.tasks) == 1
        and task.is_at(key)
        and course.closing is None
        and not course.plan.definition.on_complete
        and course.pen.is_clean
    )


def _complete(course: Course, outcome: Succeeded, now: int, out: Outbox) -> None:
    """Complete an occurrence whose only task has succeeded.

    Fast path for `attempt_ended` and everything that follows it.
    """
    (task,) = course.tasks
    task.end(course.ref, outcome, now)
    task.finish()
    out.news.append(ending.tried(course, task, now))
    course.stage = Stage.ENDING
    course.pen.complete(out, task.row(course.ref), task.tries[-1], now)


def _errand_ended(course: Course, key: AttemptKey, outcome: Outcome, now: int, out: Outbox) -> bool:
    errand = course.errand
    if errand is None or errand.key != key or not course.runs_errand:
        return False
    errand.stop_at = errand.kill_at = None
    errands.complain(course, errand, outcome, out)
    match errand.kind:
        case ErrandKind.ON_START:
            _greet(course, errand.index + 1, now, out)
        case ErrandKind.ON_COMPLETE:
            _tell(course, errand.index + 1, now, out)
        case ErrandKind.CONDITION | ErrandKind.ACTION:
            verdict = errands.judge(course, errand, outcome, now, out)
            if isinstance(verdict, Closing):
                course.errand = None
                close(course, verdict, now, out)
            elif verdict:
                _greet(course, 0, now, out)
        case _:
            assert_never(errand.kind)
    return True


def written(course: Course, change: Change, now: int, out: Outbox) -> None:
    """Launch the work that waited for a change that is now durable, and write what was held back."""
    for waiting in course.pen.written(change):
        if isinstance(waiting, TaskProgress):
            working.launch(course, waiting, now, out)
        else:
            errands.launch(course, waiting, now, out)
    go_on(course, now, out)


def go_on(course: Course, now: int, out: Outbox) -> None:
    """Write what was held back, and act on the progress of the tasks."""
    if course.stage is _WORKING:
        _settle(course, now, out)
    elif course.stage is Stage.ENDING:
        course.pen.write(out, is_urgent=True)
        if not course.pen.unanswered and not course.pen.is_held:
            course.stage = Stage.OVER
            state, why = ending.outcome(course)
            out.news.append(ending.finished(course, state, now, why))


def limited(course: Course, now: int, out: Outbox) -> None:
    """Handle a refusal for lack of a share: ask again later, or drop the write if the occurrence is being closed."""
    course.pen.limited()
    if course.closing is None:
        course.resume_at = course.next_ask(now)
    else:
        ending.give_up(course, course.closing.by)
        go_on(course, now, out)


def close(course: Course, closing: Closing, now: int, out: Outbox) -> bool:
    """Close the whole occurrence; no task is spared (X2). Return False if its end is decided already."""
    if course.stage not in LIVE or course.stage is Stage.TELLING or course.closing is not None:
        return False
    course.closing = closing
    course.resume_at = None
    if course.errand is not None:
        if course.runs_errand:
            out.kills.append(course.errand.key)
        course.errand = None
    if course.pen.is_refused:
        ending.give_up(course, closing.by)
    course.stage = Stage.WORKING
    _settle(course, now, out)
    return True


def orphan(course: Course, now: int, out: Outbox) -> None:
    """End an occurrence whose orchestrator has been silent for too long, and call its hooks (O4, X7)."""
    ending.orphan(course, now, out)
    _tell(course, 0, now, out)


def give_way(course: Course, why: str, now: int, out: Outbox) -> bool:
    """Kill running work that other nodes may soon take over and run (protocol rule 18).

    This node or another one retries the killed attempts: the write that begins the next attempt decides which node may.
    Return True if something ran.
    """
    if course.stage is not Stage.WORKING or not working.lose_attempts(course, why, now, out):
        return False
    _settle(course, now, out)
    return True


# -- time ------------------------------------------------------------------------------------------------------------


def on_time(course: Course, now: int, out: Outbox) -> None:
    """Handle a due timer: the end of a wait, a limit on a check or hook, a timeout, or a retry."""
    if course.resume_at is not None and course.resume_at <= now:
        _resume(course, now, out)
    if errands.errand_on_time(course, now, out):
        errand = course.errand
        assert errand is not None, "it was given up"
        _errand_ended(course, errand.key, Stopped(abandoned=True), now, out)
    if course.stage is Stage.WORKING:
        if course.closing is None and now >= course.expires_at:
            after = format_duration(course.terms.config.job.execution_timeout)
            why = f"over its execution timeout of {after}"
            close(course, Closing(OccurrenceState.FAILED, EXECUTION_TIMEOUT, why), now, out)
        else:
            working.tasks_on_time(course, now, out)
            _settle(course, now, out)


def _resume(course: Course, now: int, out: Outbox) -> None:
    if not course.holds_slot:
        return
    if course.pen.is_refused:
        course.resume_at = None
        course.pen.ask_again(out)
    else:
        errands.look_again(course, now, out)


def wakes_at(course: Course) -> int | None:
    """Return when the occurrence needs attention, if nothing happens before."""
    waits, stage = course.place != 0, course.stage
    at = _NEVER if waits or course.resume_at is None else course.resume_at
    if (errand := course.errand) is not None:
        at = min(at, errand.stop_at or _NEVER, errand.kill_at or _NEVER)
    if stage is _WORKING:
        cannot_retry = waits or course.pen.is_held or course.interruption is not None
        for task in course.tasks:
            wakes = task.wakes_at()
            if wakes is not None and wakes < at and not (cannot_retry and task.phase is Phase.RETRYING):
                at = wakes
        if course.closing is None and course.expires_at < at:
            at = course.expires_at
    elif waits and stage is Stage.CHECKING:
        at = min(at, course.deadline_at or _NEVER)
    return None if at == _NEVER else at


def is_waiting(course: Course) -> bool:
    """True if the occurrence only waits, for time or a share of a limit, and needs no slot of the node."""
    if course.stage is Stage.CHECKING:
        return course.resume_at is not None
    return course.stage is Stage.WORKING and (course.only_waits or course.pen.is_refused)


def wants_slot(course: Course, now: int) -> bool:
    """True if the wait has ended, and the occurrence resumes as soon as it has a slot of the node again."""
    if course.resume_at is not None:
        return course.resume_at <= now
    return any(task.phase is Phase.RETRYING and task.retry_at <= now for task in course.tasks)


def has_waited_too_long(course: Course, now: int, out: Outbox) -> bool:
    """Fail an occurrence that got no slot to check its requirement before the deadline. Return True if it failed."""
    if course.stage is not Stage.CHECKING or course.deadline_at is None or now < course.deadline_at:
        return False
    why = "a requirement was not met when it was last looked at, and there was no slot to look at it again in time"
    return close(course, Closing(OccurrenceState.FAILED, errands.A_REQUIREMENT, why), now, out)
