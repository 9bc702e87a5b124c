"""The deadline of each answer: a connection that waits longer is cut.

    a thread           sends ──► waits for the answer ········ gets an error ──► the work again, on a new connection
    Deadlines (own)              checks at intervals: waiting for longer than `answer_timeout`? ──► cut

libpq has no deadline for an answer. A frozen backend, or a proxy that has lost the request, keeps the connection open
and acknowledges data, so the kernel reports no error either. So one thread of each store checks the connections in use.
If one has waited too long, the thread shuts down its socket. The waiting thread then gets `NoAnswer` at once.

The deadline is for one answer, not for a transaction: a transaction of many statements may take longer. A statement
that is known to be long (a migration) gets more time (`allowing`).

Unsent data is discarded with the connection, so that a COMMIT does not arrive minutes later. A COMMIT that did arrive
may still succeed. The repetition of the protocol detects that, as after any lost connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

__all__ = ["ANSWER_TIMEOUT", "Deadlines", "ListeningConnection", "NoAnswer", "WatchedConnection", "allowing", "sever"]

RV = TypeVar("RV")

ANSWER_TIMEOUT: Final = 10.0
"""Seconds: two heartbeat intervals, so that a node has a new connection before it misses three heartbeats."""
_LOOKS: Final = 10
"""The number of checks of a connection within its deadline."""
_LOOK_INTERVAL_MAX: Final = 0.5
_IDLE_TIMEOUT: Final = 30.0
"""Seconds without a connection in use after which the thread ends."""


class NoAnswer(psycopg.OperationalError):
    """The server did not answer before the deadline, and the connection was cut."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that records since when it waits for the server."""

    answer_timeout: float = ANSWER_TIMEOUT
    waiting_since: float | None = None
    cut_after: float | None = None
    """The seconds after which it was cut, or None."""

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Wait for the server. Psycopg calls this for every wait except during connecting."""
        self.waiting_since = time.monotonic()
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.OperationalError as error:
            if self.cut_after is None or isinstance(error, NoAnswer):
                raise
            raise NoAnswer(_unanswered(self.cut_after)) from error
        finally:
            self.waiting_since = None


class ListeningConnection(psycopg.AsyncConnection[Any]):
    """A connection on an event loop whose waits have a deadline.

    Cancelling a wait cuts the connection. Psycopg alone would first ask the server to cancel the statement, and wait.
    """

    answer_timeout: float = ANSWER_TIMEOUT

    async def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Wait for the server, at most `answer_timeout` seconds."""
        within = self.answer_timeout
        waiting = asyncio.ensure_future(super().wait(gen, *args, **kwargs))
        try:
            await asyncio.wait([waiting], timeout=within)
        except asyncio.CancelledError:
            sever(self)
            with suppress(psycopg.Error):
                await waiting
            raise
        if waiting.done():
            return waiting.result()
        sever(self)
        try:
            return await waiting
        except psycopg.OperationalError as error:
            raise NoAnswer(_unanswered(within)) from error


class Deadlines:
    """The thread that cuts connections, for one store.

    The thread starts with the first connection in use, and ends after some time without one. The thread calls `on_cut`
    with the seconds that a connection has waited.
    """

    def __init__(self, answer_timeout: float, on_cut: Callable[[float], None]) -> None:
        self.answer_timeout = answer_timeout
        self._on_cut = on_cut
        self._in_use: set[WatchedConnection] = set()
        self._lock = threading.Lock()
        self._is_needed = threading.Event()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, connection: WatchedConnection) -> None:
        """Watch a connection that a thread begins to use."""
        connection.answer_timeout = self.answer_timeout
        with self._lock:
            self._in_use.add(connection)
            self._is_needed.set()
            if self._thread is None and not self._is_closed.is_set():
                self._thread = threading.Thread(target=self._live, name="itinerary-postgres deadlines", daemon=True)
                self._thread.start()

    def forget(self, connection: WatchedConnection) -> None:
        """Stop watching a connection that is no longer in use."""
        with self._lock:
            self._in_use.discard(connection)

    def close(self) -> None:
        """End the thread."""
        self._is_closed.set()
        self._is_needed.set()

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        interval = min(self.answer_timeout / _LOOKS, _LOOK_INTERVAL_MAX)
        while not self._is_closed.wait(interval):
            with self._lock:
                connections = list(self._in_use)
                if not connections:
                    self._is_needed.clear()
            for connection in connections:
                self._look_at(connection)
            del connections
            if not self._is_needed.wait(_IDLE_TIMEOUT) and self._may_end():
                return

    def _may_end(self) -> bool:
        with self._lock:
            if self._in_use:
                return False
            self._thread = None
            return True

    def _look_at(self, connection: WatchedConnection) -> None:
        since = connection.waiting_since
        if since is None or connection.cut_after is not None:
            return
        waited = time.monotonic() - since
        if waited > connection.answer_timeout:
            connection.cut_after = connection.answer_timeout
            sever(connection)
            with suppress(Exception):  # a log that cannot be written must not end this thread
                self._on_cut(waited)


@contextmanager
def allowing(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Give the server this many seconds for each answer, instead of the usual time."""
    if not isinstance(connection, WatchedConnection):
        yield
        return
    usual, connection.answer_timeout = connection.answer_timeout, seconds
    try:
        yield
    finally:
        connection.answer_timeout = usual


def sever(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Cut a connection while another thread waits on it. The waiting thread gets an error."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as its_socket:
            with suppress(OSError):  # a unix socket, which has no unsent data
                its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            its_socket.shutdown(socket.SHUT_RDWR)
    except (psycopg.OperationalError, OSError):
        return  # already closed


def _unanswered(seconds: float) -> str:
    return f"no answer within {seconds:g} s, and the connection was cut"
