"""What hooks are told: an occurrence as it starts, and its report as it ends, from what the loop knows of it."""

from __future__ import annotations

from itinerary.core.course import Course
from itinerary.core.progress import TaskProgress
from itinerary.model.ids import attempt_id, job_id, task_run_id
from itinerary.model.occurrence import Attempt, Kind, Occurrence, TaskRun
from itinerary.model.report import Report, build_report
from itinerary.model.rows import Ref
from itinerary.model.states import OccurrenceState

__all__ = ["occurrence_told", "report_told"]


def occurrence_told(
    course: Course, state: OccurrenceState | None = None, why: str | None = None, ended_at: int | None = None
) -> Occurrence:
    """The occurrence, as it is or as it will be in a moment."""
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
    """What it came to."""
    occurrence = occurrence_told(course, state, why, now)
    runs = [_run(occurrence, task) for task in course.tasks]
    attempts = [
        Attempt(
            id=attempt_id(run.id, row.number),
            task_run=run.id,
            number=row.number,
            status=row.status,
            started_at=row.started_at,
            ended_at=row.ended_at,
            error=row.error,
        )
        for run, task in zip(runs, course.tasks, strict=True)
        for row in task.tries
    ]
    return build_report(course.plan.name, occurrence, runs, attempts)


def _run(occurrence: Occurrence, task: TaskProgress) -> TaskRun:
    row = task.row(Ref(0))
    return TaskRun(
        id=task_run_id(occurrence.id, task.task.id),
        occurrence=occurrence.id,
        task=task.task.id,
        name=row.name,
        order=row.place,
        status=row.status,
        retries=row.retries,
        cancelled_by=row.cancelled_by,
        reason=row.reason,
        result=row.result,
    )
