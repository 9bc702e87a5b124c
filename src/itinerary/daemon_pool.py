"""A thread pool that never delays the exit of a program.

    submit ──► an idle thread, or a new one up to the limit, or the queue

At exit, Python waits for every thread of a `ThreadPoolExecutor`, without a limit. One call that never returns (a name
server, a file system, a database) then keeps the process alive without end. The threads of this pool are daemons:
`shutdown` waits for them for a few seconds, and Python's exit does not wait at all.

The pool reuses its threads. A new thread for each call costs more than most calls. A signal that arrives while a thread
is being created may also go to that thread (see `signal_safe_wait`).

The pool is a `ThreadPoolExecutor` because asyncio accepts no other class as the default executor of a loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["JOIN_TIMEOUT", "DaemonPool"]

P = ParamSpec("P")
T = TypeVar("T")

JOIN_TIMEOUT: Final = 2.0
"""The time that `shutdown` waits for busy threads, in seconds."""
_THREADS_MAX: Final = 32


class DaemonPool(ThreadPoolExecutor):
    """A pool of at most `threads_max` daemon threads. Further calls wait in a queue."""

    def __init__(self, name: str, threads_max: int = _THREADS_MAX) -> None:
        super().__init__(threads_max, name)
        self._name, self._limit = name, threads_max
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        # Guarded by the lock:
        self._daemons: list[threading.Thread] = []
        self._unclaimed = 0
        """The idle threads, less the calls in the queue that will wake them."""
        self._is_shut_down = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread.

        Returns:
            The future of the result.

        Raises:
            RuntimeError: The pool is shut down, or the system gives no thread.
        """
        future: Future[T] = Future()
        with self._guard:
            if self._is_shut_down:
                raise RuntimeError(f"the thread pool {self._name} is shut down")
            if self._unclaimed > 0:
                self._unclaimed -= 1
            elif len(self._daemons) < self._limit:
                self._start_thread()
            else:
                self._unclaimed -= 1
            self._calls.put(_Call(future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the base class
        """Accept no further calls. With `wait`, give busy threads JOIN_TIMEOUT seconds, and then abandon them."""
        with self._guard:
            if not self._is_shut_down:
                self._is_shut_down = True
                if cancel_futures:
                    self._cancel_waiting()
                for _ in self._daemons:
                    self._calls.put(None)
            daemons = list(self._daemons)
        if wait:
            ends_at = time.monotonic() + JOIN_TIMEOUT
            for thread in daemons:
                if thread is not threading.current_thread():
                    thread.join(max(ends_at - time.monotonic(), 0.0))

    def _cancel_waiting(self) -> None:
        while not self._calls.empty():
            try:
                call = self._calls.get_nowait()
            except Empty:
                return  # a thread took the call at this moment
            if call is not None:
                call.future.cancel()

    def _start_thread(self) -> None:
        number = len(self._daemons)
        thread = threading.Thread(target=self._live, name=f"{self._name}_{number}", daemon=True)
        thread.start()
        self._daemons.append(thread)

    def _live(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            del call  # the arguments and the result may be large, and the next call may be hours away
            with self._guard:
                self._unclaimed += 1


class _Call:
    """A function with its arguments, and the future that its caller holds."""

    __slots__ = ("call", "future")

    def __init__(self, future: Future[Any], call: Callable[[], Any]) -> None:
        self.future, self.call = future, call

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
        except BaseException as error:  # noqa: BLE001 - the caller gets it from the future
            self.future.set_exception(error)
            self = None  # type: ignore[assignment]  # noqa: PLW0642 - breaks the cycle of traceback and future
        else:
            self.future.set_result(result)
