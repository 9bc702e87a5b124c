"""Plain functions, in threads.

    begin ──► an idle thread, or the queue ──► the starter: a new thread for each queued attempt, up to the limit
    kill  ──► the thread is abandoned and no longer counts: another thread replaces it

Nothing can end a thread from outside. A thread whose task ignores `ctx.cancelled` is left alone, as a daemon. Such a
thread must not take capacity from others, as it would in a pool of fixed size. Stuck threads still hold memory and
perhaps locks, so their number is limited too. With GIVEN_UP_MAX stuck threads, no attempt begins, and the error says
so.

The start of a thread waits until the thread runs, which takes long on a busy machine. A separate thread therefore
starts the others, and `begin` never waits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from queue import SimpleQueue
from typing import Final

from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.context import arguments_of
from itinerary.executors.definitions import check_place, read_python
from itinerary.executors.outcomes import could_not_begin, raised, returned
from itinerary.executors.registry import Registry
from itinerary.executors.transactions import TransactionFactory, Transactions
from itinerary.model.attempts import Assignment, Ended, Outcome, Stopped
from itinerary.model.text import shown

__all__ = ["GIVEN_UP_MAX", "THREADS_MAX", "ThreadExecutor"]

THREADS_MAX: Final = 256
"""The default limit of tasks that run at the same time. Other attempts queue."""
GIVEN_UP_MAX: Final = 1_000
"""The number of stuck threads at which no attempt begins."""
_IDLE_MAX: Final = 32
_JOINING_TIMEOUT: Final = 5.0


class _Thread(threading.Thread):
    """A thread that runs one attempt after the other."""

    def __init__(self, executor: ThreadExecutor) -> None:
        super().__init__(name="itinerary-task", daemon=True)
        self.inbox: SimpleQueue[InFlight | None] = SimpleQueue()
        self._executor = executor

    def run(self) -> None:
        while (running := self.inbox.get()) is not None:
            Context().run(self._executor._run, running)  # noqa: SLF001 - one class in two halves
            if not self._executor._has_more(self, running):  # noqa: SLF001 - one class in two halves
                return


class ThreadExecutor(BaseExecutor[InFlight]):
    """The executor of plain functions, at most `threads_max` at the same time. Other attempts queue in order."""

    def __init__(
        self,
        registry: Registry,
        *,
        threads_max: int = THREADS_MAX,
        given_up_max: int = GIVEN_UP_MAX,
        transaction: TransactionFactory | None = None,
    ) -> None:
        super().__init__()
        if threads_max < 1:
            raise ConfigError(f"threads_max: {shown(threads_max)} is too few; at least 1 is needed")
        self._registry = registry
        self._threads_max = threads_max
        self._given_up_max = given_up_max
        self._factory = transaction
        self._transactions: Transactions | None = None
        self._lock = threading.Lock()
        self._to_launch: list[InFlight] = []
        # The lock protects:
        self._line: deque[InFlight] = deque()
        self._idle: list[_Thread] = []
        self._busy = 0
        self._given_up = 0
        self._wishes: SimpleQueue[bool] = SimpleQueue()
        self._starter = threading.Thread(target=self._start_threads, name="itinerary-threads", daemon=True)

    @property
    def given_up(self) -> int:
        """The number of threads that are stuck in abandoned tasks."""
        return self._given_up

    async def _prepare(self) -> None:
        if self._factory is not None:
            self._transactions = Transactions(self._factory)
        await asyncio.to_thread(self._starter.start)

    def _accept(self, assignment: Assignment) -> InFlight:
        if self._given_up >= self._given_up_max:
            raise ItineraryError(
                f"{self._given_up} threads of this node are stuck in tasks that were given up, which is the limit; "
                "restart the node, and let those tasks look at ctx.cancelled"
            )
        return InFlight(assignment)

    def _launch(self, attempt: InFlight) -> None:
        self._to_launch.append(attempt)

    def begin(self, assignments: Sequence[Assignment]) -> None:
        # One lock for the whole batch: the threads need the lock too, and every wait for it costs a context switch.
        super().begin(assignments)
        if not self._to_launch:
            return
        with self._lock:
            self._line += self._to_launch
            while self._line and self._idle and self._busy < self._threads_max:
                self._busy += 1
                self._idle.pop().inbox.put(self._line.popleft())
            if self._line and self._busy < self._threads_max:
                self._wishes.put(True)  # noqa: FBT003 - start more
        self._to_launch.clear()

    def _stop(self, attempt: InFlight) -> None:
        attempt.is_stop_asked = True
        if self._left_the_line(attempt):
            self._end(attempt.key, Stopped(was_called=False))

    def _kill(self, attempt: InFlight) -> None:
        attempt.is_stop_asked = True
        if self._left_the_line(attempt):
            self._end(attempt.key, Stopped(was_called=False))
            return
        with self._lock:
            if self._in_flight.pop(attempt.key, None) is None:
                return
            attempt.is_given_up = True
            self._given_up += 1
            self._busy -= 1
            if self._line:
                self._wishes.put(True)  # noqa: FBT003 - start more
        self._say(Ended(attempt.key, Stopped(abandoned=True, was_called=attempt.was_called)))

    def _left_the_line(self, attempt: InFlight) -> bool:
        with self._lock:
            try:
                self._line.remove(attempt)
            except ValueError:
                return False
            return True

    async def _shut_down(self) -> None:
        self.kill(list(self._in_flight))
        with self._lock:
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.inbox.put(None)
        self._wishes.put(False)  # noqa: FBT003 - stop
        await asyncio.to_thread(_join, [self._starter, *idle])

    # -- in the starter thread -----------------------------------------------------------------------------------------

    def _start_threads(self) -> None:
        while self._wishes.get():
            while (attempt := self._next_to_start()) is not None:
                thread = _Thread(self)
                try:
                    thread.start()
                except RuntimeError as error:  # the system refuses another thread
                    with self._lock:
                        self._busy -= 1
                    self._end(attempt.key, could_not_begin(error))
                else:
                    thread.inbox.put(attempt)

    def _next_to_start(self) -> InFlight | None:
        with self._lock:
            if not self._line or self._busy >= self._threads_max:
                return None
            self._busy += 1
            return self._line.popleft()

    # -- in the task threads -------------------------------------------------------------------------------------------

    def _run(self, running: InFlight) -> None:
        assignment = running.assignment
        outcome: Outcome
        running.was_called = True
        if running.is_stop_asked:
            outcome = Stopped(was_called=False)
        else:
            try:
                outcome = self._called(running)
            except BaseException as error:  # noqa: BLE001 - an attempt ends here
                outcome = raised(error, running)
        with self._lock:  # so that kill cannot abandon it at the same moment
            is_ours = self._in_flight.pop(assignment.key, None) is not None
        if is_ours:
            self._say(Ended(assignment.key, outcome))
        else:
            self._came_back(assignment, outcome)

    def _called(self, running: InFlight) -> Outcome:
        assignment = running.assignment
        try:
            function = self._registry.find(read_python(assignment.run, "thread", self._registry).name)
            check_place(function.name, "thread", is_coroutine=function.is_coroutine)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            return could_not_begin(error)
        arguments = arguments_of(function, assignment, running, self._transactions)
        return returned(function.call(*arguments), assignment.facts)

    def _has_more(self, thread: _Thread, running: InFlight) -> bool:
        """True if the thread stays, with the next attempt or idle. A thread that was abandoned ends."""
        with self._lock:
            if running.is_given_up:
                self._given_up -= 1
                return False
            if self._line:
                thread.inbox.put(self._line.popleft())
                return True
            self._busy -= 1
            if self._is_closed or len(self._idle) >= _IDLE_MAX:
                return False
            self._idle.append(thread)
            return True


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait for ending threads, at most `_JOINING_TIMEOUT` seconds in all."""
    ends_at = time.monotonic() + _JOINING_TIMEOUT
    for thread in threads:
        if thread.is_alive():  # not even started, if the start of the executor was cancelled
            thread.join(max(ends_at - time.monotonic(), 0.0))
