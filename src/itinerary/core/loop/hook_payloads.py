"""Data that hooks receive: the occurrence at its start, and its report at its end."""

from __future__ import annotations

from itinerary.core.loop.occurrence import OccurrenceRun
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind, Occurrence
from itinerary.model.report import OccurrenceReport
from itinerary.model.report_builder import told
from itinerary.model.states import OccurrenceState

__all__ = ["occurrence_told", "report_told"]


def occurrence_told(
    run: OccurrenceRun, state: OccurrenceState | None = None, why: str | None = None, ended_at: int | None = None
) -> Occurrence:
    """Return the occurrence, in its current state or in the state that it is about to have."""
    job = job_id(run.plan.name)
    key = run.key
    return Occurrence(
        id=key.id(job),
        job=job,
        job_version=run.plan.version,
        kind=Kind.RECOVERY if run.is_recovery and key.kind is Kind.SCHEDULED else key.kind,
        instant=key.instant,
        status=run.state if state is None else state,
        fence=run.writer.fence,
        started_at=run.started_at,
        ended_at=ended_at,
        config=run.start_config.config,
        window=run.window,
        request_key=key.request if key.kind is Kind.TRIGGER else None,
        reason=why,
    )


def report_told(run: OccurrenceRun, state: OccurrenceState, why: str | None, now: int) -> OccurrenceReport:
    """Return the report of an occurrence that is about to end."""
    tasks = [task.row(run.ref) for task in run.tasks]
    attempts = [row for task in run.tasks for row in task.tries]
    return told(run.plan.name, occurrence_told(run, state, why, now), tasks, attempts)
