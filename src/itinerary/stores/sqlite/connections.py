"""How a connection to the file is set up, and why so.

`synchronous = FULL` waits for the disk at every commit, so that what was answered survives a loss of power; NORMAL, for
who can bear to lose the last moments (nothing is damaged), does not. SQLite moves the log into the database when it has
20,000 pages (80 MB) and not 1,000, which is what a single group of a thousand starts may write: each page that has
changed is written once however often it did, and hot ones change with every group. Mostly that is done before, in a
quiet moment, or because the disk is small (`log`). No memory mapping: a disk that fails would end the process with a
signal instead of an error.

The files are created for their owner only (Q7), and refused if another user can change them (see `ownership`). SQLite
gives `-wal` and `-shm` the permissions of the database itself.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from itinerary.errors import StoreError, StoreUnavailable
from itinerary.stores.ownership import PRIVATE, Trust, check_files
from itinerary.stores.sqlite.failures import failure
from itinerary.stores.sqlite.wal_limit import LOG_MAX

__all__ = ["Synchronous", "connect", "create_file", "store_files", "use_log"]

Synchronous: TypeAlias = Literal["normal", "full", "extra"]

_OLDEST: Final = (3, 37, 0)
"""The first version that has STRICT tables."""
_STATEMENTS_MAX: Final = 512
_CACHE_KIB: Final = 64 * 1024
_CHECKPOINT_PAGES: Final = 20_000


def store_files(path: Path) -> tuple[Path, ...]:
    """Return the files of a store: the database, its log, and its shared memory. A link leads to all three."""
    real = path.resolve()
    return path, *(real.with_name(real.name + end) for end in ("-wal", "-shm"))


def create_file(path: Path, trust: Trust = PRIVATE) -> None:
    """Make sure that the database exists, for its owner only if it is new.

    Raises:
        StoreError: Another user can change it (see `ownership`), or it is a link that leads nowhere.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise StoreError(f"{path}: SQLite {sqlite3.sqlite_version} is too old: {needed} or newer is needed")
    check_files(store_files(path), trust)
    try:
        with suppress(FileExistsError):
            # Together, the first two follow no link.
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
    """A connection that leaves transactions to us. It may be used by any thread, one at a time.

    One that `is_alone` has the file to itself from its first statement on, and needs no shared memory (see `alone`).
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
            *(("locking_mode = exclusive",) if is_alone else ()),  # before anything that looks at the file
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


def use_log(connection: sqlite3.Connection, path: Path) -> None:
    """Have the file written through a write-ahead log, beside which others can read."""
    (mode,) = connection.execute("PRAGMA journal_mode = wal").fetchone()
    if mode != "wal":
        raise StoreError(f"{path}: SQLite cannot keep a write-ahead log there (it offers {mode}); use a local disk")
