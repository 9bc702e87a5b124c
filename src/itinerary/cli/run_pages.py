"""Pages about occurrences: one with all of its details, or a job's history below a strip of durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from itinerary.cli.charts import drawn_strip
from itinerary.cli.layout import Cell, TableColumn, print_facts, print_table
from itinerary.cli.list import at_in_zone
from itinerary.cli.output import lines, say, screen, shown_state, told_at, told_for
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import OverrideLevel
from itinerary.model.states import FINAL
from itinerary.read.runs import (
    AdjustmentSeen,
    AttemptSeen,
    HistoryPage,
    RunDetail,
    RunView,
    SettingSeen,
    TaskSeen,
)
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import microseconds_of

__all__ = [
    "at_of",
    "on_the_wall",
    "print_history",
    "print_run",
    "print_runs",
    "print_section",
    "print_settings",
    "zone_of",
]

_OUTPUT_LINES = 200
"""The number of last lines of an attempt's output that are shown. `--json` has everything that is kept."""
_LINE_MAX = 2_000


# -- one occurrence --------------------------------------------------------------------------------------------------


def print_run(snapshot: StoreSnapshot, detail: RunDetail) -> None:
    """Print the page of an occurrence."""
    console, run = screen(), detail.run
    zone = zone_of(snapshot, run.job)
    say(Text.assemble((run.run, "bold"), f", {run.kind}, ", shown_state(run.state)), console)
    asked = detail.asked
    print_facts(
        [
            ("number", str(run.number)),
            ("id", str(run.id)),
            ("reason", run.reason),
            ("asked for by", None if asked is None else f"{asked.by}{(asked.reason and f': {asked.reason}') or ''}"),
            ("replay of", None if asked is None or asked.replay_of is None else str(asked.replay_of)),
            ("version", str(run.version)),
            ("instant", at_of(snapshot, run.instant, zone)),
            ("answers for", None if run.window is None else f"{run.window.count:,} instants"),
            ("started", _started(snapshot, run, zone)),
            ("ended", _ended(snapshot, run, zone)),
            ("recovery", "yes" if run.is_recovery else None),
            ("node", run.node),
            ("cancelled by", detail.cancelled_by),
            *(("adjusted", _adjusted(snapshot, one, zone)) for one in detail.adjusted),
        ],
        console,
        indent=2,
    )
    print_section(console, "trail", detail.trail, lambda: _print_trail(snapshot, detail, zone, console))
    for task in detail.tasks:
        _print_task(snapshot, task, zone, console)
    set_ones = [one for one in detail.configuration if one.source is not OverrideLevel.DEFAULT]
    print_section(console, "configuration that was set", set_ones, lambda: print_settings(set_ones, console))


def _adjusted(snapshot: StoreSnapshot, adjusted: AdjustmentSeen, zone: str) -> str:
    why = f": {adjusted.reason}" if adjusted.reason else ""
    return f"{adjusted.words}, by {adjusted.by}, {at_of(snapshot, adjusted.at, zone)}{why}"


def _started(snapshot: StoreSnapshot, run: RunView, zone: str) -> str | None:
    at = at_of(snapshot, run.started_at, zone)
    if at is None or run.late_seconds is None:
        return at
    return f"{at}, {told_for(max(int(run.late_seconds * SECOND), 0))} after its instant"


def _ended(snapshot: StoreSnapshot, run: RunView | TaskSeen, zone: str) -> str | None:
    at = at_of(snapshot, run.ended_at, zone)
    return at if at is None or run.took_seconds is None else f"{at}, it took {_took(run.took_seconds)}"


def _print_trail(snapshot: StoreSnapshot, detail: RunDetail, zone: str, console: Console) -> None:
    rows: list[Sequence[Cell]] = [
        (on_the_wall(snapshot, step.at, zone), shown_state(step.after), step.node, step.why) for step in detail.trail
    ]
    print_table(
        (TableColumn(f"at, {zone}"), TableColumn("state"), TableColumn("node", 1), TableColumn("why", 2, wraps_at=20)),
        rows,
        console,
    )


def _print_task(snapshot: StoreSnapshot, task: TaskSeen, zone: str, console: Console) -> None:
    console.print()
    say(Text.assemble((f"task {task.name}", "bold"), ", ", shown_state(task.status)), console)
    result = None if task.result is None else bytes(task.result).decode()
    print_facts(
        [
            ("started", at_of(snapshot, task.started_at, zone)),
            ("ended", _ended(snapshot, task, zone)),
            ("reason", task.reason),
            ("cancelled by", task.cancelled_by),
            ("result", result),
        ],
        console,
        indent=2,
    )
    for attempt in task.attempts:
        _print_attempt(snapshot, attempt, zone, console)


def _print_attempt(snapshot: StoreSnapshot, attempt: AttemptSeen, zone: str, console: Console) -> None:
    took = "" if attempt.took_seconds is None else f", it took {_took(attempt.took_seconds)}"
    began = "" if attempt.started_at is None else f", began {at_of(snapshot, attempt.started_at, zone)}"
    head = Text.assemble(f"attempt {attempt.number}, ", shown_state(attempt.status), f"{began}{took}")
    say(head, console, indent=2)
    for title, text in (("error", attempt.error), ("output", attempt.output)):
        if text:
            said = lines(text)
            left_out = len(said) - _OUTPUT_LINES
            more = f" (the last {_OUTPUT_LINES} of {len(said):,} lines; --json has all)" if left_out > 0 else ""
            say(Text(f"{title}{more}", "dim"), console, indent=4)
            for line in said[-_OUTPUT_LINES:]:
                say(Text(_shortened(line)), console, indent=6)


def _shortened(line: str) -> str:
    """Return a line cut to a readable length, with the number of omitted characters."""
    left_out = len(line) - _LINE_MAX
    return line if left_out <= 0 else f"{line[:_LINE_MAX]} … {left_out:,} more characters; --json has all"


# -- a history -------------------------------------------------------------------------------------------------------


def print_history(snapshot: StoreSnapshot, page: HistoryPage, *, is_whole: bool = True) -> None:
    """Print a page of a job's history below a strip.

    Args:
        ground: The snapshot of the store.
        page: The page.
        is_whole: True if no option leaves out runs.
    """
    console = screen()
    if not page.runs and not page.active:
        more = ", as far as was looked" if page.next is not None else ""
        say(f"{page.job} has no {'' if is_whole else 'such '}run on record{more}", console)
    if page.runs:
        for line in drawn_strip(page.runs, console):
            console.print(line, soft_wrap=True)
        console.print()
    if page.runs or page.active:
        print_runs(snapshot, [*page.active, *page.runs], zone_of(snapshot, page.job), console)
    if page.next is not None:
        say(f"there are older ones: --before {page.next}", console)


def print_runs(
    snapshot: StoreSnapshot,
    runs: Sequence[RunView],
    zone: str,
    console: Console,
    why: Sequence[str | None] | None = None,
) -> None:
    """Print occurrences in a table. `why` replaces their own reasons."""
    reasons = [run.reason for run in runs] if why is None else why
    rows: list[Sequence[Cell]] = [
        (
            str(run.number),
            on_the_wall(snapshot, run.instant, zone),
            shown_state(run.state),
            None if run.took_seconds is None else _took(run.took_seconds),
            None if run.late_seconds is None else told_for(max(int(run.late_seconds * SECOND), 0)),
            _kind(run),
            reason,
            run.node if run.state not in FINAL else None,
            run.run if run.kind is Kind.SCHEDULED else str(run.id),  # the name that `show` accepts
        )
        for run, reason in zip(runs, reasons, strict=True)
    ]
    columns = (
        TableColumn("number", is_number=True),  # the number that `show`, `cancel` and `replay` accept
        TableColumn(f"instant, {zone}"),
        TableColumn("state"),
        TableColumn("took", 1),
        TableColumn("late", 2),
        TableColumn("kind", 3),
        TableColumn("why", 4, wraps_at=24),
        TableColumn("node", 5, is_extra=True),
        TableColumn("run", 6, is_extra=True),
    )
    print_table(columns, rows, console)


def _kind(run: RunView) -> str | None:
    if run.window is not None:
        return f"for {run.window.count:,} instants"
    return "recovery" if run.is_recovery else None if run.kind == "scheduled" else str(run.kind)


def _took(seconds: float) -> str:
    return told_for(max(int(seconds * SECOND), 0))


def at_of(snapshot: StoreSnapshot, at: datetime | None, zone: str) -> str | None:
    """Return a moment by the wall clock of a zone, with the zone."""
    return None if at is None else at_in_zone(snapshot, microseconds_of(at), zone)


def on_the_wall(snapshot: StoreSnapshot, at: datetime | None, zone: str) -> str | None:
    """Return a moment by the wall clock of a zone, without the zone."""
    return None if at is None else told_at(microseconds_of(at), snapshot.offset(zone, microseconds_of(at)))


def zone_of(snapshot: StoreSnapshot, job: str) -> str:
    """Return the zone in which a job's instants are shown."""
    return snapshot.zone_of_job(snapshot.job(job).number)


# -- parts of a page -------------------------------------------------------------------------------------------------


def print_section(console: Console, title: str, content: Sequence[object], notify: Callable[[], None]) -> None:
    """Print a part of a page unless it would be empty."""
    if content:
        console.print()
        console.print(Text(title, "bold"))
        notify()


def print_settings(settings: Sequence[SettingSeen], console: Console) -> None:
    """Print the values that a job or the defaults of all jobs set, with the place; then the built-in values."""
    rows = [
        (one.key, one.value, "defaults" if one.source is OverrideLevel.SETTINGS else str(one.source))
        for one in settings
        if one.source is not OverrideLevel.DEFAULT
    ]
    if rows:
        print_table((TableColumn("key"), TableColumn("value", wraps_at=12), TableColumn("set by")), rows, console)
    if declared_in := next((one.declared_in for one in settings if one.declared_in is not None), None):
        say(f"defaults: those of {declared_in}", console, hanging=2)
    if left := ", ".join(f"{one.key} {one.value}" for one in settings if one.source is OverrideLevel.DEFAULT):
        say(f"by default: {left}", console, hanging=2)
