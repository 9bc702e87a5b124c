"""The loop that a rehearsal lives on: virtual time that goes as far as the test says, and stands still for threads.

    move(until)    everything that happens up to that time, that time included; then the clock stands there.
                   It ends earlier if what is waited for is so
    skip(by)       time passes at once: for a node that has nothing to do, which is so for nearly all of a month

A plain function is run in a thread, and while it runs no time passes: the loop waits for it, or for what it asks of the
app. While it waits for the answer to that, time does pass. They run one at a time, in the order in which they were
begun, so a test comes out the same each time.

**Whose timers.** When time is skipped, the timers of the node itself (its heartbeats, its looks around) are put off by
as much: it notices nothing. Those of the tasks are never touched, and nobody skips over one. A task is told from the
node by its context, which its executor makes anew for it: everything begun in there is marked.

There are no sockets here, and no child processes. Whoever asks for one is told so, and so is the test.
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
from itinerary.simulate.loop import VirtualLoop, _Callback
from itinerary.simulate.processes import PROCESS

__all__ = ["RehearsalLoop", "of_the_test"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_IS_THE_TESTS: Final[ContextVar[bool]] = ContextVar("_IS_THE_TESTS", default=False)
"""Whether what runs is the test's, or a task's, and not the node's."""
_CLOSINGS_MAX: Final = 100
_MOMENT: Final = 5e-7
"""Seconds that two times may differ by and be the same: a half of what clocks here can tell apart."""


def of_the_test() -> Context:
    """A context for what belongs to the test: it is in no node, and its timers are its own."""
    context = copy_context()
    context.run(_IS_THE_TESTS.set, True)  # noqa: FBT003 - a flag in a context
    context.run(PROCESS.set, None)
    return context


class RehearsalLoop(VirtualLoop):
    """asyncio on a clock that a test moves."""

    def __init__(self, patience: float) -> None:
        """`patience`: how many seconds of real time a plain function may take."""
        super().__init__(Random(0))  # noqa: S311 - an order of callbacks, the same each time
        self._patience = patience
        self._until = math.inf
        self._is_over: Callable[[], bool] = _never
        self._bell = threading.Condition()
        self._from_threads: deque[_Callback] = deque()
        self._busy: dict[object, str] = {}
        """What runs in threads, and what it is called."""
        self._awaited: set[Future[Any]] = set()
        """Answers of the loop that threads wait for."""
        self.refusal: ClockError | None = None
        """The first thing that was asked for and is not there, until somebody is told."""
        self.set_task_factory(self._marked_task)

    # -- time --------------------------------------------------------------------------------------------------------

    def move(self, until: float, is_over: Callable[[], bool] | None = None) -> None:
        """Let everything happen up to this time, and set the clock to it; or until something is over."""
        self._until, self._is_over = until, _never if is_over is None else is_over
        try:
            self.run_forever()
        finally:
            self._until, self._is_over = math.inf, _never

    def skip(self, by: float) -> None:
        """Let so many seconds pass in which nothing happens. `next_of_the_test` must not lie in them."""
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
        """When the next timer of the test or of a task is due; infinity if there is none."""
        return min(
            (one[0] for one in self._timers if not one[-1].cancelled() and _is_the_tests(one[-1])), default=math.inf
        )

    @property
    def is_busy(self) -> bool:
        """Whether something is about to happen without any time passing."""
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

    def run_in_executor(  # type: ignore[override]  # the base says that there are no threads at all
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread, whichever executor is asked for, while time stands still."""
        del executor
        future: asyncio.Future[T] = self.create_future()

        def settle(outcome: Callable[[], T]) -> None:
            if future.done():
                return
            try:
                future.set_result(outcome())
            except Exception as error:  # noqa: BLE001 - it is raised where somebody waits for it
                future.set_exception(error)

        self.run_in_thread(lambda: func(*args), settle, getattr(func, "__qualname__", repr(func)), copy_context())
        return future

    def run_in_thread(
        self, work: Callable[[], T], then: Callable[[Callable[[], T]], None], what: str, context: Context
    ) -> None:
        """Run `work` in a thread; `then` is told its outcome on the loop, as something that returns it or raises.

        Waits until it is over, or has asked something of the loop, so that nothing happens beside it by chance.
        """
        here = copy_context()

        def run() -> None:
            outcome: Callable[[], T]
            try:
                value = context.run(work)
            except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is looked at
                outcome = _raising(error)
            else:
                outcome = _returning(value)
            self.call_soon_threadsafe(over, outcome, context=here)

        def over(outcome: Callable[[], T]) -> None:
            del self._busy[thread]
            then(outcome)

        thread = threading.Thread(target=run, name=f"itinerary-rehearsal {what}", daemon=True)
        self._busy[thread] = what
        thread.start()
        self.wait_for_threads()

    def owes(self, answer: Future[Any]) -> None:
        """A thread waits for an answer of the loop."""
        self._awaited.add(answer)
        answer.add_done_callback(self._awaited.discard)

    def wait_for_threads(self) -> None:
        """Wait until a thread has something to say."""
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
        """A context of its own is what an executor gives to a task: that is the test's, and in its node's process."""
        context = options.get("context")
        if isinstance(context, Context) and PROCESS not in context:
            mark(context)
        return self._new_task(loop, coroutine, **options)

    def end(self) -> None:
        """Take leave of everything that is not over. What that begins, in its clean-up, goes the same way."""

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

    # -- what there is not -------------------------------------------------------------------------------------------

    def refuse(self, error: ClockError) -> None:
        """Something was asked for that is not there: the test is told, whatever becomes of who asked."""
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
    """What runs in this context is a task's, in the process that marks it."""
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
