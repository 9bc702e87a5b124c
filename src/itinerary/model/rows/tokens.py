"""Rows of tokens (Q1)."""

from __future__ import annotations

from itinerary.model.rows.keys import Row
from itinerary.model.scopes import Scope

__all__ = ["TokenRow"]


class TokenRow(Row, frozen=True):
    """A token without its text, which only its bearer knows.

    The row outlives the token, because the history names it.
    """

    name: str
    hash: str
    """The SHA-256 of its text, in hexadecimal digits."""
    scope: Scope
    created_at: int
    created_by: str
    expires_at: int | None = None
    """The time from which it is no longer valid. None: valid until it is revoked."""
    revoked_at: int | None = None
    revoked_by: str | None = None
    reason: str | None = None
    """The reason for the revocation."""

    @property
    def ends_at(self) -> int | None:
        """The time at which it stops, or stopped, being valid. None: no known end."""
        ends = [at for at in (self.revoked_at, self.expires_at) if at is not None]
        return min(ends, default=None)

    def is_good(self, now: int) -> bool:
        """True if the token is valid at this time of the store. A revocation takes effect at once."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
