"""Tokens of the web server: users create, list and revoke them, and the server looks them up (Q1).

    format      the text of a token, and its stored hash
    admin       create, list, revoke
    cache       the server's cache: at most seconds old, and usable during a store outage

A token is shown once, to the user who made it. The store and its backups contain only the SHA-256, from which the token
cannot be computed.
"""

from itinerary.operations.tokens.admin import (
    EXPIRES_AFTER,
    EXPIRES_AFTER_MAX,
    IssuedToken,
    TokenInfo,
    create,
    has_tokens,
    listed,
    revoke,
)
from itinerary.operations.tokens.cache import FRESH_FOR, STALE_FOR, TokenBook, ValidToken
from itinerary.operations.tokens.format import digest_of, new_text

__all__ = [
    "EXPIRES_AFTER",
    "EXPIRES_AFTER_MAX",
    "FRESH_FOR",
    "STALE_FOR",
    "IssuedToken",
    "TokenBook",
    "TokenInfo",
    "ValidToken",
    "create",
    "digest_of",
    "has_tokens",
    "listed",
    "new_text",
    "revoke",
]
