"""Cost: what an occurrence costs beside 1,000 registered jobs, and beside 100,000.

A thousand jobs are due together every fifteen seconds, a few times over. The others are not due for hours, but the node
knows them all. From 11 seconds before each instant, when its occurrences are not claimed yet, its CPU is counted for
fifteen seconds, so with what it does anyway; the median of the rounds is told. It is a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median

from bench.harness import Result, in_own_process
from bench.noderun import cpu, job_names, moment, node_of, register
from bench.places import opened, place
from itinerary.core.news import Finished, News
from itinerary.executors import Registry
from itinerary.runtime.garbage import relax_collector
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND

__all__ = ["costs", "run"]

HERD = 1_000
PERIOD = 15
BEFORE = 11
FUNCTION = "bench.cost:noop"


def run(*, quick: bool) -> Iterator[Result]:
    """On SQLite and on PostgreSQL, with few jobs and with many."""
    many, rounds = (10_000, 1) if quick else (100_000, 5)
    for kind in ("sqlite", "postgres"):
        for registered in (HERD, many):
            with place(kind) as url:
                found = costs(url, HERD, registered, rounds)
            title = f"{registered // 1_000}k"
            yield Result("cost", f"{kind}_cpu_s_per_1000_{title}", found["cpu_s_per_1000"], "s")
            yield Result("cost", f"{kind}_per_s_{title}", found["per_s"], "/s", more_is_better=True)
            yield Result("cost", f"{kind}_missed_{title}", found["missed"], "occurrences")


def costs(url: str, herd: int, registered: int, rounds: int) -> dict[str, float]:
    """What a herd of some of the registered jobs costs, in a process of its own."""
    found: dict[str, float] = json.loads(in_own_process("bench.cost", url, herd, registered, rounds))
    return found


async def noop() -> None:
    """What the jobs do."""


async def _costs(url: str, herd: int, registered: int, rounds: int) -> dict[str, float]:
    clock = time.time
    ended: dict[int, list[float]] = {}

    def observe(news: Sequence[News]) -> None:
        now = clock()
        for one in news:
            if isinstance(one, Finished):
                ended.setdefault(one.key.instant // SECOND, []).append(now)

    registry = Registry()
    registry.register(noop, FUNCTION)
    names = job_names(registered)
    async with opened(url) as store:
        await register(store, names[herd:], FUNCTION, every("1h", start=moment(clock() + 7_200)))
        due_at = int(clock()) + BEFORE + 10 + registered // 5_000
        end = moment(due_at + rounds * PERIOD - 1)
        await register(store, names[:herd], FUNCTION, every(f"{PERIOD}s", start=moment(due_at), end=end))
        node = node_of(store, registry, 2 * herd, observe)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        if clock() > due_at - BEFORE:
            raise RuntimeError("the node took longer to start than was foreseen; nothing can be measured")
        gc.collect()
        used = []
        await asyncio.sleep(due_at - BEFORE - clock())
        for number in range(1, rounds + 1):
            before = cpu()
            await asyncio.sleep(due_at - BEFORE + number * PERIOD - clock())
            used.append(cpu() - before)
        node.shut_down()
        await running
    instants = [due_at + number * PERIOD for number in range(rounds)]
    rates = [len(ended[at]) / (max(ended[at]) - at) for at in instants if at in ended]
    return {
        "cpu_s_per_1000": median(used) / herd * 1_000,
        "per_s": median(rates) if rates else 0.0,
        "missed": herd * rounds - sum(len(times) for times in ended.values()),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_costs(sys.argv[1], *(int(word) for word in sys.argv[2:])))), flush=True)
