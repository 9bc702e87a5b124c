"""What other processes do has to be looked for; our own writer rings a bell (see `stores.notifications`).

`PRAGMA data_version` changes with every commit that another connection makes. Asking it costs microseconds and reads
nothing, and only if it has changed are the counters read.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Lock

from itinerary.stores.sqlite.connections import connect
from itinerary.stores.sqlite.failures import failure

__all__ = ["Lookout"]


class Lookout:
    """One watcher's connection."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._connection = connect(path, busy_timeout=busy_timeout, synchronous="normal", reads_only=True)
        self._lock = Lock()
        """A watcher that is cancelled closes this while a thread may still be looking."""
        self._version: int | None = None

    def has_news(self) -> bool:
        """Whether anything was committed since the last look. The first time: yes."""
        with self._lock:
            try:
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            except sqlite3.Error as error:
                raise failure(error, self._path) from error
        before, self._version = self._version, int(version)
        return before != self._version

    def close(self) -> None:
        with self._lock:
            self._connection.close()
