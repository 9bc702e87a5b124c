"""Live pages and streams end when their caller is no longer admitted: a revoked token, a session that was signed out.

    messages ──► while_admitted ──► the reader
                      │ twice a second: does the door still admit this caller?
                      └─ no: the event `over` with the reason, and the end

A stream asks the door, which knows each token for at most a second. So a stream ends within 1.5 s of the revocation,
plus the time that the store takes to answer, whether it has messages to send or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from itinerary.model.scopes import Scope
from itinerary.web.access import Door
from itinerary.web.litestar_guard import Connection, caller_of, visit_of

__all__ = ["RECHECK_INTERVAL", "joined", "over", "while_admitted"]

RECHECK_INTERVAL: Final = 0.5
"""Seconds between two questions whether the caller is still admitted."""


async def while_admitted(connection: Connection, messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield messages until the last one, or until the caller of this request is no longer admitted.

    The stream counts among those of its caller. Raises Refused before the first message if they are too many.
    """
    with connection.app.state.streams.counted(caller_of(connection)):
        async with aclosing(_rechecked(connection, messages)) as admitted:
            async for message in admitted:
                yield message


async def _rechecked(connection: Connection, messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    door: Door = connection.app.state.door
    visit, loop = visit_of(connection, Scope.READ), asyncio.get_running_loop()
    check_at = loop.time() + RECHECK_INTERVAL
    pending: asyncio.Task[Any] | None = None
    async with aclosing(messages):
        try:
            while True:
                pending = pending or asyncio.create_task(_next(messages))
                await asyncio.wait({pending}, timeout=max(0.0, check_at - loop.time()))
                if loop.time() >= check_at:
                    check_at = loop.time() + RECHECK_INTERVAL
                    if (rejection := await door.recheck(visit)) is not None:
                        yield over(rejection.detail)
                        return
                if pending.done():
                    message, pending = pending.result(), None
                    if message is None:
                        return
                    yield message
        finally:
            if pending is not None and pending.cancel():
                await asyncio.wait({pending})


async def joined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield a message that was fetched before the answer began, and then the rest."""
    async with aclosing(rest):
        yield first
        async for message in rest:
            yield message


def over(why: str) -> bytes:
    """Return the message that ends a stream, with the reason."""
    return b"event: over\ndata: " + msgspec.json.encode(why) + b"\n\n"


async def _next(messages: AsyncGenerator[bytes, None]) -> bytes | None:
    """Return the next message; None after the last one."""
    return await anext(messages, None)
