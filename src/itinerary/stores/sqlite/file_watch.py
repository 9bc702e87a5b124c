"""Polls for writes of other processes. Our own writer rings a bell instead (see `stores.notifications`).

`PRAGMA data_version` changes with every commit of another connection. Reading this number takes microseconds and
touches no rows. The counters are read only if it has changed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Lock

from itinerary.stores.sqlite.connections import connect
from itinerary.stores.sqlite.failures import failure

__all__ = ["CommitPoller"]


class CommitPoller:
    """The connection of one watcher."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._connection = connect(path, busy_timeout=busy_timeout, synchronous="normal", reads_only=True)
        self._lock = Lock()
        """A cancelled watcher closes this object while a thread may still use it."""
        self._version: int | None = None

    def has_news(self) -> bool:
        """True if another connection has committed since the last call. The first call returns True."""
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
