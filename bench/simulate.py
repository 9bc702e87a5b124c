"""Simulate: what `itinerary simulate` takes for 1,000 jobs over 30 days, with an outage and the clock changes.

The jobs are what a company has: many at the full hour, some each quarter of an hour or every five minutes, most once a
day in one of three time zones; they take from a fifth of a second to five minutes, and there are more of them at the
full hour than the node has slots.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from time import perf_counter, process_time

from bench.harness import Result
from itinerary import Itinerary, Schedule, cron, every
from itinerary.forecast import Outage, foresee, told
from itinerary.schedules.durations import SECOND

__all__ = ["run"]

JOBS = 1_000
DAYS = 30
START = int(datetime(2026, 3, 5, tzinfo=UTC).timestamp()) * SECOND
HOUR = 3_600 * SECOND
ZONES = ("UTC", "Europe/Berlin", "America/New_York")


async def _work() -> None: ...


def run(*, quick: bool) -> Iterator[Result]:
    """A month, or three days of it."""
    days = 3 if quick else DAYS
    app, takes = _company()
    outage = Outage(START + 50 * HOUR, START + 54 * HOUR)
    begun, used = perf_counter(), process_time()
    stage, said = asyncio.run(app.stage(START, takes))
    found = foresee(stage, START, START + days * 24 * HOUR, [outage])
    forecast = told(stage, found, [outage], said)
    seconds, cpu = perf_counter() - begun, process_time() - used
    yield Result("simulate", f"1k_jobs_{days}d_s", seconds, "s")
    yield Result("simulate", f"1k_jobs_{days}d_cpu_s", cpu, "s")
    yield Result("simulate", f"1k_jobs_{days}d_occurrences", forecast.occurrences, "")
    yield Result("simulate", f"1k_jobs_{days}d_played", stage.played, "")


def _company() -> tuple[Itinerary, dict[str, int]]:
    dice = random.Random(1)  # noqa: S311 - nothing here is a secret
    app, takes = Itinerary(), {}
    for number in range(JOBS):
        name, kind = f"job {number:04}", dice.random()
        app.job(name, _schedule(kind, dice), overlap=dice.choice(["skip", "skip", "queue", "allow"])).task(_work)
        seconds = dice.choice([0.2, 1, 1, 3, 10, 30, 60] if kind < 0.45 else [1, 10, 60, 200, 280])
        takes[name] = int(seconds * SECOND)
    return app, takes


def _schedule(kind: float, dice: random.Random) -> Schedule:
    if kind < 0.1:
        return cron("*/15 * * * *")
    if kind < 0.2:
        return cron(f"{dice.randrange(60)} * * * *")
    if kind < 0.4:
        return cron("0 * * * *")
    if kind < 0.45:
        return every("5m")
    minute = dice.choice([0, 0, 30, 15, dice.randrange(60)])
    return cron(f"{minute} {dice.randrange(24)} * * *", tz=dice.choice(ZONES))
