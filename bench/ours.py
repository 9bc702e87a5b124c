"""A herd on a node of ours, in a process of its own, as the peers have one:
`python -m bench.ours <what> <url> <count>`.

The jobs are registered beforehand and have slots enough. Recurring ones have an interval, one-shot ones an instant.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Sequence

from bench.harness import in_own_process
from bench.herds import Herd
from bench.noderun import cpu, job_names, moment, node_of, register
from bench.places import opened
from bench.watching import AHEAD, PATIENCE, due_after
from itinerary.core.loop.events import OccurrenceEnded, SchedulerEvent
from itinerary.executors import ExecutionContext, Registry
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import Schedule, every, once

__all__ = ["our_herd"]


def our_herd(what: str, url: str, count: int) -> Herd:
    """What becomes of a herd on one node: `herd` of recurring jobs, `oneshot` of one-shot ones."""
    return Herd.from_json(in_own_process("bench.ours", what, url, count))


def _schedule(what: str, due_at: int) -> Schedule:
    match what:
        case "herd":
            return every("1h", start=moment(due_at))
        case "oneshot":
            return once(moment(due_at))
        case _:
            raise ValueError(f"{what}: there is herd, and oneshot")


async def _herd(what: str, url: str, count: int) -> Herd:
    ran: list[tuple[str, float]] = []
    clock = time.time

    async def noop(ctx: ExecutionContext) -> None:
        ran.append((ctx.job, clock()))

    registry = Registry()
    function = registry.register(noop, "bench.ours:noop")
    finished: list[float] = []

    def observe(news: Sequence[SchedulerEvent]) -> None:
        now = clock()
        finished.extend(now for one in news if isinstance(one, OccurrenceEnded))

    async with opened(url) as store:
        due_at = due_after(count / 2_500)
        await register(store, job_names(count), function, _schedule(what, due_at))
        node = node_of(store, registry, 2 * count, observe)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        if clock() > due_at - AHEAD:
            raise RuntimeError("registering took longer than was foreseen; nothing can be measured")
        gc.collect()
        await asyncio.sleep(due_at - AHEAD - clock())
        used = cpu()
        while len(finished) < count and clock() < due_at + PATIENCE:  # noqa: ASYNC110 - nothing to be measured goes through an event of ours
            await asyncio.sleep(0.05)
        used = cpu() - used
        herd = Herd(count, due_at, ran, len(finished), max(finished, default=clock()), used)
        node.shut_down()
        await running
        return herd


if __name__ == "__main__":
    print(asyncio.run(_herd(sys.argv[1], sys.argv[2], int(sys.argv[3]))).to_json(), flush=True)
