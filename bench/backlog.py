"""Backlog: a node that starts after an outage with 100,000 occurrences to be made up for, while something is due now.

A hundred jobs were due each second for a thousand seconds that nobody was there for. The outage is made by setting the
store's books back: jobs, their first versions and the watermark are as they would be if it had happened. The node is a
process of its own, so that its memory is its own. It recovers, and drains the backlog at its pace; meanwhile a job that
is due each second says how late it begins.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench.harness import Result
from bench.noderun import job_names, moment, node_of, register
from bench.places import opened, place
from itinerary.executors import Registry
from itinerary.executors.context import ExecutionContext
from itinerary.model.settings import Settings
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND

__all__ = ["drain", "recovers", "run", "ticks"]

JOBS = 100
GRACE = 60
"""Seconds between the end of the outage and now: more than the grace period."""
DRAIN = "import sys; from bench.backlog import drain; drain(*sys.argv[1:])"
RECOVERED = 0
LATE: list[float] = []


async def recovers() -> None:
    """One run of the backlog."""
    global RECOVERED  # noqa: PLW0603 - counted by the process that is measured
    RECOVERED += 1


async def ticks(ctx: ExecutionContext) -> None:
    """What is due now: how late is it?"""
    LATE.append(time.time() - ctx.scheduled_at.timestamp())


def run(*, quick: bool) -> Iterator[Result]:
    """On SQLite: at the usual pace, and at one that drains it within minutes."""
    count, seconds = (10_000, 15) if quick else (100_000, 60)
    for pace, lasts in ((Settings().recovery_pace, seconds), (1_000, seconds * 2)):
        with place("sqlite") as url:
            asyncio.run(_prepare(url, count))
            arguments = [sys.executable, "-c", DRAIN, url, str(lasts), str(pace), str(count)]
            done = subprocess.run(arguments, capture_output=True, text=True, check=True)  # noqa: S603 - ourselves
        found = json.loads(done.stdout.splitlines()[-1])
        title = f"sqlite_{count // 1_000}k_at_{pace}"
        yield Result("backlog", f"{title}_boot_s", found["boot_s"], "s")
        yield Result("backlog", f"{title}_rss_mb", found["rss_mb"], "MB")
        yield Result("backlog", f"{title}_drained_per_s", found["drained_per_s"], "/s", more_is_better=True)
        yield Result("backlog", f"{title}_live_p99_ms", found["live_p99_ms"], "ms")
        yield Result("backlog", f"{title}_live_max_ms", found["live_max_ms"], "ms")


async def _prepare(url: str, count: int) -> None:
    now = int(time.time())
    lasted = count // JOBS
    async with opened(url) as store:
        names = job_names(JOBS)
        outage = every("1s", start=moment(now - 86_400), end=moment(now - GRACE - 1))
        await register(store, names, "bench.backlog:recovers", outage)
        await register(store, ["ticks"], "bench.backlog:ticks", every("1s", start=moment(now)))
    before = (now - GRACE - lasted) * SECOND
    with sqlite3.connect(urlsplit(url).path) as books:
        books.execute("UPDATE itinerary_entries SET effective_from = ? WHERE job <= ?", (before, JOBS))
        books.execute("UPDATE itinerary_jobs SET registered_at = ? WHERE number <= ?", (before, JOBS))
        books.execute("UPDATE itinerary_sweep SET watermark = ?", (before,))
    books.close()


async def _drain(url: str, lasts: float, pace: int, count: int) -> None:
    async with opened(url) as store:
        node = node_of(store, Registry(["bench"]), 50, recovery_pace=pace)
        begun = time.perf_counter()
        await node.start()
        boot = time.perf_counter() - begun
        relax_collector()
        running = asyncio.create_task(node.run())
        await asyncio.sleep(2.0)
        LATE.clear()
        drained, since = RECOVERED, time.perf_counter()
        while count > RECOVERED and time.perf_counter() < since + lasts:  # noqa: ASYNC110 - time decides, too
            await asyncio.sleep(0.1)
        per_second = (RECOVERED - drained) / (time.perf_counter() - since)
        late = sorted(LATE)
        node.shut_down()
        await running
    found = {
        "boot_s": boot,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024,
        "drained_per_s": per_second,
        "live_p99_ms": late[int(len(late) * 0.99)] * 1_000,
        "live_max_ms": late[-1] * 1_000,
    }
    print(json.dumps(found), flush=True)


def drain(url: str, lasts: str, pace: str, count: str) -> None:
    """What the process that is measured does."""
    asyncio.run(_drain(url, float(lasts), int(pace), int(count)))
