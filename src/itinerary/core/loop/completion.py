"""The end of an occurrence: its outcome, and the write of that outcome.

Most occurrences end when their tasks are done. Other causes are a request to close the occurrence, a silent
orchestrator, or a write that is refused because another node owns the occurrence.
"""

from __future__ import annotations

from typing import Any, assert_never

from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.events import AttemptEnded, OccurrenceEnded
from itinerary.core.loop.failure import outcome_of
from itinerary.core.loop.occurrence import Closing, OccurrenceRun, Stage
from itinerary.core.loop.task_progress import StopReason, TaskPhase, TaskProgress
from itinerary.core.recovery.rescue import SILENT
from itinerary.model.attempts import Failed
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.schedules.durations import SECOND

__all__ = ["end", "finished", "give_up", "leave", "lose", "named", "orphan", "outcome", "tried"]


def named(run: OccurrenceRun) -> dict[str, Any]:
    """Return the fields that identify an occurrence in a log event."""
    return {"run": run.key.run_id(run.plan.name), "occurrence": run.ref}


def outcome(run: OccurrenceRun) -> tuple[OccurrenceState, str | None]:
    """Return the final state of an occurrence, and the reason for it."""
    if run.closing is not None:
        return run.closing.outcome, run.closing.why
    state, blamed = outcome_of(run.tasks)
    return state, None if blamed is None else _explained(blamed)


def _explained(task: TaskProgress) -> str:
    how = "timed out" if task.status is TaskState.TIMEOUT else "failed"
    times = f" after {task.number} attempts" if task.number > 1 else ""
    because = f": {task.reason}" if task.reason and task.status is TaskState.FAILED else ""
    return f"task {task.task.name} {how}{times}{because}"


def end(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Write the end of an occurrence at once (protocol rule 10)."""
    state, why = outcome(run)
    run.stage = Stage.ENDING
    run.side_call = None
    run.writer.step(state, now, why)
    run.writer.write(out, is_urgent=True)


def finished(run: OccurrenceRun, state: OccurrenceState, now: int, why: str | None) -> OccurrenceEnded:
    """Return the event for the end of an occurrence."""
    started_at = run.started_at if run.has_begun else None
    attempts = max((task.number for task in run.tasks), default=0) if run.has_begun else 0
    return OccurrenceEnded(run.ref, run.key, run.plan.name, state, started_at, now, why, run.due_at, attempts)


def tried(run: OccurrenceRun, task: TaskProgress, now: int) -> AttemptEnded:
    """Return the event for the end of the newest attempt of a task."""
    return AttemptEnded(run.plan.name, task.task.name, task.status, task.started_at or None, now)


def give_up(run: OccurrenceRun, by: str) -> None:
    """Drop the write that was refused for lack of shares, and the attempts that waited for it."""
    for waiting in run.writer.give_up():
        if isinstance(waiting, TaskProgress):
            waiting.take_back(StopReason(by))
            run.writer.note(waiting.row(run.ref))


def orphan(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """End all running work of an occurrence whose orchestrator has been silent for too long (O4).

    Record the reason in each task as well. If this node dies before the hooks have run, another node reads the outcome
    there.
    """
    why = f"{SILENT} {run.seen_at} (microseconds), {(now - run.seen_at) // SECOND} s ago"
    if run.runs_errand and run.side_call is not None:
        out.kills.append(run.side_call.key)
    run.side_call = run.resume_at = None
    if run.writer.is_refused:
        give_up(run, "the scheduler")
    kill_all(run, out)
    for task in run.tasks:
        match task.phase:
            case TaskPhase.GATED | TaskPhase.RUNNING | TaskPhase.STOPPING:
                task.end(run.ref, Failed(why), now)
                out.news.append(tried(run, task, now))
                task.finish(reason=why)
                run.writer.note(task.row(run.ref), task.tries[-1])
            case TaskPhase.WAITING:
                task.finish(TaskState.SKIPPED, reason=why)
                run.writer.note(task.row(run.ref))
            case TaskPhase.RETRYING:
                task.finish(reason=why)
                run.writer.note(task.row(run.ref))
            case TaskPhase.DONE:
                pass
            case _:
                assert_never(task.phase)
    run.closing = Closing(OccurrenceState.ORPHANED, "the scheduler", why)
    out.log(LogLevel.ERROR, "occurrence.orphaned", **named(run), why=why, last_seen=run.seen_at)


def lose(run: OccurrenceRun, why: str, out: CommandBatch) -> None:
    """Kill the work of an occurrence that has ended or belongs to another node now, and write nothing more."""
    kill_all(run, out)
    run.stage = Stage.DONE
    out.log(LogLevel.WARNING, "occurrence.lost", **named(run), why=why)


def leave(run: OccurrenceRun, out: CommandBatch) -> None:
    """Stop following an occurrence whose work continues without this node. Another node follows it."""
    kill_all(run, out)
    run.stage = Stage.DONE
    out.log(LogLevel.INFO, "occurrence.left", **named(run), why="its pods go on, and another node follows them")


def kill_all(run: OccurrenceRun, out: CommandBatch) -> None:
    """Kill all running work of an occurrence."""
    out.kills += [task.key(run.ref) for task in run.tasks if task.phase in (TaskPhase.RUNNING, TaskPhase.STOPPING)]
    if run.side_call is not None and run.runs_errand:
        out.kills.append(run.side_call.key)
