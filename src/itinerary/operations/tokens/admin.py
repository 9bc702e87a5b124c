"""Create, list and revoke tokens on a store. No node is needed."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Final, Protocol

import msgspec

from itinerary.errors import TokenError
from itinerary.model.queries import Answer, Query, TokensQuery
from itinerary.model.rows import TokenRow
from itinerary.model.scopes import LOCAL, Scope
from itinerary.model.text import check_name, shown
from itinerary.model.tokens import TOKENS_MAX, NewToken, TokenRefused, WhyUngranted
from itinerary.operations.tokens.format import digest_of, new_text
from itinerary.ports import Store
from itinerary.read.snapshot import at, moment
from itinerary.schedules.durations import SECOND, DurationLike, format_duration, parse_duration
from itinerary.schedules.instants import shown_instant

__all__ = [
    "EXPIRES_AFTER",
    "EXPIRES_AFTER_MAX",
    "IssuedToken",
    "TokenInfo",
    "TokenRead",
    "create",
    "has_tokens",
    "listed",
    "revoke",
]

EXPIRES_AFTER: Final = "90d"
"""The default lifetime of a token."""
EXPIRES_AFTER_MAX: Final = 3_650 * 86_400 * SECOND
"""The longest lifetime of a token, in microseconds. For a longer one, make a token that does not expire."""


class TokenRead(Protocol):
    """A function that queries a store: its `read`, or a wrapper that runs the query elsewhere."""

    def __call__(self, query: Query[Answer]) -> Awaitable[Answer]:
        """Return the answer to a query."""


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secrets, not even its hash."""

    name: str
    scope: Scope
    state: str
    """`good`, `expired` or `revoked`."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    reason: str | None


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token with its text. The text is known only now, so `repr` leaves it out."""

    token: TokenInfo
    text: str

    def __repr__(self) -> str:
        return f"Made(token={self.token!r}, text=…)"


async def create(
    store: Store,
    name: str,
    scope: Scope,
    *,
    by: str,
    expires: DurationLike | None = EXPIRES_AFTER,
    text: str | None = None,
) -> IssuedToken:
    """Create a token with a name that no listed token has.

    Args:
        store: The store.
        name: The name of the token.
        scope: The permissions of the token.
        by: The user who creates it.
        expires: The lifetime; None: the token does not expire.
        text: The text of an earlier call whose answer was lost; None makes a new text.

    Raises:
        TokenError: The name is taken or reserved, the lifetime is too long, or the store has too many tokens.
    """
    check_name("token name", name)
    if name == LOCAL:
        raise TokenError(f"token name {name!r} is what the history calls whoever asks on loopback; choose another")
    expires_after = None if expires is None else parse_duration(expires, minimum=SECOND)
    if expires_after is not None and expires_after > EXPIRES_AFTER_MAX:
        longest = format_duration(EXPIRES_AFTER_MAX)
        raise TokenError(f"expires {shown(expires)}: give at most {longest}, or `never`")
    text = new_text() if text is None else text
    digest = digest_of(text)
    if digest is None:
        raise TokenError("that is no token's text; leave it out, and one is made")
    answer = await store.grant_token(NewToken(name=name, hash=digest, scope=scope, by=by, expires_after=expires_after))
    if isinstance(answer, TokenRefused):
        raise TokenError(_why_not(name, answer))
    return IssuedToken(_listed(answer, answer.created_at), text)


def _why_not(name: str, answer: TokenRefused) -> str:
    if answer.why is WhyUngranted.FULL:
        return (
            f"there are {TOKENS_MAX:,} tokens, as many as a store lists; those that were revoked or have expired leave"
            " the list after 90 days"
        )
    there = answer.by
    if there is None or there.revoked_at is None:
        return f"there is a token {name!r} already, or it has expired lately; choose another name"
    since = shown_instant(there.revoked_at)
    return f"token {name!r} was revoked at {since}, and the history names it; choose another name, like {name + '-2'!r}"


async def revoke(store: Store, name: str, *, by: str, reason: str | None = None) -> TokenInfo:
    """Revoke a token. A second call has no effect. Raises TokenError if there is no such token."""
    row = await store.revoke_token(name, by, reason)
    if row is None:
        raise TokenError(f"there is no token {shown(name)} in {store.url}; `itinerary token list` has all")
    assert row.revoked_at is not None, "it was just revoked"
    return _listed(row, row.revoked_at)


async def listed(read: TokenRead) -> list[TokenInfo]:
    """Return all tokens, good or not, by name."""
    seen = await read(TokensQuery())
    return [_listed(row, seen.now) for row in seen.rows]


async def has_tokens(read: TokenRead) -> bool:
    """True if a token is good now: then the server may listen on other addresses than loopback (Q1)."""
    seen = await read(TokensQuery())
    return any(row.is_good(seen.now) for row in seen.rows)


def _listed(row: TokenRow, now: int) -> TokenInfo:
    state = "revoked" if row.revoked_at is not None else "good" if row.is_good(now) else "expired"
    return TokenInfo(
        name=row.name,
        scope=row.scope,
        state=state,
        created_at=at(row.created_at),
        created_by=row.created_by,
        expires_at=moment(row.expires_at),
        revoked_at=moment(row.revoked_at),
        revoked_by=row.revoked_by,
        reason=row.reason,
    )
