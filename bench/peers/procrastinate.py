"""One-shot work on Procrastinate: `python procrastinate.py oneshot <url> <count>`; prints what became of it, as JSON.

Its jobs are deferred in batches with `schedule_at`, and run by one worker with concurrency enough, which looks for what
has become due as often as makes sense: nothing notifies it of that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime

from procrastinate import App, PsycopgConnector

from bench.watching import due_after, watch

CONCURRENCY = 100
CONNECTIONS = 20
LOOK_EVERY = 0.2
OVER = """
    SELECT count(*) AS over, extract(epoch FROM max(at)) AS last FROM procrastinate_events WHERE type = 'succeeded'"""
ran: list[tuple[str, float]] = []


async def main(url: str, count: int) -> None:
    """Register, wait, count."""
    connector = PsycopgConnector(conninfo=url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    app = App(connector=connector)

    async def noop(name: str) -> None:
        ran.append((name, time.time()))

    task = app.task(name="noop")(noop)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        due_at = due_after(count / 500)
        deferrer = task.configure(schedule_at=datetime.fromtimestamp(due_at, UTC))
        for first in range(0, count, 1_000):
            names = [f"job {number:06}" for number in range(first, min(first + 1_000, count))]
            await deferrer.batch_defer_async(*({"name": name} for name in names))
        finished: list[float] = []
        options = {"fetch_job_polling_interval": 0.1, "install_signal_handlers": False, "concurrency": CONCURRENCY}
        running = asyncio.create_task(app.run_worker_async(**options))
        looking = asyncio.create_task(_look(connector, due_at, finished))
        watching = asyncio.create_task(watch(count, due_at, ran, finished))
        await asyncio.wait({running, looking, watching}, return_when=asyncio.FIRST_COMPLETED)
        for over in (running, looking):
            if over.done():
                over.result()
        await watching
        looking.cancel()
        running.cancel()
        await asyncio.wait({running, looking}, timeout=30)


async def _look(connector: PsycopgConnector, due_at: int, finished: list[float]) -> None:
    """See what is over: how many, and when the last of them was."""
    await asyncio.sleep(due_at - time.time())
    while True:
        found = await connector.execute_query_one_async(OVER)
        finished[:] = [float(found["last"])] * found["over"] if found["over"] else []
        await asyncio.sleep(LOOK_EVERY)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], int(sys.argv[3])))
