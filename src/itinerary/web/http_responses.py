"""Responses of routes: a body, a redirect, a stream.

Response(struct)                          JSON
Response(text, media_type="text/html")    text, in UTF-8
Redirect("/jobs")                         303 See Other
Stream(messages)                          server-sent events, until the last message or the client's departure
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from itinerary.web.requests import Receive, Send

__all__ = ["EVENTS_TYPE", "JSON_TYPE", "Redirect", "Response", "Stream", "wait_until_client_left"]

EVENTS_TYPE: Final = "text/event-stream"
JSON_TYPE: Final = "application/json"
_ADDRESS_SAFE: Final = "/#%[]=:;$&()+,!?*@'~"

T = TypeVar("T")


class Response(Generic[T]):
    """A response with a body: bytes and text as they are, other values as JSON."""

    def __init__(
        self,
        content: T,
        *,
        status_code: int = 200,
        media_type: str = JSON_TYPE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.content, self.status_code, self.media_type = content, status_code, media_type
        self.headers = dict(headers or {})

    async def send(self, receive: Receive, send: Send) -> None:  # noqa: ARG002 - streams wait for the client to leave
        """Send the response."""
        body = _encode(self.content)
        await self._start(send, {"content-length": str(len(body))})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _start(self, send: Send, more: Mapping[str, str]) -> None:
        charset = "; charset=utf-8" if self.media_type.startswith("text/") else ""
        headers = {**self.headers, "content-type": self.media_type + charset, **more}
        encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status_code, "headers": encoded})


class Redirect(Response[bytes]):
    """A redirect to another page, which the client fetches with GET."""

    def __init__(self, address: str, *, query_params: Mapping[str, str] | None = None) -> None:
        address = address if query_params is None else f"{address}?{urlencode(query_params)}"
        headers = {"location": quote(address, safe=_ADDRESS_SAFE)}
        super().__init__(b"", status_code=303, media_type="text/plain", headers=headers)


class Stream(Response[AsyncGenerator[bytes, None]]):
    """A stream of server-sent events. It ends with its last message, or when the client leaves."""

    def __init__(self, messages: AsyncGenerator[bytes, None]) -> None:
        super().__init__(messages, media_type=EVENTS_TYPE)

    async def send(self, receive: Receive, send: Send) -> None:
        """Send all messages."""
        await self._start(send, {})
        sending = asyncio.ensure_future(self._send_messages(send))
        leaving = asyncio.ensure_future(wait_until_client_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait((sending, leaving))
        if not sending.cancelled():
            sending.result()

    async def _send_messages(self, send: Send) -> None:
        async with aclosing(self.content) as messages:
            async for message in messages:
                await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def wait_until_client_left(receive: Receive) -> None:
    """Wait until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _encode(content: Any) -> bytes:
    match content:
        case bytes():
            return content
        case str():
            return content.encode()
        case _:
            return msgspec.json.encode(content)
