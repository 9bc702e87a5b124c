"""Daemon threads for calls that may block, which a process can leave behind.

`ThreadPoolExecutor` joins its threads when the interpreter exits, and an event loop joins its default executor when it
closes. A thread that waits for an unresponsive disk or lock would then keep the process alive. These threads are
daemons: a caller stops waiting at its deadline, `close` stops waiting at its own, and the process can exit.

    submit(f)               a future of `concurrent.futures`
    answer(future, within)  its result; StoreUnavailable if the call takes too long, or no thread starts it in time
    close(within)           run submitted calls, for at most this many seconds

The deadline of a running call counts from its start. Before that it counts from the last answer of any thread, not from
the submission: a long queue that moves is not a hang. A thread ends after half a minute without a call, so a store that
is never closed leaves no threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from itinerary.errors import StoreUnavailable

__all__ = ["DaemonThreads", "in_thread", "thread_ended", "unanswered"]

A = TypeVar("A")

_IDLE_TIMEOUT: Final = 30.0
"""Seconds without a call after which a thread ends."""


class _Result(Future[A]):
    """The future of a call, with the time at which the call started."""

    begun_at: float | None = None


class _Call:
    """A function to call, and the future of its result."""

    __slots__ = ("arguments", "function", "future")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.future: _Result[Any] = _Result()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        self.future.begun_at = time.monotonic()
        try:
            result = self.function(*self.arguments)
        except BaseException as error:  # noqa: BLE001 - the error becomes the outcome of the call
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
        del self.function, self.arguments
        del self  # the traceback of an error refers to this frame, and the frame to the error


class DaemonThreads:
    """A pool of at most `size` daemon threads. Threads start on demand."""

    def __init__(self, size: int, name: str) -> None:
        self._size, self._name = size, name
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._alive = self._idle = 0
        self._is_closed = False
        self._ended: Future[None] = Future()
        """Done when the pool is closed and its last thread has ended."""
        self._answered_at = time.monotonic()

    def submit(self, function: Callable[..., A], *arguments: Any) -> _Result[A]:
        """Call a function in one of the threads.

        Raises:
            RuntimeError: The pool is closed.
        """
        call = _Call(function, arguments)
        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"the threads {self._name} have been told to end")
            if self._idle:
                self._idle -= 1
            elif self._alive < self._size:
                threading.Thread(target=self._live, name=f"{self._name} {self._alive + 1}", daemon=True).start()
                self._alive += 1
            self._queue.put(call)
        return call.future

    async def answer(self, future: _Result[A], within: float, title: str) -> A:
        """Wait for a result: `within` seconds from the start of the call, or from the last answer of any thread.

        Raises:
            StoreUnavailable: The threads do not answer. A running call stays in its thread; an unstarted one is
                dropped.
        """
        waiting = asyncio.wrap_future(future)
        asked_at = time.monotonic()
        try:
            while (left := self._counts_from(future, asked_at) + within - time.monotonic()) > 0:
                await asyncio.wait([waiting], timeout=left)
                if waiting.done():
                    return waiting.result()
        finally:
            future.cancel()
            waiting.cancel()
        raise unanswered(title, within)

    def _counts_from(self, future: _Result[A], asked_at: float) -> float:
        return max(asked_at, self._answered_at if future.begun_at is None else future.begun_at)

    async def close(self, within: float) -> int:
        """Let the threads finish the submitted calls, and end them.

        Calls that have not started after `within` seconds fail with StoreUnavailable.

        Returns:
            The number of threads that were left behind.
        """
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                for _ in range(self._alive):
                    self._queue.put(None)
                if not self._alive:
                    self._ended.set_result(None)
        if await thread_ended(self._ended, within):
            return 0
        self._refuse_waiting()
        with self._lock:
            return self._alive

    def _refuse_waiting(self) -> None:
        with suppress(Empty):
            while True:
                call = self._queue.get_nowait()
                if call is not None and call.future.set_running_or_notify_cancel():
                    call.future.set_exception(
                        StoreUnavailable(f"the threads {self._name} end, and have not begun this")
                    )
        for _ in range(self._size):
            self._queue.put(None)

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            del call
            self._answered_at = time.monotonic()

    def _next(self) -> _Call | None:
        """Return the next call. None ends this thread, which is then no longer counted."""
        with self._lock:  # no call may arrive between the check of the queue and the count as idle
            try:
                return self._counted(self._queue.get_nowait())
            except Empty:
                self._idle += 1
        call: _Call | None = None
        try:
            call = self._queue.get(timeout=_IDLE_TIMEOUT)
        except Empty:
            with self._lock:
                self._idle = max(0, self._idle - 1)
                with suppress(Empty):
                    call = self._queue.get_nowait()  # a call arrived at the last moment
                return self._counted(call)
        with self._lock:
            return self._counted(call)

    def _counted(self, call: _Call | None) -> _Call | None:
        if call is None:
            self._alive -= 1
            if not self._alive and self._is_closed:
                self._ended.set_result(None)
        return call


async def in_thread(
    function: Callable[[], A], within: float, title: str, discard: Callable[[A], None] = lambda _: None
) -> A:
    """Call a function in a daemon thread of its own.

    Args:
        function: The call to make.
        within: Seconds to wait for the result.
        title: The name for the thread and the error.
        discard: Receives a result that arrives after the deadline.

    Raises:
        StoreUnavailable: The call did not answer in time.
    """
    call = _Call(function, ())
    threading.Thread(target=call.run, name=title, daemon=True).start()
    waiting: asyncio.Future[A] = asyncio.wrap_future(call.future)
    try:
        await asyncio.wait([waiting], timeout=within)
        if waiting.done():
            return waiting.result()
    finally:
        if not waiting.done():
            call.future.add_done_callback(lambda late: discard(late.result()) if late.exception() is None else None)
    raise unanswered(title, within)


async def thread_ended(ended: Future[None], within: float) -> bool:
    """Wait for the end of a thread, at most `within` seconds. Returns True if the thread has ended."""
    waiting = asyncio.wrap_future(_following(ended))
    try:
        await asyncio.wait([waiting], timeout=within)
    finally:
        waiting.cancel()
    return ended.done()


def _following(ended: Future[None]) -> Future[None]:
    """Return a future that completes with this one. A waiter cancels only its own, so others can wait as well."""
    following: Future[None] = Future()

    def follow(_: Future[None]) -> None:
        if following.set_running_or_notify_cancel():
            following.set_result(None)

    ended.add_done_callback(follow)
    return following


def unanswered(title: str, within: float) -> StoreUnavailable:
    """Return the error for a caller whose deadline has passed."""
    return StoreUnavailable(
        f"{title} has not answered for {within:g} s: its disk, or a lock that another process holds, does not answer;"
        " the work can be repeated"
    )
