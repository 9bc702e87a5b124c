"""A task's own transaction (D6): its statements and the success of its attempt commit together, or not at all.

    begin ── the task's statements, one at a time ── end (the ledger's: fence, attempt, occurrence) ── COMMIT

These transactions have their own connections, a bounded number, so that no task can take one that starts depend on.

**After the time limit.** The current statement is cancelled, everything is rolled back, and the task gets
TransactionError. If this process is frozen and cannot do it, the server does the same a little later. A statement that
is just being sent cannot be cancelled yet, and would then run without a limit. So the cancellation is repeated until
the statement has ended.

**A task that ends it.** A task that could send COMMIT would commit without its attempt. So the first word of each
statement is checked, and statements are sent so that the server accepts one at a time. The state of the transaction is
checked afterwards as well.

**COMMIT without an answer** raises CommitInDoubt, and nothing else does: before it nothing can be committed, and after
it everything is.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from itinerary.errors import CommitInDoubt, StoreError, TransactionError
from itinerary.ports import TaskTransaction
from itinerary.stores.asyncio_tools import to_its_end
from itinerary.stores.engine import CLOSE_TIMEOUT, Work
from itinerary.stores.postgres import statements
from itinerary.stores.postgres.connections import Address, Connections
from itinerary.stores.postgres.deadlines import Deadlines, WatchedConnection, allowing, sever
from itinerary.stores.postgres.failures import FailureReaction, as_store_error, meaning, said
from itinerary.stores.postgres.runner import TransactionRunner, abandon
from itinerary.stores.postgres.semaphore import Semaphore
from itinerary.stores.threads import DaemonThreads

__all__ = ["TaskTransactions"]

A = TypeVar("A")

_MARGIN: Final = 1.0
"""Seconds after the limit at which the server acts if this process did not."""
_CANCEL_FOR: Final = 5.0
"""Seconds for a cancelled statement to end, before its connection is cut."""
_CANCEL_AGAIN_AFTER: Final = 0.2
"""Seconds after which a cancellation is repeated."""
_COMMIT_FOR: Final = 30.0
"""Seconds for the answer to a commit."""
_CUT_TIMEOUT: Final = 1.0
"""Seconds for a thread to end after its connection was cut."""
_LEADING: Final = re.compile(r"(?:[\s;]+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
_ENDING: Final = {"ABORT", "BEGIN", "COMMIT", "END", "ROLLBACK", "START"}
_LIMITS: Final = (
    "SELECT set_config('statement_timeout', %(ms)s, true)"
    ", set_config('idle_in_transaction_session_timeout', %(ms)s, true)"
)
_TRANSACTION_LIMIT: Final = ", set_config('transaction_timeout', %(ms)s, true)"
_TRANSACTION_LIMIT_SINCE: Final = 170_000


class TaskTransactions:
    """The transactions of tasks on one store."""

    def __init__(self, address: Address, deadlines: Deadlines, books: TransactionRunner, *, places: int) -> None:
        self._address, self._process = address, os.getpid()
        self._books = books
        self._places = Semaphore(places)
        self._connections = Connections(address, deadlines, is_prepared=False)
        # Two for each place: one thread that runs a statement, and one that cancels it.
        self._threads = DaemonThreads(2 * places, "itinerary-postgres-task")

    async def close(self) -> int:
        """Close the connections. A forked child leaves them to its parent.

        Returns:
            The number of threads that were left behind.
        """
        if self._process != os.getpid():
            return 0
        self._connections.close()
        left = await self._threads.close(CLOSE_TIMEOUT)
        if left:
            self._connections.cut_lent()
            left = await self._threads.close(_CUT_TIMEOUT)
        return left

    @asynccontextmanager
    async def one(self, end: Work[None], *, allowed: float) -> AsyncIterator[TaskTransaction]:
        """Provide a transaction, for at most `allowed` seconds."""
        until = time.monotonic() + allowed
        try:
            async with asyncio.timeout(allowed):
                await self._places.take()
        except TimeoutError as error:
            raise TransactionError(
                f"{self._address.shown}: no place for a task's transaction became free within {allowed:g} s; allow"
                " more of them at a time, or more time"
            ) from error
        begun: list[WatchedConnection] = []
        try:
            await to_its_end(self._in_thread(lambda: begun.append(self._begin(until))))
            session = _Session(begun[0], self._threads, self._address, until)
            async with self._limited(session, allowed, until):
                yield session
            await to_its_end(session.finish(self._books, end, until))
        finally:
            for connection in begun:
                await to_its_end(self._in_thread(self._let_go, connection))
            self._places.give_back()

    @asynccontextmanager
    async def _limited(self, session: _Session, allowed: float, until: float) -> AsyncIterator[None]:
        """Limit the time in which the task may send statements."""
        scope = asyncio.timeout(max(0.0, until - time.monotonic()))
        try:
            async with scope:
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise  # the timeout of the task itself
            raise TransactionError(
                f"{self._address.shown}: a task's transaction took longer than {allowed:g} s, and was rolled back"
            ) from error
        finally:
            await to_its_end(session.stop())

    def _begin(self, until: float) -> WatchedConnection:
        """Return a connection with an open transaction. A dead connection is replaced once."""
        tries = 2
        while True:
            tries -= 1
            try:
                return self._begun(until)
            except psycopg.Error as error:
                self._connections.close_idle()
                if not tries or not meaning(error).is_passing:
                    raise as_store_error(error, self._address.shown) from error

    def _begun(self, until: float) -> WatchedConnection:
        connection = self._connections.borrow()
        try:
            _begin_on(connection, until)
        except BaseException:
            connection.close()
            self._connections.give_back(connection)
            raise
        return connection

    def _let_go(self, connection: WatchedConnection) -> None:
        """Return the connection without any trace of the task."""
        abandon(connection)
        if not connection.closed and not self._connections.is_pooled:
            with suppress(psycopg.Error):  # then it is not idle, and is closed
                connection.execute("DISCARD ALL")
        self._connections.give_back(connection)

    async def _in_thread(self, function: Callable[..., A], *arguments: Any) -> A:
        return await asyncio.wrap_future(self._threads.submit(function, *arguments))


class _Session:
    """The transaction that the task gets."""

    def __init__(self, connection: WatchedConnection, threads: DaemonThreads, address: Address, until: float) -> None:
        self._connection = connection
        self._threads = threads
        self._until = until
        self._shown = address.shown
        self._one_at_a_time = asyncio.Lock()
        self._running: Future[Any] | None = None
        self._is_over = False

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        cursor = await self._run(statement, parameters)
        return max(0, cursor.rowcount)

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = await self._run(statement, parameters)
        return [] if cursor.description is None else cursor.fetchall()

    async def stop(self) -> None:
        """Accept no further statements, and end a statement whose caller has left."""
        self._is_over = True
        if self._running is not None and not self._running.done():
            await self._interrupt(self._running)

    async def finish(self, books: TransactionRunner, end: Work[None], until: float) -> None:
        """Run the work of the ledger, and commit."""
        async with self._one_at_a_time:
            running = self._threads.submit(self._finish, books, end, until)
            limit = max(0.0, until - time.monotonic()) + _COMMIT_FOR
            ending = asyncio.wrap_future(running)
            await asyncio.wait([ending], timeout=limit)
            if not ending.done():
                sever(self._connection)
            await ending

    async def _run(self, statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        async with self._one_at_a_time:
            if self._is_over:
                raise TransactionError(
                    f"{self._shown}: this task's transaction is over; its statements belong inside it"
                )
            _refuse_ending(statement)
            running = self._running = self._threads.submit(self._statement, statement, parameters)
            try:
                return await asyncio.wrap_future(running)
            except asyncio.CancelledError:
                await to_its_end(self._interrupt(running))
                raise

    async def _interrupt(self, running: Future[Any]) -> None:
        """End a statement that no caller waits for."""
        ending = asyncio.wrap_future(running)
        until = time.monotonic() + _CANCEL_FOR
        while not ending.done() and (left := until - time.monotonic()) > 0:
            with suppress(psycopg.Error):  # only the end of the statement matters
                await self._cancelled(left)
            await asyncio.wait([ending], timeout=min(left, _CANCEL_AGAIN_AFTER))
        if not ending.done():
            sever(self._connection)
        with suppress(psycopg.Error, StoreError, asyncio.CancelledError):  # no caller needs its outcome
            await ending

    async def _cancelled(self, within: float) -> None:
        await asyncio.wrap_future(self._threads.submit(lambda: self._connection.cancel_safe(timeout=within)))

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _statement(self, statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        # A statement may take as long as the transaction. Its caller cancels it then.
        seconds = max(0.0, self._until - time.monotonic()) + _MARGIN + _CANCEL_FOR
        try:
            # In pipeline mode the server accepts only one statement at a time.
            with allowing(self._connection, seconds), self._connection.pipeline():
                cursor = self._connection.execute(statement.encode(), parameters or None)
        except psycopg.Error as error:
            if meaning(error) is FailureReaction.LOST and self._connection.closed:
                raise TransactionError(
                    f"{self._shown} was lost in a task's transaction: {said(error)}; nothing of it stands"
                ) from error
            raise
        if self._connection.info.transaction_status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            self._is_over = True
            raise TransactionError(f"{self._shown}: a statement has ended the task's transaction: {statement[:100]!r}")
        return cursor

    def _finish(self, books: TransactionRunner, end: Work[None], until: float) -> None:
        status = self._connection.info.transaction_status
        if status is not TransactionStatus.INTRANS:
            raise TransactionError(
                f"{self._shown}: the task's transaction had failed ({status.name}), and cannot be committed; let the"
                " error of its statement through, or go back to a savepoint"
            )
        try:
            with self._connection.pipeline() as pipeline:
                books.within(self._connection, pipeline, end)
        except psycopg.Error as error:
            failure = as_store_error(error, self._shown)
            raise TransactionError(f"a task's transaction was rolled back at its end: {failure}") from error
        if time.monotonic() > until:
            raise TransactionError(f"{self._shown}: a task's transaction was over its time at its end, and rolled back")
        self._commit()

    def _commit(self) -> None:
        try:
            with allowing(self._connection, _COMMIT_FOR):
                answer = self._connection.execute("COMMIT").statusmessage
        except psycopg.Error as error:
            if self._connection.closed or meaning(error) is FailureReaction.LOST:
                raise CommitInDoubt(
                    f"{self._shown} was lost while a task's transaction was being committed: {said(error)}"
                ) from error
            raise  # for example a deferred constraint of the task's own tables: rolled back
        if answer != "COMMIT":
            raise TransactionError(f"{self._shown}: a task's transaction was not committed: the server said {answer}")


def _begin_on(connection: psycopg.Connection[Any], until: float) -> None:
    seconds = max(0.0, until - time.monotonic()) + _MARGIN
    has_limit = connection.info.server_version >= _TRANSACTION_LIMIT_SINCE
    connection.execute(statements.BEGIN_WRITING)
    connection.execute(_LIMITS + (_TRANSACTION_LIMIT if has_limit else ""), {"ms": str(round(seconds * 1_000))})


def _refuse_ending(statement: str) -> None:
    found = _LEADING.match(statement)
    word = found[1].upper() if found else ""
    is_back_to_savepoint = word == "ROLLBACK" and re.search(r"\bTO\b", statement, re.IGNORECASE)
    is_prepare = word == "PREPARE" and re.search(r"\A\W*PREPARE\s+TRANSACTION\b", statement, re.IGNORECASE)
    if (word in _ENDING and not is_back_to_savepoint) or is_prepare:
        raise TransactionError(
            f"a task's transaction ends with the task: {word} is not for it to say; raise an error to have it undone"
        )
