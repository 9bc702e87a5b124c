"""Transactions for a task's own statements (D6): they commit with the success of its attempt, or not at all.

SQLite has one writer, so a transaction that stayed open during a task would block the starts of all jobs. So the task's
statements are collected, and the writer thread applies them at the end. The success of the attempt is the last write
before the commit (protocol rule 24). The file is locked while they run, and the time limit bounds that.

    body of the task         execute: collected   fetch: reads committed rows; refused after the first execute
    end of the body          writer: statements, then `end`, then COMMIT

A mistake of the task (a syntax error, its own UNIQUE constraint) raises the error of sqlite3 when the statements are
applied. A task cannot end the transaction, change the connection, or write to our tables (see `authorizer`).
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from itinerary.errors import StoreError, TransactionError
from itinerary.stores.asyncio_tools import to_its_end
from itinerary.stores.engine import Work
from itinerary.stores.group_commit import Writer
from itinerary.stores.sqlite.authorizer import marked
from itinerary.stores.sqlite.failures import failure
from itinerary.stores.sqlite.readers import Readers
from itinerary.stores.sqlite.session import SpoiltByTask
from itinerary.stores.sqlite.transaction import SqliteTransaction
from itinerary.stores.transaction import Transaction

__all__ = ["refuse_inside", "task_transaction"]

STATEMENTS_MAX: Final = 10_000
_LOOK_EVERY: Final = 1_000
"""Steps of SQLite's virtual machine between two checks of the time: well below a millisecond."""
_STORE_FAULTS: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors that are not a mistake of the task."""


class _Kept:
    """The collected statements of a task, and their deadline."""

    def __init__(self, url: str, readers: Readers, timeout: float) -> None:
        self._url = url
        self._readers = readers
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._statements: list[tuple[str, tuple[Any, ...]]] = []
        self._verdict: Exception | None = None
        self.is_open = True

    # -- TaskTransaction ---------------------------------------------------------------------------------------------

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        self._check_open()
        if len(self._statements) == STATEMENTS_MAX:
            raise TransactionError(f"{self._url}: a task's transaction has at most {STATEMENTS_MAX} statements")
        self._statements.append((statement, tuple(parameters)))
        return -1

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._check_open()
        if self._statements:
            raise TransactionError(
                f"{self._url}: statements are applied at the end, so nothing can be fetched after the first execute;"
                " fetch first"
            )
        bound = tuple(parameters)
        return await self._readers.run(lambda tx: self._run(tx, statement, bound))

    # -- at the end --------------------------------------------------------------------------------------------------

    def apply(self, tx: Transaction, end: Work[None]) -> None:
        """Run all statements, in the writer thread."""
        assert isinstance(tx, SqliteTransaction)
        if self._verdict is not None:
            raise self._verdict  # the first run ended the transaction of the whole group
        try:
            for statement, bound in self._statements:
                self._run(tx, statement, bound)
            self.check_time()
        except Exception as error:
            if not tx.connection.in_transaction:
                self._verdict = error
                tx.failure = SpoiltByTask(f"{self._url}: a task's statement ended the transaction: {error}")
            raise
        end(tx)

    def check_time(self) -> None:
        """Raise TransactionError if the deadline has passed."""
        if time.monotonic() > self._until:
            raise self.out_of_time()

    def out_of_time(self) -> TransactionError:
        return TransactionError(f"{self._url}: a task's transaction took longer than {self._timeout} s; nothing stands")

    def _run(self, tx: SqliteTransaction, statement: str, bound: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        self.check_time()
        try:
            with tx.guard.on_task(), _interrupted(tx.connection, lambda: time.monotonic() > self._until):
                return tx.connection.execute(marked(statement), bound).fetchall()
        except sqlite3.Error as error:
            ours = self._ours(error, tx)
            if ours is None:
                raise
            raise ours from error

    def _ours(self, error: sqlite3.Error, tx: SqliteTransaction) -> StoreError | None:
        """Return the error to raise instead, unless it is a mistake of the task, which sqlite3 describes best."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            return self.out_of_time()
        if tx.guard.refusal is not None:
            return TransactionError(f"{self._url}: a task's statement {tx.guard.refusal}")
        return failure(error, tx.path) if code in _STORE_FAULTS else None

    def _check_open(self) -> None:
        if not self.is_open:
            raise TransactionError(f"{self._url}: the task's transaction is over; use it inside its `async with`")
        self.check_time()


_CURRENT: ContextVar[_Kept | None] = ContextVar("itinerary_task_transaction", default=None)


def refuse_inside(url: str) -> None:
    """Refuse a write from inside a task's transaction: the write would not be part of it (protocol rule 24).

    Raises:
        TransactionError: The caller is inside one.
    """
    current = _CURRENT.get()
    if current is not None and current.is_open:
        raise TransactionError(
            f"{url}: the engine was asked to write inside a task's transaction; do so before or after"
        )


@asynccontextmanager
async def task_transaction(
    url: str,
    writer: Writer,
    readers: Readers,
    end: Work[None],
    timeout: float,  # noqa: ASYNC109 - it bounds more than the await
) -> AsyncIterator[_Kept]:
    """Provide the context manager of `Engine.transaction`."""
    refuse_inside(url)
    kept = _Kept(url, readers, timeout)
    limit = asyncio.timeout(timeout)
    token = _CURRENT.set(kept)
    try:
        try:
            async with limit:
                yield kept
        finally:
            kept.is_open = False
            _CURRENT.reset(token)
    except TimeoutError as error:
        if limit.expired():
            raise kept.out_of_time() from error
        raise
    await to_its_end(writer.run(lambda tx: kept.apply(tx, end)))


@contextmanager
def _interrupted(connection: sqlite3.Connection, is_over: Callable[[], bool]) -> Iterator[None]:
    """Interrupt the current statement when its time has passed."""
    connection.set_progress_handler(is_over, _LOOK_EVERY)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
