"""Tokens, as requests and answers (Q1).

    NewToken ─► TokenRow | TokenRefused

The text of a token never reaches this module: its creator keeps only the SHA-256. That is enough. No slow hash is
needed, because a token is random and too long to be guessed. Passwords are guessable because people choose them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.model.rows.tokens import TokenRow
from itinerary.model.scopes import Scope

__all__ = ["KEPT_FOR", "TOKENS_MAX", "NewToken", "TokenRefused", "TokenSeen", "TokensSeen", "WhyUngranted"]

KEPT_FOR: Final = 90 * 86_400_000_000
"""The shortest time for which a revoked or expired token stays listed, in microseconds: the history names it."""
TOKENS_MAX: Final = 1_000
"""The most tokens that a store lists, valid or not."""


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a new token."""

    name: str
    hash: str
    """The SHA-256 of the text. A second request with the same hash gets the first answer and changes nothing."""
    scope: Scope
    by: str
    expires_after: int | None = None
    """The lifetime in microseconds, by the store's clock. None: the token does not expire."""


class WhyUngranted(StrEnum):
    """The reason why a token was refused."""

    TAKEN = "taken"
    """Another token has or had that name. The history could not distinguish two tokens of one name."""
    FULL = "full"
    """The store already lists the most tokens that it may."""


class TokenRefused(msgspec.Struct, frozen=True):
    """A refused token."""

    why: WhyUngranted
    by: TokenRow | None = None
    """The token that has the name."""


class TokenSeen(msgspec.Struct, frozen=True):
    """A token, if it exists, with the store's time of the query."""

    now: int
    row: TokenRow | None


class TokensSeen(msgspec.Struct, frozen=True):
    """The tokens in the order of their names, with the store's time of the query."""

    now: int
    rows: tuple[TokenRow, ...]
