"""Conversion of stored rows to records and reports, with ids and names instead of numbers.

    OccurrenceRow, TaskRow, AttemptRow  ─►  Occurrence, TaskRun, Attempt  ─►  Report

Ids are computed here and stored nowhere. An id costs a hash, so only requested reports are built.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from itinerary.model.codec import from_json
from itinerary.model.config import FrozenConfig
from itinerary.model.ids import JobId, OccurrenceId, attempt_id, job_id, task_id, task_run_id
from itinerary.model.occurrence import Attempt, Kind, Occurrence, TaskRun
from itinerary.model.queries import Detail
from itinerary.model.report import OccurrenceReport, build_report
from itinerary.model.rows import AttemptRow, TaskRow
from itinerary.model.run_request import read_asked
from itinerary.model.states import TASK_FINAL, TaskState

__all__ = ["report_of", "task_times", "told"]


def report_of(job: str, detail: Detail) -> OccurrenceReport:
    """Return the report of an occurrence from its rows."""
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


def told(
    job: str, occurrence: Occurrence, tasks: Iterable[TaskRow], attempts: Iterable[AttemptRow]
) -> OccurrenceReport:
    """Return the report of an occurrence, with the tasks and attempts in these rows."""
    by_place: defaultdict[int, list[AttemptRow]] = defaultdict(list)
    for attempt in attempts:
        by_place[attempt.place].append(attempt)
    runs = {task.place: _run(occurrence, occurrence.job, task, by_place[task.place]) for task in tasks}
    tries = [_attempt(runs[place], row) for place, rows in by_place.items() if place in runs for row in rows]
    return build_report(job, occurrence, runs.values(), tries)


def task_times(
    status: TaskState, attempts: Iterable[AttemptRow], occurrence_started_at: int | None
) -> tuple[int | None, int | None]:
    """Return the start and the end of a task run, from its attempts.

    A first attempt that is written together with the start of the occurrence has no start of its own until its end is
    written. The attempt then counts from the start of the occurrence.

    Args:
        status: The status of the task run.
        attempts: Its attempts, in any order.
        occurrence_started_at: The start of its occurrence.
    """
    rows = sorted(attempts, key=lambda row: row.number)
    starts = [_began_at(row, occurrence_started_at) for row in rows]
    started_at = min((at for at in starts if at is not None), default=None)
    return started_at, rows[-1].ended_at if rows and status in TASK_FINAL else None


def _began_at(row: AttemptRow, occurrence_started_at: int | None) -> int | None:
    if row.started_at is None and row.ended_at is None and row.number == 1 and row.status is not TaskState.PENDING:
        return occurrence_started_at
    return row.started_at


def _run(occurrence: Occurrence, job: JobId, row: TaskRow, attempts: Sequence[AttemptRow]) -> TaskRun:
    task = task_id(job, row.name)
    started_at, ended_at = task_times(row.status, attempts, occurrence.started_at)
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
        started_at=started_at,
        ended_at=ended_at,
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
