"""Nodes: the same load on one node and on four, each a process of its own, on one PostgreSQL.

All of it is due in one second, and each node has slots enough for all. Nodes share it without talking to each other; a
claim that two of them make is won by one, and the other has lost a race, which its log says. The rate is from due to
durably finished, over all nodes; so is what was missed and doubled. Four nodes on a machine of two cores have no more
of it than one: what is seen is what sharing costs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import structlog

from bench.harness import Result
from bench.herds import Herd
from bench.noderun import cpu, job_names, moment, node_of, register
from bench.places import opened, place
from bench.watching import AHEAD, PATIENCE
from itinerary.core.loop.events import OccurrenceEnded, SchedulerEvent
from itinerary.executors import ExecutionContext, Registry
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import every

__all__ = ["run"]

FUNCTION = "bench.nodes:noop"
LEARN_FOR = 15
"""Seconds for processes to start, and to learn of each other, before the first claim."""


def run(*, quick: bool) -> Iterator[Result]:
    """On PostgreSQL: one node, then four."""
    count = 2_000 if quick else 20_000
    with place("postgres") as url:
        one, _ = shared(url, count, 1)
    with place("postgres") as url:
        four, lost = shared(url, count, 4)
    for title, herd in (("one_node", one), ("four_nodes", four)):
        yield Result("nodes", f"{title}_per_s", herd.per_second, "/s", more_is_better=True)
        yield Result("nodes", f"{title}_p99_ms", herd.lateness(99), "ms")
        yield Result("nodes", f"{title}_cpu_s_per_1000", herd.cpu_of_1000, "s")
        yield Result("nodes", f"{title}_missed", herd.missed, "jobs")
        yield Result("nodes", f"{title}_doubled", herd.doubled, "jobs")
    yield Result("nodes", "four_nodes_share", four.per_second / one.per_second, "×", more_is_better=True)
    yield Result("nodes", "lost_races_percent", 100 * lost / (lost + len(four.ran)), "%")


def shared(url: str, count: int, nodes: int) -> tuple[Herd, int]:
    """What becomes of a herd on so many nodes, and how many claims were lost to another one."""
    due_at = int(time.time()) + AHEAD + LEARN_FOR + count // 2_500
    asyncio.run(_register(url, count, due_at))
    arguments = [sys.executable, "-m", "bench.nodes", url, str(count), str(due_at)]
    processes = [
        subprocess.Popen([*arguments, f"node {number}"], stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
        for number in range(nodes)
    ]
    said = [process.communicate(timeout=600)[0] for process in processes]
    for process in processes:
        if process.returncode:
            raise RuntimeError(f"a node ended with exit code {process.returncode}; what it said is above")
    parts = [json.loads(text.splitlines()[-1]) for text in said]
    herd = Herd(
        count,
        due_at,
        [(job, at) for part in parts for job, at in part["ran"]],
        sum(part["finished"] for part in parts),
        max(part["finished_at"] for part in parts),
        sum(part["cpu"] for part in parts),
    )
    return herd, sum(part["lost"] for part in parts)


async def _register(url: str, count: int, due_at: int) -> None:
    async with opened(url) as store:
        await register(store, job_names(count), FUNCTION, every("1h", start=moment(due_at)))


# -- one node, in a process of its own -----------------------------------------------------------------------------


async def _node(url: str, count: int, due_at: int, name: str) -> dict[str, Any]:
    ran: list[tuple[str, float]] = []
    ended: list[float] = []
    lost: list[int] = []
    clock = time.time

    async def noop(ctx: ExecutionContext) -> None:
        ran.append((ctx.job, clock()))

    def observe(news: Sequence[SchedulerEvent]) -> None:
        now = clock()
        ended.extend(now for one in news if isinstance(one, OccurrenceEnded))

    registry = Registry()
    registry.register(noop, FUNCTION)
    async with opened(url) as store:
        node = node_of(store, registry, 2 * count, observe, name=name, log=_races(lost))
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        if clock() > due_at - AHEAD:
            raise RuntimeError(f"{name} took longer to start than was foreseen; nothing can be measured")
        await asyncio.sleep(due_at - AHEAD - clock())
        used = cpu()
        await _settled(due_at, ended)
        used = cpu() - used
        node.shut_down()
        await running
    return {
        "ran": ran,
        "finished": len(ended),
        "finished_at": max(ended, default=float(due_at)),
        "cpu": used,
        "lost": sum(lost),
    }


async def _settled(due_at: int, ended: Sequence[float]) -> None:
    """Wait until nothing has ended for a while: no node knows how much of it the others have."""
    until = due_at + 10.0
    while time.time() < min(until, due_at + PATIENCE):
        await asyncio.sleep(0.1)
        until = max(until, (ended[-1] if ended else 0.0) + 5.0)


def _races(lost: list[int]) -> Any:
    """A log that takes down the races that were lost, and prints warnings."""

    def heed(_: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if event["event"] == "occurrences.lost_to_others":
            lost.append(event["count"])
        if method in ("debug", "info"):
            raise structlog.DropEvent
        return event

    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[heed, structlog.processors.KeyValueRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
    )


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_node(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))), flush=True)
