"""Idle: what a node with 100,000 jobs costs while none of them is due for an hour.

It is a process of its own, so that its memory is its own; it is left to settle down, and then observed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator

from bench.harness import Result, in_own_process
from bench.noderun import cpu, job_names, moment, node_of, register, resident
from bench.places import opened, place
from itinerary.executors import Registry
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import every

__all__ = ["run"]

SETTLE_FOR = 5.0


def run(*, quick: bool) -> Iterator[Result]:
    """On SQLite."""
    count, title = (10_000, "10k") if quick else (100_000, "100k")
    with place("sqlite") as url:
        asyncio.run(_register(url, count))
        found = json.loads(in_own_process("bench.idle", url, 10 if quick else 70))
    yield Result("idle", f"cpu_percent_{title}", found["cpu_percent"], "%")
    yield Result("idle", f"rss_mb_{title}", found["rss_mb"], "MB")


async def _register(url: str, count: int) -> None:
    async with opened(url) as store:
        await register(store, job_names(count), "bench.idle:noop", every("1h", start=moment(time.time() + 7_200)))


async def _idle(url: str, observe_for: float) -> None:
    async with opened(url) as store:
        node = node_of(store, Registry(["bench"]), 50)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        await asyncio.sleep(SETTLE_FOR)
        used, begun = cpu(), time.perf_counter()
        await asyncio.sleep(observe_for)
        percent = (cpu() - used) / (time.perf_counter() - begun) * 100
        print(json.dumps({"cpu_percent": percent, "rss_mb": resident() / 1e6}), flush=True)
        node.shut_down()
        await running


if __name__ == "__main__":
    asyncio.run(_idle(sys.argv[1], float(sys.argv[2])))
