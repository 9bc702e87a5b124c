"""What an occurrence came to."""

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import RecordError
from itinerary.model import (
    Attempt,
    AttemptId,
    Kind,
    Occurrence,
    OccurrenceReport,
    OccurrenceState,
    OverrideLevel,
    TaskRun,
    TaskState,
    attempt_id,
    build_report,
    freeze,
    from_json,
    job_id,
    occurrence_id,
    read_overrides,
    task_id,
    task_run_id,
    to_json,
)

SECOND = 1_000_000
DUE = 1_767_225_600 * SECOND
JOB = job_id("etl")

OCCURRENCE = Occurrence(
    id=occurrence_id(JOB, DUE),
    job=JOB,
    job_version=3,
    kind=Kind.SCHEDULED,
    instant=DUE,
    status=OccurrenceState.FAILED,
    started_at=DUE + 250_000,
    ended_at=DUE + 100 * SECOND,
    config=freeze(read_overrides({"failure": "fail_fast"}, OverrideLevel.JOB), {}),
    reason="task crunch failed",
)


def run(name: str, order: int, status: TaskState, **fields: str) -> TaskRun:
    task = task_id(JOB, name)
    return TaskRun(
        id=task_run_id(OCCURRENCE.id, task),
        occurrence=OCCURRENCE.id,
        task=task,
        name=name,
        order=order,
        status=status,
        cancelled_by=fields.get("cancelled_by"),
        reason=fields.get("reason"),
    )


def attempt(of: TaskRun, number: int, status: TaskState, start: int, end: int, error: str | None = None) -> Attempt:
    return Attempt(
        id=attempt_id(of.id, number),
        task_run=of.id,
        number=number,
        status=status,
        started_at=DUE + start * SECOND,
        ended_at=DUE + end * SECOND,
        error=error,
    )


EXTRACT = run("extract", 0, TaskState.CANCELLED, cancelled_by="the failure of crunch")
CRUNCH = run("crunch", 1, TaskState.FAILED)
LOAD = run("load", 2, TaskState.SKIPPED, reason="crunch failed")
ATTEMPTS = [
    attempt(EXTRACT, 1, TaskState.CANCELLED, 1, 95),
    attempt(CRUNCH, 1, TaskState.FAILED, 1, 2, "ValueError: a"),
    attempt(CRUNCH, 2, TaskState.TIMEOUT, 32, 34, "over its 2s"),
    attempt(CRUNCH, 3, TaskState.FAILED, 94, 95, "ValueError: b"),
]


@pytest.mark.spec("X8")
def test_a_report_tells_the_whole_story() -> None:
    report = build_report("etl", OCCURRENCE, [EXTRACT, CRUNCH, LOAD], ATTEMPTS)
    assert report.outcome == "failed"
    assert report.reason == "task crunch failed"
    assert report.failure == "fail_fast"
    assert report.scheduled_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert report.lateness == timedelta(milliseconds=250)
    assert report.duration == timedelta(seconds=99.75)
    assert [task.status for task in report.tasks] == ["cancelled", "failed", "skipped"]

    crunch = report.tasks[1]
    assert [(tried.number, tried.status, tried.error) for tried in crunch.attempts] == [
        (1, "failed", "ValueError: a"),
        (2, "timeout", "over its 2s"),
        (3, "failed", "ValueError: b"),
    ]
    assert crunch.attempts[1].started_at == report.scheduled_at + timedelta(seconds=32)
    assert crunch.attempts[1].duration == timedelta(seconds=2)
    assert crunch.retry_waits == (timedelta(seconds=30), timedelta(seconds=60))

    assert [(task.name, task.cancelled_by) for task in report.cancelled] == [("extract", "the failure of crunch")]
    assert report.tasks[2].attempts == ()
    assert report.tasks[2].reason == "crunch failed"


@pytest.mark.spec("X8")
@given(st.randoms(use_true_random=False))
def test_a_report_does_not_depend_on_the_order_of_the_rows(random: Random) -> None:
    runs, attempts = [EXTRACT, CRUNCH, LOAD], list(ATTEMPTS)
    random.shuffle(runs)
    random.shuffle(attempts)
    report = build_report("etl", OCCURRENCE, runs, attempts)
    assert report == build_report("etl", OCCURRENCE, [EXTRACT, CRUNCH, LOAD], ATTEMPTS)
    assert from_json(OccurrenceReport, to_json(report)) == report


@pytest.mark.spec("X8", "lateness")
def test_what_never_started_has_neither_lateness_nor_duration() -> None:
    skipped = msgspec.structs.replace(
        OCCURRENCE, status=OccurrenceState.SKIPPED, started_at=None, ended_at=DUE, config=None
    )
    report = build_report("etl", skipped, [], [])
    assert (report.lateness, report.duration, report.started_at, report.failure) == (None, None, None, None)
    assert report.tasks == ()


@pytest.mark.spec("X8")
def test_rows_of_another_occurrence_are_refused() -> None:
    foreign = msgspec.structs.replace(CRUNCH, occurrence=occurrence_id(JOB, 0))
    with pytest.raises(RecordError, match="belongs to occurrence"):
        build_report("etl", OCCURRENCE, [foreign], [])
    stray = msgspec.structs.replace(ATTEMPTS[0], id=AttemptId(UUID(int=0)))
    with pytest.raises(RecordError, match="is not part of occurrence"):
        build_report("etl", OCCURRENCE, [CRUNCH], [stray])
