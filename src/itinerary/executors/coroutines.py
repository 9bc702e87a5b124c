"""Coroutine functions, on an event loop that is not the node's loop.

    node's loop                                          worker loop
    begin(ten thousand)  ── one call_soon_threadsafe ──► ten thousand coroutines, in few tasks (`coroutine_batching`)
    report(batch)        ◄── once for all that ended in a turn of the loop

The worker loop is the loop of the embedding program, if given, or a loop in its own thread. A coroutine that does not
await blocks that loop and all coroutines on it, but not the node. Other executors start on time, `blocked_for` names
the task, and `kill` abandons it at once on the node's side, even if the loop never answers again.

If the given loop is the node's own loop, everything happens there, in the order of calls and without threads. The
simulator and tests with a clock use this.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import structlog

from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.context import arguments_of
from itinerary.executors.coroutine_batching import CoroutineBatch
from itinerary.executors.definitions import check_place, read_python
from itinerary.executors.loop_thread import LoopThread
from itinerary.executors.outcomes import could_not_begin, raised, returned
from itinerary.executors.registry import Registry
from itinerary.executors.task_function import Function
from itinerary.executors.transactions import TransactionFactory, Transactions
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Outcome, Report, Stopped
from itinerary.ports import Clock

__all__ = ["BlockedLoop", "CoroutineExecutor"]

_BATCH_MAX: Final = 1_000
"""More ends than this are reported at once, before the turn of the loop ends."""
_CLOSING_TIMEOUT: Final = 1.0
"""Seconds that cancelled coroutines have to end when the executor closes."""

_log: Final = structlog.stdlib.get_logger()


class BlockedLoop(NamedTuple):
    """The time for which a worker loop has not answered, in microseconds, and what it runs."""

    blocked_for: int
    what: str | None


_FREE: Final = BlockedLoop(0, None)


class _Running(InFlight):
    """An attempt. Its task is set while it runs on the worker loop."""

    __slots__ = ("task",)

    def __init__(self, assignment: Assignment) -> None:
        # Repeats the base class instead of calling it, for speed: ten thousand of these are created at once.
        self.is_stop_asked = self.is_given_up = self.was_called = False
        self.assignment = assignment
        self.task: asyncio.Task[None] | None = None


class CoroutineExecutor(BaseExecutor[_Running]):
    """The executor of coroutine functions, on `loop` or on a loop in its own thread."""

    def __init__(
        self,
        registry: Registry,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        transaction: TransactionFactory | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._registry = registry
        self._given_loop = loop
        self._factory = transaction
        self._clock = clock
        self._thread: LoopThread | None = None
        self._transactions: Transactions | None = None
        self._reports: deque[Report] = deque()
        self._will_hand_over = False
        self._given_up: dict[AttemptKey, _Running] = {}
        self._asked_at: int | None = None
        self._is_engine_loop = False

    async def _prepare(self) -> None:
        engine_loop = asyncio.get_running_loop()
        if self._factory is not None:
            self._transactions = Transactions(self._factory)
        if self._given_loop is None:
            self._thread = LoopThread("itinerary-coroutines")
            self._loop = await self._thread.start()
        else:
            self._loop = self._given_loop
        self._relay = CoroutineBatch(self._loop, self._run)
        self._is_engine_loop = self._loop is engine_loop
        self._post = self._loop.call_soon if self._is_engine_loop else self._loop.call_soon_threadsafe

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the coroutines, once the executor is open."""
        return self._loop

    # -- on the node's loop --------------------------------------------------------------------------------------------

    def begin(self, assignments: Sequence[Assignment]) -> None:
        if self._is_closed or self._report is None:
            super().begin(assignments)
            return
        batch, in_flight = [], self._in_flight
        for assignment in assignments:
            assert assignment.key not in in_flight, "an attempt is begun once"
            in_flight[assignment.key] = running = _Running(assignment)
            batch.append(running)
        try:
            self._post(self._launch_all, batch)
        except RuntimeError as error:  # the embedding program has closed its loop
            for assignment in assignments:
                self._end(assignment.key, could_not_begin(error))

    def _accept(self, assignment: Assignment) -> _Running:
        return _Running(assignment)

    def _launch(self, attempt: _Running) -> None:
        self._post(self._launch_all, (attempt,))

    def _stop(self, attempt: _Running) -> None:
        if not attempt.is_stop_asked:
            attempt.is_stop_asked = True
            if attempt.was_called:
                self._notify(self._cancel, attempt)
            else:  # it never will be, even if the worker loop does not answer
                self._end(attempt.key, Stopped(was_called=False))

    def _kill(self, attempt: _Running) -> None:
        key = attempt.key
        attempt.is_stop_asked = True
        attempt.is_given_up = True
        self._given_up[key] = attempt  # keeps a reference, because asyncio may collect a task without one
        if self._end(key, Stopped(abandoned=True, was_called=attempt.was_called)):
            self._notify(self._cancel, attempt)
        else:
            self._given_up.pop(key, None)
        self._hand_over()  # reports attempts that ended just before the loop was blocked

    def blocked_for(self) -> BlockedLoop:
        """Return how long the worker loop has not answered, and what it runs. Call this regularly on the node's loop.

        Every call sends a ping to the loop, unless one is still unanswered.
        """
        self._hand_over()
        if self._is_closed or self._is_engine_loop or not (self._in_flight or self._given_up):
            self._asked_at = None
            return _FREE
        now = self._elapsed()
        if self._asked_at is None:
            self._asked_at = now
            self._notify(self._pong)
            return _FREE
        return BlockedLoop(now - self._asked_at, self._busy_with())

    @property
    def given_up(self) -> int:
        """The number of abandoned coroutines that still run."""
        return len(self._given_up)

    def _busy_with(self) -> str | None:
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        for running in [*self._in_flight.values(), *self._given_up.values()]:
            if running.task is task:
                facts = running.assignment.facts
                return f"{facts.job}/{facts.task}, attempt {facts.attempt}"
        return f"{getattr(task.get_coro(), '__qualname__', 'a coroutine')}, which no task of ours runs directly"

    def _elapsed(self) -> int:
        return time.monotonic_ns() // 1_000 if self._clock is None else self._clock.elapsed()

    async def _shut_down(self) -> None:
        running = list(self._in_flight.values())
        for one in running:
            one.is_stop_asked = True
        if self._is_engine_loop:
            await self._cancel_all(running)
        elif running and not self._loop.is_closed():
            ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._cancel_all(running), self._loop))
            await asyncio.wait([ended], timeout=2 * _CLOSING_TIMEOUT)
        self._hand_over()
        for key, one in list(self._in_flight.items()):
            one.is_given_up = True
            self._given_up[key] = one
            self._end(key, Stopped(abandoned=True))
        if self._thread is not None and not await self._thread.stop(_CLOSING_TIMEOUT):
            _log.error("worker_loop.left_behind", busy_with=self._busy_with())

    def _notify(self, what: Callable[..., None], *arguments: Any) -> None:
        try:
            self._post(what, *arguments)
        except RuntimeError:
            _log.warning("worker_loop.closed", note="nothing more can be told to its tasks")

    # -- on the worker loop --------------------------------------------------------------------------------------------

    def _launch_all(self, batch: Sequence[_Running]) -> None:
        self._relay.add(batch)

    async def _run(self, running: _Running) -> None:
        if running.is_given_up:
            self._given_up.pop(running.assignment.key, None)
            return
        outcome: Outcome
        running.was_called = True
        if running.is_stop_asked:
            self._end(running.assignment.key, Stopped(was_called=False))
            return
        assignment = running.assignment
        try:
            function = self._function(assignment)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            outcome = could_not_begin(error)
        else:
            try:
                arguments = arguments_of(function, assignment, running, self._transactions)
                outcome = returned(await function.call(*arguments), assignment.facts)
            except BaseException as error:  # noqa: BLE001 - an attempt ends here, and never the loop
                outcome = raised(error, running)
        self._ended(running, outcome)

    def _function(self, assignment: Assignment) -> Function:
        name = assignment.run.get("python")
        function = self._registry.known(name) if len(assignment.run) == 1 and isinstance(name, str) else None
        if function is None:
            function = self._registry.find(read_python(assignment.run, "async", self._registry).name)
        if not function.is_coroutine:
            check_place(function.name, "async", is_coroutine=False)
        return function

    def _ended(self, running: _Running, outcome: Outcome) -> None:
        key = running.assignment.key
        if self._in_flight.pop(key, None) is None:
            self._given_up.pop(key, None)
            self._came_back(running.assignment, outcome)
            return
        self._reports.append(Ended(key, outcome))
        if len(self._reports) >= _BATCH_MAX:
            self._hand_over()
        elif not self._will_hand_over:
            self._will_hand_over = True
            self._loop.call_soon(self._hand_over_in_turn)

    def _hand_over_in_turn(self) -> None:
        self._will_hand_over = False
        self._hand_over()

    def _hand_over(self) -> None:
        """Report ended attempts. Both sides may do this at the same time, because an item leaves a deque only once."""
        reports, waiting = [], self._reports
        try:
            while waiting:
                reports.append(waiting.popleft())
        except IndexError:
            pass  # the other side was faster
        if reports:
            self._say(*reports)

    def _cancel(self, running: _Running) -> None:
        if running.task is not None:  # otherwise it sees the request itself when it begins
            running.task.cancel()

    async def _cancel_all(self, running: Sequence[_Running]) -> None:
        for one in running:
            self._cancel(one)
        for one in self._relay.take_back():
            self._end(one.assignment.key, Stopped(was_called=False))
        if tasks := [one.task for one in running if one.task is not None]:
            await asyncio.wait(tasks, timeout=_CLOSING_TIMEOUT)

    def _pong(self) -> None:
        self._asked_at = None
