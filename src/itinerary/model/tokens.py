"""Tokens as they are asked for and answered (Q1).

    NewToken ─► TokenRow | Ungranted

The text of a token never comes here: who makes one keeps its SHA-256 and forgets the rest. That is enough, and no slow
hash is needed, since a token is random and far too long to be guessed: what makes passwords worth guessing is that
people choose them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.model.rows.tokens import TokenRow
from itinerary.model.scopes import Scope

__all__ = ["KEPT_FOR", "TOKENS_MAX", "NewToken", "TokenSeen", "TokensSeen", "Ungranted", "WhyUngranted"]

KEPT_FOR: Final = 90 * 86_400_000_000
"""For how long a token that is revoked or expired stays listed, at least, in microseconds: the history names it."""
TOKENS_MAX: Final = 1_000
"""The most tokens that a store lists, good or not."""


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that shall be good from now on."""

    name: str
    hash: str
    """What makes two requests the same one: the second is answered as the first, and changes nothing."""
    scope: Scope
    by: str
    expires_after: int | None = None
    """Microseconds by the store's clock; None: it does not expire."""


class WhyUngranted(StrEnum):
    """Why a token was not made."""

    TAKEN = "taken"
    """Another token has that name, or had it: two of one name could not be told apart in the history."""
    FULL = "full"
    """There are as many as a store lists."""


class Ungranted(msgspec.Struct, frozen=True):
    """A token that was not made."""

    why: WhyUngranted
    by: TokenRow | None = None
    """The one that has the name."""


class TokenSeen(msgspec.Struct, frozen=True):
    """A token as it was, if there is one, and the store's time when it was looked for."""

    now: int
    row: TokenRow | None


class TokensSeen(msgspec.Struct, frozen=True):
    """All tokens as they were, in the order of their names, and the store's time when they were looked for."""

    now: int
    rows: tuple[TokenRow, ...]
