"""Plain functions, each in a thread.

    begin ──► an idle thread, or a new one; at the limit it waits in line
    kill  ──► the thread is given up, and no longer counts: another takes its place

Nothing can end a thread from outside. One whose task ignores `ctx.cancelled` is left to itself, as a daemon, and must
not take room from others, as it would in a pool of fixed size. But each holds memory and perhaps locks, so there is a
limit for those too: with GIVEN_UP_MAX of them stuck nothing new begins, and the error says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextvars import Context
from queue import SimpleQueue
from typing import Final

from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.context import ExecutionContext
from itinerary.executors.definitions import check_place, read_python
from itinerary.executors.outcomes import could_not_begin, raised, returned
from itinerary.executors.registry import Registry
from itinerary.executors.transactions import TransactionFactory, Transactions
from itinerary.model.text import shown
from itinerary.model.work import Assignment, Ended, Outcome, Stopped

__all__ = ["GIVEN_UP_MAX", "THREADS_MAX", "ThreadExecutor"]

THREADS_MAX: Final = 256
"""How many tasks run at the same time if nothing else is set; further ones wait in line."""
GIVEN_UP_MAX: Final = 1_000
"""How many stuck threads a process may have before nothing new begins."""
_IDLE_MAX: Final = 32
_JOINING_TIMEOUT: Final = 5.0


class _Running(InFlight):
    """An attempt; it has a thread when it has begun."""

    __slots__ = ("thread",)

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.thread: _Thread | None = None


class _Thread(threading.Thread):
    """A thread that takes one attempt after the other."""

    def __init__(self, executor: ThreadExecutor) -> None:
        super().__init__(name="itinerary-task", daemon=True)
        self.inbox: SimpleQueue[_Running | None] = SimpleQueue()
        self._executor = executor

    def run(self) -> None:
        while (running := self.inbox.get()) is not None:
            Context().run(self._executor._run, running)  # noqa: SLF001 - one class in two halves
            if not self._executor._has_more(self, running):  # noqa: SLF001 - one class in two halves
                return


class ThreadExecutor(BaseExecutor[_Running]):
    """Runs plain functions, at most `threads_max` at the same time; those beyond wait in line, first come, first."""

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
        # Guarded by the lock:
        self._line: deque[_Running] = deque()
        self._idle: list[_Thread] = []
        self._busy = 0
        self._given_up = 0

    @property
    def given_up(self) -> int:
        """How many threads are stuck in tasks that nobody waits for."""
        return self._given_up

    async def _prepare(self) -> None:
        if self._factory is not None:
            self._transactions = Transactions(self._factory)

    def _accept(self, assignment: Assignment) -> _Running:
        if self._given_up >= self._given_up_max:
            raise ItineraryError(
                f"{self._given_up} threads of this node are stuck in tasks that were given up, which is the limit; "
                "restart the node, and let those tasks look at ctx.cancelled"
            )
        return _Running(assignment)

    def _launch(self, attempt: _Running) -> None:
        with self._lock:
            if self._busy >= self._threads_max:
                self._line.append(attempt)
                return
            self._busy += 1
            attempt.thread = self._idle.pop() if self._idle else None
        if attempt.thread is None:
            thread = _Thread(self)
            try:
                thread.start()
            except RuntimeError:  # the system gives no more
                with self._lock:
                    self._busy -= 1
                raise
            attempt.thread = thread
        attempt.thread.inbox.put(attempt)

    def _stop(self, attempt: _Running) -> None:
        attempt.is_stop_asked = True
        if self._left_the_line(attempt):
            self._end(attempt.key, Stopped())

    def _kill(self, attempt: _Running) -> None:
        attempt.is_stop_asked = True
        if self._left_the_line(attempt):
            self._end(attempt.key, Stopped())
            return
        following = None
        with self._lock:
            if self._in_flight.pop(attempt.key, None) is None:
                return
            attempt.is_given_up = True
            self._given_up += 1
            self._busy -= 1
            if self._line:
                following = self._line.popleft()
        self._say(Ended(attempt.key, Stopped(abandoned=True)))
        if following is not None:
            self._relaunch(following)

    def _relaunch(self, attempt: _Running) -> None:
        try:
            self._launch(attempt)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            self._end(attempt.key, could_not_begin(error))

    def _left_the_line(self, attempt: _Running) -> bool:
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
        for thread in idle:
            await asyncio.to_thread(thread.join, _JOINING_TIMEOUT)

    # -- in the threads ------------------------------------------------------------------------------------------------

    def _run(self, running: _Running) -> None:
        assignment = running.assignment
        outcome: Outcome
        if running.is_stop_asked:
            outcome = Stopped()
        else:
            try:
                outcome = self._called(running)
            except BaseException as error:  # noqa: BLE001 - an attempt ends here
                outcome = raised(error, running)
        with self._lock:  # so that kill cannot count it as given up at the same moment
            is_ours = self._in_flight.pop(assignment.key, None) is not None
        if is_ours:
            self._say(Ended(assignment.key, outcome))
        else:
            self._came_back(assignment, outcome)

    def _called(self, running: _Running) -> Outcome:
        assignment = running.assignment
        try:
            function = self._registry.find(read_python(assignment.run, "thread", self._registry).name)
            check_place(function.name, "thread", is_coroutine=function.is_coroutine)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            return could_not_begin(error)
        if function.takes_context:
            context = ExecutionContext(assignment.key, assignment.facts, running, self._transactions)
            return returned(function.call(context), assignment.facts)
        return returned(function.call(), assignment.facts)

    def _has_more(self, thread: _Thread, running: _Running) -> bool:
        """Whether the thread stays: with the next in line, or idle. One that was given up goes."""
        with self._lock:
            if running.is_given_up:
                self._given_up -= 1
                return False
            if self._line:
                following = self._line.popleft()
                following.thread = thread
                thread.inbox.put(following)
                return True
            self._busy -= 1
            if self._is_closed or len(self._idle) >= _IDLE_MAX:
                return False
            self._idle.append(thread)
            return True
