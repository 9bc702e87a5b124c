"""Admission of requests: every request passes these checks before the server does any work for it.

    headers    too many, too large, duplicate, unreadable      431, 400
    method     unknown                                         405
    host       meant for another server                        421
    origin     sent by a page of another site                  403
    route      declares no scope                               403
    caller     a token, a session, a user of this machine      401, 429, 503
    rate       more requests than the rate limit               429
    scope      the caller's scope is too small                 403
    CSRF       a change that none of our pages sent            403

Cheap checks come first, and the body is not read before the last one. Each rejection has a sentence that explains it. A
token that is sent must be valid, even where none is needed: a caller with a wrong token gets an error, and is not
treated as another caller.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec.structs import replace

from itinerary.connections.clients import client_key
from itinerary.errors import StoreError
from itinerary.model.scopes import LocalScope, Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import TokenBook, ValidToken
from itinerary.runtime.clock import boot_time
from itinerary.web.access import rejections
from itinerary.web.access.callers import PUBLIC, SAFE_METHODS, Caller, CallerSource, Rejection, RequestHead
from itinerary.web.access.headers import RequestHeaders, read_heads
from itinerary.web.access.hosts import Hosts
from itinerary.web.access.local import LocalAccess, OwnerOf
from itinerary.web.access.origins import BROWSER_MARKS, foreign_origin
from itinerary.web.access.proxies import Proxies
from itinerary.web.access.rate_limits import Buckets, RateLimits
from itinerary.web.access.sessions import LoginSession, Sessions

__all__ = ["CSRF_FIELD", "CSRF_HEADER", "Admission"]

CSRF_HEADER: Final = "X-CSRF-Token"
CSRF_FIELD: Final = "_csrf"
_BEARER: Final = "bearer "
_JSON: Final = "application/json"


class Admission:
    """Admission control of one server: identifies or rejects the caller of a request. Used from one event loop."""

    def __init__(  # noqa: PLR0913 - the settings of a server
        self,
        at: ListenAt,
        tokens: TokenBook,
        *,
        names: Collection[str] = (),
        proxies: Collection[str] = (),
        local: LocalScope | None = None,
        owner_of: OwnerOf | None = None,
        limits: RateLimits | None = None,
        key: bytes | None = None,
        elapsed: Callable[[], int] = boot_time,
    ) -> None:
        """Set up the checks.

        Args:
            at: The address that the server really listens on.
            tokens: The tokens of the store.
            names: Further names of the server.
            proxies: Addresses and networks of proxies. Limits apply to the client that a proxy names.
            local: The scope of a local caller without a token; None: the default (see `local`).
            owner_of: Looks up the user id behind a connection; None: the lookup of this system.
            limits: The rate limits of a caller.
            key: Signs sessions; None: a new key, until the server stops.
            elapsed: A monotonic clock.

        Raises:
            ConfigError: A name is not a host name, or a proxy is not an address.
        """
        limits = RateLimits() if limits is None else limits
        self._is_local = at.is_loopback
        self._tokens = tokens
        self._hosts = Hosts(at, names)
        self._proxies = Proxies(proxies)
        self._local = LocalAccess(tokens, granted=local, owner_of=owner_of, is_behind_proxy=bool(names or proxies))
        self._sessions = Sessions(at.port, key)
        self._reads = Buckets(limits.reads_per_second, limits.reads_at_once, elapsed)
        self._changes = Buckets(limits.changes_per_second, limits.changes_at_once, elapsed)
        self._failures = Buckets(limits.failures_per_second, limits.failures_at_once, elapsed)

    def public_scheme(self, headers: Sequence[tuple[bytes, bytes]], scheme: str) -> str:
        """Return the scheme by which the browser that sent these headers reaches this server.

        A proxy that terminates https connects to us by http. Only the settings declare this (`web_names`), never a
        header.
        """
        host = next((value for name, value in headers if name.lower() == b"host"), b"")
        return self._hosts.public_scheme(host.decode("latin-1"), scheme)

    async def admit(self, visit: RequestHead) -> Caller | Rejection:
        """Return the caller of a request, or the rejection."""
        heads = self._looked_at(visit)
        if isinstance(heads, Rejection):
            return replace(heads, client=client_key(visit.client))
        client = self._proxies.client_of(visit.client, heads)
        return replace(await self._admit(visit, heads, client), client=client)

    async def _admit(self, visit: RequestHead, heads: RequestHeaders, client: str) -> Caller | Rejection:
        if visit.needs is None:
            return rejections.no_rule()
        who = _anybody(self._sessions) if visit.needs == PUBLIC else await self._known(visit, heads, client)
        by = client if isinstance(who, Rejection) or not who.name else f"name {who.name}"
        # A change on a public route is a sign-in. `sign_in` limits wrong tokens there, and never a right one.
        is_limited = visit.needs != PUBLIC or visit.method in SAFE_METHODS
        if is_limited and (wait := self._bucket(visit).take(by)) is not None:
            return rejections.too_many(wait, "requests")
        if isinstance(who, Rejection):
            return who
        if (rejection := _too_little(visit, who)) is not None:
            return rejection
        if visit.method in SAFE_METHODS or who.came is CallerSource.BEARER or await self._is_proven(visit, heads, who):
            return who
        return rejections.unproven()

    async def recheck(self, visit: RequestHead) -> Rejection | None:
        """Return why a request that was admitted would be rejected now; None if it would still pass.

        This check does not count against the rate limits, so a long response may repeat it often.
        """
        heads = self._looked_at(visit)
        if isinstance(heads, Rejection):
            return heads
        who = await self._known(visit, heads, self._proxies.client_of(visit.client, heads))
        return who if isinstance(who, Rejection) else _too_little(visit, who)

    async def sign_in(self, visit: RequestHead, text: str) -> Caller | Rejection:
        """Start a session for the token `text`, on a request that was admitted.

        Returns:
            The caller, with the session cookie in its headers, or the rejection.
        """
        heads = read_heads(visit.headers)
        assert isinstance(heads, RequestHeaders), "it was admitted"
        found = await self._found(text.strip(), self._proxies.client_of(visit.client, heads))
        if isinstance(found, Rejection):
            return found
        if found.is_stale:
            return rejections.store_away()
        session, value = self._sessions.begin(found)
        return self._in_session(found, session, (self._sessions.cookie(visit.scheme, value),))

    def sign_out(self, visit: RequestHead) -> tuple[tuple[str, str], ...]:
        """End the session of a request, here and in its browser. Returns the headers that remove the cookie."""
        heads = read_heads(visit.headers)
        if isinstance(heads, RequestHeaders):
            for value in heads.cookies(self._sessions.cookie_name(visit.scheme)):
                self._sessions.end(value)
        return self._without_cookie(visit)

    # -- before the caller is known ----------------------------------------------------------------------------------

    def _looked_at(self, visit: RequestHead) -> RequestHeaders | Rejection:
        heads = read_heads(visit.headers)
        if isinstance(heads, Rejection):
            return heads
        if visit.method not in rejections.METHODS:
            return rejections.unknown_method(visit.method)
        if not self._hosts.has(heads.get("host"), visit.scheme):
            return rejections.wrong_host(heads.get("host"), str(self._hosts))
        if (site := foreign_origin(visit.method, heads, visit.scheme, self._hosts)) is not None:
            return rejections.foreign(site)
        return heads

    def _bucket(self, visit: RequestHead) -> Buckets:
        return self._reads if visit.method in SAFE_METHODS else self._changes

    # -- the caller --------------------------------------------------------------------------------------------------

    async def _known(self, visit: RequestHead, heads: RequestHeaders, client: str) -> Caller | Rejection:
        given = heads.get("authorization")
        if given is not None and given.lower().startswith(_BEARER):
            return await self._by_token(visit, given[len(_BEARER) :].strip(), client)
        cookies = heads.cookies(self._sessions.cookie_name(visit.scheme))
        by_session = await self._by_session(visit, cookies[0]) if len(cookies) == 1 else None
        if isinstance(by_session, Caller) or (by_session is not None and by_session.status != 401):
            return by_session
        if given is not None:  # another scheme, which a proxy may have asked for: not our token, and not a local caller
            return rejections.wrong_token()
        if self._is_local and _may_be_here(visit.client):
            return await self._by_user(visit, heads)
        return rejections.no_token() if by_session is None else by_session

    async def _by_token(self, visit: RequestHead, text: str, client: str) -> Caller | Rejection:
        found = await self._found(text, client)
        if isinstance(found, Rejection):
            return found
        if found.is_stale and visit.needs is not Scope.READ:
            return rejections.store_away()
        return Caller(found.row.name, found.row.scope, CallerSource.BEARER)

    async def _by_session(self, visit: RequestHead, value: str) -> Caller | Rejection:
        session = self._sessions.read(value)
        if session is None:
            return rejections.session_over(self._without_cookie(visit))
        try:
            found = await self._tokens.named(session.name)
        except StoreError:
            return rejections.store_away()
        if found is None or not session.is_of(found):
            return rejections.session_over(self._without_cookie(visit))
        if found.is_stale and visit.needs is not Scope.READ:
            return rejections.store_away()
        return self._in_session(found, session)

    async def _found(self, text: str, client: str) -> ValidToken | Rejection:
        """Look up a token. Wrong tokens of the same client never keep a right one out: they only change the lookup.

        After too many wrong tokens, the store is read once a second for all tokens, not once for each token.
        """
        wait = self._failures.wait(client)
        try:
            is_asked = wait is None or self._tokens.knows(text) or await self._tokens.has(text)
            found = await self._tokens.find(text) if is_asked else None
        except StoreError:
            return rejections.store_away()
        if found is not None:
            return found
        if wait is not None:
            return rejections.too_many(wait, "tokens that are none")
        self._failures.take(client)
        return rejections.wrong_token()

    def _in_session(
        self, found: ValidToken, session: LoginSession, headers: tuple[tuple[str, str], ...] = ()
    ) -> Caller:
        proof = self._sessions.form_token(session.id)
        return Caller(found.row.name, found.row.scope, CallerSource.SESSION, proof, headers)

    def _without_cookie(self, visit: RequestHead) -> tuple[tuple[str, str], ...]:
        return (self._sessions.cookie(visit.scheme, ""),)

    async def _by_user(self, visit: RequestHead, heads: RequestHeaders) -> Caller | Rejection:
        try:
            found = await self._local.identify(visit, heads)
        except StoreError:
            return rejections.store_away()
        if isinstance(found, Rejection):
            return found
        name, scope = found
        return Caller(name, scope, CallerSource.LOOPBACK, self._sessions.form_token(f"{CallerSource.LOOPBACK} {name}"))

    # -- CSRF --------------------------------------------------------------------------------------------------------

    async def _is_proven(self, visit: RequestHead, heads: RequestHeaders, who: Caller) -> bool:
        """True if one of our own pages sent a change, or, on loopback, if no page can have sent it."""
        if who.came is CallerSource.LOOPBACK and not heads.has_any(BROWSER_MARKS) and _is_programs(heads):
            return True
        given = heads.get(CSRF_HEADER.lower())
        if given is None and visit.form_token is not None:
            given = await visit.form_token()
        return given is not None and self._sessions.is_same(given, who.csrf)


def _anybody(sessions: Sessions) -> Caller:
    return Caller("", None, CallerSource.PUBLIC, sessions.form_token(CallerSource.PUBLIC))


def _too_little(visit: RequestHead, who: Caller) -> Rejection | None:
    """Return the rejection if the scope of a caller is too small; None if it is large enough."""
    if visit.needs is None or visit.needs == PUBLIC or who.scope is None or who.may(visit.needs):
        return None
    return rejections.too_little(who.name, who.scope, visit.needs, is_local=who.came is CallerSource.LOOPBACK)


def _may_be_here(client: str | None) -> bool:
    """True if this may be an address of this machine. A value that is no address, as of a Unix socket, may be one."""
    try:
        return ipaddress.ip_address(client or "").is_loopback
    except ValueError:
        return True


def _is_programs(heads: RequestHeaders) -> bool:
    """True if the request has a header that no form of a page can send."""
    kind = (heads.get("content-type") or "").partition(";")[0].strip().lower()
    return kind == _JSON or "idempotency-key" in heads
