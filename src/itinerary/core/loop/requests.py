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
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.messages import (
    ActiveAsked,
    CancelRequested,
    ConfigurationUpdated,
    JobAsked,
    OccurrenceAsked,
    StatisticsAsked,
)
from itinerary.core.loop.occurrence import LIVE, UNSTARTED, Course, Stage, cancelling
from itinerary.core.loop.replies import ActiveOccurrence, JobStanding, LoopStatistics, Told
from itinerary.core.loop.state import Board
from itinerary.core.loop.task_progress import Phase
from itinerary.errors import ItineraryError
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL, OccurrenceState

__all__ = ["Question", "answer", "cancel", "look_at", "update"]

Question: TypeAlias = OccurrenceAsked | ActiveAsked | JobAsked | StatisticsAsked

_WAITING: Final = frozenset({Stage.CLAIMED, Stage.LINED_UP})
"""Stages in which the occurrence has not started, and no write about its start is in flight."""
_DECIDED: Final = frozenset({Stage.TELLING, Stage.ENDING})


def look_at(board: Board, row: OccurrenceRow, now: int, out: Outbox) -> None:
    """Handle a row that was changed elsewhere: one of this node, or one without an owner that this node may start."""
    course = board.by_ref.get(row.ref)
    if course is None or course.stage is Stage.OVER:
        if row.owner is None:
            board.called.append(row)
    elif course.stage in _WAITING:
        _look_at_waiting(board, course, row, now, out)
    elif course.has_begun and row.fence > course.pen.fence:
        ending.lose(course, f"it is {row.status} by now, and not this node's", out)
        board.after(course, now, out)
    elif row.cancelled_by is not None:
        cancel(board, CancelRequested(row.ref, row.cancelled_by), now, out)


def _look_at_waiting(board: Board, course: Course, row: OccurrenceRow, now: int, out: Outbox) -> None:
    if row.started_at is not None and row.status not in FINAL and row.owner == board.here.node:
        # The store has a start that this node had given up. A repeated start gets the same answer, and then the change
        # can be applied.
        course.cancelled_by = course.cancelled_by or row.cancelled_by
        if course.stage is Stage.CLAIMED:
            board.alarms.put(now, course)
    elif row.cancelled_by is not None:
        cancel(board, CancelRequested(row.ref, row.cancelled_by), now, out)
    elif row.status in FINAL:
        board.over(course, now, row.status)
    elif row.adjustments > course.adjustments:
        update(board, ConfigurationUpdated(row.ref, row.overrides or "{}", row.adjustments), now, out)
        if course.stage is Stage.CLAIMED and course.due_at <= now:
            board.alarms.put(now, course)


def cancel(board: Board, message: CancelRequested, now: int, out: Outbox) -> None:
    """Cancel an occurrence."""
    course = board.by_ref.get(message.ref)
    if course is None:
        _refuse(message, "it is not known here", out)
    elif course.stage is Stage.STARTING or course.taking is not None:
        course.cancelled_by = message.by  # either its start is refused, or it begins and ends at once
        out.reply(message.reply, Told(done=True))
    elif course.stage in UNSTARTED:
        board.over(course, now, OccurrenceState.CANCELLED)
        out.news.append(ending.finished(course, OccurrenceState.CANCELLED, now, message.by))
        out.reply(message.reply, Told(done=True))
    elif lifecycle.close(course, cancelling(message.by), now, out):
        board.after(course, now, out)
        out.reply(message.reply, Told(done=True))
    elif _is_cancelled(course):
        out.reply(message.reply, Told(done=True))  # a second request changes nothing
    else:
        _refuse(message, _over_or(course, "its end is decided"), out)


def update(board: Board, message: ConfigurationUpdated, now: int, out: Outbox) -> None:
    """Apply new overrides to an occurrence that has not started."""
    course = board.by_ref.get(message.ref)
    if course is None:
        _refuse(message, "it is not known here", out)
    elif course.stage not in _WAITING or course.taking is not None:
        _refuse(message, _over_or(course, "it is past prerun"), out)
    elif message.adjustments <= course.adjustments:
        out.reply(message.reply, Told(done=True))  # the occurrence has these overrides, or later ones
    else:
        try:
            course.refit(course.plan, message.overrides, message.adjustments)
        except ItineraryError as error:
            out.log(Level.ERROR, "occurrence.unstartable", **ending.named(course), why=str(error))
            board.over(course, now)
            _refuse(message, str(error), out)
        else:
            out.reply(message.reply, Told(done=True))


def _is_cancelled(course: Course) -> bool:
    if course.closing is not None:
        return course.closing.outcome is OccurrenceState.CANCELLED
    return course.ended_as is OccurrenceState.CANCELLED


def _over_or(course: Course, why: str) -> str:
    """Return why nothing can be done about an occurrence."""
    if course.stage is not Stage.OVER:
        return f"{why}: {ending.outcome(course)[0] if course.stage in _DECIDED else course.state}"
    if course.has_begun or course.ended_as is not None:
        return f"it is over: {course.state}"
    return "it is no longer this node's"


def _refuse(message: CancelRequested | ConfigurationUpdated, why: str, out: Outbox) -> None:
    out.log(Level.INFO, "request.refused", request=type(message).__name__, occurrence=message.ref, why=why)
    out.reply(message.reply, Told(done=False, why=why))


# -- queries ---------------------------------------------------------------------------------------------------------


def answer(board: Board, question: Question, iterations: int, now: int, out: Outbox) -> None:
    """Answer a query."""
    match question:
        case OccurrenceAsked(ref, reply):
            course = board.by_ref.get(ref)
            out.reply(reply, None if course is None or _is_others(course) else _shown(board, [course], now)[0])
        case ActiveAsked(reply):
            out.reply(reply, _shown(board, board.active, now))
        case JobAsked(job, reply):
            out.reply(reply, _standing(board, job, now))
        case StatisticsAsked(reply):
            out.reply(reply, _statistics(board, iterations))
        case _:
            assert_never(question)


def _is_others(course: Course) -> bool:
    """True if the occurrence left this node without an end: another node has it, and the store knows its status."""
    return course.stage is Stage.OVER and not course.has_begun and course.ended_as is None


def _shown(board: Board, courses: Sequence[Course], now: int) -> list[ActiveOccurrence]:
    interval = board.settings.orchestrator_heartbeat_interval
    line = board.line.places() if any(course.place for course in courses) else []
    places = {course.place: place for place, course in enumerate(line, 1)}
    return [
        ActiveOccurrence(
            course.ref,
            course.key,
            course.plan.name,
            course.state,
            course.started_at if course.has_begun else None,
            course.seen_at if course.has_begun else None,
            (now - course.seen_at) // interval if course.ref in board.live else 0,
            _waits_for(board, course, places.get(course.place)),
        )
        for course in courses
    ]


def _waits_for(board: Board, course: Course, place: int | None) -> str:
    if place is not None:
        return f"a slot of node {board.here.name}, {place} in line"
    if course.stage is Stage.CLAIMED and course.lacks:
        return f"a share of limit {course.lacks}"
    if course.stage is Stage.CLAIMED and course.unsure:
        return course.unsure.removeprefix("waits ")
    if course.stage is Stage.CLAIMED and board.turns.holds(course):
        return "an earlier run of its job, which is late, too"
    if course.stage is Stage.CHECKING and course.resume_at is not None and course.errand is not None:
        requirement = course.plan.definition.requires[course.errand.index]
        return f"requirement {requirement}, looked at again at {course.resume_at}"
    if course.stage in LIVE and course.pen.is_refused:
        return f"a share of limit {' or '.join(limit.name for limit in course.terms.limits)}"
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
    active = _shown(board, [course for course in board.active if course.key.job == job], now)
    return JobStanding(plan.name, plan.version, tuple(active))


def _statistics(board: Board, iterations: int) -> LoopStatistics:
    return LoopStatistics(
        iterations=iterations,
        active=len(board.live),
        index_size=len(board.index),
        waiting=len(board.line),
        free_slots=max(board.line.free, 0),
        unwritten=board.unwritten,
    )
