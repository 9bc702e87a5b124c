"""`async for ctx in handle`: the occurrences that this node won, one after the other (S11).

    ticks = app.job("ticks", every("1s"))        a job without tasks of its own

    async for ctx in ticks:                      the body of the loop is the task
        ...

Such a job has one task, `loop`, and one attempt of it is what the loop is given. It runs from the moment the loop takes
it, and **has succeeded when the loop asks for the next one**. A loop that is left while it has one, by `break`, by
`return` or by an exception, fails that attempt: nobody can tell those apart from here, and what was not finished must
not count as done. What is claimed while nobody iterates waits, and is over its time after `task_timeout`, like any
task; so is what a loop sits on for too long.

The loop has to run on the loop that the program's coroutines run on, inside `async with app.running()`.
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
"""The name that definitions of such jobs have for their task."""


class LoopLeft(ItineraryError):
    """The loop over a job's occurrences was left while it had one of them."""


class _Offer(msgspec.Struct, eq=False):
    """An attempt that waits to be taken by a loop, or is being worked on by one."""

    context: ExecutionContext
    over: asyncio.Future[None]
    is_taken: bool = False


class Channels:
    """Attempts on their way to the loops that iterate over their jobs."""

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """A node starts: whatever an earlier one left is forgotten."""
        self._offers: dict[str, deque[_Offer]] = {}
        self._bells: dict[str, asyncio.Event] = {}
        self._is_closed = False

    def close(self) -> None:
        """The node has ended: so do the loops that wait for more. Called on the loop that they run on."""
        self._is_closed = True
        for bell in self._bells.values():
            bell.set()

    async def iterated(self, ctx: ExecutionContext) -> None:
        """The task of all jobs without tasks: wait for a loop to take it, and until that is done with it."""
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
        """What `async for` goes through, until the node ends."""
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
