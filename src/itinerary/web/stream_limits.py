"""Limits of long responses: live pages, and streams of the API.

    in all       half of the connections that the server may have, and at most 500
    a token      100
    a client     100: an address, or an IPv6 network of 64 bits

A stream above a limit is rejected with 429 or 503. A stream whose client reads nothing for 30 s is closed with its
connection (see `protocol`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from itinerary.connections.refusals import Refusals
from itinerary.web.access import Caller
from itinerary.web.problems import RequestRefused

__all__ = ["CALLER_MAX", "STREAMS_MAX", "OpenStreams"]

STREAMS_MAX: Final = 500
CALLER_MAX: Final = 100
"""The maximum number of streams of one token, and of one client."""


class OpenStreams:
    """The streams of one server. Used on one event loop."""

    def __init__(self, refusals: Refusals, in_all: int = STREAMS_MAX) -> None:
        self._refusals, self._max = refusals, min(in_all, STREAMS_MAX)
        self._open: Counter[str] = Counter()
        self._count = 0

    @contextmanager
    def counted(self, caller: Caller) -> Iterator[None]:
        """Count a stream while the block runs. Raises Refused if there are too many."""
        keys = (f"name {caller.name}", f"client {caller.client}")
        self._check(caller, keys)
        self._count += 1
        self._open.update(keys)
        try:
            yield
        finally:
            self._count -= 1
            self._open.subtract(keys)
            for key in keys:
                if not self._open[key]:
                    del self._open[key]

    def _check(self, caller: Caller, keys: tuple[str, str]) -> None:
        if any(self._open[key] >= CALLER_MAX for key in keys):
            self._refuse(caller, 429, f"you have {CALLER_MAX} streams and live pages open; close some")
        if self._count >= self._max:
            self._refuse(
                caller, 503, f"{self._count} streams and live pages are open, as many as there may be; ask another node"
            )

    def _refuse(self, caller: Caller, status: int, detail: str) -> None:
        self._refusals.note("too_many_streams", caller.client)
        raise RequestRefused(status, "Too many streams", detail)
