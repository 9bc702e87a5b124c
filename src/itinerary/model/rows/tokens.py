"""Rows of tokens (Q1)."""

from __future__ import annotations

from itinerary.model.rows.keys import Row
from itinerary.model.scopes import Scope

__all__ = ["TokenRow"]


class TokenRow(Row, frozen=True):
    """A token, without its text, which only its bearer knows. The history names it, so the row outlives it."""

    name: str
    hash: str
    """SHA-256 of its text, in hexadecimal digits."""
    scope: Scope
    created_at: int
    created_by: str
    expires_at: int | None = None
    """From when on it is good for nothing; None: it stays good until it is revoked."""
    revoked_at: int | None = None
    revoked_by: str | None = None
    reason: str | None = None
    """Why it was revoked."""

    @property
    def ends_at(self) -> int | None:
        """When it stops, or has stopped, being good for anything; None: never, as far as is known."""
        ends = [at for at in (self.revoked_at, self.expires_at) if at is not None]
        return min(ends, default=None)

    def is_good(self, now: int) -> bool:
        """Whether it is good for anything at this time of the store. What is revoked is so at once."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
