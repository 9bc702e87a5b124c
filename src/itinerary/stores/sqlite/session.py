"""The writer thread of SQLite (see `stores.group_commit`): one connection, and a savepoint for each piece of work.

Some errors make SQLite roll back the whole transaction: a full disk, a failed disk, an interrupted statement of a task.
`undo` detects that, and the group runs again. The group is halved, or the task that broke it raises at once in the
second run.

The log is moved into the database in idle time (`wal_limit`). SQLite itself does that in the middle of a commit when
the log is long. All due work then waits a tenth of a second or two. A full disk may have room once the log is moved: so
that is tried, once, before a caller gets the error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from itinerary.errors import StoreError, StoreFull
from itinerary.stores.ownership import PRIVATE, Trust, check_files
from itinerary.stores.sqlite import schema
from itinerary.stores.sqlite.authorizer import Authorizer
from itinerary.stores.sqlite.connections import Synchronous, connect, create_file, store_files, use_log
from itinerary.stores.sqlite.failures import failure
from itinerary.stores.sqlite.row_cache import RowCache
from itinerary.stores.sqlite.transaction import SqliteTransaction
from itinerary.stores.sqlite.wal_limit import WriteAheadLog

__all__ = ["SpoiltByTask", "SqliteSession"]


class SpoiltByTask(StoreError):
    """A task's statement ended the transaction of a whole group. No caller gets this error: the group runs again."""


class SqliteSession:
    """The connection that writes."""

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous,
        busy_timeout: float,
        clock: Callable[[], int],
        on_told: Callable[[], None],
        on_migration: Callable[[], None] = lambda: None,
        trust: Trust = PRIVATE,
    ) -> None:
        """Open the connection. `on_migration` is called before an older file is upgraded, which may take long."""
        self._path = path
        self._clock = clock
        self._on_told = on_told
        self._told = False
        create_file(path, trust)
        self._connection = connect(path, busy_timeout=busy_timeout, synchronous=synchronous)
        try:
            schema.check_owner(self._connection, path)
            use_log(self._connection, path, busy_timeout)
            check_files(store_files(path), trust)  # the other files were just created by SQLite, or existed before
            if 0 < schema.number_of(self._connection) < schema.NUMBER:
                on_migration()
            schema.migrate(self._connection, path)
        except sqlite3.Error as error:
            self._connection.close()
            raise failure(error, path) from error
        except BaseException:
            self._connection.close()
            raise
        self._guard = Authorizer(self._connection, reads_only=False)
        self._number = schema.NUMBER
        self._known = RowCache()
        self._tx: SqliteTransaction | None = None
        self._log = WriteAheadLog(self._connection, path, busy_timeout)
        self._has_made_room = False
        """True if the log was emptied since the last commit, to make room."""

    def begin(self) -> None:
        self._told = False
        self._run("BEGIN IMMEDIATE")
        # No other process can change it while this one holds the file.
        self._number = schema.number_of(self._connection)
        self._known.check(self._connection)

    def savepoint(self) -> SqliteTransaction:
        self._run("SAVEPOINT work")
        self._tx = SqliteTransaction(self._connection, self._guard, self._path, self._clock, self._number, self._known)
        return self._tx

    def release(self) -> None:
        assert self._tx is not None
        self._run("RELEASE work")
        self._told |= self._tx.told

    def undo(self, error: Exception) -> None:
        assert self._tx is not None
        self._known.forget()
        if not self._connection.in_transaction or isinstance(error, StoreFull):
            raise self._tx.failure or error
        self._run("ROLLBACK TO work")
        self._run("RELEASE work")

    def commit(self) -> None:
        self._run("COMMIT")
        if self._told:
            self._on_told()
        self._has_made_room = False
        self._log.committed()

    def rollback(self) -> None:
        self._known.forget()
        if self._connection.in_transaction:
            self._run("ROLLBACK")

    def repair(self, error: Exception) -> Exception | None:
        if isinstance(error, SpoiltByTask):
            return None
        if isinstance(error, StoreFull) and not self._has_made_room:
            self._has_made_room = True
            return None if self._log.empty() else error
        return error

    def rest(self) -> None:
        self._log.rested()

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            raise failure(error, self._path) from error
