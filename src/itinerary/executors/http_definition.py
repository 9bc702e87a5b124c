"""An HTTP call, read from its definition: `{"http": "https://…", "method": "POST", "headers": {…}, "body": …}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors.secrets import Value, read_value
from itinerary.model.task import JsonObject
from itinerary.model.text import shown
from itinerary.model.validators import check_keys

__all__ = ["HTTP_KEYS", "METHODS", "HttpCall", "read_http"]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

HTTP_KEYS: Final = ("http", "method", "headers", "body", "expect")
_SCHEMES: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}", re.ASCII)
_HEADERS_MAX: Final = 100
_URL_MAX: Final = 8_192
_FRAMING: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
"""Headers that could make one request look like two, or like a request to another host."""


class HttpCall(msgspec.Struct, frozen=True):
    """A request, and the range of statuses that counts as success, both ends included."""

    url: str
    host: str
    port: int
    method: str
    headers: Mapping[str, Value]
    body: bytes | None
    expect: tuple[int, int]

    @property
    def shown(self) -> str:
        """The call as messages may show it. The query string is left out, because it often holds confidential data."""
        return f"{self.method} {self.url.partition('?')[0]}"


def read_http(run: JsonObject) -> HttpCall:
    """Read an HTTP call from a definition. Raises ConfigError, which begins with the key."""
    check_keys("task", run, HTTP_KEYS)
    url, host, port = _address(run["http"])
    body, kind = _body(run.get("body"))
    method = run.get("method", "GET" if body is None else "POST")
    if method not in METHODS:
        raise ConfigError(f"method: {shown(method)} is unknown; allowed: {', '.join(METHODS)}")
    headers = _headers(run.get("headers", {}))
    if kind is not None and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = kind
    return HttpCall(url, host, port, method, headers, body, _range(run.get("expect", [200, 299])))


def _address(url: object) -> tuple[str, str, int]:
    if not isinstance(url, str) or len(url) > _URL_MAX or re.search(r"[\x00-\x20\x7f\\]", url):
        raise ConfigError(f"http: {shown(url)} is not an address; write https://host/path")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"http: this is not an address: {error}") from None
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"http: scheme {shown(parts.scheme)} is not allowed; write http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ConfigError('http: has a user name or password in it; send a header with {"secret": "NAME"} instead')
    if not host:
        raise ConfigError(f"http: {shown(url)} names no host; write https://host/path")
    return url, host, port if port is not None else _SCHEMES[parts.scheme]


def _headers(given: object) -> dict[str, Value]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"headers: {shown(given)} is not a table of headers")
    if len(given) > _HEADERS_MAX:
        raise ConfigError(f"headers: {len(given)} are too many; {_HEADERS_MAX} are allowed")
    for name in given:
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ConfigError(f"headers: {shown(name)} is not the name of a header")
        if name.lower() in _FRAMING:
            raise ConfigError(f"headers.{name}: is set by the call itself; leave it out")
    headers = {name: read_value(f"headers.{name}", value) for name, value in given.items()}
    for name, value in headers.items():
        if isinstance(value, str):
            check_header(name, value)
    return headers


def check_header(name: str, value: str) -> None:
    """Raise ConfigError, without the value, if a header may not contain it."""
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
        raise ConfigError(f"headers.{name}: has a line break or control character in it, which no header may have")


def _body(given: object) -> tuple[bytes | None, str | None]:
    match given:
        case None:
            return None, None
        case str():
            return given.encode("utf-8", "replace"), "text/plain; charset=utf-8"
        case _:
            try:
                return msgspec.json.encode(given), "application/json"
            except (TypeError, ValueError, RecursionError):
                raise ConfigError(f"body: {shown(given)} is neither text nor JSON") from None


def _range(given: object) -> tuple[int, int]:
    match given:
        case [int(low), int(high)] if not isinstance(low, bool) and 100 <= low <= high <= 599:
            return low, high
        case _:
            raise ConfigError(f"expect: {shown(given)} is not a range of statuses; write [200, 299]")
