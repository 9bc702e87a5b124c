"""`itinerary statistics`: the statistics of a node's loop, one line for each interval, newest first."""

from __future__ import annotations

from typing import Annotated

from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.layout import Cell, TableColumn, print_table
from itinerary.cli.list import Limit, looked_at
from itinerary.cli.options import AsJson, Store, errors_told
from itinerary.cli.output import print_json, say, told_at, told_for
from itinerary.cli.times import TIMES, SettingZone, instant_of, named_zone
from itinerary.read.loop_statistics import LoopSeen, StatisticsSeen, statistics_seen
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import microseconds_of, shown_instant

__all__ = ["add_statistics"]


def add_statistics(app: Commands) -> None:
    """Add this command to the app."""
    app.add(show_statistics, "statistics")


def show_statistics(
    node: Annotated[
        str | None,
        Argument(metavar="NODE", help="Its name, or the number of one start; else the one that joined last."),
    ] = None,
    since: Annotated[str, Option("--since", metavar="TIME", help=f"From when on: {TIMES}.")] = "10m ago",
    until: Annotated[str, Option("--until", metavar="TIME", help="Before when.")] = "now",
    limit: Limit = 50,
    tz: SettingZone = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Show a node's loop in each interval: iterations, durations, active runs, index, inbox and messages."""

    async def look(snapshot: StoreSnapshot) -> None:
        zone = named_zone(tz)
        first = instant_of("--since", since, now=snapshot.now, zone=zone)
        last = instant_of("--until", until, now=snapshot.now, zone=zone) + (SECOND if until.strip() == "now" else 0)
        found = await statistics_seen(snapshot.store, node, since=first, until=last, limit=limit)
        if as_json:
            print_json(found)
        else:
            print_statistics(found)

    with errors_told():
        looked_at(store, look)


def print_statistics(found: StatisticsSeen) -> None:
    """Print statistics in a table."""
    if not found.rows:
        say(f"node {found.node} has no statistics in this window; --since and --until choose another one")
        return
    columns = (
        TableColumn("interval ended, UTC"),
        TableColumn("iterations", is_number=True),
        TableColumn("longest", is_number=True),
        TableColumn("average", 1, is_number=True),
        TableColumn("busy", 2, is_number=True),
        TableColumn("active", is_number=True),
        TableColumn("index", 1, is_number=True),
        TableColumn("inbox", 1, is_number=True),
        TableColumn("messages", 1, is_number=True),
    )
    say(f"node {found.node}, start number {found.number}")
    print_table(columns, [_row(row) for row in found.rows])
    if found.next is not None:
        say(f"there are older ones; --until {shown_instant(found.next)}, or a larger --limit, shows them")


def _row(row: LoopSeen) -> list[Cell]:
    return [
        told_at(microseconds_of(row.at)),
        row.iterations,
        _duration(row.longest_seconds),
        _duration(row.average_seconds),
        _duration(row.total_seconds),
        row.active,
        row.index_size,
        row.inbox_depth,
        row.messages,
    ]


def _duration(seconds: float) -> str:
    return told_for(round(seconds * SECOND))
