"""The end of an occurrence: its outcome, and the write of that outcome.

Most occurrences end when their tasks are done. Other causes are a request to close the occurrence, a silent
orchestrator, or a write that is refused because another node owns the occurrence.
"""

from __future__ import annotations

from typing import Any, assert_never

from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.events import Finished, Tried
from itinerary.core.loop.failure import outcome_of
from itinerary.core.loop.occurrence import Closing, Course, Stage
from itinerary.core.loop.task_progress import Phase, StopReason, TaskProgress
from itinerary.core.recovery.rescue import SILENT
from itinerary.model.attempts import Failed
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.schedules.durations import SECOND

__all__ = ["end", "finished", "give_up", "leave", "lose", "named", "orphan", "outcome", "tried"]


def named(course: Course) -> dict[str, Any]:
    """Return the fields that identify an occurrence in a log event."""
    return {"run": course.key.run_id(course.plan.name), "occurrence": course.ref}


def outcome(course: Course) -> tuple[OccurrenceState, str | None]:
    """Return the final state of an occurrence, and the reason for it."""
    if course.closing is not None:
        return course.closing.outcome, course.closing.why
    state, blamed = outcome_of(course.tasks)
    return state, None if blamed is None else _explained(blamed)


def _explained(task: TaskProgress) -> str:
    how = "timed out" if task.status is TaskState.TIMEOUT else "failed"
    times = f" after {task.number} attempts" if task.number > 1 else ""
    because = f": {task.reason}" if task.reason and task.status is TaskState.FAILED else ""
    return f"task {task.task.name} {how}{times}{because}"


def end(course: Course, now: int, out: Outbox) -> None:
    """Write the end of an occurrence at once (protocol rule 10)."""
    state, why = outcome(course)
    course.stage = Stage.ENDING
    course.errand = None
    course.pen.step(state, now, why)
    course.pen.write(out, is_urgent=True)


def finished(course: Course, state: OccurrenceState, now: int, why: str | None) -> Finished:
    """Return the event for the end of an occurrence."""
    started_at = course.started_at if course.has_begun else None
    attempts = max((task.number for task in course.tasks), default=0) if course.has_begun else 0
    return Finished(course.ref, course.key, course.plan.name, state, started_at, now, why, course.due_at, attempts)


def tried(course: Course, task: TaskProgress, now: int) -> Tried:
    """Return the event for the end of the newest attempt of a task."""
    return Tried(course.plan.name, task.task.name, task.status, task.started_at or None, now)


def give_up(course: Course, by: str) -> None:
    """Drop the write that was refused for lack of shares, and the attempts that waited for it."""
    for waiting in course.pen.give_up():
        if isinstance(waiting, TaskProgress):
            waiting.take_back(StopReason(by))
            course.pen.note(waiting.row(course.ref))


def orphan(course: Course, now: int, out: Outbox) -> None:
    """End all running work of an occurrence whose orchestrator has been silent for too long (O4).

    Record the reason in each task as well. If this node dies before the hooks have run, another node reads the outcome
    there.
    """
    why = f"{SILENT} {course.seen_at} (microseconds), {(now - course.seen_at) // SECOND} s ago"
    if course.runs_errand and course.errand is not None:
        out.kills.append(course.errand.key)
    course.errand = course.resume_at = None
    if course.pen.is_refused:
        give_up(course, "the scheduler")
    kill_all(course, out)
    for task in course.tasks:
        match task.phase:
            case Phase.GATED | Phase.RUNNING | Phase.STOPPING:
                task.end(course.ref, Failed(why), now)
                out.news.append(tried(course, task, now))
                task.finish(reason=why)
                course.pen.note(task.row(course.ref), task.tries[-1])
            case Phase.WAITING:
                task.finish(TaskState.SKIPPED, reason=why)
                course.pen.note(task.row(course.ref))
            case Phase.RETRYING:
                task.finish(reason=why)
                course.pen.note(task.row(course.ref))
            case Phase.DONE:
                pass
            case _:
                assert_never(task.phase)
    course.closing = Closing(OccurrenceState.ORPHANED, "the scheduler", why)
    out.log(Level.ERROR, "occurrence.orphaned", **named(course), why=why, last_seen=course.seen_at)


def lose(course: Course, why: str, out: Outbox) -> None:
    """Kill the work of an occurrence that has ended or belongs to another node now, and write nothing more."""
    kill_all(course, out)
    course.stage = Stage.OVER
    out.log(Level.WARNING, "occurrence.lost", **named(course), why=why)


def leave(course: Course, out: Outbox) -> None:
    """Stop following an occurrence whose work continues without this node. Another node follows it."""
    kill_all(course, out)
    course.stage = Stage.OVER
    out.log(Level.INFO, "occurrence.left", **named(course), why="its pods go on, and another node follows them")


def kill_all(course: Course, out: Outbox) -> None:
    """Kill all running work of an occurrence."""
    out.kills += [task.key(course.ref) for task in course.tasks if task.phase in (Phase.RUNNING, Phase.STOPPING)]
    if course.errand is not None and course.runs_errand:
        out.kills.append(course.errand.key)
