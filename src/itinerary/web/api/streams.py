"""Answers that go on: server-sent events, for as long as whoever follows may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from itinerary.errors import StoreError
from itinerary.model.access import Scope
from itinerary.web.access import Rejection
from itinerary.web.api.framing import AnyRequest
from itinerary.web.guarding import caller_of, visit_of

__all__ = ["STILL_THERE", "while_admitted"]

STILL_THERE: Final = b": still there\n\n"
_ASK_AGAIN_AFTER: Final = 10.0
"""Seconds after which it is asked again whether somebody may still follow, so that a revoked token's stream ends."""


async def while_admitted(request: AnyRequest, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """These messages, until whoever follows may no more, goes away, or the store does. Raises Refused, at once: the
    first message is fetched before any answer is begun."""
    whole = _counted(request, messages)
    return _joined(await anext(whole), whole)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for message in rest:
        yield message


async def _counted(request: AnyRequest, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    with request.app.state.streams.counted(caller_of(request)):
        async for message in _admitted(request, messages):
            yield message


async def _admitted(request: AnyRequest, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    ask_at = loop.time() + _ASK_AGAIN_AFTER
    try:
        async for message in messages:
            yield message
            if loop.time() < ask_at:
                continue
            ask_at = loop.time() + _ASK_AGAIN_AFTER
            found = await request.app.state.door.admit(visit_of(request, Scope.READ))
            if isinstance(found, Rejection):
                yield b"event: over\ndata: " + msgspec.json.encode(found.detail) + b"\n\n"
                return
    except StoreError as error:  # who follows comes again, and goes on where it was
        yield b"event: over\ndata: " + msgspec.json.encode(str(error)) + b"\n\n"
