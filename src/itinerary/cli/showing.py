"""`itinerary show` and `history`: one job, or one occurrence, with everything; and what a job's occurrences came to.

`show` takes the name of a job, or an occurrence by its id or run id. A name that is both is the job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from itinerary.app.looking.details import JobDetail, TaskDeclared, job_detail
from itinerary.app.looking.ground import Ground
from itinerary.app.looking.runs import (
    AttemptSeen,
    HistoryPage,
    RunDetail,
    RunSeen,
    SettingSeen,
    TaskSeen,
    history_page,
    run_detail,
)
from itinerary.app.occurrences import Finder, Run
from itinerary.app.views import StoreView
from itinerary.cli.completing import complete_job
from itinerary.cli.drawing import drawn_strip
from itinerary.cli.layout import Cell, Column, print_facts, print_table
from itinerary.cli.listing import Limit, at_in_zone, looked_at
from itinerary.cli.output import lines, print_json, say, screen, shown_state, told_at, told_for
from itinerary.cli.shared import AsJson, Store, errors_told
from itinerary.model.overrides import Level
from itinerary.model.rows import EntryKind
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import microseconds_of

__all__ = ["add_showing", "print_history", "print_job", "print_run"]

_OUTPUT_LINES = 200
"""The last lines of an attempt's output that are shown; `--json` has all that is kept."""
_LINE_MAX = 2_000


def add_showing(app: typer.Typer) -> None:
    """Add these commands to the others."""
    app.command()(show)
    app.command()(history)


# -- show ------------------------------------------------------------------------------------------------------------


def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="JOB|RUN", help="A job, or an occurrence: its id, or etl:1767225600.", autocompletion=complete_job
        ),
    ],
    limit: Limit = 5,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Show a job, or one occurrence of one, with everything that is known of it."""

    async def look(ground: Ground) -> None:
        run = await _run_called(ground, what)
        if run is not None:
            detail = await run_detail(ground, run)
            if as_json:
                print_json(detail)
            else:
                print_run(ground, detail)
            return
        found = await job_detail(ground, ground.job(what), limit=limit)
        if as_json:
            print_json(found)
        else:
            print_job(ground, found)

    with errors_told():
        looked_at(store, look)


async def _run_called(ground: Ground, what: str) -> Run | None:
    """The occurrence of that id or run id, unless a job is called so, or nothing could be."""
    names = {row.name for row in ground.timeline.jobs.values()}
    job, _, seconds = what.rpartition(":")
    is_run = (job in names and seconds.isdigit()) or _is_id(what)
    if what in names or not is_run:
        return None
    return await Finder().find(ground.store, await StoreView.of(ground.store), what)


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def print_job(ground: Ground, found: JobDetail) -> None:
    """A job with everything."""
    console, seen = screen(), found.seen
    say(Text.assemble((seen.job, "bold"), f", version {seen.version}, ", shown_state(seen.state)), console)
    zone = seen.timezone
    print_facts(
        [
            ("schedule", seen.schedule),
            ("why", seen.why),
            ("time zone", zone),
            ("registered", _at(ground, found.registered_at, zone)),
            ("requires", "; ".join(found.requires) or None),
            ("on start", ", ".join(found.on_start) or None),
            ("on complete", ", ".join(found.on_complete) or None),
        ],
        console,
        indent=2,
    )
    _section(console, "tasks", found.tasks, lambda: _print_tasks(found.tasks, console))
    _section(console, "next runs", found.next_runs, lambda: _print_next(ground, found, console))
    _section(console, "under way", found.active, lambda: _print_active(ground, found, console))
    _section(console, "last runs", found.runs, lambda: _print_runs(ground, found.runs, zone, console))
    _section(console, "configuration", found.configuration, lambda: _print_settings(found.configuration, console))
    _section(console, "changes", found.changes, lambda: _print_changes(ground, found, console))


def _section(console: Console, title: str, content: Sequence[object], tell: Callable[[], None]) -> None:
    if content:
        console.print()
        console.print(Text(title, "bold"))
        tell()


def _print_tasks(tasks: Sequence[TaskDeclared], console: Console) -> None:
    rows: list[Sequence[Cell]] = []
    for task in tasks:
        own = ", ".join(f"{one.key} = {one.value}" for one in task.configuration)
        rows.append((task.name, _runs_what(task), own))
    print_table((Column("task"), Column("runs", wraps_at=20), Column("sets", 1, wraps_at=20)), rows, console)


def _runs_what(task: TaskDeclared) -> str:
    """What a task runs, as a person would say it: `python package.module:function`, `shell gzip -9 out.csv`."""
    kind, *others = task.runs
    value = task.runs[kind]
    first = " ".join(value) if isinstance(value, list | tuple) else value
    said = first if isinstance(first, str) else msgspec.json.encode(first).decode()
    rest = "".join(f", {key} {msgspec.json.encode(task.runs[key]).decode()}" for key in others)
    return f"{kind} {said}{rest}"


def _print_next(ground: Ground, found: JobDetail, console: Console) -> None:
    instants = [microseconds_of(at) for at in found.next_runs]
    zone = found.seen.timezone
    rows = [(told_at(at, ground.offset(zone, at)), told_for(at - ground.now)) for at in instants]
    print_table((Column(f"at, {zone}"), Column("in")), rows, console)


def _print_active(ground: Ground, found: JobDetail, console: Console) -> None:
    reasons = [one.why for one in found.active]
    _print_runs(ground, [one.run for one in found.active], found.seen.timezone, console, reasons)
    if found.more_active:
        say(f"and {found.more_active:,} more; --limit shows them", console)


def _print_settings(settings: Sequence[SettingSeen], console: Console) -> None:
    """What somebody has set, with who; then what is left as it comes."""
    rows = [(one.key, one.value, f"{one.source}") for one in settings if one.source is not Level.DEFAULT]
    if rows:
        print_table((Column("key"), Column("value", wraps_at=12), Column("set by")), rows, console)
    if left := ", ".join(f"{one.key} {one.value}" for one in settings if one.source is Level.DEFAULT):
        say(f"by default: {left}", console, hanging=2)


def _print_changes(ground: Ground, found: JobDetail, console: Console) -> None:
    rows: list[Sequence[Cell]] = []
    for change in found.changes:
        what = f"version {change.version}" if change.kind is EntryKind.VERSION else str(change.kind)
        rows.append((what, _wall(ground, change.effective_from, found.seen.timezone), change.by, change.reason))
    columns = (Column("change"), Column(f"from, {found.seen.timezone}"), Column("by", 1), Column("why", 2, wraps_at=20))
    print_table(columns, rows, console)
    if found.more_changes:
        say(f"and {found.more_changes:,} earlier ones", console)


# -- one occurrence --------------------------------------------------------------------------------------------------


def print_run(ground: Ground, detail: RunDetail) -> None:
    """An occurrence with everything."""
    console, run = screen(), detail.run
    zone = _zone_of(ground, run.job)
    say(Text.assemble((run.run, "bold"), f", {run.kind}, ", shown_state(run.state)), console)
    asked = detail.asked
    print_facts(
        [
            ("id", str(run.id)),
            ("reason", run.reason),
            ("asked for by", None if asked is None else f"{asked.by}{(asked.reason and f': {asked.reason}') or ''}"),
            ("replay of", None if asked is None or asked.replay_of is None else str(asked.replay_of)),
            ("version", str(run.version)),
            ("instant", _at(ground, run.instant, zone)),
            ("answers for", None if run.window is None else f"{run.window.count:,} instants"),
            ("started", _started(ground, run, zone)),
            ("ended", _ended(ground, run, zone)),
            ("recovery", "yes" if run.is_recovery else None),
            ("node", run.node),
            ("cancelled by", detail.cancelled_by),
        ],
        console,
        indent=2,
    )
    _section(console, "trail", detail.trail, lambda: _print_trail(ground, detail, zone, console))
    for task in detail.tasks:
        _print_task(ground, task, zone, console)
    set_ones = [one for one in detail.configuration if one.source is not Level.DEFAULT]
    _section(console, "configuration that was set", set_ones, lambda: _print_settings(set_ones, console))


def _started(ground: Ground, run: RunSeen, zone: str) -> str | None:
    at = _at(ground, run.started_at, zone)
    if at is None or run.late_seconds is None:
        return at
    return f"{at}, {told_for(max(int(run.late_seconds * SECOND), 0))} after its instant"


def _ended(ground: Ground, run: RunSeen, zone: str) -> str | None:
    at = _at(ground, run.ended_at, zone)
    return at if at is None or run.took_seconds is None else f"{at}, it took {_took(run.took_seconds)}"


def _print_trail(ground: Ground, detail: RunDetail, zone: str, console: Console) -> None:
    rows: list[Sequence[Cell]] = [
        (_wall(ground, step.at, zone), shown_state(step.after), step.node, step.why) for step in detail.trail
    ]
    print_table(
        (Column(f"at, {zone}"), Column("state"), Column("node", 1), Column("why", 2, wraps_at=20)), rows, console
    )


def _print_task(ground: Ground, task: TaskSeen, zone: str, console: Console) -> None:
    console.print()
    say(Text.assemble((f"task {task.name}", "bold"), ", ", shown_state(task.status)), console)
    result = None if task.result is None else bytes(task.result).decode()
    print_facts([("reason", task.reason), ("cancelled by", task.cancelled_by), ("result", result)], console, indent=2)
    for attempt in task.attempts:
        _print_attempt(ground, attempt, zone, console)


def _print_attempt(ground: Ground, attempt: AttemptSeen, zone: str, console: Console) -> None:
    took = "" if attempt.took_seconds is None else f", it took {_took(attempt.took_seconds)}"
    began = "" if attempt.started_at is None else f", began {_at(ground, attempt.started_at, zone)}"
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
    """A line that is longer than anybody reads, with what is left out of it said."""
    left_out = len(line) - _LINE_MAX
    return line if left_out <= 0 else f"{line[:_LINE_MAX]} … {left_out:,} more characters; --json has all"


# -- history ---------------------------------------------------------------------------------------------------------


def history(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The name of a job.", autocompletion=complete_job)],
    state: Annotated[
        list[OccurrenceState] | None,
        typer.Option("--state", help="Only occurrences in this state; may be given several times."),
    ] = None,
    limit: Limit = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="N", min=0, help="Go on where a page ended: its number.")
    ] = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """List what a job's occurrences came to, the newest first; and draw how long they took."""

    async def look(ground: Ground) -> None:
        page = await history_page(ground, ground.job(job), limit=limit, before=before, states=frozenset(state or ()))
        if as_json:
            print_json(page)
            return
        print_history(ground, page)

    with errors_told():
        looked_at(store, look)


def print_history(ground: Ground, page: HistoryPage) -> None:
    """A page of a job's history, and a strip above it."""
    console = screen()
    if not page.runs and not page.active:
        more = ", as far as was looked" if page.next is not None else ""
        say(f"{page.job} has no such occurrence{more}", console)
    if page.runs:
        for line in drawn_strip(page.runs, console):
            console.print(line, soft_wrap=True)
        console.print()
    if page.runs or page.active:
        _print_runs(ground, [*page.active, *page.runs], _zone_of(ground, page.job), console)
    if page.next is not None:
        say(f"there are older ones: --before {page.next}", console)


def _print_runs(
    ground: Ground, runs: Sequence[RunSeen], zone: str, console: Console, why: Sequence[str | None] | None = None
) -> None:
    reasons = [run.reason for run in runs] if why is None else why
    rows: list[Sequence[Cell]] = [
        (
            _wall(ground, run.instant, zone),
            shown_state(run.state),
            None if run.took_seconds is None else _took(run.took_seconds),
            None if run.late_seconds is None else told_for(max(int(run.late_seconds * SECOND), 0)),
            _kind(run),
            reason,
            run.node if run.state not in FINAL else None,
            run.run,
        )
        for run, reason in zip(runs, reasons, strict=True)
    ]
    columns = (
        Column(f"instant, {zone}"),
        Column("state"),
        Column("took", 1),
        Column("late", 2),
        Column("kind", 3),
        Column("why", 4, wraps_at=24),
        Column("node", 5, is_extra=True),
        Column("run", 6, is_extra=True),
    )
    print_table(columns, rows, console)


def _kind(run: RunSeen) -> str | None:
    if run.window is not None:
        return f"for {run.window.count:,} instants"
    return "recovery" if run.is_recovery else None if run.kind == "scheduled" else str(run.kind)


def _took(seconds: float) -> str:
    return told_for(max(int(seconds * SECOND), 0))


def _at(ground: Ground, at: datetime | None, zone: str) -> str | None:
    return None if at is None else at_in_zone(ground, microseconds_of(at), zone)


def _wall(ground: Ground, at: datetime | None, zone: str) -> str | None:
    """The same, where the zone is said elsewhere."""
    return None if at is None else told_at(microseconds_of(at), ground.offset(zone, microseconds_of(at)))


def _zone_of(ground: Ground, job: str) -> str:
    return ground.zone_of(ground.stretch(ground.job(job).number))
