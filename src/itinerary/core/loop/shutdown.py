"""The effect of a graceful shutdown on each occurrence of the node (R9).

    stage of the occurrence                     effect
    claimed, in the slot queue                  released: it has not started (see `claims.release`)
    its start is being written                  given back: its function was not called
    taken over, and not continued yet           given back as it was found
    it waits: requirement, retry, limit         given back
    a requirement or an on_start hook runs      as `on_shutdown` says, and then given back: no task was called
    a task runs                                 as `on_shutdown` says
    pods, and nothing else, run                 left: the pods continue, and another node follows them (K4)
    on_complete hooks run, the end is written   the node waits for them

`on_shutdown` decides how long the node waits for running work, and what happens then:

    finish     it continues until the cutoff, with the tasks that follow; then it is interrupted and cancelled
    cancel     it is interrupted at once and cancelled
    rerun      it is interrupted at once and given back

To *interrupt* an occurrence is to ask its attempts to end, and to begin no others. After the last attempt has ended,
the node knows whether a function was really called. If none was, nothing was interrupted, and the occurrence is *given
back* under every policy. Each attempt is written as cancelled, and the occurrence goes to `retrying`. One more write
takes it from this node and raises its fence. Then any node may continue it, also the next start of this one. The
occurrence keeps its overlap slot. A cancelled attempt that is followed by another one costs no retry.

If the node dies between the two writes, the occurrence is `retrying`, nothing of it is in flight, and the rescuer
releases it (see `rescue`). So a graceful shutdown loses no run, even if it is cut short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from msgspec.structs import replace

from itinerary.core.loop import completion as ending
from itinerary.core.loop import lifecycle
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.occurrence import SHUTDOWN, Interruption, OccurrenceRun, SideCallKind, Stage
from itinerary.core.loop.task_progress import IN_FLIGHT, StopReason, TaskPhase, TaskProgress
from itinerary.model.policies import OnShutdown
from itinerary.model.queries import Detail
from itinerary.model.reasons import given_back, shut_down
from itinerary.model.states import TRANSITIONS, OccurrenceState, TaskState
from itinerary.model.writes import TakeoverWrite
from itinerary.schedules.durations import SECOND

if TYPE_CHECKING:
    from itinerary.core.loop.state import SchedulerState

__all__ = ["GIVEN_BACK_FOR", "follow", "hand_back"]

GIVEN_BACK_FOR: Final = 366 * 86_400 * SECOND
"""How long an occurrence that was given back waits for a node before the reaper ends it. The next start may be far."""
_UNDECIDED: Final = frozenset({Stage.CONDITIONS, Stage.START_HOOKS, Stage.TASKS})
"""Stages in which the occurrence has started and its end is not decided."""


def follow(scheduler: SchedulerState, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Apply the shutdown to an occurrence that has started. Called after each change of the occurrence."""
    if run.stage not in _UNDECIDED or run.closing is not None:
        return
    if run.interruption is None:
        if run.outlives_its_node:
            ending.leave(run, out)  # other nodes follow it after this node has reported its exit
            return
        if not _is_due(scheduler, run):
            return
        _interrupt(scheduler, run, now, out)
    if run.writer.is_refused:
        _withhold(run, now)
    lifecycle.proceed(run, now, out)  # shows the interruption, and may find that all tasks are done
    is_busy = any(task.phase in IN_FLIGHT and not task.outlives for task in run.tasks)
    if run.stage in _UNDECIDED and not is_busy:
        _conclude(scheduler, run, now, out)


def _is_due(scheduler: SchedulerState, run: OccurrenceRun) -> bool:
    """True if the occurrence must be interrupted now."""
    policy = run.start_config.config.job.on_shutdown
    match policy:
        case OnShutdown.FINISH:
            return scheduler.cuts_at is None or lifecycle.is_waiting(run)
        case OnShutdown.CANCEL | OnShutdown.RERUN:
            return True
        case _:
            assert_never(policy)


def _interrupt(scheduler: SchedulerState, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Ask all attempts of an occurrence to end, and begin no others."""
    run.interruption = interruption = Interruption(shut_down(scheduler.node.name))
    scheduler.line.leave(run)
    run.resume_at = None
    if run.side_call is not None:
        if run.runs_errand:
            out.kills.append(run.side_call.key)
            interruption.has_run = run.side_call.kind is SideCallKind.ACTION
        run.side_call = None
    reason = StopReason(SHUTDOWN, why=interruption.why)
    for task in run.tasks:
        if task.outlives:
            continue
        if task.phase is TaskPhase.RUNNING:
            out.stops.append(task.key(run.ref))
            task.stop(reason, now + run.node.kill_grace)
        elif task.phase is TaskPhase.GATED:
            task.stop_reason = task.stop_reason or reason  # so it is not launched when its row is durable


def _withhold(run: OccurrenceRun, now: int) -> None:
    """Drop the write that was refused for lack of shares, and the attempts in it.

    An earlier try of that write, whose answer was lost, may still succeed. So its number is not used again, and the
    write that takes the occurrence from this node says that these attempts never began.
    """
    assert run.interruption is not None, "it begins nothing any more"
    reason = StopReason(SHUTDOWN, why=run.interruption.why)
    for waiting in run.writer.give_up():
        if isinstance(waiting, TaskProgress):
            waiting.withhold(run.ref, reason, now)
            waiting.wait_to_retry(run.plan.name, run.key, now)
            run.interruption.withheld.append(waiting.tries[-1])


def _conclude(scheduler: SchedulerState, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Cancel an occurrence that was interrupted while it ran, or give it back."""
    interruption, policy = run.interruption, run.start_config.config.job.on_shutdown
    assert interruption is not None, "only what is interrupted is concluded"
    if interruption.has_run and not policy.reruns:
        lifecycle.close(run, scheduler.shutdown_closing(), now, out)
        return
    runs_on = any(task.phase in IN_FLIGHT for task in run.tasks)
    why = given_back(scheduler.node.name, has_run=interruption.has_run, was_called=_was_called(run))
    if not runs_on:
        _show(run, now, why)
    run.writer.write(out, is_urgent=True)
    if not run.writer.can_be_lent:
        return  # wait for the answer: the next write takes it from this node
    if runs_on:
        ending.leave(run, out)
    else:
        _give_back(run, interruption, why, out)


def _was_called(run: OccurrenceRun) -> bool:
    """True if a function of the occurrence was ever called, here or on another node."""
    return any(
        attempt.started_at is not None or attempt.status is not TaskState.CANCELLED
        for task in run.tasks
        for attempt in task.tries
    )


def _show(run: OccurrenceRun, now: int, why: str) -> None:
    if OccurrenceState.RETRYING in TRANSITIONS[run.writer.state]:
        run.writer.step(OccurrenceState.RETRYING, now, why)
    elif run.writer.state is OccurrenceState.ACTION_RUNNING:
        run.writer.step(OccurrenceState.CONDITION_PENDING, now, why)


def _give_back(run: OccurrenceRun, interruption: Interruption, why: str, out: CommandBatch) -> None:
    """Take the occurrence from this node.

    An abandoned attempt may run here until the process ends. Then another node continues the occurrence only after this
    node has left.
    """
    if not interruption.has_abandoned:
        release = _release(run, run.writer.sequence, why)
        if interruption.withheld:
            release = replace(release, attempts=tuple(interruption.withheld), sequence=None)
        out.releases.append(release)
    run.stage = Stage.DONE
    out.log(LogLevel.INFO, "occurrence.given_back", **ending.named(run), why=why)


def hand_back(scheduler: SchedulerState, run: OccurrenceRun, detail: Detail, now: int, out: CommandBatch) -> None:
    """Give back an occurrence that was taken over for this node, and that this node no longer continues."""
    why = given_back(scheduler.node.name, has_run=False, was_called=True)
    run.fence = detail.row.fence
    out.releases.append(_release(run, detail.row.sequence, why, gives_back=False))
    out.log(LogLevel.INFO, "occurrence.given_back", **ending.named(run), why=why)
    scheduler.over(run, now)


def _release(run: OccurrenceRun, sequence: int, why: str, *, gives_back: bool = True) -> TakeoverWrite:
    assert run.fence is not None, "it is this node's"
    return TakeoverWrite(
        run.ref,
        run.fence,
        None,
        why,
        gives_back=gives_back,
        sequence=sequence,
        expires_after=GIVEN_BACK_FOR,
    )
