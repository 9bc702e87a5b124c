"""The commands of `itinerary`.

    itinerary up app.py              run a node, and show occurrences as they end
    itinerary audit                  check that everything that was due was decided exactly once
    itinerary pause JOB …            change a job, request runs: see `operations`
    itinerary jobs, show, history …  the content of a store: see `list` and `show`
    itinerary doctor …               maintenance of a store: see `maintenance`
    itinerary simulate app.py        a forecast
    itinerary records                record schedulers and their logs
    itinerary check jobs.toml        job files: see `job_files`, and `crontab`
    itinerary explain JOB            why it ran, ran late, or did not

Exit codes:

    0      success
    1      failure, with the reason on standard error (`audit`, `doctor`: a fault was found)
    2      a usage error
    3      `up` ended while something still ran
    4      `audit` did not examine a part of its window
    128 +  the number of the signal, after a second signal
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from enum import StrEnum
from typing import Annotated, Final

import click

from itinerary.api import Itinerary, RunningNode
from itinerary.audit import AuditResult, audit_store
from itinerary.cli.audit import heard_by, words
from itinerary.cli.boot_plan import plan_as_json, print_plan
from itinerary.cli.commands import Argument, Option
from itinerary.cli.crontab import add_crontab
from itinerary.cli.explain import add_explain
from itinerary.cli.job_files import Keep, Prune, add_job_files, undeclared_choice
from itinerary.cli.list import add_listing, existing_store
from itinerary.cli.live_output import Ticker, header, undeclared_line
from itinerary.cli.load_app import load_app
from itinerary.cli.maintenance import add_caring
from itinerary.cli.operations import add_commands
from itinerary.cli.options import AsJson, Store, configured, errors_told
from itinerary.cli.output import print_json, print_lines, say, screen, survive_any_encoding
from itinerary.cli.program_options import program_options
from itinerary.cli.progress import progress
from itinerary.cli.records import add_records
from itinerary.cli.run_command import obey_as_first_process, run_command
from itinerary.cli.show import add_showing
from itinerary.cli.simulate import add_simulate
from itinerary.cli.statistics import add_statistics
from itinerary.cli.suggestions import SuggestingCommands
from itinerary.cli.times import SettingZone, instant_of, named_zone
from itinerary.cli.tokens import add_tokens
from itinerary.cli.tracebacks import print_failure, print_thread_failure
from itinerary.cli.web import web_server
from itinerary.config.log_setup import configure_logging, engine_log
from itinerary.connections.descriptors import raise_file_limit
from itinerary.errors import ConfigError
from itinerary.model.policies import Undeclared
from itinerary.node.init_process import leave_process_one
from itinerary.node.shutdown_signals import EXIT_ERROR, EXIT_OK
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.runtime.thread_switching import switch_sooner
from itinerary.stores.urls import open_store

__all__ = ["app", "main"]

_EXIT_INCOMPLETE: Final = 4
"""The exit code of an audit that found no fault but could not examine a part of its window."""

app = SuggestingCommands(
    "itinerary", about="Cron that never loses a run, never starts one twice, and can always say why."
)


class LogChoice(StrEnum):
    """The format of the log."""

    HUMAN = "human"
    JSON = "json"


def up(  # noqa: PLR0913, PLR0917 - the options of a command
    target: Annotated[
        str, Argument(metavar="APP", help="A file, app.py or jobs.toml, or a module, package.module:app.")
    ],
    store: Store = None,
    name: Annotated[str | None, Option(help="What this node is called.")] = None,
    health: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="Answer probes and publish metrics there: 127.0.0.1:9187."),
    ] = None,
    web: Annotated[
        str | None, Option(metavar="HOST:PORT", help="Where the dashboard and the HTTP API are: 127.0.0.1:8321.")
    ] = None,
    no_web: Annotated[bool, Option("--no-web", help="No dashboard, and no HTTP API.")] = False,  # noqa: FBT002 - a switch
    log: Annotated[LogChoice, Option(help="How the log on standard error is written.")] = LogChoice.HUMAN,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Show only failures and warnings.")] = False,  # noqa: FBT002 - a switch
    verbose: Annotated[bool, Option("--verbose", "-v", help="Log what the engine does.")] = False,  # noqa: FBT002 - a switch
    prune: Prune = False,  # noqa: FBT002 - a switch
    keep: Keep = False,  # noqa: FBT002 - a switch
    plan: Annotated[bool, Option("--plan", help="Show what recovery would do, and do not start.")] = False,  # noqa: FBT002 - a switch
    as_json: Annotated[bool, Option("--json", help="With --plan: print JSON.")] = False,  # noqa: FBT002 - a switch
) -> None:
    """Run a node, and show occurrences as they end.

    SIGTERM or Ctrl-C ends the node: it takes no new work, gives running tasks time to end, and writes everything. A
    second signal ends it at once. SIGHUP makes it reload its settings.

    Jobs that APP declared at an earlier start and no longer declares are stopped, and the start says so. `--prune`
    removes them, `--keep` keeps them, and the setting `undeclared` decides if neither is given.
    """
    leave_process_one()
    configure_logging(log.value)
    with errors_told():
        found, paths = load_app(target, runs=True)
        if web is not None and no_web:
            raise ConfigError("--web and --no-web contradict each other; give one of them")
        undeclared = undeclared_choice(prune=prune, keep=keep) or found.configuration.undeclared or Undeclared.STOP
        web = "" if no_web else web
        found.reconfigure(store=store, name=name, health=health, web=web, undeclared=undeclared, paths=paths)
        if plan:
            recovery = run_command(found.boot_plan())
            if as_json:
                print_json(plan_as_json(recovery))
            else:
                print_plan(recovery)
            return
        raise_file_limit()
        switch_sooner()
        found.log = engine_log(logging.INFO if verbose or log is LogChoice.JSON else logging.WARNING)
        # People see the end of a run once: as a line, or, without lines, as a log event.
        found.logs_runs = quiet or log is LogChoice.JSON
        raise click.exceptions.Exit(_run(found, quiet=quiet))


def _run(found: Itinerary, *, quiet: bool) -> int:
    console = screen()
    web = web_server(found)
    ticker = None if quiet else Ticker(console)
    if ticker is not None:
        found.observe(ticker.handle)

    def greet(node: RunningNode) -> None:
        if (told := undeclared_line(node.undeclared)) is not None:
            say(told, console, hanging=2)
        if web is not None:
            web.start(node, found.configuration)
        if not quiet:
            console.print(header(found, node, None if web is None else web.at), end="", soft_wrap=True)
        relax_collector()

    try:
        return found.run(greet, owns_process=True)
    finally:
        if web is not None:
            web.stop()
        if ticker is not None:
            ticker.close()


def audit(
    since: Annotated[
        str | None,
        Option("--since", "--from", metavar="TIME", help="From when on: yesterday, 2h ago; else all of it."),
    ] = None,
    until: Annotated[
        str | None, Option("--until", "--to", metavar="TIME", help="Before when; else a minute ago.")
    ] = None,
    tz: SettingZone = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Was everything that was due decided, exactly once?

    Compares every instant that was expected in a past window with its outcome in the store, and checks each occurrence
    for contradictions. Nothing is written, and nodes may be running. The exit code is 1 if anything is lost, doubled or
    wrong, and 4 if a part of the window is not decided yet and was not looked at.
    """
    with errors_told():
        configuration = configured(store)
        zone, now = named_zone(tz or configuration.timezone), time.time_ns() // 1_000
        first = None if since is None else instant_of("--since", since, now=now, zone=zone)
        last = None if until is None else instant_of("--until", until, now=now, zone=zone)
        if first is not None and last is not None and last <= first:
            raise ConfigError(f"--until {until} is not later than --since {since}")
        found = run_command(_audited(configuration.store, first, last))
        if as_json:
            print_json(found)
        else:
            print_lines(words(found))
    if not found.is_clean:
        raise click.exceptions.Exit(EXIT_ERROR)
    raise click.exceptions.Exit(EXIT_OK if found.is_complete else _EXIT_INCOMPLETE)


async def _audited(url: str, start: int | None, end: int | None) -> AuditResult:
    await existing_store(url)
    with progress("audit") as handle:
        async with open_store(url) as store:
            return await audit_store(store, start, end, heard_by(handle))


app.params += program_options()
app.add(up)
app.add(audit)
add_commands(app)
add_records(app)
add_listing(app)
add_statistics(app)
add_showing(app)
add_caring(app)
add_job_files(app)
add_crontab(app)
add_explain(app)
add_simulate(app)
add_tokens(app)


def main() -> None:
    """Run the `itinerary` command."""
    survive_any_encoding()
    obey_as_first_process()
    threading.excepthook = print_thread_failure
    try:
        app(prog_name="itinerary")
    except Exception as error:  # noqa: BLE001 - a bug of ours, which ends the program
        print_failure(error)
        sys.exit(EXIT_ERROR)
