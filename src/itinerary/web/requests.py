"""A request as the routes see it: names for the parts of an ASGI scope, and a body of limited size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from itinerary.web.app_state import AppState
from itinerary.web.problems import RequestRefused

__all__ = ["BODY_MAX", "ASGIApp", "Message", "QueryParameters", "Receive", "Request", "Scope", "Send"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_MAX: Final = 1_000_000
"""The maximum size of a request body, in bytes (Q4)."""


class QueryParameters(Mapping[str, str]):
    """The query parameters of an address. A name that occurs several times stands for its first value."""

    def __init__(self, query: str) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, name: str) -> list[str]:
        """Return all values of a name, in the order of the address."""
        return self._values.get(name, [])


class Request:
    """One HTTP request. The body is read once, and kept."""

    def __init__(self, scope: Scope, receive: Receive, app: AppState) -> None:
        self.scope, self.receive, self.app = scope, receive, app
        self._body: bytes | None = None

    @property
    def method(self) -> str:
        """The method."""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """The path, decoded."""
        return str(self.scope["path"])

    @property
    def query(self) -> str:
        """The part of the address after `?`, encoded."""
        return bytes(self.scope["query_string"]).decode("latin-1")

    @cached_property
    def query_params(self) -> QueryParameters:
        """The query parameters."""
        return QueryParameters(self.query)

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers by their names in lower case, each with its first value."""
        found: dict[str, str] = {}
        for name, value in self.scope["headers"]:
            found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        return found

    @property
    def media_type(self) -> str:
        """The media type of the body, in lower case and without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @cached_property
    def cookies(self) -> Mapping[str, str]:
        """The cookies."""
        pairs = (part.partition("=") for part in self.headers.get("cookie", "").split(";"))
        return {name.strip(): value.strip() for name, _, value in pairs}

    async def body(self) -> bytes:
        """Return the body. Raises RequestRefused if the body is too large, or the client leaves before its end."""
        if self._body is None:
            self._body = await self._read_body()
        return self._body

    async def _read_body(self) -> bytes:
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise RequestRefused(400, "Bad request", f"Invalid content-length: {length!r}")
        _check_size(int(length))
        found, more = bytearray(), True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise RequestRefused(400, "Client left", "the client has closed its connection before the body's end")
            found += message.get("body", b"")
            _check_size(len(found))
            more = message.get("more_body", False)
        return bytes(found)


def _check_size(size: int) -> None:
    if size > BODY_MAX:
        raise RequestRefused(413, "Too large", "Request Entity Too Large")
