"""Running work on connections, and running it again.

    caller ──► thread, connection ──► begin · work · tell · commit ──► answer
                        ▲                        │
                        └── lost, or busy ◄──────┘        again, until the patience is over

What is run is meant to be repeated: a commit whose answer did not come is work that is done once more, and answers as
the first time. The first repetition comes at once, on a new connection; the server may have been restarted long ago.
Later ones wait longer and longer, with some chance in it, so that many nodes do not come back as one.

A process that is frozen, or cut off, in the middle of a transaction holds locks, the gate's among them, and all others
would wait for it. The server does not let it: a transaction that nothing is heard of for `idle_timeout` is undone. Who
wakes up finds its connection gone, and does its work again. Where the server does not notice, those who wait do
(`frozen`).

**A server that does not answer** costs one deadline: the connection is cut (`deadlines`), and the work is repeated on a
new one. Each repetition may take longer than the one before it, up to four times the deadline, so that a server which
is only slow gets there.

There are as many threads as there may be connections, and a bounded queue before them. A caller that is cancelled
leaves its thread to finish the try that it is in, which takes the connection back to the others. `close` gives them a
few seconds, then cuts their connections, and leaves a thread behind that still does not come back.
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
from itinerary.stores.postgres.failures import Meaning, as_store_error, meaning
from itinerary.stores.postgres.idle_transactions import Holder, end_frozen, holders
from itinerary.stores.postgres.statements import Statements
from itinerary.stores.postgres.transaction import PostgresTransaction
from itinerary.stores.threads import DaemonThreads

__all__ = ["Books", "Runner", "Step", "abandon"]

A = TypeVar("A")
Step = Callable[[psycopg.Connection[Any]], A]

_WAITING_MAX: Final = 100_000
"""Pieces of work that may wait for a thread; who asks for more is told that the store is busy."""
_PAUSES: Final = {Meaning.LOST: (0.05, 2.0), Meaning.BUSY: (0.005, 0.5)}
"""The first pause between two tries, and the longest, in seconds."""
LONGEST_ANSWER: Final = 4
"""How many times the usual deadline a repeated try may wait for an answer."""
_CUT_TIMEOUT: Final = 1.0
"""Seconds in which a thread comes back whose connection was cut."""


class Books:
    """How a transaction on our tables is begun and ended."""

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
        # The server stops what this side has given up on, so that nothing goes on holding locks.
        limits = (lock_timeout, idle_timeout, answer_timeout * LONGEST_ANSWER)
        self._timeouts = [f"{max(1, round(seconds * 1_000))}ms" for seconds in limits]

    def write(self, work: Work[T]) -> Step[T]:
        """This work, in a transaction of its own."""
        return lambda connection: self._whole(connection, statements.BEGIN_WRITING, work)

    def read(self, work: Work[T]) -> Step[T]:
        """This work, in a transaction that cannot write."""
        return lambda connection: self._whole(connection, statements.BEGIN_READING, work)

    def within(self, connection: psycopg.Connection[Any], pipeline: Pipeline, work: Work[T]) -> T:
        """This work, as a part of a transaction that has been begun; the connection is in pipeline mode."""
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
    """Undo what it is in the middle of. If that fails too, whoever takes it back sees that, and closes it."""
    with suppress(psycopg.Error):
        connection.rollback()


class _Asked(Generic[A]):
    """A piece of work, and whether its caller still waits."""

    __slots__ = ("is_left", "step")

    def __init__(self, step: Step[A]) -> None:
        self.step = step
        self.is_left = False


class Runner:
    """Threads with connections. `blocked` is called, in a thread, with the sessions that hold up the work for long."""

    def __init__(
        self,
        address: Address,
        deadlines: Deadlines,
        *,
        threads: int,
        patience: float,
        idle_timeout: float,
        blocked: Callable[[list[Holder]], None],
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
        """Run this on a connection of ours, until it succeeds or there is no hope."""
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
        """Let go of the connections that are not in use; the next work makes new ones."""
        self._connections.close_idle()

    async def close(self) -> int:
        """Finish what was asked, as far as the server answers soon, and let go of the connections.

        Returns how many threads were left behind.
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
                if what is Meaning.LOST:
                    self._connections.close_idle()
                if asked.is_left or not what.is_passing or not self._may_try_again(what, tries, until):
                    has_waited = not (asked.is_left or self._closing.is_set())
                    patience = self._patience if has_waited else 0.0
                    raise as_store_error(error, self._address.shown, patience) from error
                if what is Meaning.BUSY and time.monotonic() - looked_at > self._idle_timeout:
                    looked_at = time.monotonic()
                    self._look_for_holders()
            tries += 1

    def _look_for_holders(self) -> None:
        """Look for the sessions that are in the way: end those that wait for frozen clients, and say which others hold
        locks. A user who may not end sessions waits, as for any other lock; and if the server is gone by now, the next
        try of the work says so."""

        def look(connection: psycopg.Connection[Any]) -> list[Holder]:
            end_frozen(connection, self._address.schema, self._idle_timeout)
            return holders(connection, self._address.schema, self._idle_timeout)

        with suppress(psycopg.Error):
            if found := self._once(look):
                self._blocked(found)

    def _may_try_again(self, what: Meaning, tries: int, until: float) -> bool:
        """Wait a little, unless the patience is over, or somebody wants to close."""
        first, longest = _PAUSES[what]
        spread = random.uniform(0.5, 1.5)  # noqa: S311 - no secret: many nodes shall not come back as one
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
