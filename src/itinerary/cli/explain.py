"""`itinerary explain`: why a job ran, ran late, or did not; the sentence first, then the facts.

    etl, due 2026-03-29 03:00:00 Europe/Berlin, ran 8 min late: …

    2026-03-29 Europe/Berlin
      02:59:50  00:59:50Z  node a was last heard of
      03:00:00  01:00:00Z  due by version 2: At 03:00, Europe/Berlin

    Next: 2026-03-30 03:00:00 Europe/Berlin

Sentences are wrapped at spaces to the width of the terminal, and never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Final

from rich.text import Text

from itinerary.cli.commands import Argument, Commands
from itinerary.cli.completion import complete_job
from itinerary.cli.list import existing_store
from itinerary.cli.options import AsJson, Store, errors_told, store_url
from itinerary.cli.output import print_json, screen, width_of, wrapped
from itinerary.cli.run_command import run_command
from itinerary.cli.times import TIMES, TimeZone, job_zone, moment_of
from itinerary.explain import Explanation, Fact, explain
from itinerary.read.timeline_view import StoreView
from itinerary.schedules.instants import Moment
from itinerary.schedules.wallclock import instant_of as instant_on
from itinerary.stores.urls import open_store

__all__ = ["add_explain", "in_lines"]

_RUN_ID: Final = re.compile(r"(?P<job>.+):(?P<seconds>\d+)(?:\.(?:[0-9a-f]{8}\.)?replay-\d+)?")
"""The form of a run id. A replay is explained with the instant of its original."""
_WIDEST: Final = 100
"""The widest line that is comfortable to read."""


def add_explain(app: Commands) -> None:
    """Add this command to the app."""
    app.add(_explain, "explain")


def _explain(
    job: Annotated[
        str,
        Argument(metavar="JOB", help="The name of a job, or a run id: etl:1767225600.", offers=complete_job),
    ],
    time: Annotated[
        str | None,
        Argument(
            metavar="TIME",
            help=f"Which instant, by the clock of the job's zone: {TIMES}; else the last.",
        ),
    ] = None,
    tz: TimeZone = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Why did it run, run late, or not run?

    Explains the outcome of an instant of a job in a sentence. Below it are the facts of the store, in the time of the
    job's zone and in UTC. Without a TIME it is about the last one that happened, or should have. A TIME that is nearly
    right finds the nearest instant, and says so. Nothing is written, and no node is needed.
    """
    with errors_told():
        found = run_command(_explained(store_url(store), job, time, tz))
        if as_json:
            print_json(found)
            return
        console = screen()
        verdict, *rest = in_lines(found, min(width_of(console), _WIDEST))
        console.print(Text(verdict, style="bold"), soft_wrap=True)
        for line in rest:
            console.print(Text(line), soft_wrap=True)


async def _explained(url: str, job: str, time: str | None, tz: str | None) -> Explanation:
    await existing_store(url)
    async with open_store(url) as store:
        if time is None and (run := _RUN_ID.fullmatch(job)) is not None:
            return await explain(store, run["job"], Moment(int(run["seconds"])))
        if time is None:
            return await explain(store, job)
        view = await StoreView.of(store)
        zone = job_zone(view, job, tz)
        when = moment_of("TIME", time, now=view.now(), zone=zone)
        if tz is not None:
            when = Moment(instant_on(zone, when))
        return await explain(store, job, when, view.timeline)


# -- lines -----------------------------------------------------------------------------------------------------------


def in_lines(found: Explanation, width: int) -> Iterator[str]:
    """Yield the answer in lines: first the verdict, wrapped, then the facts."""
    yield _paragraph(found.verdict, width)
    timed = [fact for fact in found.facts if fact.local is not None]
    for day, facts in groupby(timed, key=lambda fact: (fact.local or "").split(" ")[0]):
        yield ""
        yield f"{day} {found.zone}"
        yield from _timeline(list(facts), width, with_utc=found.zone != "UTC")
    others = [fact for fact in found.facts if fact.local is None]
    if others:
        yield ""
        yield from (_paragraph(fact.what, width, indent=2, hanging=4) for fact in others)
    if found.advice is not None or found.following is not None:
        yield ""
    if found.advice is not None:
        yield _paragraph(found.advice[0].upper() + found.advice[1:], width, hanging=2)
    if found.following is not None:
        yield f"Next: {found.following_local} {found.zone}"


def _timeline(facts: list[Fact], width: int, *, with_utc: bool) -> Iterator[str]:
    times = [(fact.local or "").split(" ", 1)[1] for fact in facts]
    widest = max(map(len, times))
    for fact, time in zip(facts, times, strict=True):
        utc = f"  {(fact.at or '').split('T')[1]}" if with_utc else ""
        begin = f"  {time:<{widest}}{utc}  "
        yield begin + _paragraph(fact.what, width, indent=len(begin)).lstrip()


def _paragraph(text: str, width: int, *, indent: int = 0, hanging: int | None = None) -> str:
    return "\n".join(line.plain for line in wrapped(text, width, indent=indent, hanging=hanging))
