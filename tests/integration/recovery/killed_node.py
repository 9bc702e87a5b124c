"""A program with one job, each second, whose first run never ends: it is killed in the middle of that run.

    python -m tests.integration.recovery.killed_node URL FLAG ON_ORPHAN HOST

FLAG is a file that the first run makes. HOST is the name of the machine, or `-` for the real one: a process that calls
its machine by another name has no proof about the processes of this one. There it beats each second, so that a test
does not wait long for the silence of a dead node. All other settings are the defaults.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

from itinerary import Itinerary, every
from itinerary.model.policies import OnOrphan

__all__ = ["JOB", "NAME"]

NAME = "laptop"
JOB = "work"


def _main(url: str, flag: Path, on_orphan: str, host: str) -> None:
    given: dict[str, Any] = {}
    if host != "-":
        socket.gethostname = lambda: host
        given["node_heartbeat_interval"] = "1s"
    app = Itinerary(store=url, name=NAME, **given)

    def is_first() -> bool:
        if flag.exists():
            return False
        flag.touch()
        return True

    async def work() -> None:
        if is_first():
            await asyncio.Event().wait()

    job = app.job(JOB, every("1s"), on_orphan=OnOrphan(on_orphan))
    job.task(work)
    app.run()


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
