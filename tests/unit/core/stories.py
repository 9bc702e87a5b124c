"""An occurrence's whole report and its audit trail as a few lines that can be read, and compared whole.

    failed after 2 s: task load failed: boom (fail_fast)
    extract success [1 success 0-1]
    load failed (boom) [1 failed 1-2: boom]
    tidy skipped (task load failed)

Times are seconds since the instant. `~` stands before how much too late it started, if it did.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from itinerary.model.queries import Detail
from itinerary.model.report import AttemptReport, OccurrenceReport, TaskReport
from itinerary.model.report_builder import report_of
from itinerary.model.states import CREATED_AS, TRANSITIONS, OccurrenceState

__all__ = ["story_of", "told", "trail_of"]


def story_of(name: str, detail: Detail) -> str:
    return told(report_of(name, detail))


def told(report: OccurrenceReport) -> str:
    """Everything that a report says, but for ids."""
    late = f"~{_seconds(report.lateness)} " if report.lateness else ""
    took = f" after {_seconds(report.duration)} s" if report.duration is not None else ""
    why = f": {report.reason}" if report.reason else ""
    strategy = f" ({report.failure})" if report.failure else ""
    lines = [f"{late}{report.outcome}{took}{why}{strategy}"]
    return "\n".join([*lines, *(_task(report, task) for task in report.tasks)])


def _task(report: OccurrenceReport, task: TaskReport) -> str:
    by = f" by {task.cancelled_by}" if task.cancelled_by else ""
    reason = f" ({task.reason})" if task.reason else ""
    attempts = "".join(f" [{_attempt(report, attempt)}]" for attempt in task.attempts)
    waits = f" waits {' '.join(_seconds(wait) for wait in task.retry_waits)}" if task.retry_waits else ""
    return f"{task.name} {task.status}{by}{reason}{attempts}{waits}"


def _attempt(report: OccurrenceReport, attempt: AttemptReport) -> str:
    error = f": {attempt.error}" if attempt.error else ""
    times = f"{_since(report, attempt.started_at)}-{_since(report, attempt.ended_at)}"
    return f"{attempt.number} {attempt.status} {times}{error}"


def _since(report: OccurrenceReport, moment: datetime | None) -> str:
    return "" if moment is None else _seconds(moment - report.scheduled_at)


def _seconds(duration: timedelta | None) -> str:
    return "" if duration is None else f"{duration.total_seconds():g}"


def trail_of(detail: Detail) -> str:
    """The audit trail, which must be legal and without gaps."""
    before: OccurrenceState | None = None
    for line in detail.transitions:
        assert line.before == before, f"{line} does not follow {before}"
        is_restored = (before, line.after) == (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)
        allowed = CREATED_AS if before is None else TRANSITIONS[before]
        assert line.after in allowed or is_restored, f"from {before} to {line.after}"
        before = line.after
    assert before is detail.row.status
    return " ".join(str(line.after) for line in detail.transitions)
