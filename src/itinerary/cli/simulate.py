"""`itinerary simulate`: a forecast of load, overlaps and outages (see `itinerary.forecast`)."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import msgspec

from itinerary.api import Itinerary
from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.load_app import load_app
from itinerary.cli.options import AsJson, errors_told
from itinerary.cli.output import counted, print_json, print_lines
from itinerary.cli.progress import progress
from itinerary.cli.run_command import run_command
from itinerary.cli.store_option import checked_store
from itinerary.cli.times import SettingZone, instant_of, named_zone
from itinerary.errors import ConfigError, ItineraryError
from itinerary.forecast import Forecast, Outage, foresee, occurrences, told
from itinerary.forecast.report import OutageTold
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.schedules.instants import shown_instant
from itinerary.schedules.zones import Zone

__all__ = ["add_simulate", "forecast_in_words"]

_LISTED: Final = 10
"""The most jobs of a kind that are listed. `--json` has all of them."""
_BARS: Final = "·▁▂▃▄▅▆▇█"


def add_simulate(app: Commands) -> None:
    """Add this command to the app."""
    app.add(simulate)


def simulate(  # noqa: PLR0913, PLR0917 - the options of a command
    target: Annotated[str, Argument(metavar="APP", help="A file, app.py, or a module, package.module:app.")],
    lasting: Annotated[str, Option("--for", metavar="DURATION", help="How long: 30d, 12h, 2m.")] = "24h",
    since: Annotated[
        str | None, Option("--from", metavar="TIME", help="From when on: 2026-03-01, tomorrow; else from now on.")
    ] = None,
    tz: SettingZone = None,
    outage: Annotated[
        list[str] | None, Option("--outage", metavar="FROM..TO", help="A time in which no node is there.")
    ] = None,
    takes: Annotated[list[str] | None, Option("--takes", metavar="JOB=DURATION", help="How long a job takes.")] = None,
    store: Annotated[
        str | None,
        Option(
            "--store",
            metavar="URL",
            help="A store whose history says how long tasks take.",
            check=checked_store,
        ),
    ] = None,
    listed: Annotated[bool, Option("--occurrences", help="With --json: list every occurrence, too.")] = False,  # noqa: FBT002 - a switch
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Forecast load, overlaps, clock changes, and the effect of an outage.

    The code that decides in a node plays through the jobs of APP. Nothing is run and nothing is written. Tasks take as
    long as --takes says, else as long as they did in --store, else a second. Every task succeeds, and conditions are
    met.
    """
    with errors_told():
        found, paths = load_app(target)
        found.reconfigure(paths=paths)
        zone, now = named_zone(tz or found.configuration.timezone), time.time_ns() // 1_000_000_000 * SECOND
        start = now if since is None else instant_of("--from", since, now=now, zone=zone)
        end = start + _duration("--for", lasting)
        outages = [_outage(text, now, zone) for text in outage or ()]
        said = dict(_said(text, [job.name for job in found]) for text in takes or ())
        relax_collector()
        forecast, rows = _foreseen(found, start, end, outages, said, store)
        if as_json:
            whole: dict[str, Any] = msgspec.to_builtins(forecast)
            print_json(whole | {"list": rows} if listed else whole)
        else:
            print_lines(forecast_in_words(forecast))


def _foreseen(
    found: Itinerary, start: int, end: int, outages: list[Outage], said: dict[str, int], store: str | None
) -> tuple[Forecast, list[Any]]:
    stage, takes = run_command(found.stage(start, said, store))
    with progress("simulating") as handle:
        foreseen = foresee(stage, start, end, outages, lambda part: handle(round(part * 100), 100))
    return told(stage, foreseen, outages, takes), occurrences(stage, foreseen)


# -- typed values ----------------------------------------------------------------------------------------------------


def _duration(option: str, text: str) -> int:
    try:
        duration = parse_duration(text)
    except ItineraryError as error:
        raise ConfigError(f"{option} {text}: {error}") from error
    if duration < SECOND:
        raise ConfigError(f"{option} {text}: this is less than a second; write 30d, 12h or 2m")
    return duration // SECOND * SECOND


def _outage(text: str, now: int, zone: Zone) -> Outage:
    first, separator, last = text.partition("..")
    if not separator:
        raise ConfigError(f"--outage {text}: write FROM..TO, 2026-03-01T00:00:00Z..2026-03-01T06:00:00Z")
    return Outage(*(instant_of("--outage", part, now=now, zone=zone) // SECOND * SECOND for part in (first, last)))


def _said(text: str, jobs: list[str]) -> tuple[str, int]:
    job, separator, duration = text.rpartition("=")
    if not separator:
        raise ConfigError(f"--takes {text}: write JOB=DURATION, backup=30s")
    if job not in jobs:
        raise ConfigError(f"--takes {text}: there is no job {job!r}; there are {', '.join(sorted(jobs)[:_LISTED])}")
    try:
        return job, parse_duration(duration)
    except ItineraryError as error:
        raise ConfigError(f"--takes {text}: {error}") from error


# -- output ----------------------------------------------------------------------------------------------------------


def forecast_in_words(forecast: Forecast) -> str:
    """Return a forecast in lines."""
    load = forecast.load
    states = ", ".join(f"{count:,} {state}" for state, count in forecast.states.items()) or "nothing is due"
    lines = [
        f"{forecast.start} to {forecast.end}",
        f"{counted(forecast.jobs, 'job')}, {counted(forecast.occurrences, 'occurrence')}: {states}",
    ]
    if forecast.assumed:
        lines.append(
            f"{counted(forecast.assumed, 'job')} of no known duration: each task is taken to take"
            f" {forecast.assumed_s:g} s (say --takes JOB=30s, or --store with a history)"
        )
    if forecast.occurrences:
        lines += [
            "",
            "Load",
            f"  {_chart(load.chart, load.peak)}",
            f"  at most {load.peak:,} run in one minute, at {load.peak_at}; p95 {load.p95:g}",
            f"  at most {load.at_once:,} at one moment; the node has {load.slots} slots",
            f"  most begin at {load.busiest_minute}: {load.starts_in_it:,}",
        ]
    lines += _section(
        "Overlaps", [f"{o.job}: {o.count:,} of {o.of:,} ({o.overlap}): {o.what}" for o in forecast.overlaps]
    )
    waits = [f"{w.job}: {w.count:,}, the longest {w.longest_s:,.1f} s at {w.longest_at}" for w in forecast.waits]
    lines += _section("Waits for a slot or a limit", waits)
    for night in forecast.nights:
        way = "forward" if night.forward > 0 else "back"
        title = f"{night.zone}: clocks go {way} by {abs(night.forward) // 60} min at {shown_instant(night.at)}"
        lines += _section(title, [f"{one.job}: {one.what}" for one in night.jobs] or ["no job is affected"])
    for told_of in forecast.outages:
        lines += _outage_lines(told_of)
    lines += _section("Cannot be enumerated", list(forecast.gaps))
    return "\n".join(lines)


def _outage_lines(outage: OutageTold) -> list[str]:
    lines = [
        "",
        f"Outage {outage.start} to {outage.end}: {outage.due:,} due, {outage.orphaned:,} orphaned",
        "  if all jobs had the strategy",
        f"    {'':16}{'run':>8}{'missed':>9}{'compressed':>12}",
    ]
    lines += [f"    {one.strategy:16}{one.runs:>8,}{one.missed:>9,}{one.compressed:>12,}" for one in outage.if_all_were]
    lines.append(f"  as configured, made up for at {outage.made_up_at}")
    rows = [
        f"{one.job}: {one.strategy}: {one.runs:,} run, {one.missed:,} missed"
        + (f", {one.compressed:,} compressed" if one.compressed else "")
        for one in outage.as_configured
    ]
    return lines + _rows(rows, "    ")


def _section(title: str, rows: list[str]) -> list[str]:
    return ["", title, *_rows(rows, "  ")] if rows else []


def _rows(rows: list[str], indent: str) -> list[str]:
    shown = [f"{indent}{row}" for row in rows[:_LISTED]]
    left_out = len(rows) - len(shown)
    return [*shown, f"{indent}… and {left_out:,} more (--json has all)"] if left_out else shown


def _chart(values: tuple[int, ...], peak: int) -> str:
    top = len(_BARS) - 1
    return "".join(_BARS[-(-value * top // peak) if peak else 0] for value in values)
