"""From rows to records: what a store keeps with numbers, as people and hooks are told it, with ids and names.

    OccurrenceRow, TaskRow, AttemptRow  ─►  Occurrence, TaskRun, Attempt  ─►  Report

Ids are computed here and nowhere stored: each costs a hash, so nothing is told that nobody asked for.
"""

from collections.abc import Iterable

from itinerary.model.asked import read_asked
from itinerary.model.codec import from_json
from itinerary.model.config import FrozenConfig
from itinerary.model.ids import JobId, OccurrenceId, attempt_id, job_id, task_id, task_run_id
from itinerary.model.occurrence import Attempt, Kind, Occurrence, TaskRun
from itinerary.model.queries import Detail
from itinerary.model.report import Report, build_report
from itinerary.model.rows import AttemptRow, TaskRow

__all__ = ["report_of", "told"]


def report_of(job: str, detail: Detail) -> Report:
    """What an occurrence came to, from its rows."""
    row, identity, asked = detail.row, job_id(job), read_asked(detail.row.details)
    occurrence = Occurrence(
        id=row.key.id(identity),
        job=identity,
        job_version=row.version,
        kind=Kind.RECOVERY if row.is_recovery and row.kind is Kind.SCHEDULED else row.kind,
        instant=row.instant,
        status=row.status,
        fence=row.fence,
        started_at=row.started_at,
        ended_at=row.ended_at,
        config=None if detail.config is None else from_json(FrozenConfig, detail.config),
        window=row.window,
        request_key=row.request if row.kind is Kind.TRIGGER else None,
        replay_of=None if asked is None or asked.replay_of is None else OccurrenceId(asked.replay_of),
        replay_number=None if asked is None else asked.replay_number,
        only_tasks=None if asked is None else asked.only_tasks,
        reason=row.reason or row.cancelled_by or (None if asked is None else asked.reason),
    )
    return told(job, occurrence, detail.tasks, detail.attempts)


def told(job: str, occurrence: Occurrence, tasks: Iterable[TaskRow], attempts: Iterable[AttemptRow]) -> Report:
    """The report of an occurrence, and of the tasks and attempts in these rows."""
    runs = {task.place: _run(occurrence, occurrence.job, task) for task in tasks}
    tries = [_attempt(runs[row.place], row) for row in attempts if row.place in runs]
    return build_report(job, occurrence, runs.values(), tries)


def _run(occurrence: Occurrence, job: JobId, row: TaskRow) -> TaskRun:
    task = task_id(job, row.name)
    return TaskRun(
        id=task_run_id(occurrence.id, task),
        occurrence=occurrence.id,
        task=task,
        name=row.name,
        order=row.place,
        status=row.status,
        retries=row.retries,
        cancelled_by=row.cancelled_by,
        reason=row.reason,
        result=row.result,
    )


def _attempt(run: TaskRun, row: AttemptRow) -> Attempt:
    return Attempt(
        id=attempt_id(run.id, row.number),
        task_run=run.id,
        number=row.number,
        status=row.status,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=row.error,
    )
