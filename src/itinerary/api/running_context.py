"""`app.running()`: a node for as long as a block lasts.

    async with app.running() as node:        the program's coroutines run on the current loop
    with app.running() as node:              a plain program: they run on a worker loop

An error of the start is raised where the block begins. Leaving the block, also by an error, shuts the node down
gracefully; cancelling the wait for that ends the node at once. If the node could not continue, the end of the block
raises its error. If the block failed for that reason, the error of the node is a note on the error of the block.

The shutdown has one deadline: `shutdown_grace_period` + `kill_grace` + 5 s. A node that has not ended by then is left
behind in its daemon thread, and NodeError says what still runs. The program owns the signals, and may need to handle
them during the wait. So the main thread waits in short steps (see `signal_safe_wait`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final

from itinerary.api.running_node import RunningNode
from itinerary.errors import NodeError
from itinerary.node.thread import NodeThread
from itinerary.schedules.durations import SECOND, format_duration
from itinerary.signal_safe_wait import result_of, wait_for

__all__ = ["RunningContext"]

_JOIN_TIMEOUT: Final = 10.0
"""How long the node thread may take to exit after the node has ended, in seconds."""
_LEFT_TIMEOUT: Final = 1.0
"""How long the node thread may take if the node has not ended in time, in seconds."""


class RunningContext:
    """The result of `app.running()`: a node for as long as the block lasts."""

    def __init__(
        self,
        begin: Callable[[asyncio.AbstractEventLoop | None], NodeThread],
        over: Callable[[], None],
        node: RunningNode,
    ) -> None:
        self._begin, self._over, self._node = begin, over, node
        self._engine: NodeThread | None = None

    # -- in a coroutine ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> RunningNode:
        engine = self._engine = self._begin(asyncio.get_running_loop())
        try:
            await asyncio.wrap_future(engine.ready)
        except BaseException:
            engine.abandon()
            await asyncio.to_thread(engine.join, _JOIN_TIMEOUT)
            self._over()
            raise
        return self._node

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        engine = self._started()
        engine.shut_down("the program leaves the block that it ran in")
        has_ended, loop = asyncio.Event(), asyncio.get_running_loop()
        overdue: NodeError | None = None
        engine.ended.add_done_callback(lambda _: loop.call_soon_threadsafe(has_ended.set))
        try:
            async with asyncio.timeout(engine.shutdown_timeout / SECOND):
                await has_ended.wait()
        except TimeoutError:
            overdue = _overdue(engine)
            engine.abandon()
        except asyncio.CancelledError:
            engine.abandon()  # cancelling the wait for a graceful end ends the node at once
            raise
        finally:
            await asyncio.to_thread(engine.join, _JOIN_TIMEOUT if overdue is None else _LEFT_TIMEOUT)
            self._over()
        if overdue is not None:
            raise overdue from error
        _check(engine, error)

    def _started(self) -> NodeThread:
        assert self._engine is not None, "a block is left after it was entered"
        return self._engine

    # -- in a plain program --------------------------------------------------------------------------------------------

    def __enter__(self) -> RunningNode:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise NodeError("a coroutine runs a node with async with; plain with would block its loop")
        engine = self._engine = self._begin(None)
        try:
            result_of(engine.ready)
        except BaseException:
            engine.abandon()
            engine.join(_JOIN_TIMEOUT)
            self._over()
            raise
        return self._node

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        engine = self._started()
        engine.shut_down("the program leaves the block that it ran in")
        overdue: NodeError | None = None
        try:
            if not wait_for(engine.ended, engine.shutdown_timeout / SECOND):
                overdue = _overdue(engine)
                engine.abandon()
        except BaseException:
            engine.abandon()
            raise
        finally:
            engine.join(_JOIN_TIMEOUT if overdue is None else _LEFT_TIMEOUT)
            self._over()
        if overdue is not None:
            raise overdue from error
        _check(engine, error)


def _overdue(engine: NodeThread) -> NodeError:
    """Return the error of a shutdown that exceeded its deadline."""
    limit = format_duration(engine.shutdown_timeout)
    return NodeError(
        f"the node has not ended within {limit} (shutdown_grace_period + kill_grace + 5 s), and is left behind; "
        f"still running: {'; '.join(engine.still_running())}"
    )


def _check(engine: NodeThread, error: BaseException | None) -> None:
    """Raise the error of a node that could not continue, or add it as a note to the error of the block."""
    failure = engine.failure()
    if failure is not None and error is None:
        raise failure
    if failure is not None and error is not None:
        error.add_note(str(failure))
