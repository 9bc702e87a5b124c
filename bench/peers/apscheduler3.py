"""A herd on APScheduler 3: `python apscheduler3.py <url> <count>`; prints what became of it, as JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from datetime import UTC, datetime
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

ran: list[tuple[str, float]] = []


async def noop(name: str) -> None:
    """Does nothing, at a time."""
    ran.append((name, time.time()))


async def main(url: str, count: int) -> None:
    """Register, wait, count."""
    finished: list[float] = []
    scheduler = AsyncIOScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=url)},
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
    due_at = int(time.time() + 2.0 * needed + 10)
    for number in range(count):
        _add(scheduler, f"job {number:06}", due_at)
    scheduler.add_listener(lambda _: finished.append(time.time()), EVENT_JOB_EXECUTED)
    scheduler.resume()
    assert time.time() < due_at - 1, "it took too long to register"
    await asyncio.sleep(due_at - 1 - time.time())
    used = _cpu()
    while len(finished) < count and time.time() < due_at + 300:  # noqa: ASYNC110 - nothing to be measured goes through an event of ours
        await asyncio.sleep(0.05)
    print(
        json.dumps(
            {
                "count": count,
                "due_at": due_at,
                "ran": ran,
                "finished_at": max(finished, default=time.time()),
                "cpu": _cpu() - used,
            }
        )
    )
    scheduler.shutdown(wait=False)


def _add(scheduler: Any, name: str, due_at: int) -> None:
    start = datetime.fromtimestamp(due_at, UTC)
    scheduler.add_job(noop, "interval", hours=1, start_date=start, args=[name], id=name)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
