"""Nodes that get a signal while they start. For each URL that it reads, this program forks a node on that store.

The node says "starting" and its process id when it has taken the signals and begins to start; when it has ended, this
program says "ended" and the exit code. Everything is imported once, before the first fork, and this process has one
thread only. What goes wrong is on standard error.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import itinerary.executors.http
import itinerary.executors.pods.executor
import itinerary.stores.lmdb
import itinerary.stores.postgres
import itinerary.stores.sqlite  # noqa: F401 - imported before the fork
from itinerary import Itinerary, every
from itinerary.config.log_setup import configure_logging


def node(url: str) -> int:
    """Run a node until it is told to end."""
    configure_logging()
    app = Itinerary(store=url, web="")

    @app.job(every("1s"), overlap="allow")
    def tick() -> None:
        """Something to recover, to claim and to start."""

    begin = app._begin

    def begun(loop: Any) -> Any:
        os.write(1, f"starting {os.getpid()}\n".encode())
        return begin(loop)

    app._begin = begun  # type: ignore[method-assign]
    try:
        return app.run()
    except BaseException:  # noqa: BLE001 - the forked process ends here
        traceback.print_exc()
        return 99


def main() -> None:
    """Fork a node for each line, one after the other."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(node(line.strip()))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(1, f"ended {code}\n".encode())


if __name__ == "__main__":
    main()
