"""The report of an occurrence, for people and hooks (X8).

A report is computed from the rows and not stored, so it cannot contradict them. Reports are public API: instants are
aware datetimes in UTC, durations are timedeltas.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from itinerary.errors import RecordError
from itinerary.model.ids import OccurrenceId, TaskRunId
from itinerary.model.occurrence import Attempt, Kind, Occurrence, TaskRun
from itinerary.model.policies import Failure
from itinerary.model.states import OccurrenceState, TaskState

__all__ = ["AttemptReport", "OccurrenceReport", "TaskReport", "build_report"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an attempt."""

    number: int
    status: TaskState
    started_at: datetime | None
    ended_at: datetime | None
    duration: timedelta | None
    error: str | None


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a task, with its attempts in order."""

    name: str
    status: TaskState
    started_at: datetime | None
    """The start of its first attempt. None if no attempt started."""
    ended_at: datetime | None
    """The end of its last attempt. None while it runs, and if no node observed the end."""
    duration: timedelta | None
    """The time from its start to its end, including waits between attempts."""
    attempts: tuple[AttemptReport, ...]
    retry_waits: tuple[timedelta, ...]
    """The times between the end of each attempt and the start of the next."""
    cancelled_by: str | None
    reason: str | None


class OccurrenceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an occurrence."""

    occurrence: OccurrenceId
    job: str
    job_version: int
    kind: Kind
    scheduled_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    lateness: timedelta | None
    """The start lateness: from the instant to the start. None if it never started."""
    duration: timedelta | None
    outcome: OccurrenceState
    reason: str | None
    replay_of: OccurrenceId | None
    """The original occurrence, if this one is a replay."""
    failure: Failure | None
    """The failure strategy of the job. None if it never started."""
    tasks: tuple[TaskReport, ...]

    @property
    def cancelled(self) -> tuple[TaskReport, ...]:
        """The cancelled tasks. The field `cancelled_by` of each has the cause."""
        return tuple(task for task in self.tasks if task.status is TaskState.CANCELLED)


def build_report(
    job_name: str, occurrence: Occurrence, runs: Iterable[TaskRun], attempts: Iterable[Attempt]
) -> OccurrenceReport:
    """Build the report of an occurrence.

    Args:
        job_name: The name of the job.
        occurrence: The occurrence.
        runs: Its task runs, in any order.
        attempts: Their attempts, in any order.

    Raises:
        RecordError: A row belongs to another occurrence.
    """
    by_run: dict[TaskRunId, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_run[attempt.task_run].append(attempt)
    tasks = []
    for run in sorted(runs, key=lambda run: (run.order, run.name)):
        if run.occurrence != occurrence.id:
            raise RecordError(f"task run {run.id} belongs to occurrence {run.occurrence}, not to {occurrence.id}")
        tasks.append(_task(run, by_run.pop(run.id, [])))
    if by_run:
        raise RecordError(f"task run {next(iter(by_run))} has attempts but is not part of occurrence {occurrence.id}")
    return OccurrenceReport(
        occurrence=occurrence.id,
        job=job_name,
        job_version=occurrence.job_version,
        kind=occurrence.kind,
        scheduled_at=_EPOCH + timedelta(microseconds=occurrence.instant),
        started_at=_moment(occurrence.started_at),
        ended_at=_moment(occurrence.ended_at),
        lateness=_between(occurrence.instant, occurrence.started_at),
        duration=_between(occurrence.started_at, occurrence.ended_at),
        outcome=occurrence.status,
        reason=occurrence.reason,
        replay_of=occurrence.replay_of,
        failure=occurrence.config.job.failure if occurrence.config else None,
        tasks=tuple(tasks),
    )


def _task(run: TaskRun, attempts: list[Attempt]) -> TaskReport:
    attempts.sort(key=lambda attempt: attempt.number)
    waits = (_between(earlier.ended_at, later.started_at) for earlier, later in pairwise(attempts))
    return TaskReport(
        name=run.name,
        status=run.status,
        started_at=_moment(run.started_at),
        ended_at=_moment(run.ended_at),
        duration=_between(run.started_at, run.ended_at),
        attempts=tuple(_attempt(attempt) for attempt in attempts),
        retry_waits=tuple(wait for wait in waits if wait is not None),
        cancelled_by=run.cancelled_by,
        reason=run.reason,
    )


def _attempt(attempt: Attempt) -> AttemptReport:
    return AttemptReport(
        number=attempt.number,
        status=attempt.status,
        started_at=_moment(attempt.started_at),
        ended_at=_moment(attempt.ended_at),
        duration=_between(attempt.started_at, attempt.ended_at),
        error=attempt.error,
    )


def _moment(instant: int | None) -> datetime | None:
    return None if instant is None else _EPOCH + timedelta(microseconds=instant)


def _between(start: int | None, end: int | None) -> timedelta | None:
    return None if start is None or end is None else timedelta(microseconds=end - start)
