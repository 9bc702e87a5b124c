"""Local callers: requests from this machine without a token.

    a proxy in front (`web_names`, `web_proxies`, or a header        rejected: the address that connects is the proxy's
    that a proxy adds)
    another user of this machine opened the connection (Linux)       rejected: only the node's own user and root pass
    all others                                                       the scope of `web_local`: admin, operate, read,
        none

Without `web_local`, local callers may operate while the store has no valid token, and do nothing as soon as it has one:
an operator who creates tokens wants callers to use them.

On a system that does not report the user of a connection (any but Linux), only `web_local` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from itinerary.model.scopes import LOCAL, LocalScope, Scope
from itinerary.operations.tokens import TokenBook
from itinerary.web.access import peers, rejections
from itinerary.web.access.callers import Rejection, RequestHead
from itinerary.web.access.headers import RequestHeaders
from itinerary.web.access.peers import Connection

__all__ = ["LocalAccess", "OwnerOf"]

OwnerOf: TypeAlias = Callable[[Connection], int | None]

_PROXY_HEADERS: Final = frozenset(
    {"forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"}
)
_PROXY_PREFIX: Final = "x-forwarded"


class LocalAccess:
    """The access of callers on this machine without a token."""

    def __init__(
        self, tokens: TokenBook, *, granted: LocalScope | None, owner_of: OwnerOf | None, is_behind_proxy: bool
    ) -> None:
        self._tokens, self._granted, self._is_behind_proxy = tokens, granted, is_behind_proxy
        self._owner_of = owner_of
        if owner_of is None and peers.can_identify():
            self._owner_of = peers.owner_of

    async def identify(self, visit: RequestHead, heads: RequestHeaders) -> tuple[str, Scope] | Rejection:
        """Return the caller's name and scope, or the rejection. Raises StoreError."""
        if self._is_behind_proxy or heads.has_any(_PROXY_HEADERS) or heads.has_prefix(_PROXY_PREFIX):
            return rejections.proxied()
        name = self._user(visit)
        if isinstance(name, Rejection):
            return name
        granted = self._granted
        if granted is None:
            granted = LocalScope.NONE if await self._tokens.has_any() else LocalScope.OPERATE
        scope = granted.scope
        return rejections.no_token() if scope is None else (name, scope)

    def _user(self, visit: RequestHead) -> str | Rejection:
        if self._owner_of is None:
            return LOCAL
        number = None if visit.connection is None else self._owner_of(visit.connection)
        if number is None or not peers.is_trusted(number):
            return rejections.local_refused(None if number is None else peers.user_name(number))
        return peers.user_name(number)
