"""`itinerary up --plan`: what recovery would run, miss and skip, as a table for people or as JSON for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from itinerary.audit.findings import shown_instant
from itinerary.core.boot_plan import BootPlan, PlannedJob

__all__ = ["plan_as_json", "plan_in_words"]

_HEADINGS = ("job", "strategy", "runs", "late", "missed", "skipped", "from", "to")


def plan_in_words(plan: BootPlan) -> str:
    """A table, one line for each job, and what it comes to."""
    since = f"{shown_instant(plan.start)} to {shown_instant(plan.end)}"
    if not plan.jobs:
        return f"{since}: nothing to recover"
    rows = [_HEADINGS, *(_row(job) for job in plan.jobs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"{job.job}: {gap}" for job in plan.jobs for gap in job.gaps]
    count = f"{plan.runs} to run, {plan.missed} missed, {plan.skipped} skipped"
    return "\n".join([*lines, f"{since}: {count}"])


def _row(job: PlannedJob) -> tuple[str, ...]:
    runs = str(job.runs) if job.covered == job.runs else f"{job.runs} for {job.covered}"
    numbers = (runs, str(job.late), str(job.missed), str(job.skipped))
    return (job.job, job.strategy, *numbers, shown_instant(job.first_at), shown_instant(job.last_at))


def plan_as_json(plan: BootPlan) -> str:
    """The same for programs, with instants as text."""
    told: dict[str, Any] = {
        "start": shown_instant(plan.start),
        "end": shown_instant(plan.end),
        "runs": plan.runs,
        "missed": plan.missed,
        "skipped": plan.skipped,
        "jobs": [
            {
                **msgspec.to_builtins(job),
                "first_at": shown_instant(job.first_at),
                "last_at": shown_instant(job.last_at),
            }
            for job in plan.jobs
        ],
    }
    return msgspec.json.encode(told).decode()
