"""Running work on connections, and repeating it.

    caller ──► thread, connection ──► begin · work · tell · commit ──► answer
                        ▲                        │
                        └── lost, or busy ◄──────┘        again, until the patience ends

Work is made to be repeated. After a commit without an answer the work runs again, and gives the same answer. The first
repetition is immediate, on a new connection, because the server may have restarted long ago. Later ones wait longer and
longer, with random spread, so that many nodes do not return at the same moment.

A process that freezes or loses its network in a transaction holds locks, the gate among them, and all others would
wait. The server prevents that: a transaction that is silent for `idle_timeout` is rolled back. The process later finds
its connection closed, and repeats its work. Where the server does not notice, the waiting work does
(`idle_transactions`).

**A server that does not answer** costs one deadline: the connection is cut (`deadlines`), and the work is repeated on a
new one. Each repetition may take longer than the one before, up to four times the deadline, so that a slow server
succeeds in the end.

There are as many threads as connections, with a bounded queue. If a caller is cancelled, its thread finishes the
current try and returns the connection. `close` gives the threads a few seconds, then cuts their connections, and leaves
a thread behind that still does not end.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import psycopg
from psycopg import Pipeline, RawCursor

from itinerary.errors import StoreBusy, StoreError, StoreUnavailable
from itinerary.stores.engine import CLOSE_TIMEOUT, T, Work
from itinerary.stores.postgres import statements
from itinerary.stores.postgres.connections import Address, Connections
from itinerary.stores.postgres.deadlines import Deadlines, NoAnswer
from itinerary.stores.postgres.failures import FailureReaction, as_store_error, meaning
from itinerary.stores.postgres.idle_transactions import LockHolder, end_frozen, holders
from itinerary.stores.postgres.statements import Statements
from itinerary.stores.postgres.transaction import PostgresTransaction
from itinerary.stores.threads import DaemonThreads

__all__ = ["Runner", "Step", "TransactionRunner", "abandon"]

A = TypeVar("A")
Step = Callable[[psycopg.Connection[Any]], A]

_WAITING_MAX: Final = 100_000
"""The most pieces of work in the queue. Beyond that a caller gets StoreBusy."""
_PAUSES: Final = {FailureReaction.LOST: (0.05, 2.0), FailureReaction.BUSY: (0.005, 0.5)}
"""The first and the longest pause between two tries, in seconds."""
LONGEST_ANSWER: Final = 4
"""The factor by which a repeated try may exceed the usual deadline."""
_CUT_TIMEOUT: Final = 1.0
"""Seconds for a thread to end after its connection was cut."""


class TransactionRunner:
    """The begin and the end of transactions on our tables."""

    def __init__(
        self,
        made: Statements,
        schema_number: int,
        *,
        lock_timeout: float,
        idle_timeout: float,
        answer_timeout: float,
    ) -> None:
        self.made = made
        self.schema_number = schema_number
        # The server stops statements that this side has given up on, so that they do not keep locks.
        limits = (lock_timeout, idle_timeout, answer_timeout * LONGEST_ANSWER)
        self._timeouts = [f"{max(1, round(seconds * 1_000))}ms" for seconds in limits]

    def write(self, work: Work[T]) -> Step[T]:
        """Return a step that runs this work in a transaction of its own."""
        return lambda connection: self._whole(connection, statements.BEGIN_WRITING, work)

    def read(self, work: Work[T]) -> Step[T]:
        """Return a step that runs this work in a read-only transaction."""
        return lambda connection: self._whole(connection, statements.BEGIN_READING, work)

    def within(self, connection: psycopg.Connection[Any], pipeline: Pipeline, work: Work[T]) -> T:
        """Run this work as part of an open transaction. The connection is in pipeline mode."""
        RawCursor(connection).execute(statements.SETTINGS, self._timeouts, binary=True)
        tx = PostgresTransaction(connection, pipeline, self.made, self.schema_number)
        answer = work(tx)
        tx.finish()
        return answer

    def _whole(self, connection: psycopg.Connection[Any], begin: str, work: Work[T]) -> T:
        with connection.pipeline() as pipeline:
            RawCursor(connection).execute(begin)
            answer = self.within(connection, pipeline, work)
            end = RawCursor(connection)
            end.execute("COMMIT")
        assert end.statusmessage == "COMMIT", f"the commit was answered by {end.statusmessage}"
        return answer


def abandon(connection: psycopg.Connection[Any]) -> None:
    """Roll back the open transaction. If that fails, the pool notices and closes the connection."""
    with suppress(psycopg.Error):
        connection.rollback()


class _Asked(Generic[A]):
    """A piece of work, and whether its caller still waits."""

    __slots__ = ("is_left", "step")

    def __init__(self, step: Step[A]) -> None:
        self.step = step
        self.is_left = False


class Runner:
    """Threads with connections. A thread calls `blocked` with the sessions that block the work for long."""

    def __init__(
        self,
        address: Address,
        deadlines: Deadlines,
        *,
        threads: int,
        patience: float,
        idle_timeout: float,
        blocked: Callable[[list[LockHolder]], None],
    ) -> None:
        self._address = address
        self._patience = patience
        self._idle_timeout = idle_timeout
        self._blocked = blocked
        self._connections = Connections(address, deadlines, is_prepared=True)
        self._threads = DaemonThreads(threads, "itinerary-postgres")
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting = 0
        self._closing = threading.Event()

    async def run(self, step: Step[A]) -> A:
        """Run a step on a connection, until it succeeds or a repetition does not help.

        Raises:
            StoreError: The step failed, or the patience ended.
            StoreBusy: The queue is full.
            StoreUnavailable: The store is closed.
        """
        if self._process != os.getpid():
            raise StoreError(f"{self._address.shown} was opened before a fork, by another process: open it again here")
        asked = _Asked(step)
        with self._lock:
            if self._closing.is_set():
                raise StoreUnavailable(f"{self._address.shown} is closed")
            if self._waiting >= _WAITING_MAX:
                raise StoreBusy(f"{self._address.shown} has {_WAITING_MAX} pieces of work waiting: ask again later")
            answer = self._threads.submit(self._patiently, asked)
            self._waiting += 1
        answer.add_done_callback(self._settled)
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            asked.is_left = True
            raise

    def rest(self) -> None:
        """Close the idle connections. The next work opens new ones."""
        self._connections.close_idle()

    async def close(self) -> int:
        """Finish submitted work, as far as the server answers soon, and close the connections.

        Returns:
            The number of threads that were left behind.
        """
        if self._process != os.getpid():
            return 0
        with self._lock:
            self._closing.set()
        left = await self._threads.close(CLOSE_TIMEOUT)
        if left:
            self._connections.cut_lent()
            left = await self._threads.close(_CUT_TIMEOUT)
        self._connections.close()
        return left

    def _settled(self, _asked: Future[Any]) -> None:
        with self._lock:
            self._waiting -= 1

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _patiently(self, asked: _Asked[A]) -> A:
        looked_at = time.monotonic()
        tries, unanswered, until = 0, 0, looked_at + self._patience
        while True:
            try:
                return self._once(asked.step, min(2**unanswered, LONGEST_ANSWER))
            except psycopg.Error as error:
                what = meaning(error)
                unanswered += isinstance(error, NoAnswer)
                if what is FailureReaction.LOST:
                    self._connections.close_idle()
                if asked.is_left or not what.is_passing or not self._may_try_again(what, tries, until):
                    has_waited = not (asked.is_left or self._closing.is_set())
                    patience = self._patience if has_waited else 0.0
                    raise as_store_error(error, self._address.shown, patience) from error
                if what is FailureReaction.BUSY and time.monotonic() - looked_at > self._idle_timeout:
                    looked_at = time.monotonic()
                    self._look_for_holders()
            tries += 1

    def _look_for_holders(self) -> None:
        """Find the sessions that block the work: end those of frozen clients, and report the others that hold locks.

        A user without the right to end sessions waits, as for any other lock. If the server is gone, the next try
        reports it.
        """

        def look(connection: psycopg.Connection[Any]) -> list[LockHolder]:
            end_frozen(connection, self._address.schema, self._idle_timeout)
            return holders(connection, self._address.schema, self._idle_timeout)

        with suppress(psycopg.Error):
            if found := self._once(look):
                self._blocked(found)

    def _may_try_again(self, what: FailureReaction, tries: int, until: float) -> bool:
        """Pause before the next try. Returns False if the patience has ended, or the store is being closed."""
        first, longest = _PAUSES[what]
        spread = random.uniform(0.5, 1.5)  # noqa: S311 - no secret: only spreads the nodes
        pause = 0.0 if tries == 0 else min(longest, first * 2 ** min(tries, 20)) * spread
        if time.monotonic() + pause > until:
            return False
        return not self._closing.wait(pause)

    def _once(self, step: Step[A], patience: int = 1) -> A:
        connection = self._connections.borrow()
        connection.answer_timeout *= patience
        try:
            return step(connection)
        except BaseException:
            abandon(connection)
            raise
        finally:
            self._connections.give_back(connection)
