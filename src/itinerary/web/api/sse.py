"""Event streams of the API: a stream ends with its client, its caller's access, or the store's answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from itinerary.errors import StoreError
from itinerary.web import stream_admission as admitting
from itinerary.web.requests import Request

__all__ = ["STILL_THERE", "while_admitted"]

STILL_THERE: Final = b": still there\n\n"


async def while_admitted(request: Request, messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Return the messages until the caller leaves, loses access, or the store fails.

    The first message is fetched before the response starts.

    Raises:
        Refused: The caller has no access.
    """
    whole = _until_store_fails(admitting.while_admitted(request, messages))
    return admitting.joined(await anext(whole), whole)


async def _until_store_fails(messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(messages):
            async for message in messages:
                yield message
    except StoreError as error:  # the client reconnects, and resumes at the same place
        yield admitting.over(str(error))
