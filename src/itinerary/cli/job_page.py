"""The page about one job: its configuration, next runs, active runs, history, and the source of each setting."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from itinerary.cli.layout import Cell, TableColumn, print_facts, print_table
from itinerary.cli.output import say, screen, shown_state, told_at, told_for
from itinerary.cli.run_pages import at_of, on_the_wall, print_runs, print_section, print_settings
from itinerary.model.rows import EntryKind
from itinerary.read.job_detail import JobDetail, TaskDeclared
from itinerary.read.jobs import JobState
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.instants import microseconds_of

__all__ = ["print_job"]


def print_job(snapshot: StoreSnapshot, found: JobDetail) -> None:
    """Print the page of a job."""
    console, seen = screen(), found.seen
    say(Text.assemble((seen.job, "bold"), f", version {seen.version}, ", shown_state(seen.state)), console)
    zone = seen.timezone
    print_facts(
        [
            ("schedule", seen.schedule),
            ("why", seen.why),
            ("time zone", zone),
            ("registered", at_of(snapshot, found.registered_at, zone)),
            ("requires", "; ".join(found.requires) or None),
            ("on start", ", ".join(found.on_start) or None),
            ("on complete", ", ".join(found.on_complete) or None),
        ],
        console,
        indent=2,
    )
    print_section(console, "tasks", found.tasks, lambda: _print_tasks(found.tasks, console))
    print_section(console, "next runs", found.next_runs, lambda: _print_next(snapshot, found, console))
    print_section(console, "under way", found.active, lambda: _print_active(snapshot, found, console))
    print_section(console, "last runs", found.runs, lambda: print_runs(snapshot, found.runs, zone, console))
    print_section(console, "configuration", found.configuration, lambda: print_settings(found.configuration, console))
    print_section(console, "changes", found.changes, lambda: _print_changes(snapshot, found, console))


def _print_tasks(tasks: Sequence[TaskDeclared], console: Console) -> None:
    rows: list[Sequence[Cell]] = []
    for task in tasks:
        own = ", ".join(f"{one.key} = {one.value}" for one in task.configuration)
        rows.append((task.name, _runs_what(task), own))
    print_table(
        (TableColumn("task"), TableColumn("runs", wraps_at=20), TableColumn("sets", 1, wraps_at=20)), rows, console
    )


def _runs_what(task: TaskDeclared) -> str:
    """Return the work of a task in words: `python package.module:function`, `shell gzip -9 out.csv`."""
    kind, *others = task.runs
    value = task.runs[kind]
    first = " ".join(value) if isinstance(value, list | tuple) else value
    said = first if isinstance(first, str) else msgspec.json.encode(first).decode()
    rest = "".join(f", {key} {msgspec.json.encode(task.runs[key]).decode()}" for key in others)
    return f"{kind} {said}{rest}"


def _print_next(snapshot: StoreSnapshot, found: JobDetail, console: Console) -> None:
    instants = [microseconds_of(at) for at in found.next_runs]
    zone = found.seen.timezone
    rows = [(told_at(at, snapshot.offset(zone, at)), told_for(at - snapshot.now)) for at in instants]
    print_table((TableColumn(f"at, {zone}"), TableColumn("in")), rows, console)
    if found.seen.state is JobState.PAUSED:
        say("the job is paused: an instant during the pause is skipped", console)


def _print_active(snapshot: StoreSnapshot, found: JobDetail, console: Console) -> None:
    reasons = [one.why for one in found.active]
    print_runs(snapshot, [one.run for one in found.active], found.seen.timezone, console, reasons)
    if found.more_active:
        say(f"and {found.more_active:,} more; --limit shows them", console)


def _print_changes(snapshot: StoreSnapshot, found: JobDetail, console: Console) -> None:
    rows: list[Sequence[Cell]] = []
    for change in found.changes:
        what = f"version {change.version}" if change.kind is EntryKind.VERSION else str(change.kind)
        rows.append((what, on_the_wall(snapshot, change.effective_from, found.seen.timezone), change.by, change.reason))
    columns = (
        TableColumn("change"),
        TableColumn(f"from, {found.seen.timezone}"),
        TableColumn("by", 1),
        TableColumn("why", 2, wraps_at=20),
    )
    print_table(columns, rows, console)
    if found.more_changes:
        say(f"and {found.more_changes:,} earlier ones", console)
