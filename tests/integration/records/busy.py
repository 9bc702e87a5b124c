"""Nodes whose desks are always busy: 64 handlers at a time, plain functions, each of them quick.

For each line that it reads this program forks a node. The node says "busy" and its process id when handlers are at
work, and runs until a signal ends it; then this program says "ended" and the exit code. Everything is imported once,
before the first fork, and this process has one thread only.

A node runs on one CPU, where its threads and the main thread compete: that is where signals were lost.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time

from itinerary import Itinerary
from itinerary.errors import NodeError
from itinerary.records import RecordBatch
from itinerary.stores import memory  # noqa: F401 - imported before the fork

HANDLERS = 64
APPENDED_AT_ONCE = 200


def node() -> int:
    """Run a node that is busy until it is told to end."""
    app = Itinerary(store="memory:", name="busy", web="", shutdown_grace_period="30s", kill_grace="1s")
    desk = app.records(
        "folio",
        partition_by="hotel",
        enable_early_morning_skip=False,
        startup_delay=0,
        schedule_interval="1s",
        batch_size_max=1,
        handlers_max=HANDLERS,
    )
    is_at_work = threading.Event()

    @desk.handler
    def work(batch: RecordBatch) -> None:
        is_at_work.set()
        time.sleep(0.001 * (len(batch.id) % 3))

    async def append(numbers: list[int]) -> None:
        for number in numbers:
            await desk.append("RecordCreated", record=f"F-{number}", hotel=f"h{number % 8}")

    def produce() -> None:
        numbers = itertools.count()
        try:
            while True:
                app.blocking(append(list(itertools.islice(numbers, APPENDED_AT_ONCE))))
        except NodeError:
            return  # the node has ended

    def begin() -> None:
        threading.Thread(target=produce, daemon=True).start()
        is_at_work.wait(60)
        os.write(1, f"busy {os.getpid()}\n".encode())

    return app.run(lambda _: begin())


def main() -> None:
    """Fork a node for each line, one after the other."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            os._exit(node())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(1, f"ended {code}\n".encode())


if __name__ == "__main__":
    main()
