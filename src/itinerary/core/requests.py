"""What people want of occurrences, and what they are told (L6).

Requests are durable before the loop hears of them (PROTOCOL 25): here they only reach the work. For an occurrence that
is unknown or has ended, or an update that comes after `prerun`, nothing changes, it is logged, and the reply says why.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from itinerary.core import ending, lifecycle
from itinerary.core.answers import ActiveOccurrence, JobStanding, LoopStatistics, Told
from itinerary.core.board import Board
from itinerary.core.commands import Level
from itinerary.core.course import LIVE, UNSTARTED, Closing, Course, Stage
from itinerary.core.messages import (
    ActiveAsked,
    CancelRequested,
    ConfigurationUpdated,
    JobAsked,
    OccurrenceAsked,
    StatisticsAsked,
)
from itinerary.core.outbox import Outbox
from itinerary.core.progress import Phase
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL, OccurrenceState

__all__ = ["Question", "answer", "cancel", "look_at", "update"]

Question: TypeAlias = OccurrenceAsked | ActiveAsked | JobAsked | StatisticsAsked


def look_at(board: Board, row: OccurrenceRow, now: int, out: Outbox) -> None:
    """A row of this node that somebody has changed."""
    course = board.by_ref.get(row.ref)
    if course is None or course.stage is Stage.OVER:
        return
    if row.cancelled_by is not None:
        cancel(board, CancelRequested(row.ref, row.cancelled_by), now, out)
    elif row.status in FINAL:
        if course.stage in UNSTARTED:
            board.over(course, now)
    elif row.adjustments > course.adjustments:
        update(board, ConfigurationUpdated(row.ref, row.overrides or "{}", row.adjustments), out)
        if course.due_at <= now:
            board.alarms.put(now, course)


def cancel(board: Board, message: CancelRequested, now: int, out: Outbox) -> None:
    """Somebody wants an occurrence to end."""
    course = board.by_ref.get(message.ref)
    if course is None:
        _refuse(message, "it is not known here", out)
    elif course.stage is Stage.STARTING:
        out.reads.append(course.ref)  # it is refused, or begins and has the request in its row
        out.reply(message.reply, Told(done=True))
    elif course.stage in UNSTARTED:
        board.over(course, now)
        out.log(Level.INFO, "occurrence.cancelled", **ending.named(course), by=message.by)
        out.reply(message.reply, Told(done=True))
    elif lifecycle.close(course, Closing(OccurrenceState.CANCELLED, message.by, message.by), now, out):
        board.after(course, now, out)
        out.reply(message.reply, Told(done=True))
    elif course.closing is not None and course.closing.outcome is OccurrenceState.CANCELLED:
        out.reply(message.reply, Told(done=True))  # a second request changes nothing
    else:
        _refuse(message, f"its end is decided: {ending.outcome(course)[0]}", out)


def update(board: Board, message: ConfigurationUpdated, out: Outbox) -> None:
    """An occurrence that has not started has new overrides."""
    course = board.by_ref.get(message.ref)
    if course is None:
        _refuse(message, "it is not known here", out)
    elif course.stage not in (Stage.CLAIMED, Stage.LINED_UP):
        _refuse(message, f"it is past prerun: {course.state}", out)
    else:
        course.overrides, course.adjustments = message.overrides, message.adjustments
        course.terms = course.plan.terms_of(message.overrides)
        course.prepare()
        out.reply(message.reply, Told(done=True))


def _refuse(message: CancelRequested | ConfigurationUpdated, why: str, out: Outbox) -> None:
    out.log(Level.INFO, "request.refused", request=type(message).__name__, occurrence=message.ref, why=why)
    out.reply(message.reply, Told(done=False, why=why))


# -- questions -------------------------------------------------------------------------------------------------------


def answer(board: Board, question: Question, iterations: int, now: int, out: Outbox) -> None:
    """Tell who asks."""
    match question:
        case OccurrenceAsked(ref, reply):
            course = board.by_ref.get(ref)
            out.reply(reply, None if course is None else _shown(board, course, now))
        case ActiveAsked(reply):
            out.reply(reply, [_shown(board, course, now) for course in board.active])
        case JobAsked(job, reply):
            out.reply(reply, _standing(board, job, now))
        case StatisticsAsked(reply):
            out.reply(reply, _statistics(board, iterations))
        case _:
            assert_never(question)


def _shown(board: Board, course: Course, now: int) -> ActiveOccurrence:
    has_begun = course.ref in board.live
    interval = board.settings.orchestrator_heartbeat_interval
    return ActiveOccurrence(
        course.ref,
        course.key,
        course.plan.name,
        course.state,
        course.started_at if has_begun else None,
        course.seen_at if has_begun else None,
        (now - course.seen_at) // interval if has_begun else 0,
        _waits_for(board, course),
    )


def _waits_for(board: Board, course: Course) -> str:
    if course.lined_up_at:
        place = board.line.places().index(course) + 1
        return f"a slot of node {board.here.name}, {place} in line"
    if course.stage is Stage.CHECKING and course.resume_at is not None:
        return "a requirement"
    if course.stage in LIVE and course.pen.is_refused:
        return "a share of a limit"
    retrying = [task for task in course.tasks if task.phase is Phase.RETRYING]
    if course.stage is Stage.WORKING and retrying:
        task = min(retrying, key=lambda task: task.retry_at)
        total = task.config.retry.max_retries + 1
        return f"attempt {task.number + 1} of {total} of task {task.task.name}, at {task.retry_at}"
    return ""


def _standing(board: Board, job: JobNumber, now: int) -> JobStanding | None:
    plan = board.plans.plan_at(job, now)
    if isinstance(plan, str):
        return None
    active = tuple(_shown(board, course, now) for course in board.active if course.key.job == job)
    return JobStanding(plan.name, plan.version, active)


def _statistics(board: Board, iterations: int) -> LoopStatistics:
    return LoopStatistics(
        iterations=iterations,
        active=len(board.live),
        index_size=len(board.index),
        waiting=len(board.line),
        free_slots=board.line.free,
        unwritten=board.unwritten,
    )
