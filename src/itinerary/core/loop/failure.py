"""What a failure means for the other tasks (X2), and what an occurrence comes to.

Each task has a strategy: its own, or its job's. A task that has failed for good

    fail_fast           has those in flight cancelled and the rest skipped
    retry_on_failure    has the rest skipped; those in flight finish. While it waits to retry, nothing further begins
    continue            leaves the others alone

A task that sets `continue` itself is spared whatever its peers do: it is neither cancelled nor skipped. A task that
only inherits `continue` from its job is not spared: if the job said `continue` and one task says `fail_fast`, that task
is essential, and its failure ends the others. The end of the occurrence as a whole, by a person, its timeout or a
shutdown, spares no task.

This is all of it, as a function from how far the tasks are to what should happen next; it is asked again whenever one
of them has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from itinerary.core.loop.task_progress import BEGUN, Phase, TaskProgress
from itinerary.model.overrides import Level
from itinerary.model.policies import Mode
from itinerary.model.states import OccurrenceState

__all__ = ["Decision", "decide", "is_doomed", "outcome_of"]

_WAITING: Final = Phase.WAITING


class Decision(NamedTuple):
    """What should happen next; each task is named at most once."""

    begin: Sequence[TaskProgress] = ()
    stop: Sequence[TaskProgress] = ()
    skip: Sequence[TaskProgress] = ()
    is_over: bool = False
    because: TaskProgress | None = None
    """The failure for which others are stopped or skipped."""


def decide(tasks: Sequence[TaskProgress], mode: Mode, *, is_closing: bool) -> Decision:
    """What should happen next. `is_closing`: somebody ends the occurrence as a whole."""
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
            held = held or (phase is Phase.RETRYING and task.config.failure.holds_peers)
    is_over = not busy and not begin
    if held or (busy and not mode.is_parallel):
        begin = []
    elif not mode.is_parallel:
        begin = begin[:1]
    return Decision(begin, stop, skip, is_over, failed)


def is_doomed(task: TaskProgress, tasks: Sequence[TaskProgress], *, is_closing: bool) -> bool:
    """Whether a task that has just failed must not be tried again, though its own policy would allow it."""
    if is_closing:
        return True
    return not _is_spared(task, is_closing=False) and _blamed(tasks)[0] is not None


def outcome_of(tasks: Sequence[TaskProgress]) -> tuple[OccurrenceState, TaskProgress | None]:
    """What an occurrence comes to whose tasks are all done, and the failure that made it so."""
    failed = [task for task in tasks if task.has_failed]
    if not failed:  # nearly always
        return OccurrenceState.COMPLETED, None
    hard = next((task for task in failed if not task.config.failure.spares_peers), None)
    if hard is not None:
        return OccurrenceState.FAILED, hard
    return OccurrenceState.COMPLETED_WITH_ERRORS, failed[0]


def _is_spared(task: TaskProgress, *, is_closing: bool) -> bool:
    """True if the failure of a peer leaves the task alone, since the task sets `continue` itself."""
    config = task.config
    return not is_closing and config.failure.spares_peers and config.source("failure") is Level.TASK


def _blamed(tasks: Sequence[TaskProgress]) -> tuple[TaskProgress | None, TaskProgress | None]:
    """The failure for which those in flight are stopped, and the one for which the rest is skipped."""
    failed = [task for task in tasks if task.has_failed and not task.config.failure.spares_peers]
    if not failed:
        return None, None
    hard = next((task for task in failed if task.config.failure.stops_peers), None)
    return hard, hard or failed[0]
