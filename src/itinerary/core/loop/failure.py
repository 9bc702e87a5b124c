"""The effect of a failed task on the other tasks (X2), and the outcome of the occurrence.

Each task has a failure strategy: its own, or that of its job. When a task has failed for good, its strategy says:

    fail_fast           cancel the tasks in flight, and skip the rest
    retry_on_failure    let the tasks in flight finish, and skip the rest; while the task waits to retry, begin no task
    continue            leave the other tasks alone

A task that sets `continue` itself is spared: the failure of a peer neither cancels nor skips it. A task that only
inherits `continue` from its job is not spared. If the job says `continue` and one task says `fail_fast`, that task is
essential, and its failure ends the others. If a person, the timeout or a shutdown ends the whole occurrence, no task is
spared.

`decide` is a pure function from the progress of the tasks to the next steps. The loop calls it after each change of a
task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from itinerary.core.loop.task_progress import BEGUN, TaskPhase, TaskProgress
from itinerary.model.overrides import OverrideLevel
from itinerary.model.policies import Mode
from itinerary.model.states import OccurrenceState

__all__ = ["FailureDecision", "decide", "is_doomed", "outcome_of"]

_WAITING: Final = TaskPhase.WAITING


class FailureDecision(NamedTuple):
    """The next steps of an occurrence. Each task appears at most once."""

    begin: Sequence[TaskProgress] = ()
    stop: Sequence[TaskProgress] = ()
    skip: Sequence[TaskProgress] = ()
    is_over: bool = False
    because: TaskProgress | None = None
    """The failed task for which others are stopped or skipped."""


def decide(tasks: Sequence[TaskProgress], mode: Mode, *, is_closing: bool) -> FailureDecision:
    """Return the next steps of an occurrence.

    Args:
        tasks: The tasks of the occurrence.
        mode: Whether the tasks run one after another or in parallel.
        is_closing: True if the whole occurrence is being ended.
    """
    hard, failed = _blamed(tasks)
    stop, skip, begin = [], [], []
    busy = held = False
    for task in tasks:
        phase, spared = task.phase, _is_spared(task, is_closing=is_closing)
        if phase is _WAITING:
            if is_closing or (failed is not None and not spared):
                skip.append(task)
            else:
                begin.append(task)
        elif phase in BEGUN:
            if (is_closing or hard is not None) and not spared:
                stop.append(task)
            busy = True
            held = held or (phase is TaskPhase.RETRYING and task.config.failure.holds_peers)
    is_over = not busy and not begin
    if held or (busy and not mode.is_parallel):
        begin = []
    elif not mode.is_parallel:
        begin = begin[:1]
    return FailureDecision(begin, stop, skip, is_over, failed)


def is_doomed(task: TaskProgress, tasks: Sequence[TaskProgress], *, is_closing: bool) -> bool:
    """True if a task that has just failed must not be retried, although its own policy allows it."""
    if is_closing:
        return True
    return not _is_spared(task, is_closing=False) and _blamed(tasks)[0] is not None


def outcome_of(tasks: Sequence[TaskProgress]) -> tuple[OccurrenceState, TaskProgress | None]:
    """Return the final state of an occurrence whose tasks are all done, and the failed task that decided it."""
    failed = [task for task in tasks if task.has_failed]
    if not failed:  # the usual case
        return OccurrenceState.COMPLETED, None
    hard = next((task for task in failed if not task.config.failure.spares_peers), None)
    if hard is not None:
        return OccurrenceState.FAILED, hard
    return OccurrenceState.COMPLETED_WITH_ERRORS, failed[0]


def _is_spared(task: TaskProgress, *, is_closing: bool) -> bool:
    """True if the failure of a peer leaves the task alone, because the task sets `continue` itself."""
    config = task.config
    return not is_closing and config.failure.spares_peers and config.source("failure") is OverrideLevel.TASK


def _blamed(tasks: Sequence[TaskProgress]) -> tuple[TaskProgress | None, TaskProgress | None]:
    """Return the failed task for which tasks in flight are stopped, and the one for which the rest is skipped."""
    failed = [task for task in tasks if task.has_failed and not task.config.failure.spares_peers]
    if not failed:
        return None, None
    hard = next((task for task in failed if task.config.failure.stops_peers), None)
    return hard, hard or failed[0]
