"""The event loop of a test node: virtual time that the test moves, and that stands still for threads.

    move(until)    run everything up to and including that time, and set the clock to it;
                   end earlier if the awaited condition holds
    skip(by)       let time pass at once: for an idle node, which is the case for nearly all of a month

A plain function runs in a thread, while virtual time stands still: the loop waits for its end, or for a request to the
app. While the function waits for the answer, time passes. Functions run one at a time, in the order of their
start, so a test has the same result each time.

**Owners of timers.** A skip postpones the timers of the node itself (heartbeats, polling) by the same time, so the node
does not notice. Timers of tasks are never postponed, and no skip passes one. The context of a task differs from that of
the node, because the executor makes a new one: everything started in it is marked.

There are no sockets and no child processes here. A task that asks for one gets an error, and so does the test.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from itinerary.errors import ClockError
from itinerary.testing.processes import PROCESS
from itinerary.testing.virtual_loop import VirtualLoop, _Callback

__all__ = ["TestNodeLoop", "of_the_test"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_IS_THE_TESTS: Final[ContextVar[bool]] = ContextVar("_IS_THE_TESTS", default=False)
"""True for code of the test or of a task, False for the node."""
_CLOSINGS_MAX: Final = 100
_MOMENT: Final = 5e-7
"""Seconds by which equal times may differ: half of the clock's resolution."""


def of_the_test() -> Context:
    """Return a context for code of the test: outside of any node, with its own timers."""
    context = copy_context()
    context.run(_IS_THE_TESTS.set, True)  # noqa: FBT003 - a flag in a context
    context.run(PROCESS.set, None)
    return context


class TestNodeLoop(VirtualLoop):
    """An asyncio loop on a clock that a test moves."""

    def __init__(self, patience: float) -> None:
        """Create the loop. `patience`: how many seconds of real time a plain function may take."""
        super().__init__(Random(0))  # noqa: S311 - an order of callbacks, the same each time
        self._patience = patience
        self._until = math.inf
        self._is_over: Callable[[], bool] = _never
        self._bell = threading.Condition()
        self._from_threads: deque[_Callback] = deque()
        self._busy: dict[object, str] = {}
        """The names of functions that run in threads."""
        self._awaited: set[Future[Any]] = set()
        """Answers of the loop that threads wait for."""
        self.refusal: ClockError | None = None
        """The first refused request, until the test gets the error."""
        self.set_task_factory(self._marked_task)

    # -- time --------------------------------------------------------------------------------------------------------

    def move(self, until: float, is_over: Callable[[], bool] | None = None) -> None:
        """Run everything up to a time and set the clock to it, or stop when `is_over` is true."""
        self._until, self._is_over = until, _never if is_over is None else is_over
        try:
            self.run_forever()
        finally:
            self._until, self._is_over = math.inf, _never

    def skip(self, by: float) -> None:
        """Let `by` seconds pass in which nothing happens. `next_of_the_test` must not lie in them."""
        self._time += by
        self._rounds = 0
        moved = []
        for when, rank, number, handle in self._timers:
            later = 0.0 if _is_the_tests(handle) else by
            handle._when += later  # noqa: SLF001 - our own kind of handle
            moved.append((when + later, rank, number, handle))
        heapq.heapify(moved)
        self._timers = moved

    def next_of_the_test(self) -> float:
        """Return the time of the next timer of the test or of a task; infinity if there is none."""
        return min(
            (one[0] for one in self._timers if not one[-1].cancelled() and _is_the_tests(one[-1])), default=math.inf
        )

    @property
    def is_busy(self) -> bool:
        """True if a callback or a thread has work that needs no time."""
        return bool(self._ready_now or self._from_threads or self._busy)

    def _run_once(self) -> None:
        self._let_in()
        if not self._ready_now:
            if len(self._busy) > len(self._awaited):
                self.wait_for_threads()
                return
            if self._next_time() > self._until + _MOMENT:
                self._time = max(self._time, self._until)
                self.stop()
                return
        super()._run_once()
        if self._is_over():
            self.stop()

    def _next_time(self) -> float:
        timers = self._timers
        while timers and timers[0][-1].cancelled():
            heapq.heappop(timers)
        return timers[0][0] if timers else math.inf

    # -- threads -----------------------------------------------------------------------------------------------------

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Callback(self._time, callback, args, self, copy_context() if context is None else context)
        with self._bell:
            self._from_threads.append(handle)
            self._bell.notify_all()
        return handle

    def run_in_executor(  # type: ignore[override]  # the base class has no threads at all
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread while time stands still. `executor` is ignored."""
        del executor
        future: asyncio.Future[T] = self.create_future()

        def settle(outcome: Callable[[], T]) -> None:
            if future.done():
                return
            try:
                future.set_result(outcome())
            except Exception as error:  # noqa: BLE001 - it is raised in the caller
                future.set_exception(error)

        self.run_in_thread(lambda: func(*args), settle, getattr(func, "__qualname__", repr(func)), copy_context())
        return future

    def run_in_thread(
        self, work: Callable[[], T], then: Callable[[Callable[[], T]], None], what: str, context: Context
    ) -> None:
        """Run `work` in a thread, then call `then` on the loop with a function that returns or raises the outcome.

        Waits for the end of `work` or for its first request to the loop, so that nothing runs at the same time by
        chance.
        """
        here = copy_context()

        def run() -> None:
            outcome: Callable[[], T]
            try:
                value = context.run(work)
            except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is read
                outcome = _raising(error)
            else:
                outcome = _returning(value)
            self.call_soon_threadsafe(over, outcome, context=here)

        def over(outcome: Callable[[], T]) -> None:
            del self._busy[thread]
            then(outcome)

        thread = threading.Thread(target=run, name=f"itinerary-test-node {what}", daemon=True)
        self._busy[thread] = what
        thread.start()
        self.wait_for_threads()

    def owes(self, answer: Future[Any]) -> None:
        """Note that a thread waits for an answer of the loop."""
        self._awaited.add(answer)
        answer.add_done_callback(self._awaited.discard)

    def wait_for_threads(self) -> None:
        """Wait until a thread has a callback for the loop."""
        with self._bell:
            if not self._bell.wait_for(lambda: self._from_threads, self._patience):
                what = ", ".join(self._busy.values())
                raise ClockError(
                    f"{what}: has run for {self._patience:g} seconds of real time, and the test's clock waits for it; "
                    "time.sleep in a plain function is real. Make it a coroutine that awaits asyncio.sleep, "
                    "put a fake in its place, or give the clock more patience="
                )
        self._let_in()

    def _let_in(self) -> None:
        while self._from_threads:
            self._ready_now.append(self._from_threads.popleft())

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _marked_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        """Create a task, and mark its context if an executor made one: the code then belongs to the test."""
        context = options.get("context")
        if isinstance(context, Context) and PROCESS not in context:
            mark(context)
        return self._new_task(loop, coroutine, **options)

    def end(self) -> None:
        """End everything that is unfinished, including tasks that start in its clean-up."""

        def bury() -> None:
            for _ in range(_CLOSINGS_MAX):
                if all(getattr(task.get_coro(), "cr_frame", None) is None for task in self._unfinished()):
                    break
                self.bury()
            self.stop()

        self.call_soon(bury, context=of_the_test())
        self.run_forever()
        self.bury()
        self.close()

    # -- unsupported operations --------------------------------------------------------------------------------------

    def refuse(self, error: ClockError) -> None:
        """Note a request for an unsupported operation: the test gets the error, even if the task handles it."""
        if self.refusal is None:
            self.refusal = error

    def _no(self, *_: object, **__: object) -> NoReturn:
        error = ClockError(
            "a task wants a socket, a signal or a child process, and on a test's clock there is none: nobody could say "
            'how long it takes. Put a fake in its place, run.fake("job/task"), or make it a plain function, '
            "which runs in a thread, where everything is real"
        )
        self.refuse(error)
        raise error

    add_reader = add_writer = remove_reader = remove_writer = add_signal_handler = _no
    sock_connect = sock_accept = sock_recv = sock_recv_into = sock_sendall = sock_sendfile = _no
    create_connection = create_server = create_datagram_endpoint = _no
    create_unix_connection = create_unix_server = _no
    subprocess_exec = subprocess_shell = connect_read_pipe = connect_write_pipe = _no


def _never() -> bool:
    return False


def mark(context: Context) -> None:
    """Mark a context as that of a task, in the current process."""
    context.run(PROCESS.set, PROCESS.get())
    context.run(_IS_THE_TESTS.set, True)  # noqa: FBT003 - a flag in a context


def _is_the_tests(handle: _Callback) -> bool:
    is_the_tests: bool = handle._context.get(_IS_THE_TESTS, False)  # noqa: SLF001 - our own kind of handle
    return is_the_tests


def _raising(error: BaseException) -> Callable[[], Any]:
    def outcome() -> NoReturn:
        raise error

    return outcome


def _returning(value: T) -> Callable[[], T]:
    return lambda: value
