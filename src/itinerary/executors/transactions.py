"""A task's own transaction (D6), wherever the task runs.

A store belongs to the node's loop. A task runs on another loop, or in a thread. The transaction therefore stays in one
coroutine on the node's loop. The task sends its statements there, and receives the answers:

    the task (its loop or thread)                       the node's loop
    async with ctx.transaction() as tx     ──────►      async with store.transaction(…) as transaction:
        await tx.execute(…)                ──────►          await transaction.execute(…)
    end of the body                        ──────►      commit, with the success of the attempt; or nothing

If both are the same loop, the task uses the transaction directly. A plain function in a thread uses `with` without
`await`.

An abandoned attempt cannot commit. Its transaction is rolled back at its end, and new ones are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from enum import Enum, auto
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from itinerary.errors import TransactionError
from itinerary.executors.cancellation import CancelFlags
from itinerary.model.attempts import AttemptKey
from itinerary.ports import TaskTransaction

__all__ = ["BlockingTransaction", "TransactionFactory", "TransactionScope", "Transactions"]

TransactionFactory: TypeAlias = Callable[[AttemptKey, float], AbstractAsyncContextManager[TaskTransaction]]
"""A function from an attempt and a time limit in seconds to its transaction, for use on the node's loop."""


class Transactions:
    """The source of transactions for the tasks of one executor. Create it on the node's loop."""

    def __init__(self, factory: TransactionFactory) -> None:
        self._factory = factory
        self._loop = asyncio.get_running_loop()

    def scope(self, key: AttemptKey, timeout: float, flags: CancelFlags) -> TransactionScope:
        """Return a transaction for an attempt, which the task has to enter."""
        return TransactionScope(lambda: self._factory(key, timeout), self._loop, flags)


class TransactionScope:
    """The result of `ctx.transaction()`: for `async with` in a coroutine, and for `with` in a thread."""

    def __init__(
        self,
        make: Callable[[], AbstractAsyncContextManager[TaskTransaction]],
        loop: asyncio.AbstractEventLoop,
        flags: CancelFlags,
    ) -> None:
        self._make = make
        self._loop = loop
        self._flags = flags
        self._here: AbstractAsyncContextManager[TaskTransaction] | None = None
        self._elsewhere: _Elsewhere | None = None

    async def __aenter__(self) -> TaskTransaction:
        self._refuse_if_given_up()
        if asyncio.get_running_loop() is self._loop:
            self._here = self._make()
            return await self._here.__aenter__()
        self._elsewhere = _Elsewhere(self._make, self._loop)
        await asyncio.wrap_future(self._elsewhere.entered)
        return _Awaited(self._elsewhere)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        if error is None and self._flags.is_given_up:
            error = _given_up()
            kind = type(error)
        if self._here is not None:
            caught = await self._here.__aexit__(kind, error, at)
            if isinstance(error, TransactionError) and at is None:
                raise error
            return caught
        assert self._elsewhere is not None, "left before it was entered"
        await asyncio.wrap_future(self._elsewhere.finish(commits=error is None))
        if isinstance(error, TransactionError) and at is None:
            raise error
        return None

    def __enter__(self) -> BlockingTransaction:
        self._refuse_if_given_up()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise TransactionError("a coroutine opens its transaction with async with; plain with would block its loop")
        self._elsewhere = _Elsewhere(self._make, self._loop)
        self._elsewhere.entered.result()
        return BlockingTransaction(self._elsewhere)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._elsewhere is not None, "left before it was entered"
        is_given_up = error is None and self._flags.is_given_up
        self._elsewhere.finish(commits=error is None and not is_given_up).result()
        if is_given_up:
            raise _given_up()

    def _refuse_if_given_up(self) -> None:
        if self._flags.is_given_up:
            raise _given_up()


class BlockingTransaction:
    """A transaction for a plain function: the calls of `TaskTransaction`, but blocking."""

    def __init__(self, transaction: _Elsewhere) -> None:
        self._transaction = transaction

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement that writes.

        Returns:
            The number of affected rows, or -1 from a store that writes at the end.
        """
        count: int = self._transaction.ask("execute", statement, parameters).result()
        return count

    def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement that reads, and return its rows."""
        rows: list[tuple[Any, ...]] = self._transaction.ask("fetch", statement, parameters).result()
        return rows


class _Awaited:
    """A transaction for a coroutine on another loop than the node's."""

    def __init__(self, transaction: _Elsewhere) -> None:
        self._transaction = transaction

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        count: int = await asyncio.wrap_future(self._transaction.ask("execute", statement, parameters))
        return count

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await asyncio.wrap_future(self._transaction.ask("fetch", statement, parameters))
        return rows


class _Undone(Exception):
    """The exception that rolls back the transaction of a body that raised."""


class _End(Enum):
    """How the body of a transaction ended."""

    COMMIT = auto()
    UNDO = auto()


class _Request(NamedTuple):
    call: Literal["execute", "fetch"]
    statement: str
    parameters: Sequence[Any]
    answer: Future[Any]


class _Elsewhere:
    """A transaction in a coroutine on the node's loop, for callers on other loops and threads."""

    def __init__(
        self, make: Callable[[], AbstractAsyncContextManager[TaskTransaction]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._make = make
        self._loop = loop
        self._requests: asyncio.Queue[_Request | _End] = asyncio.Queue()
        self._open: list[Future[Any]] = []
        self.entered: Future[None] = Future()
        self._done = asyncio.run_coroutine_threadsafe(self._serve(), loop)
        self._done.add_done_callback(self._settle)

    def ask(self, call: Literal["execute", "fetch"], statement: str, parameters: Sequence[Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        self._open.append(answer)
        self._put(_Request(call, statement, parameters, answer))
        return answer

    def finish(self, *, commits: bool) -> Future[None]:
        self._put(_End.COMMIT if commits else _End.UNDO)
        return self._done

    def _put(self, request: _Request | _End) -> None:
        if self._done.done():  # for example, after its timeout: the caller gets the reason
            self._settle(self._done)
        else:
            self._loop.call_soon_threadsafe(self._requests.put_nowait, request)

    async def _serve(self) -> None:
        with suppress(_Undone):
            async with self._make() as transaction:
                self.entered.set_result(None)
                while not isinstance(request := await self._requests.get(), _End):
                    await self._answer(transaction, request)
                if request is _End.UNDO:
                    raise _Undone

    async def _answer(self, transaction: TaskTransaction, request: _Request) -> None:
        if not request.answer.set_running_or_notify_cancel():
            return  # the caller was cancelled
        try:
            answer = await getattr(transaction, request.call)(request.statement, request.parameters)
        except Exception as error:  # noqa: BLE001 - raised in the task, which made the call
            request.answer.set_exception(error)
        else:
            request.answer.set_result(answer)

    def _settle(self, done: Future[None]) -> None:
        """End all open calls with the result of the transaction, so that no caller waits without limit."""
        error = CancelledError() if done.cancelled() else done.exception() or TransactionError(_OVER)
        for future in [self.entered, *self._open]:
            if not future.done():
                future.set_exception(error)


_OVER: Final = "this transaction is over; a statement has to come before the end of its body"


def _given_up() -> TransactionError:
    return TransactionError("this attempt was given up, and nothing that it still does counts: it is not committed")
