"""`itinerary jobs`, `upcoming` and `nodes`: the content of a store, as a table for people and as JSON for programs.

No node is needed, and nothing is written. Every list is bounded: the omitted rows are counted, and `--limit` or a
pattern shows them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Annotated, TypeVar

from rich.console import Console
from rich.text import Text

from itinerary.cli.charts import drawn_timeline, parts_for
from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.completion import complete_job
from itinerary.cli.layout import Cell, TableColumn, print_table
from itinerary.cli.options import AsJson, Store, configured, errors_told
from itinerary.cli.output import counted, one_line, print_json, say, screen, shown_state, told_at, told_for
from itinerary.cli.run_command import run_command
from itinerary.errors import ConfigError
from itinerary.model.queries import PAGE_MAX, NodesQuery
from itinerary.read.jobs import JobsSeen, JobState, JobView, jobs_seen
from itinerary.read.nodes import NodeSeen, NodeState, heard_of, nodes_seen
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.upcoming import UpcomingRuns, upcoming
from itinerary.schedules.durations import SECOND, format_duration, parse_duration
from itinerary.schedules.instants import microseconds_of
from itinerary.stores.urls import open_store, schema_at

__all__ = [
    "Limit",
    "add_listing",
    "at_in_zone",
    "existing_store",
    "looked_at",
    "print_jobs",
    "print_nodes",
    "print_upcoming",
]

T = TypeVar("T")

Limit = Annotated[int, Option("--limit", metavar="N", min=1, max=PAGE_MAX, help="At most so many.")]
Pattern = Annotated[
    str | None,
    Argument(metavar="PATTERN", help="Only jobs whose names fit: etl, 'report*'.", offers=complete_job),
]
_SPAN_MAX = 366 * 86_400 * SECOND
_NEXT_SHOWN = 10


def add_listing(app: Commands) -> None:
    """Add these commands to the app."""
    app.add(list_jobs, "jobs")
    app.add(list_upcoming, "upcoming")
    app.add(list_nodes, "nodes")


def looked_at(url: str | None, look: Callable[[StoreSnapshot], Awaitable[T]]) -> T:
    """Return what a function reads from a store."""
    configuration = configured(url)

    async def looking() -> T:
        await existing_store(configuration.store)
        async with open_store(configuration.store) as store:
            return await look(await StoreSnapshot.of(store))

    return run_command(looking())


async def existing_store(url: str) -> None:
    """Raise an error if the store does not exist: its address is probably mistyped."""
    if (await schema_at(url)).found is None:
        place = open_store(url).url
        raise ConfigError(f"there is no store at {place}; start a node on it, or name another one with --store")


# -- jobs ------------------------------------------------------------------------------------------------------------


def list_jobs(
    pattern: Pattern = None,
    state: Annotated[
        list[JobState] | None, Option("--state", help="Only jobs that stand so; may be given several times.")
    ] = None,
    limit: Limit = 50,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """List jobs: the status, the last outcome and the next run of each, in its own time zone."""

    async def look(snapshot: StoreSnapshot) -> None:
        found = await jobs_seen(snapshot, pattern=pattern, states=frozenset(state or ()), limit=limit)
        if as_json:
            print_json(found)
        elif found.jobs:
            print_jobs(snapshot, found)
            if not any(heard_of(row, snapshot.now) for row in await snapshot.store.read(NodesQuery())):
                say("no node runs on this store, so no job runs; start one: `itinerary up APP`", screen(errors=True))
        else:
            say(_no_jobs(snapshot, pattern, state))

    with errors_told():
        looked_at(store, look)


def print_jobs(snapshot: StoreSnapshot, found: JobsSeen) -> None:
    """Print jobs in a table."""
    columns = (
        TableColumn("job"),
        TableColumn("state"),
        TableColumn("next in"),
        TableColumn("last", 1),
        TableColumn("next run", 2),
        TableColumn("schedule", 3, wraps_at=24),
        TableColumn("why", 4, wraps_at=24),
    )
    print_table(columns, [_job_row(snapshot, job) for job in found.jobs])
    if found.more:
        say(f"and {counted(found.more, 'more job')}; --limit, or a pattern, shows them")


def _no_jobs(snapshot: StoreSnapshot, pattern: str | None, states: list[JobState] | None) -> str:
    if pattern is None and not states:
        return f"there are no jobs in {snapshot.store.url}; `itinerary up app.py` declares those of an app"
    wanted = [f"with a name like {pattern!r}"] if pattern is not None else []
    wanted += [f"that is {' or '.join(states)}"] if states else []
    return f"there is no job {' and '.join(wanted)}"


def _job_row(snapshot: StoreSnapshot, job: JobView) -> list[Cell]:
    following = None if job.next_at is None else microseconds_of(job.next_at)
    wait = None if following is None else told_for(following - snapshot.now)
    state = shown_state(job.state)
    for count, what in ((job.running, "running"), (job.waiting, "waiting")):
        if count:
            state = Text.assemble(state, f", {count:,} {what}")
    return [
        job.job,
        state,
        wait,
        _last(snapshot, job),
        None if following is None else at_in_zone(snapshot, following, job.timezone),
        job.schedule,
        job.why,
    ]


def _last(snapshot: StoreSnapshot, job: JobView) -> Text | None:
    if job.last is None or job.last.ended_at is None:
        return None
    ago = told_for(max(snapshot.now - microseconds_of(job.last.ended_at), 0))
    return Text.assemble(shown_state(job.last.state), f" {ago} ago")


def at_in_zone(snapshot: StoreSnapshot, instant: int, zone: str) -> str:
    """Return an instant by the wall clock of a zone."""
    return f"{told_at(instant, snapshot.offset(zone, instant))} {zone}"


# -- upcoming runs ---------------------------------------------------------------------------------------------------


def list_upcoming(
    pattern: Pattern = None,
    span: Annotated[str, Option("--for", metavar="TIME", help="For how long from now on: 6h, 2d.")] = "6h",
    limit: Limit = 20,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Draw the upcoming runs, a line for each job, the first due at the top."""

    async def look(snapshot: StoreSnapshot) -> None:
        console = screen()
        found = upcoming(snapshot, _span(span), parts=parts_for(console), pattern=pattern, limit=limit)
        if as_json:
            print_json(found)
        else:
            print_upcoming(snapshot, found, console)

    with errors_told():
        looked_at(store, look)


def _span(text: str) -> int:
    found = parse_duration(text, minimum=60 * SECOND)
    if found > _SPAN_MAX:
        raise ConfigError(f"--for {text}: is longer than a year; ask for less")
    return found


def print_upcoming(snapshot: StoreSnapshot, found: UpcomingRuns, console: Console) -> None:
    """Print the upcoming runs as a picture, and the next ones in a table."""
    shown = format_duration((found.end - found.start) // timedelta(microseconds=1))
    if not found.jobs:
        say(f"nothing is due in the next {shown}", console)
    else:
        local = found.start.astimezone()
        say(f"the next {shown}, from {local:%Y-%m-%d %H:%M} (UTC{local:%z})", console)
        for line in drawn_timeline(found, console):
            console.print(line, soft_wrap=True)
        if found.more_jobs:
            more = f"and {counted(found.more_jobs, 'more job')} with {counted(found.more_runs, 'run')}"
            say(f"{more}; --limit, or a pattern, shows them", console)
        _print_next(snapshot, found, console)
    for gap in found.gaps:
        say(f"{one_line(gap.job)}: nobody can say when it is due: {gap.reason}", console, hanging=2)


def _print_next(snapshot: StoreSnapshot, found: UpcomingRuns, console: Console) -> None:
    due = sorted(
        (microseconds_of(at), job.job, job.timezone) for job in found.jobs for at in job.instants[:_NEXT_SHOWN]
    )
    if not due:
        return
    console.print()
    columns = (TableColumn("next"), TableColumn("in"), TableColumn("at", 1))
    rows = [(name, told_for(at - snapshot.now), at_in_zone(snapshot, at, zone)) for at, name, zone in due[:_NEXT_SHOWN]]
    print_table(columns, rows, console)


# -- nodes -----------------------------------------------------------------------------------------------------------


def list_nodes(
    everyone: Annotated[bool, Option("--all", help="Those that have left or died long ago, too.")] = False,  # noqa: FBT002 - a switch
    limit: Limit = 50,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """List nodes: which are alive, since when, the runs that they hold, and jumps of their clocks."""

    async def look(snapshot: StoreSnapshot) -> None:
        names = {number: row.name for number, row in snapshot.timeline.jobs.items()}
        found = await nodes_seen(snapshot.store, snapshot.now, names, limit=limit, gone=everyone)
        if as_json:
            print_json(found)
        elif found:
            print_nodes(snapshot, found)
        else:
            say("no node is there" if everyone else "no node is there; --all shows those that have left")

    with errors_told():
        looked_at(store, look)


def print_nodes(snapshot: StoreSnapshot, found: Sequence[NodeSeen]) -> None:
    """Print nodes in a table."""
    columns = (
        TableColumn("node"),
        TableColumn("state"),
        TableColumn("holds", 1, is_number=True),
        TableColumn("running", 1, is_number=True),
        TableColumn("heard", 2),
        TableColumn("since", 3),
        TableColumn("host", 4),
        TableColumn("process", 5, is_extra=True),
        TableColumn("version", 6, is_extra=True),
        TableColumn("heartbeats", 7, is_number=True, is_extra=True),
        TableColumn("clock jumps", 3),
        TableColumn("lacks the code of", 3, wraps_at=20),
    )
    print_table(columns, [_node_row(snapshot, node) for node in found])


def _node_row(snapshot: StoreSnapshot, node: NodeSeen) -> list[Cell]:
    jumps = None
    if node.clock_jumps:
        jump = node.last_jumps[-1]
        jumps = f"{node.clock_jumps}, the last by {told_for(int(jump.by_seconds * SECOND))}: {jump.why}"
    heard = None if node.silent_seconds is None else f"{told_for(max(int(node.silent_seconds * SECOND), 0))} ago"
    since = None if node.joined_at is None else f"{told_at(microseconds_of(node.joined_at))} UTC"
    how = "found dead" if node.state is NodeState.DIED else "left"
    left = None if node.left_at is None else f"{how} {told_for(snapshot.now - microseconds_of(node.left_at))} ago"
    return [
        node.node,
        shown_state(node.state.value),
        node.holds if node.state is not NodeState.LEFT else None,
        node.runs if node.state is not NodeState.LEFT else None,
        heard or left,
        since,
        node.host,
        None if node.process is None else str(node.process),
        node.version,
        node.heartbeats,
        jumps,
        "very many jobs" if node.lacks is None else ", ".join(node.lacks),
    ]
