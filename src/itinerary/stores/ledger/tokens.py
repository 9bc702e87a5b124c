"""Tokens: created once, revoked once, and listed for a while after that (Q1).

A listed name belongs to one token only: if the history says "by ci", a reader finds exactly one `ci`. A token that has
been invalid for 90 days is removed when the next token is created. That is often enough, because only then can the list
grow.
"""

from __future__ import annotations

from msgspec.structs import replace

from itinerary.model.rows import TokenRow
from itinerary.model.text import clean_text
from itinerary.model.tokens import KEPT_FOR, TOKENS_MAX, NewToken, TokenRefused, TokenSeen, TokensSeen, WhyUngranted
from itinerary.stores.tables import TOKENS
from itinerary.stores.transaction import Transaction

__all__ = ["all_tokens", "grant_token", "revoke_token", "token_named", "token_of"]


def grant_token(tx: Transaction, new: NewToken) -> TokenRow | TokenRefused:
    """Create a token, unless its name is taken. A repeated call with the same hash returns the same token."""
    tx.gate()
    now = tx.now()
    listed = tx.scan(TOKENS, limit=TOKENS_MAX)
    forgotten = [row for row in listed if row.ends_at is not None and row.ends_at <= now - KEPT_FOR]
    tx.remove(TOKENS, [(row.name,) for row in forgotten])
    there = tx.lock(TOKENS, [(new.name,)]).get((new.name,))
    if there is None:
        if len(listed) - len(forgotten) >= TOKENS_MAX:
            return TokenRefused(WhyUngranted.FULL)
        until = None if new.expires_after is None else now + new.expires_after
        row = TokenRow(new.name, new.hash, new.scope, now, clean_text(new.by), until)
        if tx.add(TOKENS, [row]):
            return row
        there = tx.lock(TOKENS, [(new.name,)]).get((new.name,))
    if there is not None and there.hash == new.hash:
        return there
    return TokenRefused(WhyUngranted.TAKEN, there)


def revoke_token(tx: Transaction, name: str, by: str, reason: str | None) -> TokenRow | None:
    """Revoke a token. Returns None if it does not exist. A revoked token stays unchanged."""
    tx.gate()
    row = tx.lock(TOKENS, [(name,)]).get((name,))
    if row is None or row.revoked_at is not None:
        return row
    why = None if reason is None else clean_text(reason)
    revoked = replace(row, revoked_at=tx.now(), revoked_by=clean_text(by), reason=why)
    tx.save(TOKENS, [revoked], ("revoked_at", "revoked_by", "reason"))
    return revoked


def all_tokens(tx: Transaction) -> TokensSeen:
    """Return all listed tokens."""
    return TokensSeen(tx.now(), tuple(tx.scan(TOKENS, limit=TOKENS_MAX)))


def token_of(tx: Transaction, digest: str) -> TokenSeen:
    """Return the token whose text has this hash."""
    return TokenSeen(tx.now(), tx.named(TOKENS, [(digest,)]).get((digest,)))


def token_named(tx: Transaction, name: str) -> TokenSeen:
    """Return the token with this name."""
    return TokenSeen(tx.now(), tx.get(TOKENS, [(name,)]).get((name,)))
