"""Requests and queries about occurrences (L6).

A request is durable before the loop receives it (protocol rule 25). This module only applies it to the work of this
node. Nothing changes if the occurrence is unknown or has ended, or if an update comes after `prerun`. In these cases
the loop logs the refusal, and the reply says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from itinerary.core.loop import completion as ending
from itinerary.core.loop import lifecycle
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.messages import (
    ActiveAsked,
    CancelRequested,
    ConfigurationUpdated,
    JobAsked,
    OccurrenceAsked,
    StatisticsAsked,
)
from itinerary.core.loop.occurrence import LIVE, UNSTARTED, OccurrenceRun, Stage, cancelling
from itinerary.core.loop.replies import ActiveOccurrence, JobOverview, LoopStatistics, RequestReply
from itinerary.core.loop.state import SchedulerState
from itinerary.core.loop.task_progress import TaskPhase
from itinerary.errors import ItineraryError
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL, OccurrenceState

__all__ = ["Question", "answer", "cancel", "look_at", "update"]

Question: TypeAlias = OccurrenceAsked | ActiveAsked | JobAsked | StatisticsAsked

_WAITING: Final = frozenset({Stage.CLAIMED, Stage.WAITING_FOR_SLOT})
"""Stages in which the occurrence has not started, and no write about its start is in flight."""
_DECIDED: Final = frozenset({Stage.COMPLETE_HOOKS, Stage.ENDING})


def look_at(scheduler: SchedulerState, row: OccurrenceRow, now: int, out: CommandBatch) -> None:
    """Handle a row that was changed elsewhere: one of this node, or one without an owner that this node may start."""
    run = scheduler.by_ref.get(row.ref)
    if run is None or run.stage is Stage.DONE:
        if row.owner is None:
            scheduler.called.append(row)
    elif run.stage in _WAITING:
        _look_at_waiting(scheduler, run, row, now, out)
    elif run.has_begun and row.fence > run.writer.fence:
        ending.lose(run, f"it is {row.status} by now, and not this node's", out)
        scheduler.after(run, now, out)
    elif row.cancelled_by is not None:
        cancel(scheduler, CancelRequested(row.ref, row.cancelled_by), now, out)


def _look_at_waiting(
    scheduler: SchedulerState, run: OccurrenceRun, row: OccurrenceRow, now: int, out: CommandBatch
) -> None:
    if row.started_at is not None and row.status not in FINAL and row.owner == scheduler.node.node:
        # The store has a start that this node had given up. A repeated start gets the same answer, and then the change
        # can be applied.
        run.cancelled_by = run.cancelled_by or row.cancelled_by
        if run.stage is Stage.CLAIMED:
            scheduler.alarms.put(now, run)
    elif row.cancelled_by is not None:
        cancel(scheduler, CancelRequested(row.ref, row.cancelled_by), now, out)
    elif row.status in FINAL:
        scheduler.over(run, now, row.status)
    elif row.adjustments > run.adjustments:
        update(scheduler, ConfigurationUpdated(row.ref, row.overrides or "{}", row.adjustments), now, out)
        if run.stage is Stage.CLAIMED and run.due_at <= now:
            scheduler.alarms.put(now, run)


def cancel(scheduler: SchedulerState, message: CancelRequested, now: int, out: CommandBatch) -> None:
    """Cancel an occurrence."""
    run = scheduler.by_ref.get(message.ref)
    if run is None:
        _refuse(message, "it is not known here", out)
    elif run.stage is Stage.STARTING or run.taking is not None:
        run.cancelled_by = message.by  # either its start is refused, or it begins and ends at once
        out.reply(message.reply, RequestReply(done=True))
    elif run.stage in UNSTARTED:
        scheduler.over(run, now, OccurrenceState.CANCELLED)
        out.news.append(ending.finished(run, OccurrenceState.CANCELLED, now, message.by))
        out.reply(message.reply, RequestReply(done=True))
    elif lifecycle.close(run, cancelling(message.by), now, out):
        scheduler.after(run, now, out)
        out.reply(message.reply, RequestReply(done=True))
    elif _is_cancelled(run):
        out.reply(message.reply, RequestReply(done=True))  # a second request changes nothing
    else:
        _refuse(message, _over_or(run, "its end is decided"), out)


def update(scheduler: SchedulerState, message: ConfigurationUpdated, now: int, out: CommandBatch) -> None:
    """Apply new overrides to an occurrence that has not started."""
    run = scheduler.by_ref.get(message.ref)
    if run is None:
        _refuse(message, "it is not known here", out)
    elif run.stage not in _WAITING or run.taking is not None:
        _refuse(message, _over_or(run, "it is past prerun"), out)
    elif message.adjustments <= run.adjustments:
        out.reply(message.reply, RequestReply(done=True))  # the occurrence has these overrides, or later ones
    else:
        try:
            run.refit(run.plan, message.overrides, message.adjustments)
        except ItineraryError as error:
            out.log(LogLevel.ERROR, "occurrence.unstartable", **ending.named(run), why=str(error))
            scheduler.over(run, now)
            _refuse(message, str(error), out)
        else:
            out.reply(message.reply, RequestReply(done=True))


def _is_cancelled(run: OccurrenceRun) -> bool:
    if run.closing is not None:
        return run.closing.outcome is OccurrenceState.CANCELLED
    return run.ended_as is OccurrenceState.CANCELLED


def _over_or(run: OccurrenceRun, why: str) -> str:
    """Return why nothing can be done about an occurrence."""
    if run.stage is not Stage.DONE:
        return f"{why}: {ending.outcome(run)[0] if run.stage in _DECIDED else run.state}"
    if run.has_begun or run.ended_as is not None:
        return f"it is over: {run.state}"
    return "it is no longer this node's"


def _refuse(message: CancelRequested | ConfigurationUpdated, why: str, out: CommandBatch) -> None:
    out.log(LogLevel.INFO, "request.refused", request=type(message).__name__, occurrence=message.ref, why=why)
    out.reply(message.reply, RequestReply(done=False, why=why))


# -- queries ---------------------------------------------------------------------------------------------------------


def answer(scheduler: SchedulerState, question: Question, iterations: int, now: int, out: CommandBatch) -> None:
    """Answer a query."""
    match question:
        case OccurrenceAsked(ref, reply):
            run = scheduler.by_ref.get(ref)
            out.reply(reply, None if run is None or _is_others(run) else _shown(scheduler, [run], now)[0])
        case ActiveAsked(reply):
            out.reply(reply, _shown(scheduler, scheduler.active, now))
        case JobAsked(job, reply):
            out.reply(reply, _status(scheduler, job, now))
        case StatisticsAsked(reply):
            out.reply(reply, _statistics(scheduler, iterations))
        case _:
            assert_never(question)


def _is_others(run: OccurrenceRun) -> bool:
    """True if the occurrence left this node without an end: another node has it, and the store knows its status."""
    return run.stage is Stage.DONE and not run.has_begun and run.ended_as is None


def _shown(scheduler: SchedulerState, runs: Sequence[OccurrenceRun], now: int) -> list[ActiveOccurrence]:
    interval = scheduler.settings.orchestrator_heartbeat_interval
    line = scheduler.line.places() if any(run.place for run in runs) else []
    places = {run.place: place for place, run in enumerate(line, 1)}
    return [
        ActiveOccurrence(
            run.ref,
            run.key,
            run.plan.name,
            run.state,
            run.started_at if run.has_begun else None,
            run.seen_at if run.has_begun else None,
            (now - run.seen_at) // interval if run.ref in scheduler.live else 0,
            _waits_for(scheduler, run, places.get(run.place)),
        )
        for run in runs
    ]


def _waits_for(scheduler: SchedulerState, run: OccurrenceRun, place: int | None) -> str:
    if place is not None:
        return f"a slot of node {scheduler.node.name}, {place} in line"
    if run.stage is Stage.CLAIMED and run.lacks:
        return f"a share of limit {run.lacks}"
    if run.stage is Stage.CLAIMED and run.unsure:
        return run.unsure.removeprefix("waits ")
    if run.stage is Stage.CLAIMED and scheduler.turns.holds(run):
        return "an earlier run of its job, which is late, too"
    if run.stage is Stage.CONDITIONS and run.resume_at is not None and run.side_call is not None:
        requirement = run.plan.definition.requires[run.side_call.index]
        return f"requirement {requirement}, looked at again at {run.resume_at}"
    if run.stage in LIVE and run.writer.is_refused:
        return f"a share of limit {' or '.join(limit.name for limit in run.start_config.limits)}"
    retrying = [task for task in run.tasks if task.phase is TaskPhase.RETRYING]
    if run.stage is Stage.TASKS and retrying:
        task = min(retrying, key=lambda task: task.retry_at)
        total = task.config.retry.max_retries + 1
        return f"attempt {task.number + 1} of {total} of task {task.task.name}, at {task.retry_at}"
    return ""


def _status(scheduler: SchedulerState, job: JobNumber, now: int) -> JobOverview | None:
    plan = scheduler.plans.plan_at(job, now)
    if isinstance(plan, str):
        return None
    active = _shown(scheduler, [run for run in scheduler.active if run.key.job == job], now)
    return JobOverview(plan.name, plan.version, tuple(active))


def _statistics(scheduler: SchedulerState, iterations: int) -> LoopStatistics:
    return LoopStatistics(
        iterations=iterations,
        active=len(scheduler.live),
        index_size=len(scheduler.index),
        waiting=len(scheduler.line),
        free_slots=max(scheduler.line.free, 0),
        unwritten=scheduler.unwritten,
    )
