"""`itinerary status`, `doctor`, `alert`, `migrate` and `prune`: maintenance of a store."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated

import click
import msgspec
from rich.console import Console
from rich.text import Text

from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.list import existing_store
from itinerary.cli.load_app import load_app
from itinerary.cli.options import AsJson, Store, configured, errors_told, store_url
from itinerary.cli.output import counted, draws, one_line, print_json, say, screen, shown_state, width_of, wrapped
from itinerary.cli.progress import ProgressCallback, progress
from itinerary.cli.run_command import run_command
from itinerary.config.alerts import send_test
from itinerary.errors import ConfigError
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.node.shutdown_signals import EXIT_ERROR
from itinerary.operations.doctor import CheckResult, DoctorReport, examined
from itinerary.operations.doctor.overview import Overview, overview
from itinerary.operations.operator import local_user
from itinerary.operations.prune_entry import record_prune
from itinerary.schedules.durations import format_duration, parse_duration
from itinerary.stores.engine import SchemaSeen
from itinerary.stores.urls import open_store, schema_at

__all__ = ["add_caring", "print_findings"]

_RULES = Retention()
_LEVEL_WIDTH = 10
_NODES_SHOWN = 5


def add_caring(app: Commands) -> None:
    """Add these commands to the app."""
    for command in (status, doctor, alert, migrate, prune):
        app.add(command)


# -- status ----------------------------------------------------------------------------------------------------------


def status(
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Is everything fine? Nodes, jobs, runs of the last hour, and everything that is wrong, on one screen.

    Nothing is written. The exit code is 0 if nothing is wrong, and 1 if something is. A warning does not count.
    """
    with errors_told():
        found = run_command(overview(configured(store)))
        if as_json:
            print_json(found)
        else:
            print_overview(found)
    if not found.is_fine:
        raise click.exceptions.Exit(EXIT_ERROR)


def print_overview(found: Overview) -> None:
    """Print the figures of a store, its problems, and whether everything is fine."""
    console = screen()
    say(f"store      {found.store}", console)
    if (figures := found.figures) is not None:
        nodes = ", ".join(one_line(name) for name in figures.nodes[:_NODES_SHOWN])
        nodes = f"{nodes}, …" if len(figures.nodes) > _NODES_SHOWN else nodes
        say(f"nodes      {len(figures.nodes):,}{': ' if nodes else ''}{nodes}", console)
        say(f"jobs       {figures.jobs:,}", console)
        say(f"runs       {figures.running:,} running, {figures.waiting:,} waiting", console)
        ended = ", ".join(f"{count:,} {state}" for state, count in figures.ended.items()) or "none ended"
        say(f"last hour  {ended}", console)
    for finding in (*found.errors, *found.warnings):
        _print_finding(finding, console)
    errors, warnings = counted(len(found.errors), "error"), counted(len(found.warnings), "warning")
    say("everything is fine" if not found.errors and not found.warnings else f"{errors}, {warnings}", console)


# -- doctor ----------------------------------------------------------------------------------------------------------


def doctor(
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Check the store, its files and clock, zone data, nodes, jobs, and waiting runs.

    Lists what failed or was orphaned in the last hour, which nodes died, and which alerts have not arrived. Nothing is
    written. The exit code is 1 if something is wrong. Warnings are listed, but do not count.
    """
    with errors_told():
        found = run_command(examined(configured(store)))
        if as_json:
            print_json(found)
        else:
            print_findings(found)
    if not found.is_well:
        raise click.exceptions.Exit(EXIT_ERROR)


def print_findings(found: DoctorReport) -> None:
    """Print the findings of `doctor`, a sentence each, with the advice below it."""
    console = screen()
    for finding in found.findings:
        _print_finding(finding, console)
    wrong = sum(finding.level == "wrong" for finding in found.findings)
    doubtful = sum(finding.level == "doubtful" for finding in found.findings)
    say(f"{wrong} wrong, {doubtful} doubtful, {len(found.findings) - wrong - doubtful} well", console)


def _print_finding(finding: CheckResult, console: Console) -> None:
    level = shown_state(finding.level.value)
    level.pad_right(_LEVEL_WIDTH - len(level))
    words = Text.assemble((f"{finding.about}: ", "bold"), one_line(finding.words))
    first, *rest = wrapped(words, width_of(console) - _LEVEL_WIDTH)
    for line in (Text.assemble(level, first), *(Text.assemble(" " * _LEVEL_WIDTH, part) for part in rest)):
        console.print(line, soft_wrap=True)
    if finding.advice:
        arrow = "→" if draws(console) else "->"
        say(f"{arrow} {finding.advice}", console, indent=_LEVEL_WIDTH, hanging=_LEVEL_WIDTH + 2)


# -- alert -----------------------------------------------------------------------------------------------------------


def alert(
    target: Annotated[
        str | None, Argument(metavar="APP", help="A file or a module whose settings count; else itinerary.toml.")
    ] = None,
    test: Annotated[bool, Option("--test", help="Send a test alert to every receiver.")] = False,  # noqa: FBT002 - a switch
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Send a test alert to every receiver of alert_urls, and report which of them received it.

    The exit code is 1 if one of them did not, or if there is no receiver. Run it where the node runs: secrets and
    networks may differ elsewhere.
    """
    with errors_told():
        if not test:
            raise ConfigError("alert: say what to send: itinerary alert --test")
        configuration = configured(None) if target is None else load_app(target)[0].configuration
        if not configuration.alert_urls:
            raise ConfigError("alert: there is no receiver; set alert_urls in the settings")
        tested = run_command(send_test(configuration, time.time_ns() // 1_000))
        if as_json:
            print_json(tested)
        else:
            for one in tested:
                say(f"receiver {one.receiver} of alert_urls has the test alert" if one.why is None else one.sentence)
    if any(one.why is not None for one in tested):
        raise click.exceptions.Exit(EXIT_ERROR)


# -- migrate ---------------------------------------------------------------------------------------------------------


class MigrationResult(msgspec.Struct, frozen=True):
    """The result of a schema migration."""

    store: str
    before: int | None
    after: int
    ran: tuple[str, ...]
    is_dry: bool


def migrate(
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be run.")] = False,  # noqa: FBT002 - a switch
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Bring a store's schema up to date, or make a new store. A node that starts does the same.

    One process migrates while others wait. Nodes of an older version stop when they see the new schema.
    """

    async def run(url: str) -> SchemaSeen:
        seen = await schema_at(url)
        if not dry_run:
            async with open_store(url):  # refuses a newer schema
                pass
        return seen

    with errors_told():
        url = store_url(store)
        seen = run_command(run(url))
        done = MigrationResult(open_store(url).url, seen.found, max(seen.known, seen.found or 0), seen.pending, dry_run)
        if as_json:
            print_json(done)
        else:
            say(f"{_migrated(done)}{':' if done.ran else ''}")
            for migration in done.ran:
                say(migration, indent=2)


def _migrated(done: MigrationResult) -> str:
    if done.before == done.after:
        return f"{done.store} has schema {done.after}; there is nothing to run"
    if done.before is None:
        return f"{done.store} {'would be' if done.is_dry else 'was'} made, with schema {done.after}"
    verb = "would go" if done.is_dry else "went"
    return f"{done.store} {verb} from schema {done.before} to {done.after}"


# -- prune -----------------------------------------------------------------------------------------------------------


class PruneResult(msgspec.Struct, frozen=True):
    """The result of a pruning round."""

    store: str
    occurrences: int
    statistics: int
    """The number of removed statistics rows. A dry run does not count them."""
    is_dry: bool


def prune(
    keep_for: Annotated[
        str, Option("--keep-for", metavar="TIME", help="What went well or did not run, since its end.")
    ] = format_duration(_RULES.keep_for),
    keep_failed_for: Annotated[
        str, Option("--keep-failed-for", metavar="TIME", help="What failed, since its end.")
    ] = format_duration(_RULES.keep_failed_for),
    keep_max: Annotated[
        int, Option("--keep-max", metavar="N", min=0, help="Of each job the newest so many.")
    ] = _RULES.keep_max,
    dry_run: Annotated[bool, Option("--dry-run", help="Only count what would be removed.")] = False,  # noqa: FBT002 - a switch
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Remove old history, a thousand rows at a time; nodes may be running.

    Occurrences that have not ended, rows that the watermark needs, and the last day before it always stay. A job keeps
    the time of its last run.
    """
    with errors_told():
        rules = Retention(
            keep_for=parse_duration(keep_for), keep_failed_for=parse_duration(keep_failed_for), keep_max=keep_max
        )
        done = run_command(_pruned(store_url(store), rules, is_dry=dry_run))
        if as_json:
            print_json(done)
            return
        also = "" if dry_run else f", and {counted(done.statistics, 'row')} of statistics"
        verb = "would remove" if dry_run else "removed"
        say(f"{verb} {counted(done.occurrences, 'occurrence')}{also} from {done.store}")


async def _pruned(url: str, rules: Retention, *, is_dry: bool) -> PruneResult:
    await existing_store(url)
    async with open_store(url) as store:
        if not is_dry:
            await record_prune(store, rules, by=local_user())
        with progress("counting" if is_dry else "pruning") as handle:
            step = store.count_prunable if is_dry else store.prune
            occurrences, statistics = await _round(step, rules, handle)
        return PruneResult(store.url, occurrences, statistics, is_dry)


async def _round(
    step: Callable[[Retention, PruneCursor], Awaitable[Pruned]], rules: Retention, handle: ProgressCallback
) -> tuple[int, int]:
    """Prune in one whole round: occurrences by time and by job, then nodes and their statistics."""
    occurrences = statistics = 0
    cursor: PruneCursor | None = PruneCursor()
    while cursor is not None:
        done = await step(rules, cursor)
        if cursor.node >= 0:
            statistics += done.removed
        else:
            occurrences += done.removed
        handle(occurrences + statistics, None, "rows")
        cursor = done.next
    return occurrences, statistics
