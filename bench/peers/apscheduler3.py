"""A herd on APScheduler 3: `python apscheduler3.py herd <url> <count>`; prints what became of it, as JSON."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from bench.watching import due_after, watch

ran: list[tuple[str, float]] = []


async def noop(name: str) -> None:
    """Does nothing, at a time."""
    ran.append((name, time.time()))


async def main(url: str, count: int) -> None:
    """Register, wait, count."""
    finished: list[float] = []
    scheduler = AsyncIOScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=url.replace("postgresql:", "postgresql+psycopg:", 1))},
        job_defaults={"misfire_grace_time": None, "coalesce": False, "max_instances": 10},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    begun = time.time()
    probe = min(count, 100)
    due_at = int(begun) + 86_400
    for number in range(probe):
        _add(scheduler, f"probe {number}", due_at)
    needed = (time.time() - begun) / probe * count
    for number in range(probe):
        scheduler.remove_job(f"probe {number}")
    due_at = due_after(2.0 * needed)
    for number in range(count):
        _add(scheduler, f"job {number:06}", due_at)
    scheduler.add_listener(lambda _: finished.append(time.time()), EVENT_JOB_EXECUTED)
    scheduler.resume()
    await watch(count, due_at, ran, finished)
    scheduler.shutdown(wait=False)


def _add(scheduler: Any, name: str, due_at: int) -> None:
    start = datetime.fromtimestamp(due_at, UTC)
    scheduler.add_job(noop, "interval", hours=1, start_date=start, args=[name], id=name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], int(sys.argv[3])))
