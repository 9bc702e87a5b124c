"""Web: how long the server takes for each page of the dashboard, and how much it weighs, beside 100,000 jobs and
5,000,000 occurrences; what fifty open dashboards cost the node, and whether they delay a start.

The node is a process of its own, on SQLite, with twenty jobs each second that do nothing: their starts are what must
not be late. Pages are asked for from another process, one after another, each time with something asked for that nobody
has asked for before, where a page takes such.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from bench.filled import fill
from bench.harness import Result
from bench.noderun import cpu
from bench.served_node import observed, served
from itinerary import Itinerary, every
from itinerary.config.log_setup import engine_log
from itinerary.core.loop.events import OccurrenceStarted, SchedulerEvent
from itinerary.model.occurrence import Kind
from itinerary.observe.listen_address import ListenAt
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules.durations import SECOND
from itinerary.web.server import WebServer

__all__ = ["PAGES", "measured", "noop", "run"]

PAGES: Mapping[str, str] = {
    "now": "/",
    "jobs": "/jobs?after=job%20{n:06}",
    "jobs_search": "/jobs?name={n}",
    "jobs_pattern": "/jobs?name=*{n}*",
    "jobs_failing": "/jobs?state=failing&after=job%20{n:06}",
    "timeline_1h": "/timeline?span=1h&after=job%20{n:06}",
    "timeline_1d": "/timeline?span=1d&after=job%20{n:06}",
    "timeline_1w": "/timeline?span=1w&after=job%20{n:06}",
    "timeline_1w_often": "/timeline?span=1w&jobs=job%200000*",
    "timeline_past": "/timeline?span=1d&at={past}&jobs=job%200000*",
    "job": "/jobs/job%20{n:06}",
    "run": "/runs/{ref}",
}
DASHBOARDS = ("/", "/jobs", "/timeline", "/timeline?span=1d", "/jobs?state=failing")
OPEN = 50
_TIMES = 9
_BUSY = 20


def run(*, quick: bool) -> Iterator[Result]:
    """Fill a file, and look at it."""
    jobs, observed_for = (2_000, 10.0) if quick else (100_000, 20.0)
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as directory:
        path = Path(directory) / "itinerary.db"
        asyncio.run(fill(path, jobs, "bench.web:noop"))
        yield from measured(path, observed_for)


def measured(path: Path, observed_for: float) -> Iterator[Result]:
    """The same of a file that is filled already."""
    with sqlite3.connect(path) as connection:
        ((last,),) = connection.execute("SELECT max(ref) FROM itinerary_occurrences")
        # As if a node had been there until now: nothing is to be made up for.
        connection.execute("UPDATE itinerary_sweep SET watermark = ?", [int(time.time()) * SECOND])
    connection.close()
    with served("bench.web", f"sqlite:///{path}") as (port, node):
        # A minute after its start a node forgets old history: what is compared is observed before that.
        alone = observed(node, observed_for)
        looked_at, sent = asyncio.run(_with_dashboards(port, node, observed_for))
        yield Result("web", "cpu_percent_alone", alone["cpu_percent"], "%")
        yield Result("web", f"cpu_percent_of_{OPEN}_dashboards", looked_at["cpu_percent"] - alone["cpu_percent"], "%")
        yield Result("web", "p99_ms_alone", alone["p99_ms"], "ms")
        yield Result("web", f"p99_ms_with_{OPEN}_dashboards", looked_at["p99_ms"], "ms")
        yield Result("web", f"sent_kb_per_s_to_{OPEN}_dashboards", sent / 1e3 / observed_for, "kB/s")
        for name, page in PAGES.items():
            used = _cpu_of(node.pid)
            taken, weight = _asked(port, page, last)
            used = _cpu_of(node.pid) - used
            if taken:
                yield Result("web", f"{name}_ms", median(taken) * 1e3, "ms")
                yield Result("web", f"{name}_cpu_ms", used / (len(taken) + 1) * 1e3, "ms")
                yield Result("web", f"{name}_kb", weight / 1e3, "kB")


def _asked(port: int, page: str, last: int) -> tuple[list[float], int]:
    """Seconds for each time, and the heaviest answer in bytes; none if there is no such page."""
    taken, weight = [], 0
    for number in range(_TIMES):
        past = time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(time.time() - 86_400 * (1.5 + number / 4)))
        address = page.format(n=number * 9_973, ref=last - number * 500_009, past=past)
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        begun = time.perf_counter()
        connection.request("GET", address, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            return [], 0
        if number:  # the first is to warm up
            taken.append(time.perf_counter() - begun)
        weight = max(weight, len(body))
        connection.close()
    return taken, weight


def _cpu_of(process: int) -> float:
    """Seconds of CPU that a process has used."""
    user, system = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# -- the node, in a process of its own -------------------------------------------------------------------------------


async def _with_dashboards(port: int, node: subprocess.Popen[str], observe_for: float) -> tuple[dict[str, float], int]:
    received = [0]

    async def look(address: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n".encode())
        first = await reader.readline()
        assert b" 200 " in first, first
        while some := await reader.read(65_536):
            received[0] += len(some)

    tasks = [asyncio.create_task(look(DASHBOARDS[number % len(DASHBOARDS)])) for number in range(OPEN)]
    await asyncio.sleep(5)  # all of them have been sent their page by then
    received[0] = 0
    found = await asyncio.to_thread(observed, node, observe_for)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return found, received[0]


def noop() -> None:
    """What the jobs do."""


async def _serve(url: str) -> None:
    app = Itinerary(store=url, allow_modules=["bench"], health=None)
    for number in range(_BUSY):
        app.job(f"zz busy {number:02}", every("1s")).task(_nothing)
    lateness: list[int] = []

    def handle(news: Sequence[SchedulerEvent]) -> None:
        lateness.extend(
            item.started_at - item.due_at
            for item in news
            if isinstance(item, OccurrenceStarted) and item.recovery is None and item.key.kind is Kind.SCHEDULED
        )

    app.observe(handle)
    async with app.running() as node:
        server = WebServer(ListenAt("127.0.0.1", 0), log=engine_log())
        at = server.bind()
        await asyncio.to_thread(server.start, node, app.configuration)
        try:
            await asyncio.sleep(5)
            relax_collector()  # as `itinerary up` does
            print(json.dumps({"port": at.port}), flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                lateness.clear()
                used, begun = cpu(), time.perf_counter()
                await asyncio.sleep(float(line))
                percent = (cpu() - used) / (time.perf_counter() - begun) * 100
                late = sorted(lateness) or [0]
                p99 = late[int(len(late) * 0.99)] / SECOND * 1e3
                print(json.dumps({"cpu_percent": percent, "p99_ms": p99, "starts": len(lateness)}), flush=True)
        finally:
            await asyncio.to_thread(server.stop)


async def _nothing() -> None:
    """What the busy ones do."""


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
