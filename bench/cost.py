"""Cost: what an occurrence costs beside 1,000 registered jobs, and beside 100,000.

A thousand jobs of a node are due together twice a minute, a few times over. The others are not due for hours, but the
node knows them all. Its CPU is counted for seventeen seconds in which the thousand are claimed, due and finished, and
for as long in which nothing is due:

    few jobs     ── claims ── due ── ends ──│──────── nothing ────────│── claims ── …
    many jobs    ──────── nothing ─────────│── claims ── due ── ends ──│──────── …

What it uses more in the first is what the thousand cost. The two nodes are there at the same time, each in a process of
its own, and take turns: a machine that is shared is a third slower in one minute than in the next, which is more than
what is looked for. The medians of the rounds are told.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from bench.harness import Result, in_own_process
from bench.noderun import cpu, job_names, moment, node_of, register
from bench.places import opened, place
from itinerary.core.loop.events import OccurrenceEnded, SchedulerEvent
from itinerary.executors import Registry
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND

__all__ = ["costs", "run"]

HERD = 1_000
TURN = 17
"""Seconds; nothing that a node does each minute comes always in the one, or always in the other."""
PERIOD = 2 * TURN
BEFORE = 11
"""Seconds from the beginning of a turn to the instant: its occurrences are not claimed yet."""
FUNCTION = "bench.cost:noop"


def run(*, quick: bool) -> Iterator[Result]:
    """On SQLite and on PostgreSQL, with few jobs and with many."""
    many, rounds = (10_000, 1) if quick else (100_000, 7)
    sizes = (HERD, many)
    for kind in ("sqlite", "postgres"):
        with place(kind) as first, place(kind) as second, ThreadPoolExecutor() as pool:
            begins_at = int(time.time()) + 20 + many // 5_000
            starts = [begins_at + number * TURN for number in range(len(sizes))]
            nodes = pool.map(costs, (first, second), sizes, starts, [rounds] * len(sizes))
        for size, found in zip(sizes, nodes, strict=True):
            title = f"{size // 1_000}k"
            yield Result("cost", f"{kind}_cpu_s_per_1000_{title}", found["cpu_s"] - found["idle_cpu_s"], "s")
            yield Result("cost", f"{kind}_turn_cpu_s_{title}", found["cpu_s"], "s")
            yield Result("cost", f"{kind}_idle_cpu_s_{title}", found["idle_cpu_s"], "s")
            yield Result("cost", f"{kind}_per_s_{title}", found["per_s"], "/s", more_is_better=True)
            yield Result("cost", f"{kind}_missed_{title}", found["missed"], "occurrences")


def costs(url: str, registered: int, begins_at: int, rounds: int) -> dict[str, float]:
    """What a herd of some of the registered jobs costs, in a process of its own whose first turn begins at a second."""
    found: dict[str, float] = json.loads(in_own_process("bench.cost", url, registered, begins_at, rounds))
    return found


async def noop() -> None:
    """What the jobs do."""


async def _costs(url: str, registered: int, begins_at: int, rounds: int) -> dict[str, float]:
    clock = time.time
    ended: dict[int, list[float]] = {}

    def observe(news: Sequence[SchedulerEvent]) -> None:
        now = clock()
        for one in news:
            if isinstance(one, OccurrenceEnded):
                ended.setdefault(one.key.instant // SECOND, []).append(now)

    registry = Registry()
    registry.register(noop, FUNCTION)
    names, due_at = job_names(registered), begins_at + BEFORE
    async with opened(url) as store:
        await register(store, names[HERD:], FUNCTION, every("1h", start=moment(clock() + 7_200)))
        end = moment(due_at + rounds * PERIOD - 1)
        await register(store, names[:HERD], FUNCTION, every(f"{PERIOD}s", start=moment(due_at), end=end))
        node = node_of(store, registry, 2 * HERD, observe)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        if clock() > begins_at:
            raise RuntimeError("the node took longer to start than was foreseen; nothing can be measured")
        gc.collect()
        used: list[float] = []
        await asyncio.sleep(begins_at - clock())
        for turn in range(1, 2 * rounds + 1):
            before = cpu()
            await asyncio.sleep(begins_at + turn * TURN - clock())
            used.append(cpu() - before)
        node.shut_down()
        await running
    instants = [due_at + number * PERIOD for number in range(rounds)]
    rates = [len(ended[at]) / (max(ended[at]) - at) for at in instants if at in ended]
    return {
        "cpu_s": median(used[::2]),
        "idle_cpu_s": median(used[1::2]),
        "per_s": median(rates) if rates else 0.0,
        "missed": HERD * rounds - sum(len(times) for times in ended.values()),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_costs(sys.argv[1], *(int(word) for word in sys.argv[2:])))), flush=True)
