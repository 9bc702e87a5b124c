"""A request as access sees it, and the two answers that there are: who it is, or why not.

These are plain values. Whoever serves HTTP makes a `Visit` of what came in, and sends what is in the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, Literal

import msgspec

from itinerary.model.scopes import Scope
from itinerary.web.access.peers import Connection

__all__ = ["PUBLIC", "SAFE_METHODS", "Caller", "Came", "Need", "Rejection", "Visit"]

PUBLIC: Final = "public"
"""What a route says that needs no token: the page to sign in on, its style sheet."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

Need = Scope | Literal["public"]
"""What a route says that it needs."""


class Visit(msgspec.Struct, frozen=True):
    """One request, before anything of its body has been read."""

    method: str
    needs: Need | None
    """None: the route has not said. It is refused then (Q6)."""
    headers: Sequence[tuple[bytes, bytes]]
    """As ASGI has them: names in any case, repeated where they were."""
    client: str | None
    """The address that the connection came from, as the socket has it. Never one from a header."""
    connection: Connection | None = None
    """Both ends of the connection; None if the request came through no socket."""
    scheme: str = "http"
    form_token: Callable[[], Awaitable[str | None]] | None = None
    """Reads the field `_csrf` of a form. It is called last, when everything else is in order and the token is in no
    header, so that no body is read of who may not send one."""


class Came(StrEnum):
    """How somebody was recognised."""

    LOOPBACK = "loopback"
    """By the user who opened the connection, on this machine, where the server listens on loopback only."""
    BEARER = "bearer"
    """By a token in `Authorization`."""
    SESSION = "session"
    """By the cookie that a browser was given for a token."""
    PUBLIC = "public"
    """Not at all: the route is open to everybody."""


class Caller(msgspec.Struct, frozen=True):
    """Somebody who may do what was asked."""

    name: str
    """The name in the change log: the token's, or the user's of this machine (`local` where the system does not say
    which user it is); empty on a public route."""
    scope: Scope | None
    """None on a public route."""
    came: Came
    csrf: str = ""
    """What the forms of a page carry in `_csrf`, and its script in `X-CSRF-Token`; empty for who brings a token."""
    headers: tuple[tuple[str, str], ...] = ()
    """To be sent with the response: a cookie for a browser that has none yet."""
    client: str = ""
    """The client that the request counts for: an address or a network (see `proxies`)."""

    def may(self, needed: Scope) -> bool:
        """Whether to offer something that needs this scope: a button, a menu."""
        return self.scope is not None and self.scope.covers(needed)


class Rejection(msgspec.Struct, frozen=True):
    """Why not: everything that a problem document says (RFC 9457)."""

    status: int
    code: str
    """The same for the same cause, for logs and metrics: `wrong_host`, `no_token`."""
    title: str
    detail: str
    """Sentences for a person: what was wrong, and what to do."""
    headers: tuple[tuple[str, str], ...] = ()
    """To be sent with the response: `WWW-Authenticate`, `Retry-After`."""
    client: str = ""
    """The client that the request counts for."""
