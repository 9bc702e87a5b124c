"""Data that hooks receive: the occurrence at its start, and its report at its end."""

from __future__ import annotations

from itinerary.core.loop.occurrence import Course
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind, Occurrence
from itinerary.model.report import Report
from itinerary.model.report_builder import told
from itinerary.model.states import OccurrenceState

__all__ = ["occurrence_told", "report_told"]


def occurrence_told(
    course: Course, state: OccurrenceState | None = None, why: str | None = None, ended_at: int | None = None
) -> Occurrence:
    """Return the occurrence, in its current state or in the state that it is about to have."""
    job = job_id(course.plan.name)
    key = course.key
    return Occurrence(
        id=key.id(job),
        job=job,
        job_version=course.plan.version,
        kind=Kind.RECOVERY if course.is_recovery and key.kind is Kind.SCHEDULED else key.kind,
        instant=key.instant,
        status=course.state if state is None else state,
        fence=course.pen.fence,
        started_at=course.started_at,
        ended_at=ended_at,
        config=course.terms.config,
        window=course.window,
        request_key=key.request if key.kind is Kind.TRIGGER else None,
        reason=why,
    )


def report_told(course: Course, state: OccurrenceState, why: str | None, now: int) -> Report:
    """Return the report of an occurrence that is about to end."""
    tasks = [task.row(course.ref) for task in course.tasks]
    attempts = [row for task in course.tasks for row in task.tries]
    return told(course.plan.name, occurrence_told(course, state, why, now), tasks, attempts)
