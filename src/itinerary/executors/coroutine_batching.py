"""Coroutines one after another in one task of asyncio, as long as none of them waits for anything.

A task costs several times as much as a coroutine that has little to do, and of ten thousand that are due in the same
second most have. So a runner, which is a task, calls one after another. One that returns before it has waited needed
no task of its own. The first that waits keeps the runner, which is its own from then on and ends with it, and those
behind it get another.

    runner 1   a  b  c ……waits……………… ends
    runner 2           d  e  f ……waits………
    runner 3                    g  h

Nobody can tell the difference. What a coroutine could leave behind for the next one is a context variable that it has
set, or a wish that the task be cancelled: then too the next gets a runner of its own. And a runner takes so many and no
more, so that whatever else is on the loop has its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, copy_context
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ["Relay", "Runs"]

TURN_MAX: Final = 1_000
"""The most that one runner calls."""


class Runs(Protocol):
    """What is run: it knows its task while it does."""

    task: asyncio.Task[None] | None


R = TypeVar("R", bound=Runs)


class Relay(Generic[R]):
    """Runs what it is given, and begins in this order. All calls are made on `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[R], Coroutine[Any, Any, None]]) -> None:
        """`run` must not raise."""
        self._loop, self._run = loop, run
        self._waiting: deque[R] = deque()
        self._runner: asyncio.Task[None] | None = None
        """Who takes the next one."""

    def add(self, batch: Iterable[R]) -> None:
        """Run these, soon."""
        self._waiting.extend(batch)
        self._hand_on()

    def take_back(self) -> list[R]:
        """Those that have not been begun, and will not be."""
        waiting, self._waiting = list(self._waiting), deque()
        return waiting

    def _hand_on(self) -> None:
        if self._waiting and self._runner is None:
            # A context of its own: what the engine has set is not for it.
            self._runner = self._loop.create_task(self._call_each(), context=Context())
            self._runner.add_done_callback(self._replace)

    def _replace(self, runner: asyncio.Task[None]) -> None:
        """Somebody may have cancelled all tasks of the loop, and this one before it had begun."""
        if self._runner is runner:
            self._runner = None
            self._hand_on()

    def _keep(self) -> None:
        """The one that the runner calls waits: so the runner is its own, and others are another's."""
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
    """Awaits a coroutine that has begun, and waits for something."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._coroutine, self._awaited = coroutine, awaited

    def __await__(self) -> Generator[Any, None, None]:
        coroutine, awaited = self._coroutine, self._awaited
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine
                try:
                    awaited = coroutine.throw(error)
                except StopIteration:
                    return
            else:
                break
        yield from coroutine.__await__()
