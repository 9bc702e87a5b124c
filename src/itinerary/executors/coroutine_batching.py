"""A batch of coroutines in one asyncio task, as long as none of them waits.

A task costs several times as much as a short coroutine, and most of ten thousand simultaneous coroutines are short. A
runner, which is a task, therefore calls one coroutine after another. A coroutine that returns without waiting needs no
task of its own. The first one that waits keeps the runner until it ends, and the following ones get another runner.

    runner 1   a  b  c ……waits……………… ends
    runner 2           d  e  f ……waits………
    runner 3                    g  h

The coroutines cannot notice the difference. A coroutine could leave two things to the next one: a context variable that
it has set, or a pending cancellation of the task. In both cases the next one gets a new runner. A runner calls a
limited number of coroutines, so that other callbacks of the loop have their turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, copy_context
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ["BatchItem", "CoroutineBatch"]

TURN_MAX: Final = 1_000
"""The most coroutines that one runner calls."""


class BatchItem(Protocol):
    """An item to run. Its `task` is set while it runs."""

    task: asyncio.Task[None] | None


R = TypeVar("R", bound=BatchItem)


class CoroutineBatch(Generic[R]):
    """A queue of coroutines that begin in order. All calls are made on `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[R], Coroutine[Any, Any, None]]) -> None:
        """Create a batch. `run` must not raise."""
        self._loop, self._run = loop, run
        self._waiting: deque[R] = deque()
        self._runner: asyncio.Task[None] | None = None
        """The runner that takes the next item."""

    def add(self, batch: Iterable[R]) -> None:
        """Queue items to run."""
        self._waiting.extend(batch)
        self._hand_on()

    def take_back(self) -> list[R]:
        """Remove and return the items that have not begun."""
        waiting, self._waiting = list(self._waiting), deque()
        return waiting

    def _hand_on(self) -> None:
        if self._waiting and self._runner is None:
            # An empty context: the context variables of the node are not for tasks.
            self._runner = self._loop.create_task(self._call_each(), context=Context())
            self._runner.add_done_callback(self._replace)

    def _replace(self, runner: asyncio.Task[None]) -> None:
        """Replace a runner that was cancelled before it began, for example with all tasks of the loop."""
        if self._runner is runner:
            self._runner = None
            self._hand_on()

    def _keep(self) -> None:
        """Leave the runner to the coroutine that waits, and start another runner for the rest."""
        self._runner = None
        self._hand_on()

    async def _call_each(self) -> None:
        runner = self._runner
        assert runner is not None, "it was made to be the runner"
        for _ in range(TURN_MAX):
            if not self._waiting:
                break
            one = self._waiting.popleft()
            one.task = runner
            coroutine = self._run(one)
            try:
                awaited = coroutine.send(None)
            except StopIteration:
                one.task = None
            else:
                self._keep()
                await _Rest(coroutine, awaited)
                one.task = None
                return
            if runner.cancelling() or len(copy_context()):
                break
        self._runner = None
        self._hand_on()


class _Rest:
    """An awaitable for the rest of a coroutine that has begun and waits."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._coroutine, self._awaited = coroutine, awaited

    def __await__(self) -> Generator[Any, None, None]:
        coroutine, awaited = self._coroutine, self._awaited
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the error is for the coroutine
                try:
                    awaited = coroutine.throw(error)
                except StopIteration:
                    return
            else:
                break
        yield from coroutine.__await__()
