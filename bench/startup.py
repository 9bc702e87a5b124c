"""Startup: how long it takes to register jobs, and how long a node takes that finds them, until it is ready.

Three times over, each in a store of its own; the median is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from statistics import median

from bench.harness import Result
from bench.noderun import job_names, moment, node_of, register
from bench.places import opened, place
from itinerary.executors import Registry
from itinerary.schedules import every

__all__ = ["run"]

ROUNDS = 3


def run(*, quick: bool) -> Iterator[Result]:
    """On SQLite; registered in one process, found by a node that has never seen them."""
    for count, title in ((10_000, "10k"),) if quick else ((10_000, "10k"), (100_000, "100k")):
        registering, starting = [], []
        for _ in range(ROUNDS):
            with place("sqlite") as url:
                registering.append(asyncio.run(_register(url, count)))
                starting.append(asyncio.run(_ready(url)))
        yield Result("startup", f"register_{title}_s", median(registering), "s")
        yield Result("startup", f"ready_{title}_s", median(starting), "s")


async def _register(url: str, count: int) -> float:
    async with opened(url) as store:
        begun = time.perf_counter()
        await register(store, job_names(count), "bench.startup:noop", every("1h", start=moment(time.time() + 7_200)))
        return time.perf_counter() - begun


async def _ready(url: str) -> float:
    async with opened(url) as store:
        begun = time.perf_counter()
        node = node_of(store, Registry(["bench"]), 50)
        await node.start()
        taken = time.perf_counter() - begun
        running = asyncio.create_task(node.run())
        node.shut_down()
        await running
        return taken
