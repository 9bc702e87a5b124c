"""Threads for calls that may block, and that a process can leave behind.

`ThreadPoolExecutor` joins its threads when the interpreter ends, and an event loop joins its default executor when it
is closed. A thread that waits for a disk or a lock that never answers would keep the process alive for ever. These
threads are daemons: a caller stops waiting at its deadline, `close` stops waiting at its own, and the process can end.

    submit(f)               a future of `concurrent.futures`
    answer(future, within)  its result; StoreUnavailable if the call takes longer than that, or no thread comes to it
    close(within)           run what was submitted, for so many seconds at most

The deadline of a call that runs counts from its begin. Until then it counts from the last answer of any thread, not
from the question: a long queue that moves is not a hang. A thread that has had nothing to do for half a minute ends, so
that a store which was never closed leaves none.
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
    """The future of a call, which says when the call began."""

    begun_at: float | None = None


class _Call:
    """A function to be called, and the future of its result."""

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
        except BaseException as error:  # noqa: BLE001 - it becomes the outcome of the call
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
        del self.function, self.arguments
        del self  # an error's traceback leads here, and from here to the error


class DaemonThreads:
    """A pool of at most `size` daemon threads, each started when it is first needed."""

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
        """Call this in one of the threads. Raises RuntimeError if the pool is closed."""
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
        """Wait for a result: `within` seconds from the begin of the call, or from the last answer of any thread.

        Raises:
            StoreUnavailable: the threads do not answer. The call is left to its thread, or dropped if it has not begun.
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
        """Let the threads run what was submitted, and end. Returns how many were left behind after `within` seconds.

        What has not begun by then is refused: its callers get StoreUnavailable.
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
        """The next call; None: this thread ends, and is counted out."""
        with self._lock:  # so that no call is submitted between a look at the queue and being counted as idle
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
                    call = self._queue.get_nowait()  # it came at the last moment
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
    """Call this in a daemon thread of its own. Raises StoreUnavailable after `within` seconds without an answer. What
    the function returns later is given to `discard`."""
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
    """Wait for a thread's end, at most so many seconds. True if it has ended."""
    waiting = asyncio.wrap_future(_following(ended))
    try:
        await asyncio.wait([waiting], timeout=within)
    finally:
        waiting.cancel()
    return ended.done()


def _following(ended: Future[None]) -> Future[None]:
    """A future that is done with this one: a waiter that gives up cancels its own, and others can wait as well."""
    following: Future[None] = Future()

    def follow(_: Future[None]) -> None:
        if following.set_running_or_notify_cancel():
            following.set_result(None)

    ended.add_done_callback(follow)
    return following


def unanswered(title: str, within: float) -> StoreUnavailable:
    """The error of a caller whose deadline has passed."""
    return StoreUnavailable(
        f"{title} has not answered for {within:g} s: its disk, or a lock that another process holds, does not answer;"
        " the work can be repeated"
    )
