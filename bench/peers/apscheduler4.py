"""A herd on APScheduler 4: `python apscheduler4.py herd <url> <count>`; prints what became of it, as JSON."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import UTC, datetime, timedelta

from apscheduler import AsyncScheduler, JobReleased
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.interval import IntervalTrigger

from bench.watching import due_after, watch

DRIVERS = {"sqlite:": "sqlite+aiosqlite:", "postgresql:": "postgresql+psycopg:"}
ran: list[tuple[str, float]] = []


async def noop(name: str) -> None:
    """Does nothing, at a time."""
    ran.append((name, time.time()))


async def main(url: str, count: int) -> None:
    """Register, wait, count."""
    finished: list[float] = []
    for scheme, driver in DRIVERS.items():
        url = url.replace(scheme, driver, 1)
    async with AsyncScheduler(SQLAlchemyDataStore(url), max_concurrent_jobs=2 * count) as scheduler:
        begun, probe = time.time(), min(count, 100)
        for number in range(probe):
            await _add(scheduler, f"probe {number}", int(begun) + 86_400)
        needed = (time.time() - begun) / probe * count
        for number in range(probe):
            await scheduler.remove_schedule(f"probe {number}")
        due_at = due_after(2.0 * needed)
        for number in range(count):
            await _add(scheduler, f"job {number:06}", due_at)
        scheduler.subscribe(lambda _: finished.append(time.time()), JobReleased)
        await scheduler.start_in_background()
        await watch(count, due_at, ran, finished)
        os._exit(0)  # it would go on with what is left


async def _add(scheduler: AsyncScheduler, name: str, due_at: int) -> None:
    trigger = IntervalTrigger(hours=1, start_time=datetime.fromtimestamp(due_at, UTC))
    await scheduler.add_schedule(noop, trigger, id=name, args=[name], misfire_grace_time=timedelta(hours=1))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], int(sys.argv[3])))
