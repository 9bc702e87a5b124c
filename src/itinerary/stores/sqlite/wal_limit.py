"""The size limit of the write-ahead log: large enough for speed, but never filling its disk.

    after a commit    a log above its share of the space is moved into the database and emptied
    in idle time      a log with many writes is moved; one above half of its share is emptied
    on a full disk    the log is emptied once, and the failed write is tried again

The share is a quarter of the free space, including the log itself. Moving the log makes the database longer by at most
the size of the log, so with three quarters free it always fits. On a large disk the share is LOG_MAX, and the threshold
of SQLite (`connections`) comes first.

A log cannot be emptied while a reader uses an old state of the database. The writer does not wait for that, but tries
again later. Readers of this program read one page of rows at a time.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["LOG_MAX", "LOG_MIN", "WriteAheadLog"]

LOG_MIN: Final = 1_048_576
"""Bytes up to which a log is left alone, however small the disk: a group of a thousand starts takes that much."""
LOG_MAX: Final = 256 * 1024 * 1024
"""The largest log, in bytes, however large the disk."""
SHARE: Final = 4
"""The divisor of the free space: the log may take a quarter."""

_WORTH_A_CHECKPOINT: Final = 50_000
"""Rows written since the last checkpoint that make the next one worthwhile: about 7,000 occurrences, 15 MB of log."""
_COMMITS_BETWEEN_TRIES: Final = 100


class WriteAheadLog:
    """The log of a database, managed through the connection that writes."""

    def __init__(self, connection: sqlite3.Connection, path: Path, busy_timeout: float) -> None:
        self._connection = connection
        self._file = path.with_name(f"{path.name}-wal")
        self._busy_timeout = round(busy_timeout * 1_000)
        self._moved_at = 0
        """The number of rows that had been written when the log was last moved."""
        self._skipped = 0
        """The number of commits to skip before the next try."""

    @property
    def size(self) -> int:
        """The size of the log file in bytes."""
        try:
            return self._file.stat().st_size
        except OSError:
            return 0

    def share(self, size: int) -> int:
        """Return the number of bytes that a log of this size may take."""
        try:
            disk = os.statvfs(self._file.parent)
        except OSError:
            return LOG_MAX
        return max(LOG_MIN, min(LOG_MAX, (disk.f_bavail * disk.f_frsize + size) // SHARE))

    def committed(self) -> None:
        """Empty the log if it exceeds its share. Must not raise."""
        size = self.size
        if size <= LOG_MIN:
            return
        if self._skipped:
            self._skipped -= 1
        elif size > self.share(size) and not self.empty():
            self._skipped = _COMMITS_BETWEEN_TRIES

    def rested(self) -> None:
        """Move the log in idle time, if that is worthwhile. Must not raise."""
        size, written = self.size, self._connection.total_changes
        if size > LOG_MIN and size > self.share(size) // 2:
            self.empty()
        elif written - self._moved_at >= _WORTH_A_CHECKPOINT:
            self._moved_at = written
            with suppress(sqlite3.Error):  # nothing is lost: the log stays, and the next write reports a bad disk
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def empty(self) -> bool:
        """Move the log into the database and free its space, without waiting for readers. Returns True on success."""
        before = self.size
        self._moved_at = self._connection.total_changes
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            return False  # the log and its content stay unchanged
        finally:
            with suppress(sqlite3.Error):
                self._connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout}")
        return self.size < before
