"""A herd on APScheduler 4: `python apscheduler4.py <url> <count>`; prints what became of it, as JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from datetime import UTC, datetime, timedelta

from apscheduler import AsyncScheduler, JobReleased
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.interval import IntervalTrigger

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
            ),
            flush=True,
        )


async def _add(scheduler: AsyncScheduler, name: str, due_at: int) -> None:
    trigger = IntervalTrigger(hours=1, start_time=datetime.fromtimestamp(due_at, UTC))
    await scheduler.add_schedule(noop, trigger, id=name, args=[name], misfire_grace_time=timedelta(hours=1))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
