"""Tokens: the keys of the web server, as people make, list and revoke them, and as the server finds them (Q1).

    texts       how a token reads, and what is kept of it
    keeping     create, list, revoke
    book        the server's own look at them: at most some seconds old, and still there when the store is away

A token is shown once, to whoever made it. The store has its SHA-256, and so has a backup; from that nobody gets back.
"""

from itinerary.operations.tokens.admin import (
    EXPIRES_AFTER,
    EXPIRES_AFTER_MAX,
    Listed,
    Made,
    create,
    has_tokens,
    listed,
    revoke,
)
from itinerary.operations.tokens.cache import FRESH_FOR, STALE_FOR, Found, TokenBook
from itinerary.operations.tokens.format import digest_of, new_text

__all__ = [
    "EXPIRES_AFTER",
    "EXPIRES_AFTER_MAX",
    "FRESH_FOR",
    "STALE_FOR",
    "Found",
    "Listed",
    "Made",
    "TokenBook",
    "create",
    "digest_of",
    "has_tokens",
    "listed",
    "new_text",
    "revoke",
]
