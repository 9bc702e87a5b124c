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

There are as many threads as there may be connections, and a bounded queue before them. A caller that is cancelled
leaves its thread to finish, which takes the connection back to the others.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Pipeline, RawCursor

from itinerary.errors import StoreBusy, StoreError, StoreUnavailable
from itinerary.stores.base import T, Work
from itinerary.stores.postgres import statements
from itinerary.stores.postgres.connections import Address, Connections
from itinerary.stores.postgres.failures import Meaning, as_store_error, meaning
from itinerary.stores.postgres.frozen import end_frozen
from itinerary.stores.postgres.statements import Statements
from itinerary.stores.postgres.transaction import PostgresTransaction

__all__ = ["Books", "Runner", "Step", "abandon"]

A = TypeVar("A")
Step = Callable[[psycopg.Connection[Any]], A]

_WAITING_MAX: Final = 100_000
"""Pieces of work that may wait for a thread; who asks for more is told that the store is busy."""
_PAUSES: Final = {Meaning.LOST: (0.05, 2.0), Meaning.BUSY: (0.005, 0.5)}
"""The first pause between two tries, and the longest, in seconds."""


class Books:
    """How a transaction on our tables is begun and ended."""

    def __init__(self, made: Statements, schema_number: int, *, lock_timeout: float, idle_timeout: float) -> None:
        self.made = made
        self.schema_number = schema_number
        self._timeouts = [f"{max(1, round(seconds * 1_000))}ms" for seconds in (lock_timeout, idle_timeout)]

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


class Runner:
    """Threads with connections."""

    def __init__(self, address: Address, *, threads: int, patience: float, idle_timeout: float) -> None:
        self._address = address
        self._patience = patience
        self._idle_timeout = idle_timeout
        self._connections = Connections(address, is_prepared=True)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="itinerary-postgres")
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting = 0
        self._closing = threading.Event()

    async def run(self, step: Step[A]) -> A:
        """Run this on a connection of ours, until it succeeds or there is no hope."""
        if self._process != os.getpid():
            raise StoreError(f"{self._address.shown} was opened before a fork, by another process: open it again here")
        with self._lock:
            if self._closing.is_set():
                raise StoreUnavailable(f"{self._address.shown} is closed")
            if self._waiting >= _WAITING_MAX:
                raise StoreBusy(f"{self._address.shown} has {_WAITING_MAX} pieces of work waiting: ask again later")
            self._waiting += 1
            asked = self._threads.submit(self._patiently, step)
        asked.add_done_callback(self._settled)
        return await asyncio.wrap_future(asked)

    def rest(self) -> None:
        """Let go of the connections that are not in use; the next work makes new ones."""
        self._connections.close_idle()

    async def close(self) -> None:
        """Finish what was asked, as far as the server is there, and let go of the connections."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closing.set()
        await asyncio.to_thread(self._threads.shutdown)
        self._connections.close()

    def _settled(self, _asked: Future[Any]) -> None:
        with self._lock:
            self._waiting -= 1

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _patiently(self, step: Step[A]) -> A:
        looked_at = time.monotonic()
        tries, until = 0, looked_at + self._patience
        while True:
            try:
                return self._once(step)
            except psycopg.Error as error:
                what = meaning(error)
                if what is Meaning.LOST:
                    self._connections.close_idle()
                if not what.is_passing or not self._may_try_again(what, tries, until):
                    raise as_store_error(error, self._address.shown, self._patience) from error
                if what is Meaning.BUSY and time.monotonic() - looked_at > self._idle_timeout:
                    looked_at = time.monotonic()
                    self._end_frozen()
            tries += 1

    def _end_frozen(self) -> None:
        """See whether somebody frozen is in the way. Who may not end sessions waits, as for any other lock; and if the
        server is gone by now, the next try of the work says so."""
        with suppress(psycopg.Error):
            self._once(lambda connection: end_frozen(connection, self._address.schema, self._idle_timeout))

    def _may_try_again(self, what: Meaning, tries: int, until: float) -> bool:
        """Wait a little, unless the patience is over, or somebody wants to close."""
        first, longest = _PAUSES[what]
        spread = random.uniform(0.5, 1.5)  # noqa: S311 - no secret: many nodes shall not come back as one
        pause = 0.0 if tries == 0 else min(longest, first * 2 ** min(tries, 20)) * spread
        if time.monotonic() + pause > until:
            return False
        return not self._closing.wait(pause)

    def _once(self, step: Step[A]) -> A:
        connection = self._connections.borrow()
        try:
            return step(connection)
        except BaseException:
            abandon(connection)
            raise
        finally:
            self._connections.give_back(connection)
