"""`async for ctx in handle`: the occurrences that this node runs, one after the other (S11).

    ticks = app.job("ticks", every("1s"))        a job without tasks of its own
    async for ctx in ticks:                      the body of the loop is the task
        ...

Such a job has one task, `loop`, and every turn of the user's loop gets one attempt of it. The attempt runs from the
moment when the loop takes it, and **has succeeded when the loop asks for the next one**. A loop may end in the middle
of an attempt, by `break`, `return` or an exception. The attempt then fails: the three cases look the same from here,
and unfinished work must not count as done. An attempt without a loop waits, and times out after `task_timeout` like any
task. An attempt that the loop holds for too long times out as well.

The loop has to run on the event loop of the program's coroutines, inside `async with app.running()`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from itinerary.errors import ItineraryError, NodeError
from itinerary.executors import ExecutionContext

__all__ = ["ITERATED", "Channels", "LoopLeft"]

ITERATED: Final = "itinerary.executors.async_iteration:iterated"
"""The task name in the definitions of such jobs."""


class LoopLeft(ItineraryError):
    """The error when a loop over a job's occurrences ends in the middle of one."""


class _Offer(msgspec.Struct, eq=False):
    """An attempt that waits for a loop, or that a loop is working on."""

    context: ExecutionContext
    over: asyncio.Future[None]
    is_taken: bool = False


class Channels:
    """The attempts that wait for the loops over their jobs."""

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Start without attempts: a new node does not use those of an earlier one."""
        self._offers: dict[str, deque[_Offer]] = {}
        self._bells: dict[str, asyncio.Event] = {}
        self._is_closed = False

    def close(self) -> None:
        """End the loops that wait for more attempts. Call this on their event loop, when the node has ended."""
        self._is_closed = True
        for bell in self._bells.values():
            bell.set()

    async def iterated(self, ctx: ExecutionContext) -> None:
        """Run the task of a job without tasks: wait until a loop has taken the attempt and finished it."""
        offer = _Offer(ctx, asyncio.get_running_loop().create_future())
        line = self._offers.setdefault(ctx.job, deque())
        line.append(offer)
        self._bell(ctx.job).set()
        try:
            await offer.over
        finally:
            if offer in line:
                line.remove(offer)

    async def iterate(self, job: str) -> AsyncIterator[ExecutionContext]:
        """Yield the contexts of a job's attempts until the node ends."""
        while (offer := await self._next(job)) is not None:
            offer.is_taken = True
            try:
                yield offer.context
            except GeneratorExit:
                if not offer.over.done():
                    offer.over.set_exception(LoopLeft(f"the loop over job {job!r} was left in the middle of this run"))
                raise
            if not offer.over.done():
                offer.over.set_result(None)

    async def _next(self, job: str) -> _Offer | None:
        bell = self._bell(job)
        while not self._is_closed:
            for offer in self._offers.get(job, ()):
                if not offer.is_taken and not offer.over.done():
                    if offer.over.get_loop() is not asyncio.get_running_loop():
                        raise NodeError(
                            f"job {job!r} is iterated on another event loop than the one its coroutines run on; "
                            "iterate inside async with app.running()"
                        )
                    return offer
            bell.clear()
            await bell.wait()
        return None

    def _bell(self, job: str) -> asyncio.Event:
        return self._bells.setdefault(job, asyncio.Event())
