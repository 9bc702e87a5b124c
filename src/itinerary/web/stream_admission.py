"""End live pages and streams when their caller loses access: a revoked token, a session that was signed out.

    messages ──► while_admitted ──► the client
                      │ twice a second: is this caller still admitted?
                      └─ no: the event `over` with the reason, and the end

The check uses admission, which caches each token for at most a second. So a stream ends within 1.5 s of the revocation,
plus the response time of the store, whether it has messages to send or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from itinerary.model.scopes import Scope
from itinerary.web.guard import caller_of, visit_of
from itinerary.web.requests import Request

__all__ = ["RECHECK_INTERVAL", "joined", "over", "while_admitted"]

RECHECK_INTERVAL: Final = 0.5
"""The seconds between two checks that the caller is still admitted."""


async def while_admitted(request: Request, messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield messages until the last one, or until the caller of this request is no longer admitted.

    The stream counts among those of its caller.

    Raises:
        Refused: The caller has too many streams. Raised before the first message.
    """
    with request.app.streams.counted(caller_of(request)):
        async with aclosing(_rechecked(request, messages)) as admitted:
            async for message in admitted:
                yield message


async def _rechecked(request: Request, messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    admission = request.app.admission
    visit, loop = visit_of(request, Scope.READ), asyncio.get_running_loop()
    check_at = loop.time() + RECHECK_INTERVAL
    pending: asyncio.Task[Any] | None = None
    async with aclosing(messages):
        try:
            while True:
                pending = pending or asyncio.create_task(_next(messages))
                await asyncio.wait({pending}, timeout=max(0.0, check_at - loop.time()))
                if loop.time() >= check_at:
                    check_at = loop.time() + RECHECK_INTERVAL
                    if (rejection := await admission.recheck(visit)) is not None:
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
    """Yield a message that was fetched before the response began, and then the rest."""
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
