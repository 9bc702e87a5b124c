"""A herd on APScheduler 4: `python apscheduler4.py <url> <count>`; prints what became of it, as JSON."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

from apscheduler import AsyncScheduler, JobReleased
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.interval import IntervalTrigger

from bench.watching import watch

ran: list[tuple[str, float]] = []


async def noop(name: str) -> None:
    """Does nothing, at a time."""
    ran.append((name, time.time()))


async def main(url: str, count: int) -> None:
    """Register, wait, count."""
    finished: list[float] = []
    store = SQLAlchemyDataStore(url.replace("sqlite:", "sqlite+aiosqlite:", 1))
    async with AsyncScheduler(store, max_concurrent_jobs=2 * count) as scheduler:
        begun, probe = time.time(), min(count, 100)
        for number in range(probe):
            await _add(scheduler, f"probe {number}", int(begun) + 86_400)
        needed = (time.time() - begun) / probe * count
        for number in range(probe):
            await scheduler.remove_schedule(f"probe {number}")
        due_at = int(time.time() + 2.5 * needed + 10)
        for number in range(count):
            await _add(scheduler, f"job {number:06}", due_at)
        scheduler.subscribe(lambda _: finished.append(time.time()), JobReleased)
        await scheduler.start_in_background()
        await watch(count, due_at, ran, finished)


async def _add(scheduler: AsyncScheduler, name: str, due_at: int) -> None:
    trigger = IntervalTrigger(hours=1, start_time=datetime.fromtimestamp(due_at, UTC))
    await scheduler.add_schedule(noop, trigger, id=name, args=[name], misfire_grace_time=timedelta(hours=1))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
