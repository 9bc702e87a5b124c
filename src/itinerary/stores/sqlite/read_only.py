"""Reading a store on a full disk, when no other process has it open.

A write-ahead log has an index, in a file of shared memory (`-shm`) that all processes use. While a node runs, that file
exists, and others can read however full the disk is. After the last process has closed the store, the file is gone.
Creating it takes 32 kB, which a full disk does not have. Then the store cannot be read the usual way.

A connection with exclusive access needs no shared memory: `locking_mode = exclusive` keeps the index in its own memory.
SQLite grants that lock only if there is no other connection, so nothing can be written during the read. A second reader
waits for the first, up to `busy_timeout`, so each holds the lock for one read only.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from itinerary.stores.engine import SchemaSeen, T
from itinerary.stores.sqlite import schema
from itinerary.stores.sqlite.authorizer import Authorizer
from itinerary.stores.sqlite.connections import connect
from itinerary.stores.sqlite.failures import failure
from itinerary.stores.sqlite.transaction import SqliteTransaction
from itinerary.stores.threads import in_thread

__all__ = ["ExclusiveReader"]


class ExclusiveReader:
    """A reader of a file that no other connection has open."""

    def __init__(self, path: Path, *, busy_timeout: float, answer_timeout: float, clock: Callable[[], int]) -> None:
        self._path = path
        self._busy_timeout, self._answer_timeout = busy_timeout, answer_timeout
        self._clock = clock
        self._lock = threading.Lock()

    async def seen(self) -> SchemaSeen:
        """Return the schema of the file."""
        return await in_thread(self._seen, self._answer_timeout, str(self._path))

    async def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run work in a read-only transaction."""
        return await in_thread(lambda: self._read(work), self._answer_timeout, str(self._path))

    def _seen(self) -> SchemaSeen:
        with self._connected() as connection:
            return schema.seen_by(connection, self._path)

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        with self._connected() as connection:
            guard = Authorizer(connection, reads_only=True)
            connection.execute("BEGIN")
            number = schema.number_of(connection)
            return work(SqliteTransaction(connection, guard, self._path, self._clock, number))

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            opened = connect(
                self._path, busy_timeout=self._busy_timeout, synchronous="full", reads_only=True, is_alone=True
            )
            try:
                with closing(opened) as connection:
                    yield connection
            except sqlite3.Error as error:
                raise failure(error, self._path) from error
