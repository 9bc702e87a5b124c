"""One thread that writes: what waits together is committed together.

A commit costs a wait for the disk, whatever is in it. So a store with one writer has a thread that takes all work that
waits, runs it in one transaction, commits once, and only then answers:

    callers ──► queue ──► begin · savepoint, work, release · savepoint, work, undo · … · commit ──► answers

**One stands or falls alone.** Work that raises is undone back to its savepoint, and its caller gets the error; the
others are committed. **A transaction that is lost as a whole** (a full disk, a commit that fails) is rolled back and
the session is asked to repair what was wrong: it can, and the same work runs again, or it cannot, and the group is
halved until only those are told who are the reason (protocol rule 12). Work may therefore run more than once, as
`Transaction` says.

**Nobody waits for ever.** A caller that is cancelled leaves; its work is skipped if it has not begun, and its answer is
dropped if it has. Should the thread itself end by anything but `close`, all who wait, and all who come later, are told.
A thread that is stuck in a call to the system cannot be stopped: when it has answered nothing for `answer_timeout`, its
callers get StoreUnavailable, and the work that has not begun is skipped. The deadline counts from the last answer, so
that a long queue which moves is waited for. `close` waits for a few seconds, and leaves a stuck thread behind.

**What can be put off is done in quiet**: when nothing has been asked for a moment, the session may do what would
otherwise come in the middle of somebody's commit.

Callers may be on any event loop. A group's answers are handed to each loop in one call: waking a loop is a system call.
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

__all__ = ["GROUP_MAX", "Session", "Writer"]

GROUP_MAX: Final = 1_000
"""Pieces of work in one transaction."""
_GROUP_FOR: Final = 0.1
"""Seconds after which a transaction takes on no further work, so that the first in it is not kept waiting."""
_WAITING_MAX: Final = 100_000
"""Pieces of work that may wait; who asks for more is told that the store is busy."""
_QUIET: Final = 0.1
"""Seconds without work, after some, that are taken for a pause."""
_REPAIRS_MAX: Final = 64
"""Repairs of one group: a session that repairs without end has a fault of its own."""


class Session(Protocol):
    """What a store with one writer does in the writer's thread, and only there."""

    def begin(self) -> None:
        """Begin a transaction. If this raises, the whole group is told so, without asking `repair`."""

    def savepoint(self) -> Transaction:
        """Mark a place to go back to, and return what the next work is run with."""

    def release(self) -> None:
        """The work since the savepoint stands, with the rest of the transaction."""

    def undo(self, error: Exception) -> None:
        """The work raised this: go back to the savepoint, or raise it on, if the whole transaction is lost to it."""

    def commit(self) -> None:
        """Make all of it durable."""

    def rollback(self) -> None:
        """End the transaction, or what is left of it, without a trace. Must not raise, however far it had come."""

    def repair(self, error: Exception) -> Exception | None:
        """A transaction was lost to this error, and rolled back. None: try again; else what the callers are told."""

    def rest(self) -> None:
        """Nothing has been asked for a moment: do what is better done now. Must not raise."""

    def close(self) -> None:
        """Let go of everything."""


class _Asked:
    """A piece of work, and who waits for it."""

    __slots__ = ("future", "loop", "timer", "work")

    timer: asyncio.TimerHandle

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class _Answer:
    """What came of it."""

    __slots__ = ("asked", "error", "value")

    def __init__(self, asked: _Asked, value: Any = None, error: BaseException | None = None) -> None:
        self.asked = asked
        self.value = value
        self.error = error


class Writer:
    """The thread, and its queue. `connect` is called in the thread, since some sessions may not leave it."""

    def __init__(
        self,
        title: str,
        connect: Callable[[], Session],
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
        """Why nothing can be asked, if so. Changed and looked at under the lock, so that nothing is queued too late."""
        self._thread = threading.Thread(target=self._live, name=f"{title} writer", daemon=True)
        self._started: _Asked | None = None
        self._ended: Future[None] = Future()
        self._answered_at = time.monotonic()

    async def start(self) -> None:
        """Start the thread, once. Raises what `connect` raises, or StoreUnavailable if it does not answer."""
        asked = self._started = _Asked(_nothing, asyncio.get_running_loop())
        with self._lock:
            self._refusal = None
        self._thread.start()
        try:
            await self._answer(asked)
        except BaseException:
            self._stop()  # no caller closes what could not be opened
            raise

    async def run(self, work: Work[T]) -> T:
        """Run this durably, and return its answer."""
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
        """Give the thread so much time for what it does now, in place of the usual."""
        self._answered_at = time.monotonic() + max(0.0, seconds - self._answer_timeout)

    async def _answer(self, asked: _Asked) -> Any:
        asked.timer = asked.loop.call_later(self._answer_timeout, self._give_up, asked, time.monotonic())
        try:
            return await asked.future
        finally:
            asked.timer.cancel()

    def _give_up(self, asked: _Asked, asked_at: float) -> None:
        """Tell a caller that its deadline has passed, unless the thread has answered others meanwhile."""
        left = max(asked_at, self._answered_at) + self._answer_timeout - time.monotonic()
        if left > 0:
            asked.timer = asked.loop.call_later(left, self._give_up, asked, asked_at)
        elif not asked.future.done():
            asked.future.set_exception(unanswered(self._title, self._answer_timeout))

    async def close(self) -> bool:
        """Do all that was asked, then end the thread. False: the thread did not end in time, and was left behind."""
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
            _tell([_Answer(self._started, error=error)])
            return
        try:
            _tell([_Answer(self._started)])
            while taken := self._take(session):
                self._run(session, taken)
                self._answered_at = time.monotonic()
            session.close()
        except BaseException as error:  # noqa: BLE001 - the thread ends here, and those who wait must hear of it
            self._end(taken, error)

    def _end(self, taken: list[_Asked], error: BaseException) -> None:
        """Nobody will answer any more: say so to those whose work was taken, those in the queue, and all who come."""
        with self._lock:
            self._refusal = f"cannot be written to any more, its writer has ended: {error!r}; open it again"
        while not self._queue.empty():  # nothing is added any more, and nobody else takes from it
            if (asked := self._queue.get_nowait()) is not None:
                taken.append(asked)
        if isinstance(error, StoreError):
            _tell([_Answer(asked, error=error) for asked in taken])
            return
        for asked in taken:
            failure = StoreUnavailable(f"{self._title} {self._refusal}")
            failure.__cause__ = error
            _tell([_Answer(asked, error=failure)])

    def _take(self, session: Session) -> list[_Asked]:
        """Wait for work, and take what there is of it. Nothing: it is closed, and all is done."""
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
            self._queue.put(None)  # the end was seen too early; nothing can have come after it
        return taken

    def _run(self, session: Session, taken: list[_Asked]) -> None:
        while taken:
            answers = self._together(session, taken)
            if answers:
                _tell(answers)
                taken = taken[len(answers) :]
            else:
                middle = len(taken) // 2
                self._run(session, taken[:middle])
                taken = taken[middle:]

    def _together(self, session: Session, taken: list[_Asked]) -> list[_Answer]:
        """The answers of one transaction, for as many as were in it; none if it was lost, and has to be halved."""
        for _ in range(_REPAIRS_MAX):
            try:
                session.begin()
            except Exception as error:  # noqa: BLE001 - it becomes the outcome of all that was asked
                session.rollback()
                return [_Answer(asked, error=error) for asked in taken]
            try:
                answers = _work_through(session, taken)
                session.commit()
            except Exception as error:  # noqa: BLE001 - the session says what it means
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
    """The work of starting."""


def _work_through(session: Session, taken: list[_Asked]) -> list[_Answer]:
    """Run them one after the other, as far as the time goes. Raises only if the transaction is lost."""
    answers: list[_Answer] = []
    until = time.monotonic() + _GROUP_FOR
    for asked in taken:
        if asked.future.done():  # cancelled, or its deadline has passed
            answers.append(_Answer(asked))
            continue
        tx = session.savepoint()
        try:
            value = asked.work(tx)
        except Exception as error:  # noqa: BLE001 - it becomes the outcome of this work
            session.undo(error)
            answers.append(_Answer(asked, error=error))
        else:
            session.release()
            answers.append(_Answer(asked, value))
        if time.monotonic() > until:
            break
    return answers


def _tell(answers: list[_Answer]) -> None:
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        by_loop[answer.asked.loop].append(answer)
    for loop, of_loop in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_settle, of_loop)


def _settle(answers: list[_Answer]) -> None:
    for answer in answers:
        future = answer.asked.future
        if future.done():
            continue  # its caller was cancelled
        if isinstance(answer.error, StopIteration):
            future.set_exception(RuntimeError("the work raised StopIteration, which a future cannot carry"))
        elif answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.value)
