"""The setup of a connection to the file, and the reasons for it.

`synchronous = FULL` waits for the disk at every commit, so that an answered write survives a power failure. NORMAL does
not wait: the last moments may be lost, but nothing is damaged.

SQLite moves the log into the database at 20,000 pages (80 MB). The default is 1,000, and a single group of a thousand
starts may write that much. A changed page is then written once however often it changed, and hot pages change with
every group. Usually the log is moved earlier, in idle time, or because the disk is small (`wal_limit`).

Memory mapping is off: with it, a failing disk would end the process with a signal instead of an error.

The files are created for their owner only (Q7), and refused if another user can change them (see `ownership`). SQLite
gives `-wal` and `-shm` the permissions of the database itself.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from itinerary.errors import StoreBusy, StoreError, StoreUnavailable
from itinerary.stores.ownership import PRIVATE, Trust, check_files
from itinerary.stores.sqlite.failures import failure
from itinerary.stores.sqlite.wal_limit import LOG_MAX

__all__ = ["Synchronous", "connect", "create_file", "store_files", "use_log"]

Synchronous: TypeAlias = Literal["normal", "full", "extra"]

_OLDEST: Final = (3, 37, 0)
"""The first version with STRICT tables."""
_STATEMENTS_MAX: Final = 512
_CACHE_KIB: Final = 64 * 1024
_CHECKPOINT_PAGES: Final = 20_000
_RETRY_INTERVAL: Final = 0.01


def store_files(path: Path) -> tuple[Path, ...]:
    """Return the files of a store: the database, its log, and its shared memory.

    A symbolic link is resolved for all.
    """
    real = path.resolve()
    return path, *(real.with_name(real.name + end) for end in ("-wal", "-shm"))


def create_file(path: Path, trust: Trust = PRIVATE) -> None:
    """Make sure that the database exists. A new one is for its owner only.

    Raises:
        StoreError: Another user can change it (see `ownership`), or it is a dangling link.
        StoreUnavailable: The file cannot be created.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise StoreError(f"{path}: SQLite {sqlite3.sqlite_version} is too old: {needed} or newer is needed")
    check_files(store_files(path), trust)
    try:
        with suppress(FileExistsError):
            # The first two flags together follow no link.
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC, trust.file_mode)
            try:
                trust.share(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise StoreUnavailable(
            f"{path}: {error.strerror}: the store's file cannot be created; see its directory"
        ) from error


def connect(
    path: Path, *, busy_timeout: float, synchronous: Synchronous, reads_only: bool = False, is_alone: bool = False
) -> sqlite3.Connection:
    """Open a connection without automatic transactions. Any thread may use it, one at a time.

    Args:
        path: The database file.
        busy_timeout: Seconds to wait for the lock of another process.
        synchronous: When SQLite waits for the disk.
        reads_only: True to refuse writes.
        is_alone: True to lock the file exclusively from the first statement on, without shared memory (see
            `read_only`).

    Raises:
        StoreError: The file cannot be opened.
    """
    try:
        connection = sqlite3.connect(
            path.absolute(),
            timeout=busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS_MAX,
        )
    except sqlite3.Error as error:
        raise failure(error, path) from error
    try:
        for setting in (
            *(("locking_mode = exclusive",) if is_alone else ()),  # before any statement that reads the file
            f"synchronous = {synchronous}",
            f"cache_size = -{_CACHE_KIB}",
            f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
            f"journal_size_limit = {LOG_MAX}",
            "temp_store = memory",
            f"query_only = {int(reads_only)}",
        ):
            connection.execute(f"PRAGMA {setting}")
    except sqlite3.Error as error:
        connection.close()
        raise failure(error, path) from error
    return connection


def use_log(connection: sqlite3.Connection, path: Path, busy_timeout: float) -> None:
    """Switch the file to a write-ahead log, which allows reads during a write.

    SQLite does not wait here for another process that does the same or creates the tables, so this function does.

    Raises:
        StoreError: SQLite cannot use a write-ahead log there.
        StoreBusy: Another process held the file for longer than `busy_timeout`.
    """
    deadline = time.monotonic() + busy_timeout
    while (mode := _switched(connection)) is None and time.monotonic() < deadline:
        time.sleep(_RETRY_INTERVAL)
    if mode is None:
        raise StoreBusy(f"{path}: another process has held it for {busy_timeout:g} s; find out who writes for so long")
    if mode != "wal":
        raise StoreError(f"{path}: SQLite cannot keep a write-ahead log there (it offers {mode}); use a local disk")


def _switched(connection: sqlite3.Connection) -> str | None:
    """Try to switch the file to a write-ahead log, and return its mode; None if another process holds the file."""
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = wal").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return None
    return str(mode)
