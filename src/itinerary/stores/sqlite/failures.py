"""Errors of SQLite as store errors: which store, what failed, and what to do about it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreFull, StoreUnavailable, UnwritableError

__all__ = ["UNWRITABLE", "failure"]

UNWRITABLE: Final = (OverflowError, UnicodeEncodeError)
"""The errors of sqlite3 and msgspec about a value, before SQLite sees it."""

_ADVICE: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "another process holds it; ask again, or find out who writes for so long"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "another connection holds it; ask again"),
    sqlite3.SQLITE_FULL: (StoreFull, "make room on its disk; nothing is lost, and it goes on by itself"),
    sqlite3.SQLITE_CORRUPT: (StoreError, "the file is damaged; restore a backup, or save what can be read (.recover)"),
    sqlite3.SQLITE_NOTADB: (SchemaError, "the file is not a SQLite database; choose another path"),
    sqlite3.SQLITE_READONLY: (StoreError, "it cannot be written; see who owns the file and its directory"),
    sqlite3.SQLITE_PERM: (StoreError, "access was denied; see who owns the file and its directory"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "it cannot be opened; see whether its directory is there and ours"),
    sqlite3.SQLITE_IOERR: (StoreError, "its disk failed; see the system's log"),
    sqlite3.SQLITE_TOOBIG: (UnwritableError, "a text or an answer is longer than SQLite allows"),
    sqlite3.SQLITE_CONSTRAINT: (UnwritableError, "a row is not what its table can hold"),
    sqlite3.SQLITE_MISMATCH: (UnwritableError, "a value is not of its column's type"),
}


def failure(error: Exception, path: Path) -> StoreError:
    """Return the store error to raise from this error."""
    if isinstance(error, UNWRITABLE):
        return UnwritableError(f"{path}: {error}: a value that SQLite cannot hold")
    code = getattr(error, "sqlite_errorcode", 0)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    kind, advice = _ADVICE.get(code & 0xFF, (StoreError, "see the message; this may be a fault of Itinerary"))
    if kind is StoreError and code & 0xFF == sqlite3.SQLITE_IOERR and _has_no_room(path):
        # SQLite extends the files beside the database in ways that report a full disk as a failed one.
        kind, advice = _ADVICE[sqlite3.SQLITE_FULL]
    return kind(f"{path}: {error} ({name}): {advice}")


_ROOM_MIN: Final = 65_536
"""Bytes of free space below which a disk counts as full. The index of the log grows by 32 kB."""


def _has_no_room(path: Path) -> bool:
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM_MIN
