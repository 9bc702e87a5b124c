"""A node that recovers, as a process of its own: it kills itself, as `kill -9` does, at a step of its sweep.

    python -m tests.integration.recovery.recovering URL STEP before|after SECONDS

At STEP 0 it is not killed: it goes on until all is decided up to so many seconds after the epoch, and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from uuid import uuid4

import structlog

from itinerary.core.recovery import sweep as sweeping
from itinerary.executors import Registry
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.queries import StoreStatusQuery
from itinerary.model.rows import NodeNumber
from itinerary.model.settings import Settings
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import Refusal
from itinerary.runtime.node import Node
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from itinerary.stores.store import EngineStore

__all__ = ["STEP_MAX", "noop"]

STEP_MAX = 150
"""Rows in a step: few, so that there are many steps to die at."""


async def noop() -> None:
    """What each job does."""


def _die_at(store: EngineStore, dies_at: int, *, is_written: bool) -> None:
    """Have this process killed at the n-th step that it makes of a sweep."""
    advance, made = store.advance_sweep, 0

    async def advance_sweep(by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        nonlocal made
        made += 1
        if made == dies_at and not is_written:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await advance(by, revision, step)
        if made == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    store.advance_sweep = advance_sweep  # type: ignore[method-assign]  # a process that is killed at a given moment


async def _recover(url: str, step: int, *, is_written: bool, until: int) -> None:
    sweeping.Sweep.steps.__defaults__ = (STEP_MAX,)
    async with open_store(url) as store:
        _die_at(store, step, is_written=is_written)
        node = Node(
            store,
            name="recovering",
            incarnation=uuid4().hex,
            settings=Settings(node_heartbeat_interval=SECOND // 10),
            executor=CoroutineExecutor(Registry(["tests"])),
            log=structlog.get_logger(),
        )
        await node.start()
        running = asyncio.create_task(node.run())
        while (await store.read(StoreStatusQuery())).watermark < until * SECOND:  # noqa: ASYNC110 - the store decides
            await asyncio.sleep(0.05)
        node.shut_down()
        await running


if __name__ == "__main__":
    asyncio.run(_recover(sys.argv[1], int(sys.argv[2]), is_written=sys.argv[3] == "after", until=int(sys.argv[4])))
