"""How long the write-ahead log may grow: as long as is good for speed, and never so long that it fills its disk.

    after a commit    a log that takes more than its share of the room is moved into the database and emptied
    in a quiet moment much that was written is moved; a log that takes half of its share is emptied
    on a full disk    the log is emptied once, and what did not fit is tried again

The share is a quarter of what is free, the log itself included. Moving the log makes the database longer by no more
than the log is long, so with three quarters still free that always fits. On a large disk the share is LOG_MAX, and
SQLite's own threshold (`connections`) comes first.

A log cannot be emptied while a reader looks at an old state of the database. That is not waited for: it is tried again
later. Readers of this program look at one page of rows at a time.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["LOG_MAX", "LOG_MIN", "Log"]

LOG_MIN: Final = 1_048_576
"""A log of so many bytes is left alone however little room there is: a group of a thousand starts takes as much."""
LOG_MAX: Final = 256 * 1024 * 1024
"""The longest log, in bytes, however much room there is."""
SHARE: Final = 4
"""The log may take the fourth part of the room."""

_WORTH_A_CHECKPOINT: Final = 50_000
"""Rows that have been written since the last one: the work of about 7,000 occurrences, and 15 MB of log."""
_COMMITS_BETWEEN_TRIES: Final = 100


class Log:
    """The log of a database that this process writes to, by the connection that writes."""

    def __init__(self, connection: sqlite3.Connection, path: Path, busy_timeout: float) -> None:
        self._connection = connection
        self._file = path.with_name(f"{path.name}-wal")
        self._busy_timeout = round(busy_timeout * 1_000)
        self._moved_at = 0
        """How many rows had been written when the log was last moved."""
        self._skipped = 0
        """How many commits are to pass before the next try."""

    @property
    def size(self) -> int:
        """Bytes that its file takes."""
        try:
            return self._file.stat().st_size
        except OSError:
            return 0

    def share(self, size: int) -> int:
        """Return how many bytes a log that has this size may take."""
        try:
            disk = os.statvfs(self._file.parent)
        except OSError:
            return LOG_MAX
        return max(LOG_MIN, min(LOG_MAX, (disk.f_bavail * disk.f_frsize + size) // SHARE))

    def committed(self) -> None:
        """Empty the log if it takes more than its share. Must not raise."""
        size = self.size
        if size <= LOG_MIN:
            return
        if self._skipped:
            self._skipped -= 1
        elif size > self.share(size) and not self.empty():
            self._skipped = _COMMITS_BETWEEN_TRIES

    def rested(self) -> None:
        """Move the log in a quiet moment, if that is worth it. Must not raise."""
        size, written = self.size, self._connection.total_changes
        if size > LOG_MIN and size > self.share(size) // 2:
            self.empty()
        elif written - self._moved_at >= _WORTH_A_CHECKPOINT:
            self._moved_at = written
            with suppress(sqlite3.Error):  # nothing is lost: the log stays, and the next writer hears of a bad disk
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def empty(self) -> bool:
        """Move the log into the database and give its room back, without waiting for readers. True if that was done."""
        before = self.size
        self._moved_at = self._connection.total_changes
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            return False  # the log stays as it is, and so does everything in it
        finally:
            with suppress(sqlite3.Error):
                self._connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout}")
        return self.size < before
