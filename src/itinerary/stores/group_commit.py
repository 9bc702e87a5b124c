"""Group commit: one writer thread that commits all waiting work together.

A commit costs one wait for the disk, whatever its size. So a store with one writer has a thread that takes all waiting
work, runs it in one transaction, commits once, and only then answers:

    callers ──► queue ──► begin · savepoint, work, release · savepoint, work, undo · … · commit ──► answers

**Each piece of work succeeds or fails alone.** If work raises, the writer rolls back to its savepoint, and its caller
gets the error. The rest is committed.

**A lost transaction** (a full disk, a failed commit) is rolled back, and the session tries to repair the cause. After a
repair the same work runs again. Without one the writer halves the group until only the failing work gets the error
(protocol rule 12). So work may run more than once, as `Transaction` says.

**No caller waits without a limit.** The writer skips the work of a cancelled caller if it has not started, and drops
its answer otherwise. If the thread ends by anything but `close`, all current and later callers get an error. A thread
that is stuck in a system call cannot be stopped. If it answers nothing for `answer_timeout`, its callers get
StoreUnavailable, and unstarted work is skipped. The deadline counts from the last answer, so a long queue that moves
does not time out. `close` waits a few seconds, and leaves a stuck thread behind.

**Maintenance waits for idle time.** When no work has arrived for a moment, the session may do maintenance that would
otherwise delay a commit.

Callers may be on any event loop. The writer wakes each loop once per group, because waking a loop is a system call.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from itinerary.errors import StoreBusy, StoreError, StoreUnavailable
from itinerary.stores.engine import ANSWER_TIMEOUT, CLOSE_TIMEOUT, T, Work
from itinerary.stores.threads import thread_ended, unanswered
from itinerary.stores.transaction import Transaction

__all__ = ["GROUP_MAX", "Writer", "WriterSession"]

GROUP_MAX: Final = 1_000
"""The most pieces of work in one transaction."""
_GROUP_FOR: Final = 0.1
"""Seconds after which a transaction accepts no further work, so that its first caller does not wait too long."""
_WAITING_MAX: Final = 100_000
"""The most pieces of work in the queue. Beyond that a caller gets StoreBusy."""
_QUIET: Final = 0.1
"""Seconds without work that count as idle time."""
_REPAIRS_MAX: Final = 64
"""The most repairs of one group. A session that repairs without end has a bug."""


class WriterSession(Protocol):
    """The operations of a single-writer store that run in the writer thread only."""

    def begin(self) -> None:
        """Begin a transaction. If this raises, the whole group gets the error, without a call of `repair`."""

    def savepoint(self) -> Transaction:
        """Set a savepoint, and return the transaction for the next work."""

    def release(self) -> None:
        """Keep the work since the savepoint, as part of the transaction."""

    def undo(self, error: Exception) -> None:
        """Roll back to the savepoint after this error of the work. Raise it again if the whole transaction is lost."""

    def commit(self) -> None:
        """Make the whole transaction durable."""

    def rollback(self) -> None:
        """Roll back the transaction, or the rest of it. Must not raise, in any state."""

    def repair(self, error: Exception) -> Exception | None:
        """Repair the cause of this error, which lost a transaction that is rolled back.

        Returns:
            None to run the group again; otherwise the error for the callers.
        """

    def rest(self) -> None:
        """Do maintenance in idle time. Must not raise."""

    def close(self) -> None:
        """Release all resources."""


class _Asked:
    """A piece of work, and the caller that waits for it."""

    __slots__ = ("future", "loop", "timer", "work")

    timer: asyncio.TimerHandle

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class _Answer:
    """The result or the error of a piece of work."""

    __slots__ = ("asked", "error", "value")

    def __init__(self, asked: _Asked, value: Any = None, error: BaseException | None = None) -> None:
        self.asked = asked
        self.value = value
        self.error = error


class Writer:
    """The writer thread and its queue. The thread calls `connect`, because some sessions must stay in one thread."""

    def __init__(
        self,
        title: str,
        connect: Callable[[], WriterSession],
        *,
        group_max: int = GROUP_MAX,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        self._title = title
        self._answer_timeout = answer_timeout
        self._connect = connect
        self._group_max = group_max
        self._process = os.getpid()
        self._queue: SimpleQueue[_Asked | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._refusal: str | None = "is not open"
        """The reason why the writer accepts no work, or None.

        Read and written under the lock, so nothing is queued too late.
        """
        self._thread = threading.Thread(target=self._live, name=f"{title} writer", daemon=True)
        self._started: _Asked | None = None
        self._ended: Future[None] = Future()
        self._answered_at = time.monotonic()

    async def start(self) -> None:
        """Start the thread, once.

        Raises:
            StoreUnavailable: `connect` does not answer.
            Exception: The error of `connect`.
        """
        asked = self._started = _Asked(_nothing, asyncio.get_running_loop())
        with self._lock:
            self._refusal = None
        self._thread.start()
        try:
            await self._answer(asked)
        except BaseException:
            self._stop()  # no caller closes a store that failed to open
            raise

    async def run(self, work: Work[T]) -> T:
        """Run work durably, and return its answer.

        Raises:
            StoreUnavailable: The store is closed, or the writer does not answer.
            StoreBusy: The queue is full.
        """
        if self._process != os.getpid():
            raise StoreError(f"{self._title} was opened before a fork, by process {self._process}: open it again here")
        asked = _Asked(work, asyncio.get_running_loop())
        with self._lock:
            if self._refusal is not None:
                raise StoreUnavailable(f"{self._title} {self._refusal}")
            if self._queue.qsize() >= _WAITING_MAX:
                raise StoreBusy(f"{self._title} has {_WAITING_MAX} writes waiting: ask again later")
            self._queue.put(asked)
        answer: T = await self._answer(asked)
        return answer

    def allow(self, seconds: float) -> None:
        """Give the current work of the thread this many seconds, instead of `answer_timeout`."""
        self._answered_at = time.monotonic() + max(0.0, seconds - self._answer_timeout)

    async def _answer(self, asked: _Asked) -> Any:
        asked.timer = asked.loop.call_later(self._answer_timeout, self._give_up, asked, time.monotonic())
        try:
            return await asked.future
        finally:
            asked.timer.cancel()

    def _give_up(self, asked: _Asked, asked_at: float) -> None:
        """Fail a caller whose deadline has passed, unless the thread has answered other callers since."""
        left = max(asked_at, self._answered_at) + self._answer_timeout - time.monotonic()
        if left > 0:
            asked.timer = asked.loop.call_later(left, self._give_up, asked, asked_at)
        elif not asked.future.done():
            asked.future.set_exception(unanswered(self._title, self._answer_timeout))

    async def close(self) -> bool:
        """Finish all submitted work, then end the thread. Returns False if the thread did not end in time."""
        if self._process != os.getpid() or self._started is None:
            return True
        self._stop()
        return await thread_ended(self._ended, CLOSE_TIMEOUT)

    def _stop(self) -> None:
        with self._lock:
            if self._refusal is None:
                self._refusal = "is closed"
                self._queue.put(None)

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._work()
        finally:
            self._ended.set_result(None)

    def _work(self) -> None:
        assert self._started is not None
        taken: list[_Asked] = []
        try:
            session = self._connect()
        except BaseException as error:  # noqa: BLE001 - the thread ends here, and `start` raises it
            self._end(taken, error)
            _notify([_Answer(self._started, error=error)])
            return
        try:
            _notify([_Answer(self._started)])
            while taken := self._take(session):
                self._run(session, taken)
                self._answered_at = time.monotonic()
            session.close()
        except BaseException as error:  # noqa: BLE001 - the thread ends here, and waiting callers must get the error
            self._end(taken, error)

    def _end(self, taken: list[_Asked], error: BaseException) -> None:
        """Fail all callers: those of the taken work, those in the queue, and all later ones."""
        with self._lock:
            self._refusal = f"cannot be written to any more, its writer has ended: {error!r}; open it again"
        while not self._queue.empty():  # nothing is added now, and no other thread takes from the queue
            if (asked := self._queue.get_nowait()) is not None:
                taken.append(asked)
        if isinstance(error, StoreError):
            _notify([_Answer(asked, error=error) for asked in taken])
            return
        for asked in taken:
            failure = StoreUnavailable(f"{self._title} {self._refusal}")
            failure.__cause__ = error
            _notify([_Answer(asked, error=failure)])

    def _take(self, session: WriterSession) -> list[_Asked]:
        """Wait for work, and take all of it up to the group limit. An empty list means closed and finished."""
        try:
            asked = self._queue.get(timeout=_QUIET)
        except Empty:
            session.rest()
            asked = self._queue.get()
        taken: list[_Asked] = []
        while asked is not None:
            taken.append(asked)
            if len(taken) == self._group_max:
                return taken
            try:
                asked = self._queue.get_nowait()
            except Empty:
                return taken
        if taken:
            self._queue.put(None)  # the end marker came out too early; nothing can follow it in the queue
        return taken

    def _run(self, session: WriterSession, taken: list[_Asked]) -> None:
        while taken:
            answers = self._together(session, taken)
            if answers:
                _notify(answers)
                taken = taken[len(answers) :]
            else:
                middle = len(taken) // 2
                self._run(session, taken[:middle])
                taken = taken[middle:]

    def _together(self, session: WriterSession, taken: list[_Asked]) -> list[_Answer]:
        """Run one transaction, and return the answers of the work in it. Empty if the group must be halved."""
        for _ in range(_REPAIRS_MAX):
            try:
                session.begin()
            except Exception as error:  # noqa: BLE001 - the error becomes the outcome of the whole group
                session.rollback()
                return [_Answer(asked, error=error) for asked in taken]
            try:
                answers = _work_through(session, taken)
                session.commit()
            except Exception as error:  # noqa: BLE001 - `repair` decides what the error means
                session.rollback()
                failure = session.repair(error)
                if failure is not None:
                    return [_Answer(taken[0], error=failure)] if len(taken) == 1 else []
            except BaseException:
                session.rollback()
                raise
            else:
                return answers
        endless = StoreError(f"{self._title} lost the same transaction {_REPAIRS_MAX} times, and repaired it each time")
        return [_Answer(asked, error=endless) for asked in taken]


def _nothing(tx: Transaction) -> None:
    """Do nothing: the work that proves that the thread has started."""


def _work_through(session: WriterSession, taken: list[_Asked]) -> list[_Answer]:
    """Run the work in order, until the time for a group is used up. Raises only if the transaction is lost."""
    answers: list[_Answer] = []
    until = time.monotonic() + _GROUP_FOR
    for asked in taken:
        if asked.future.done():  # the caller was cancelled, or its deadline has passed
            answers.append(_Answer(asked))
            continue
        tx = session.savepoint()
        try:
            value = asked.work(tx)
        except Exception as error:  # noqa: BLE001 - the error becomes the outcome of this work
            session.undo(error)
            answers.append(_Answer(asked, error=error))
        else:
            session.release()
            answers.append(_Answer(asked, value))
        if time.monotonic() > until:
            break
    return answers


def _notify(answers: list[_Answer]) -> None:
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        by_loop[answer.asked.loop].append(answer)
    for loop, of_loop in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits there
            loop.call_soon_threadsafe(_settle, of_loop)


def _settle(answers: list[_Answer]) -> None:
    for answer in answers:
        future = answer.asked.future
        if future.done():
            continue  # the caller was cancelled
        if isinstance(answer.error, StopIteration):
            future.set_exception(RuntimeError("the work raised StopIteration, which a future cannot carry"))
        elif answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.value)
