"""`itinerary up --plan`: what recovery would run, miss and skip, as a table for people or as JSON for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from itinerary.cli.layout import TableColumn, print_table
from itinerary.cli.output import say
from itinerary.core.recovery.boot_plan import BootPlan, PlannedJob
from itinerary.schedules.instants import shown_instant

__all__ = ["plan_as_json", "print_plan"]

_COLUMNS = (
    TableColumn("job"),
    TableColumn("strategy", 3),
    TableColumn("runs"),
    TableColumn("late", 1),
    TableColumn("missed", 1),
    TableColumn("skipped", 1),
    TableColumn("from", 2),
    TableColumn("to", 2),
)


def print_plan(plan: BootPlan) -> None:
    """Print a table with one line for each job, and the totals."""
    since = f"{shown_instant(plan.start)} to {shown_instant(plan.end)}"
    if not plan.jobs:
        say(f"{since}: nothing to recover")
        return
    print_table(_COLUMNS, [_row(job) for job in plan.jobs])
    for job in plan.jobs:
        for gap in job.gaps:
            say(f"{job.job}: {gap}", hanging=2)
    say(f"{since}: {plan.runs} to run, {plan.missed} missed, {plan.skipped} skipped")


def _row(job: PlannedJob) -> tuple[str, ...]:
    runs = str(job.runs) if job.covered == job.runs else f"{job.runs} for {job.covered}"
    numbers = (runs, str(job.late), str(job.missed), str(job.skipped))
    return (job.job, job.strategy, *numbers, shown_instant(job.first_at), shown_instant(job.last_at))


def plan_as_json(plan: BootPlan) -> dict[str, Any]:
    """Return the plan for programs, with instants as text."""
    return {
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
