"""A request as access control sees it, and the two results: a caller or a rejection.

Plain values only. The HTTP server builds a `RequestHead` from each request, and sends the headers of the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, Literal

import msgspec

from itinerary.model.scopes import Scope
from itinerary.web.access.peers import Connection

__all__ = ["PUBLIC", "SAFE_METHODS", "Caller", "CallerSource", "Need", "Rejection", "RequestHead"]

PUBLIC: Final = "public"
"""The declaration of a route that needs no token: the sign-in page, its style sheet."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

Need = Scope | Literal["public"]
"""The scope that a route declares."""


class RequestHead(msgspec.Struct, frozen=True):
    """A request, before any of its body is read."""

    method: str
    needs: Need | None
    """None: the route declares no scope, so the request is rejected (Q6)."""
    headers: Sequence[tuple[bytes, bytes]]
    """The headers as ASGI has them: names in any case, repeated headers repeated."""
    client: str | None
    """The address of the peer, as the socket reports it. Never an address from a header."""
    connection: Connection | None = None
    """The two ends of the connection; None if the request came through no socket."""
    scheme: str = "http"
    form_token: Callable[[], Awaitable[str | None]] | None = None
    """Reads the field `_csrf` of a form.

    Called last, if all other checks passed and no header has the token: the body of a rejected caller is never read.
    """


class CallerSource(StrEnum):
    """The way in which a caller was identified."""

    LOOPBACK = "loopback"
    """By the user who opened the connection on this machine. Only where the server listens on loopback."""
    BEARER = "bearer"
    """By a token in `Authorization`."""
    SESSION = "session"
    """By the cookie that a browser received for a token."""
    PUBLIC = "public"
    """Not identified: the route is public."""


class Caller(msgspec.Struct, frozen=True):
    """The caller of an admitted request."""

    name: str
    """The name in the change log: that of the token or of the user of this machine.

    `local` where the system does not report the user; empty on a public route.
    """
    scope: Scope | None
    """The caller's scope; None on a public route."""
    came: CallerSource
    csrf: str = ""
    """The CSRF token of forms (`_csrf`) and of the script (`X-CSRF-Token`); empty for a caller with a bearer token."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the response: a cookie for a browser that has none yet."""
    client: str = ""
    """The client that the rate limits count: an address or a network (see `proxies`)."""

    def may(self, needed: Scope) -> bool:
        """True if the caller's scope covers `needed`. Pages use it to show or hide a button."""
        return self.scope is not None and self.scope.covers(needed)


class Rejection(msgspec.Struct, frozen=True):
    """The reason for a refusal: all fields of a problem document (RFC 9457)."""

    status: int
    code: str
    """A stable code of the cause, for logs and metrics: `wrong_host`, `no_token`."""
    title: str
    detail: str
    """Sentences for a person: the fault, and the remedy."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the response: `WWW-Authenticate`, `Retry-After`."""
    client: str = ""
    """The client that the rate limits count."""
