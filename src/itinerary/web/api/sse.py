"""Streams of the API: they end when their caller goes, may follow no more, or the store does not answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from itinerary.errors import StoreError
from itinerary.web import stream_admission as admitting
from itinerary.web.api.routing import AnyRequest

__all__ = ["STILL_THERE", "while_admitted"]

STILL_THERE: Final = b": still there\n\n"


async def while_admitted(request: AnyRequest, messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """These messages, until whoever follows may no more, goes away, or the store does. Raises Refused, at once: the
    first message is fetched before any answer is begun."""
    whole = _until_store_fails(admitting.while_admitted(request, messages))
    return admitting.joined(await anext(whole), whole)


async def _until_store_fails(messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(messages):
            async for message in messages:
                yield message
    except StoreError as error:  # who follows comes again, and goes on where it was
        yield admitting.over(str(error))
