"""The readers: a few threads, each with its own connection while it reads.

Readers and the writer do not wait for each other. A reader sees the file as of the start of its read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Final

from itinerary.errors import StoreUnavailable
from itinerary.stores.engine import CLOSE_TIMEOUT, T
from itinerary.stores.sqlite import schema
from itinerary.stores.sqlite.authorizer import Authorizer
from itinerary.stores.sqlite.connections import connect
from itinerary.stores.sqlite.failures import failure
from itinerary.stores.sqlite.transaction import SqliteTransaction
from itinerary.stores.threads import DaemonThreads

__all__ = ["READERS", "Readers"]

READERS: Final = 4


class _Reader:
    """A connection that only reads."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.connection = connect(path, busy_timeout=busy_timeout, synchronous="normal", reads_only=True)
        self.guard = Authorizer(self.connection, reads_only=True)


class Readers:
    """The reader threads, and the idle connections."""

    def __init__(self, path: Path, *, busy_timeout: float, answer_timeout: float, clock: Callable[[], int]) -> None:
        self._path = path
        self._busy_timeout, self._answer_timeout = busy_timeout, answer_timeout
        self._clock = clock
        self._idle: LifoQueue[_Reader] = LifoQueue()
        self._threads: DaemonThreads | None = DaemonThreads(READERS, f"{path.name} reader")

    async def run(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run work in a read-only transaction."""
        return await self.call(lambda: self._read(work))

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function in one of the threads.

        Raises:
            StoreUnavailable: The threads do not answer, or the store is closed.
        """
        if self._threads is None:
            raise StoreUnavailable(f"{self._path} is closed")
        return await self._threads.answer(self._threads.submit(function), self._answer_timeout, str(self._path))

    async def close(self) -> int:
        """Let current reads finish, and close the connections. Returns the number of threads that were left behind."""
        threads, self._threads = self._threads, None
        if threads is None:
            return 0
        left = await threads.close(CLOSE_TIMEOUT)
        while not self._idle.empty():
            self._idle.get_nowait().connection.close()
        return left

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        reader = self._take()
        connection = reader.connection
        try:
            connection.execute("BEGIN")
            number = schema.number_of(connection)
            return work(SqliteTransaction(connection, reader.guard, self._path, self._clock, number))
        except sqlite3.Error as error:
            raise failure(error, self._path) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.put(reader)

    def _take(self) -> _Reader:
        try:
            return self._idle.get_nowait()
        except Empty:
            return _Reader(self._path, self._busy_timeout)
