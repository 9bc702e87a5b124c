"""Herds: 10,000 occurrences due in the same second, and 100, on each store; beside APScheduler 3 and 4 on SQLite.

Every scheduler gets its jobs beforehand, all of them recurring, with slots enough and a coroutine that does nothing. It
is left alone until their instant, and observed until the last of them is durably over.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence

from bench.harness import Result
from bench.herds import Herd, results
from bench.nodes import cpu, job_names, node_of, register
from bench.peers import PEERS, peer_herd
from bench.places import DURABLE, opened, place
from itinerary.core.news import Finished, News
from itinerary.executors import ExecutionContext, Registry
from itinerary.runtime.garbage import relax_collector

__all__ = ["run"]

SIZES = (100, 10_000)
QUICK_SIZES = (100, 1_000)
PATIENCE = 120.0


def run(*, quick: bool) -> Iterator[Result]:
    """Each store and size; the peers on SQLite."""
    for kind in ("sqlite",) if quick else DURABLE:
        for count in QUICK_SIZES if quick else SIZES:
            with place(kind) as url:
                ours = asyncio.run(_herd(url, count))
            peers = {}
            if kind == "sqlite":
                for name in PEERS:
                    with place(kind) as url:
                        peers[name] = peer_herd(name, url, count)
            yield from results(kind, ours, peers)


async def _herd(url: str, count: int) -> Herd:
    names = job_names(count)
    ran: list[tuple[str, float]] = []
    clock = time.time

    async def noop(ctx: ExecutionContext) -> None:
        ran.append((ctx.job, clock()))

    registry = Registry()
    function = registry.register(noop, "bench.herd:noop")
    finished: list[float] = []

    def observe(news: Sequence[News]) -> None:
        now = clock()
        finished.extend(now for one in news if isinstance(one, Finished))

    async with opened(url) as store:
        due_at = int(clock()) + 13 + count // 5_000
        await register(store, names, function, due_at)
        node = node_of(store, registry, 2 * count, observe)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        await asyncio.sleep(due_at - 1 - clock())
        gc.collect()
        used = cpu()
        while len(finished) < count and clock() < due_at + PATIENCE:  # noqa: ASYNC110 - nothing to be measured goes through an event of ours
            await asyncio.sleep(0.05)
        herd = Herd(count, due_at, ran, max(finished, default=clock()), cpu() - used)
        node.shut_down()
        await running
        return herd
