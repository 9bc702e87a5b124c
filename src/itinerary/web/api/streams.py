"""Answers that go on: server-sent events, for as long as whoever follows may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import msgspec

from itinerary.errors import StoreError
from itinerary.model.access import Scope
from itinerary.web.access import Rejection
from itinerary.web.api.framing import AnyRequest
from itinerary.web.guarding import visit_of
from itinerary.web.problems import Refused

if TYPE_CHECKING:
    from itinerary.web.api.service import Service

__all__ = ["STILL_THERE", "Followers", "while_admitted"]

STILL_THERE: Final = b": still there\n\n"
_ASK_AGAIN_AFTER: Final = 10.0
"""Seconds after which it is asked again whether somebody may still follow, so that a revoked token's stream ends."""
_FOLLOWERS_MAX: Final = 200


class Followers:
    """How many follow something now."""

    def __init__(self) -> None:
        self._count = 0

    def come(self) -> None:
        """One more. Raises Refused if there are too many."""
        if self._count >= _FOLLOWERS_MAX:
            raise Refused(503, "Too many", f"{self._count} follow something here already; ask another node")
        self._count += 1

    def go(self) -> None:
        """One less."""
        self._count -= 1


async def while_admitted(request: AnyRequest, api: Service, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """These messages, until whoever follows may no more, goes away, or the store does. Raises Refused, at once: the
    first message is fetched before any answer is begun."""
    whole = _admitted(request, api, messages)
    return _joined(await anext(whole), whole)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for message in rest:
        yield message


async def _admitted(request: AnyRequest, api: Service, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    api.followers.come()
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
    finally:
        api.followers.go()
