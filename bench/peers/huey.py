"""A herd on Huey: `python huey.py herd <url> <count>`; prints what became of it, as JSON.

Its recurring jobs are periodic tasks, which have a minute and no second: they are looked through every 60 seconds,
counted from when the consumer was made. So it is made as a minute begins, and the herd is due as the next one does,
which is the best that there is for it. Workers are threads, as it advises, and look for work often.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from huey import SqliteHuey, crontab
from huey.signals import SIGNAL_COMPLETE

from bench.watching import watch_in_thread

WORKERS = 4
LOOK_EVERY = 0.01
ran: list[tuple[str, float]] = []


def main(url: str, count: int) -> None:
    """Register, wait, count."""
    finished: list[float] = []
    queue = SqliteHuey(filename=urlsplit(url).path, utc=True)
    starts_at = (int(time.time() + 5 + count / 2_000) // 60 + 1) * 60  # there is time to declare them
    due_at = starts_at + 60
    at = datetime.fromtimestamp(due_at, UTC)
    for number in range(count):
        name = f"job {number:06}"
        queue.periodic_task(crontab(minute=str(at.minute), hour=str(at.hour)), name=name.replace(" ", "_"))(_task(name))
    queue.signal(SIGNAL_COMPLETE)(lambda *_: finished.append(time.time()))
    time.sleep(max(starts_at - time.time(), 0))
    consumer = queue.create_consumer(workers=WORKERS, initial_delay=LOOK_EVERY, max_delay=LOOK_EVERY)
    consumer.start()
    watch_in_thread(count, due_at, ran, finished)
    consumer.stop()


def _task(name: str) -> Callable[[], None]:
    def noop() -> None:
        ran.append((name, time.time()))

    return noop


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[3]))
