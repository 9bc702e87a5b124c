"""A herd on pgqueuer: `python pgqueuer.py herd|oneshot <url> <count>`; prints what became of it, as JSON.

Recurring work is in its schedules, one-shot work in its queue, with a delay, and is taken from there in batches of 100.
It runs on uvloop, as its own command does, with a pool of connections. When something was durably over, its own tables
tell.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries

from bench.watching import due_after, watch

BATCH = 100
CONNECTIONS = 10
LOOK_EVERY = 0.2
SCHEDULES_OVER = """
    SELECT count(*), extract(epoch FROM max(last_run)) FROM pgqueuer_schedules
    WHERE status = 'queued' AND last_run >= to_timestamp($1)"""
JOBS_OVER = """
    SELECT count(*), extract(epoch FROM max(created)) FROM pgqueuer_log
    WHERE status = 'successful' AND created >= to_timestamp($1)"""
ran: list[tuple[str, float]] = []


async def main(what: str, url: str, count: int) -> None:
    """Register, wait, count."""
    async with asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        await Queries.from_asyncpg_pool(pool).install()
        work = PgQueuer.from_asyncpg_pool(pool)
        due_at = due_after(count / 500)
        if what == "herd":
            _schedule(work, count, due_at)
        else:
            await _enqueue(work, pool, count, due_at)
        running = asyncio.create_task(work.run(batch_size=BATCH))
        finished: list[float] = []
        looking = asyncio.create_task(_look(pool, SCHEDULES_OVER if what == "herd" else JOBS_OVER, due_at, finished))
        watching = asyncio.create_task(watch(count, due_at, ran, finished))
        await asyncio.wait({running, looking, watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, looking):
            if task.done():
                task.result()
        await watching
        looking.cancel()
        work.shutdown.set()
        await asyncio.wait({running}, timeout=30)


def _schedule(work: PgQueuer, count: int, due_at: int) -> None:
    """Every day at this second: a sixth field of cron is its second."""
    at = datetime.fromtimestamp(due_at, UTC)
    for number in range(count):
        name = f"job {number:06}"
        work.schedule(name, f"{at.minute} {at.hour} * * * {at.second}")(_task(name))


def _task(name: str) -> Callable[[Any], Awaitable[None]]:
    async def noop(_: Any) -> None:
        ran.append((name, time.time()))

    return noop


async def _enqueue(work: PgQueuer, pool: asyncpg.Pool, count: int, due_at: int) -> None:
    async def noop(job: Any) -> None:
        ran.append((job.payload.decode(), time.time()))

    work.entrypoint("noop")(noop)
    queries = Queries.from_asyncpg_pool(pool)
    for first in range(0, count, 1_000):
        names = [f"job {number:06}".encode() for number in range(first, min(first + 1_000, count))]
        some = len(names)
        wait = timedelta(seconds=due_at - time.time())
        await queries.enqueue(["noop"] * some, names, [0] * some, [wait] * some)


async def _look(pool: asyncpg.Pool, query: str, due_at: int, finished: list[float]) -> None:
    """See what is over: how many, and when the last of them was."""
    await asyncio.sleep(due_at - time.time())
    while True:
        over, last = await pool.fetchrow(query, float(due_at))
        finished[:] = [float(last)] * over if over else []
        await asyncio.sleep(LOOK_EVERY)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
