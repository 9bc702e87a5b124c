"""The headers of a request, parsed once and with limits.

A header that decides about access must be unambiguous. So a duplicate of a single-value header is rejected instead of
using its first or last value: a proxy in between may have used the other one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from itinerary.web.access.callers import Rejection
from itinerary.web.access.rejections import bad_header, headers_too_large

__all__ = ["BYTES_MAX", "COUNT_MAX", "RequestHeaders", "read_heads"]

COUNT_MAX: Final = 100
BYTES_MAX: Final = 16_384
"""The total size of all names and values."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ONE_ONLY: Final = frozenset(
    {
        "host",
        "authorization",
        "origin",
        "sec-fetch-site",
        "sec-fetch-mode",
        "sec-fetch-dest",
        "content-type",
        "x-csrf-token",
        "idempotency-key",
    }
)


class RequestHeaders:
    """Headers by their lower-case names."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> str | None:
        """Return the value of a header; None if it is missing."""
        return self._values.get(name)

    def has_any(self, names: frozenset[str]) -> bool:
        """True if at least one of these headers is present."""
        return not names.isdisjoint(self._values)

    def has_prefix(self, prefix: str) -> bool:
        """True if the name of a header begins with this."""
        return any(name.startswith(prefix) for name in self._values)

    def cookies(self, name: str) -> list[str]:
        """Return the values of all cookies of this name. Another site of the same domain may have set several."""
        pairs = (part.strip().partition("=") for part in self._values.get("cookie", "").split(";"))
        return [value for key, _, value in pairs if key == name]


def read_heads(given: Sequence[tuple[bytes, bytes]]) -> RequestHeaders | Rejection:
    """Parse the headers. Returns a rejection if they are invalid."""
    if len(given) > COUNT_MAX:
        return headers_too_large(f"{COUNT_MAX} headers")
    if sum(len(name) + len(value) for name, value in given) > BYTES_MAX:
        return headers_too_large(f"{BYTES_MAX:,} bytes of headers")
    values: dict[str, str] = {}
    for raw_name, raw_value in given:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
        if _CONTROL.search(raw_value):
            return bad_header(_safe(name), "has a control character in it")
        if name in _ONE_ONLY and name in values:
            return bad_header(name, "is there twice, and there may be one")
        values[name] = f"{values[name]}{'; ' if name == 'cookie' else ', '}{value}" if name in values else value
    return RequestHeaders(values)


def _safe(name: str) -> str:
    return name if name.isascii() and name.isprintable() and len(name) <= 40 else "of a strange name"
