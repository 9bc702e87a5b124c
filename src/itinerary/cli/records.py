"""`itinerary records`: the record schedulers of a store (DESK), their logs, and appending to them.

    records                     the record schedulers: the length of their logs, and the number of held partitions
    records show DESK           its partitions: new, queued and waiting records, and the holder
    records append DESK KIND    append an event
    records follow DESK         events as they arrive

None of these commands needs a node.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import uuid4

import click
import msgspec

from itinerary import ports
from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.layout import Cell, TableColumn, print_table
from itinerary.cli.list import existing_store
from itinerary.cli.options import AsJson, Store, configured, errors_told, store_url
from itinerary.cli.output import one_line, print_json, say
from itinerary.cli.run_command import run_command
from itinerary.cli.times import SettingZone, instant_of, named_zone
from itinerary.errors import RecordError
from itinerary.model.queries import PartitionsQuery
from itinerary.model.rows import EventRow
from itinerary.model.text import shown
from itinerary.operations.operator import local_user
from itinerary.records.append import appended
from itinerary.records.batches import Event, event_of
from itinerary.records.declaration import ONE_PARTITION
from itinerary.records.event_types import produced
from itinerary.records.inspect import DeskSeen, PartitionSeen, desks, followed, partitions_of
from itinerary.schedules.instants import shown_instant
from itinerary.schedules.zones import Zone
from itinerary.stores.urls import open_store

__all__ = ["add_records"]

Desk = Annotated[str, Argument(metavar="DESK", help="The name of a desk.")]
_TIME = "2026-03-01T09:00, tomorrow 09:00, in 2h"


def add_records(app: Commands) -> None:
    """Add these commands to the app."""
    records = Commands(
        "records", about="Desks and their logs: list them, look at one, append an event, follow.", main=listed
    )
    for command in (show, append, follow):
        records.add(command)
    app.add_command(records)


def listed(
    context: click.Context,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """List the desks that have a log: their events, their partitions, and how many of these are held."""
    if context.invoked_subcommand is not None:
        return

    async def look(url: str) -> list[DeskSeen]:
        await existing_store(url)
        async with open_store(url) as opened:
            return await desks(opened)

    with errors_told():
        found = run_command(look(store_url(store)))
        if as_json:
            print_json(found)
        elif found:
            _print_table(found, ("desk", "sequence", "partitions", "held"))
        else:
            say("no desk has a log in this store")


def show(
    desk: Desk,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Show the partitions of a desk, as its log says that they are. A long log takes a while to read."""

    async def look(url: str) -> list[PartitionSeen]:
        await existing_store(url)
        async with open_store(url) as opened:
            return await partitions_of(opened, desk)

    with errors_told():
        found = run_command(look(store_url(store)))
        if as_json:
            print_json(found)
        elif found:
            columns = "partition records new queue callbacks verifications sequence holder lease_until"
            is_stalled = any(one.stalled is not None for one in found)
            _print_table(found, [*columns.split(), *(["stalled"] if is_stalled else [])])
        else:
            say(f"desk {desk} has no partition")


def append(  # noqa: PLR0913, PLR0917 - what an event may say
    desk: Desk,
    kind: Annotated[str, Argument(metavar="KIND", help="RecordCreated, CallbackScheduled, …")],
    record: Annotated[str, Option("--record", metavar="NAME", help="The record that it is about.")],
    partition: Annotated[
        str | None, Option("--partition", metavar="NAME", help="Where the record lives, if it is not known.")
    ] = None,
    key: Annotated[str | None, Option("--key", metavar="KEY", help="The same key, sent twice, is one event.")] = None,
    data: Annotated[str | None, Option("--data", metavar="JSON", help="Of RecordCreated.")] = None,
    target_time: Annotated[
        str | None, Option("--target-time", metavar="TIME", help=f"Of CallbackScheduled: {_TIME}.")
    ] = None,
    check_time: Annotated[
        str | None, Option("--check-time", metavar="TIME", help=f"Of VerificationScheduled: {_TIME}.")
    ] = None,
    verification: Annotated[
        str | None, Option("--verification", metavar="KIND", help="Of VerificationScheduled: email, call, …")
    ] = None,
    final_status: Annotated[str | None, Option("--final-status", metavar="TEXT", help="Of RecordCompleted.")] = None,
    tz: SettingZone = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Append an event to the log of a desk."""
    with errors_told():
        configuration = configured(store)
        zone = named_zone(tz or configuration.timezone)
        fields: dict[str, object] = {
            "target_time": _typed("--target-time", target_time, zone),
            "check_time": _typed("--check-time", check_time, zone),
            "verification": verification,
            "final_status": final_status,
        }
        said = {name: value for name, value in fields.items() if value is not None}
        if data is not None:
            said["data"] = _read_json(data)
        key = f"{uuid4()}" if key is None else key
        event = produced(kind, record, said, key, local_user())

        async def add(url: str) -> int:
            async with open_store(url) as opened:
                home = await _only_partition(opened, desk) if partition is None else partition
                return await appended(opened, desk, event, home)

        number = run_command(add(configuration.store))
        told = {"desk": desk, "sequence": number, "kind": kind, "record": record, "key": key}
        if as_json:
            print_json(told)
        else:
            say(f"{kind} of {record} is event {number} of {desk}")


def follow(
    desk: Desk,
    after: Annotated[int, Option("--after", metavar="N", help="Begin after this event.")] = 0,
    until_now: Annotated[bool, Option("--until-now", help="End at the end of the log.")] = False,  # noqa: FBT002 - a switch
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Print the events of a desk, and then each that comes, until Ctrl-C."""

    async def notify(url: str) -> None:
        await existing_store(url)
        async with open_store(url) as opened:
            async for page in followed(opened, desk, after, waits=not until_now):
                for row in page:
                    click.echo(_line(row, as_json=as_json))

    with errors_told():
        try:
            run_command(notify(store_url(store)))
        except KeyboardInterrupt:
            return


async def _only_partition(opened: ports.Store, desk: str) -> str | None:
    """Return the partition of a record scheduler that is not partitioned.

    None: its records are in several partitions.
    """
    names = {row.partition for row in await opened.read(PartitionsQuery(desk))}
    return ONE_PARTITION if names == {ONE_PARTITION} else None


def _line(row: EventRow, *, as_json: bool) -> str:
    event = event_of(row)
    if as_json:
        return msgspec.json.encode(event).decode()
    fields = " ".join(f"{name}={_plain(value)}" for name, value in event.fields.items())
    when = f"{event.at:%Y-%m-%d %H:%M:%S}"
    by = "" if event.by is None else f"  by {event.by}"
    said = one_line(f"{event.partition}  {event.kind}  {_about(event)}{fields}{by}")
    return f"{event.sequence:>8}  {when}  {said}"


def _about(event: Event) -> str:
    return f"{event.record}  " if event.record else ""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _read_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise RecordError(f"--data {shown(text)} is not JSON: {error}") from error


def _print_table(found: Sequence[msgspec.Struct], columns: Sequence[str]) -> None:
    """Print a table whose first columns matter most. If there is no room, the others go below their rows."""
    titles = [
        TableColumn(name.replace("_", " "), rank=max(place - 1, 0), is_number=isinstance(getattr(found[0], name), int))
        for place, name in enumerate(columns)
    ]
    rows = [[_cell(getattr(one, name)) for name in columns] for one in found]
    print_table(titles, rows)


def _cell(value: object) -> Cell:
    return value if isinstance(value, str | int) or value is None else str(msgspec.to_builtins(value))


def _typed(option: str, text: str | None, zone: Zone) -> str | None:
    """Return a typed time in the form of an event."""
    if text is None:
        return None
    return shown_instant(instant_of(option, text, now=time.time_ns() // 1_000, zone=zone))
