"""A herd on DBOS: `python dbos.py herd|oneshot <url> <count>`; prints what became of it, as JSON.

Recurring work is in its schedules, each of which is a thread, and starts late by a random tenth of what it waited (at
most ten seconds): DBOS spreads a herd deliberately. One-shot work is workflows that are enqueued with a delay. Both go
through a queue without limits that is looked at often. When a workflow was durably over, its own table tells.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import UTC, datetime

import psycopg
from dbos import DBOS, DBOSConfig, SetEnqueueOptions

from bench.watching import due_after, watch_in_thread

QUEUE = "herd"
THREADS = 32
LOOK_EVERY = 0.2
OVER = """
    SELECT count(*), max(updated_at) / 1000.0 FROM dbos.workflow_status
    WHERE status = 'SUCCESS' AND queue_name = 'herd' AND updated_at >= %s"""
ran: list[tuple[str, float]] = []


def scheduled(_: datetime, name: str) -> None:
    """Does nothing, at a time, for a schedule."""
    ran.append((name, time.time()))


def delayed(name: str) -> None:
    """Does nothing, at a time, once."""
    ran.append((name, time.time()))


def main(what: str, url: str, count: int) -> None:
    """Register, wait, count."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "sys_db_pool_size": THREADS,
        "max_executor_threads": THREADS,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    recurring, once = DBOS.workflow()(scheduled), DBOS.workflow()(delayed)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.1)
    begun, probe = time.time(), min(count, 50)
    far = int(begun) + 80_000

    def add(name: str, due_at: int) -> None:
        if what == "herd":
            at = datetime.fromtimestamp(due_at, UTC)
            cron = f"{at.second} {at.minute} {at.hour} * * *"
            DBOS.create_schedule(
                schedule_name=name, workflow_fn=recurring, schedule=cron, context=name, queue_name=QUEUE
            )
        else:
            with SetEnqueueOptions(delay_seconds=due_at - time.time()):
                DBOS.enqueue_workflow(QUEUE, once, name)

    for number in range(probe):
        add(f"probe {number}", far)
    due_at = due_after(2.0 * (time.time() - begun) / probe * count)
    for number in range(count):
        add(f"job {number:06}", due_at)
    finished: list[float] = []
    threading.Thread(target=_look, args=(url, due_at, finished), daemon=True).start()
    watch_in_thread(count, due_at, ran, finished)
    os._exit(0)  # its threads would go on with what is left


def _look(url: str, due_at: int, finished: list[float]) -> None:
    """See what is over: how many, and when the last of them was."""
    time.sleep(max(due_at - time.time(), 0))
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            row = connection.execute(OVER, [due_at * 1_000]).fetchone()
            assert row is not None
            over, last = row
            finished[:] = [float(last)] * over if over else []
            time.sleep(LOOK_EVERY)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
