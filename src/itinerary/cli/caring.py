"""`itinerary doctor`, `migrate` and `prune`: looking after a store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from itinerary.app.doctoring import Examined, examined
from itinerary.app.signals import EXIT_ERROR
from itinerary.app.sources import read_configuration
from itinerary.cli.bars import Hear, progress
from itinerary.cli.listing import existing_store
from itinerary.cli.output import counted, draws, one_line, print_json, say, screen, shown_state, width_of, wrapped
from itinerary.cli.shared import AsJson, Store, errors_told, store_url
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.schedules.durations import format_duration, parse_duration
from itinerary.stores.base import SchemaSeen
from itinerary.stores.opening import open_store, schema_at

__all__ = ["add_caring", "print_findings"]

_RULES = Retention()
_LEVEL_WIDTH = 10


def add_caring(app: typer.Typer) -> None:
    """Add these commands to the others."""
    for command in (doctor, migrate, prune):
        app.command()(command)


# -- doctor ----------------------------------------------------------------------------------------------------------


def doctor(
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """See whether everything is as it should be: the store, its files and clock, zone data, nodes, jobs, what waits.

    Nothing is written. The exit code is 1 if something is wrong; what is only doubtful is said.
    """
    with errors_told():
        found = asyncio.run(examined(read_configuration({"store": store}, os.environ, Path.cwd())))
        if as_json:
            print_json(found)
        else:
            print_findings(found)
    if not found.is_well:
        raise typer.Exit(EXIT_ERROR)


def print_findings(found: Examined) -> None:
    """What a doctor has found, a sentence each, with what to do below it."""
    console = screen()
    for finding in found.findings:
        level = shown_state(finding.level.value)
        level.pad_right(_LEVEL_WIDTH - len(level))
        words = Text.assemble((f"{finding.about}: ", "bold"), one_line(finding.words))
        first, *rest = wrapped(words, width_of(console) - _LEVEL_WIDTH)
        for line in (Text.assemble(level, first), *(Text.assemble(" " * _LEVEL_WIDTH, part) for part in rest)):
            console.print(line, soft_wrap=True)
        if finding.advice:
            arrow = "→" if draws(console) else "->"
            say(f"{arrow} {finding.advice}", console, indent=_LEVEL_WIDTH, hanging=_LEVEL_WIDTH + 2)
    wrong = sum(finding.level == "wrong" for finding in found.findings)
    doubtful = sum(finding.level == "doubtful" for finding in found.findings)
    say(f"{wrong} wrong, {doubtful} doubtful, {len(found.findings) - wrong - doubtful} well", console)


# -- migrate ---------------------------------------------------------------------------------------------------------


class Migrated(msgspec.Struct, frozen=True):
    """What became of a store's schema."""

    store: str
    before: int | None
    after: int
    ran: tuple[str, ...]
    is_dry: bool


def migrate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be run.")] = False,  # noqa: FBT002 - a switch
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Bring a store's schema up to date, or make a new store. A node that starts does the same.

    One process migrates while others wait. Nodes of an older version stop when they see the new schema.
    """

    async def run(url: str) -> SchemaSeen:
        seen = await schema_at(url)
        if not dry_run:
            async with open_store(url):  # refuses a newer one
                pass
        return seen

    with errors_told():
        url = store_url(store)
        seen = asyncio.run(run(url))
        done = Migrated(open_store(url).url, seen.found, max(seen.known, seen.found or 0), seen.pending, dry_run)
        if as_json:
            print_json(done)
        else:
            say(f"{_migrated(done)}{':' if done.ran else ''}")
            for migration in done.ran:
                say(migration, indent=2)


def _migrated(done: Migrated) -> str:
    if done.before == done.after:
        return f"{done.store} has schema {done.after}; there is nothing to run"
    if done.before is None:
        return f"{done.store} {'would be' if done.is_dry else 'was'} made, with schema {done.after}"
    verb = "would go" if done.is_dry else "went"
    return f"{done.store} {verb} from schema {done.before} to {done.after}"


# -- prune -----------------------------------------------------------------------------------------------------------


class Forgotten(msgspec.Struct, frozen=True):
    """What a round of forgetting came to."""

    store: str
    occurrences: int
    statistics: int
    """Rows of what nodes' loops did; they are not counted in a dry run."""
    is_dry: bool


def prune(
    keep_for: Annotated[
        str, typer.Option("--keep-for", metavar="TIME", help="What went well or did not run, since its end.")
    ] = format_duration(_RULES.keep_for),
    keep_failed_for: Annotated[
        str, typer.Option("--keep-failed-for", metavar="TIME", help="What failed, since its end.")
    ] = format_duration(_RULES.keep_failed_for),
    keep_max: Annotated[
        int, typer.Option("--keep-max", metavar="N", min=0, help="Of each job the newest so many.")
    ] = _RULES.keep_max,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,  # noqa: FBT002 - a switch
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Remove old history, a thousand rows at a time; nodes may be running.

    What has not ended, what the watermark needs, and the last day before it always stay; a job keeps when it last ran.
    """
    with errors_told():
        rules = Retention(
            keep_for=parse_duration(keep_for), keep_failed_for=parse_duration(keep_failed_for), keep_max=keep_max
        )
        done = asyncio.run(_pruned(store_url(store), rules, is_dry=dry_run))
        if as_json:
            print_json(done)
            return
        also = "" if dry_run else f", and {counted(done.statistics, 'row')} of statistics"
        verb = "would remove" if dry_run else "removed"
        say(f"{verb} {counted(done.occurrences, 'occurrence')}{also} from {done.store}")


async def _pruned(url: str, rules: Retention, *, is_dry: bool) -> Forgotten:
    await existing_store(url)
    async with open_store(url) as store:
        with progress("counting" if is_dry else "pruning") as hear:
            step = store.count_prunable if is_dry else store.prune
            occurrences, statistics = await _round(step, rules, hear)
        return Forgotten(store.url, occurrences, statistics, is_dry)


async def _round(
    step: Callable[[Retention, PruneCursor], Awaitable[Pruned]], rules: Retention, hear: Hear
) -> tuple[int, int]:
    """One whole round: occurrences along time and job by job, then nodes and their statistics."""
    occurrences = statistics = 0
    cursor: PruneCursor | None = PruneCursor()
    while cursor is not None:
        done = await step(rules, cursor)
        if cursor.node >= 0:
            statistics += done.removed
        else:
            occurrences += done.removed
        hear(occurrences + statistics, None, "rows")
        cursor = done.next
    return occurrences, statistics
