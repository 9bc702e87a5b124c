"""The server's cache of tokens, so that not every request queries the store.

    a request ──► known for less than 1 s? ──yes──► the cached answer
                         │ no
                         ▼
                  query the store ──► the answer of the store
                         │ outage
                         ▼
                  known for less than 15 min? ──yes──► the cached answer, `is_stale`: good for reading, not for changes

So every server refuses a revoked token at most 1 s later, plus the response time of the store. Unknown tokens are not
cached: each made-up token costs the store one index lookup. For a client that makes up many, `has` compares with a list
of all tokens, which is read once a second.

During a store outage nothing can be changed, and users of the dashboard should see the outage and not a page that asks
for a token. Stale answers exist for that.

The time is that of the store at its last answer, plus the time elapsed here since. So the expiry of a token does not
depend on the clock of this machine.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from itinerary.errors import StoreError, StoreUnavailable
from itinerary.model.queries import Answer, Query, TokenByNameQuery, TokenBySecretQuery, TokensQuery
from itinerary.model.rows import TokenRow
from itinerary.model.tokens import TokenSeen
from itinerary.operations.tokens.admin import TokenRead
from itinerary.operations.tokens.format import digest_of
from itinerary.runtime.clock import boot_time
from itinerary.schedules.durations import SECOND

__all__ = ["FRESH_FOR", "STALE_FOR", "TokenBook", "ValidToken"]

FRESH_FOR: Final = SECOND
"""The maximum age of an answer, in microseconds. A revoked token may be accepted for that long."""
STALE_FOR: Final = 900 * SECOND
"""The maximum age of an answer during a store outage, in microseconds."""
_ANSWER_TIMEOUT: Final = 3.0
"""Seconds to wait for an answer; some stores wait for much longer by themselves."""
_AWAY_FOR: Final = SECOND
"""How long a store that did not answer is not queried again, in microseconds."""
_REMEMBERED_MAX: Final = 2_000


class ValidToken(msgspec.Struct, frozen=True):
    """A token that is good."""

    row: TokenRow
    now: int
    """The store's time, as estimated here."""
    is_stale: bool = False
    """True if the store does not answer, and this is its last answer."""


class _Entry(msgspec.Struct, frozen=True):
    seen: TokenSeen
    at: int


class TokenBook:
    """A cache that looks up tokens by text or by name."""

    def __init__(
        self,
        read: TokenRead,
        *,
        elapsed: Callable[[], int] = boot_time,
        fresh_for: int = FRESH_FOR,
        stale_for: int = STALE_FOR,
    ) -> None:
        """Create an empty cache.

        Args:
            read: The query function of the store.
            elapsed: A monotonic clock, in microseconds.
            fresh_for: The maximum age of an answer, in microseconds.
            stale_for: The maximum age of an answer during a store outage, in microseconds.
        """
        self._read, self._elapsed = read, elapsed
        self._fresh_for, self._stale_for = fresh_for, stale_for
        self._entries: OrderedDict[Query[TokenSeen], _Entry] = OrderedDict()
        self._away_until: int | None = None
        self._listed: tuple[frozenset[str], int] | None = None
        """The hashes of all tokens that are not revoked, and the time of the query."""
        self._listing = asyncio.Lock()

    async def find(self, text: str) -> ValidToken | None:
        """Return the token with this text, if it is good.

        Raises:
            StoreUnavailable: The store does not answer, and the token is not cached.
        """
        digest = digest_of(text)
        if digest is None:
            return None
        found = await self._look(TokenBySecretQuery(digest))
        # The index has already compared the digests, and not in constant time. An attacker could learn the beginning of
        # a hash from that, which leads to no token. The constant-time comparison makes that argument unnecessary.
        if found is None or not hmac.compare_digest(found.row.hash, digest):
            return None
        return found

    async def named(self, name: str) -> ValidToken | None:
        """Return the token of this name, if it is good.

        Raises:
            StoreUnavailable: The store does not answer, and the token is not cached.
        """
        return await self._look(TokenByNameQuery(name))

    async def has_any(self) -> bool:
        """True if the store has a token that was not revoked.

        Raises:
            StoreUnavailable: The store does not answer, and no list is cached.
        """
        return bool(await self._hashes())

    async def has(self, text: str) -> bool:
        """True if a token was in the store at most 1 s ago. The store is read once a second, for any number of texts.

        Raises:
            StoreUnavailable: The store does not answer, and no list is cached.
        """
        digest = digest_of(text)
        return digest is not None and digest in await self._hashes()

    def knows(self, text: str) -> bool:
        """True if the cache has this token as a good one. The store is not queried."""
        digest = digest_of(text)
        if digest is None:
            return False
        entry = self._entries.get(TokenBySecretQuery(digest))
        return entry is not None and self._good(entry) is not None

    async def _hashes(self) -> frozenset[str]:
        async with self._listing:  # one query for all callers that wait
            known = self._listed
            if known is not None and self._elapsed() - known[1] < self._fresh_for:
                return known[0]
            asked_at = self._elapsed()
            try:
                seen = await self._answer(TokensQuery())
            except StoreError:
                if known is None or self._elapsed() - known[1] >= self._stale_for:
                    raise
                return known[0]
            hashes = frozenset(row.hash for row in seen.rows if row.revoked_at is None)
            self._listed = hashes, asked_at
            return hashes

    async def _look(self, query: Query[TokenSeen]) -> ValidToken | None:
        entry = self._entries.get(query)
        if entry is None or self._elapsed() - entry.at >= self._fresh_for:
            try:
                entry = await self._asked(query)
            except StoreError:
                if entry is None or self._elapsed() - entry.at >= self._stale_for:
                    raise
                found = self._good(entry)
                return None if found is None else ValidToken(found.row, found.now, is_stale=True)
        return self._good(entry)

    async def _asked(self, query: Query[TokenSeen]) -> _Entry:
        asked_at = self._elapsed()
        seen = await self._answer(query)
        entry = _Entry(seen, asked_at)  # the answer is valid for the time of the query, not for later
        if seen.row is None:
            self._entries.pop(query, None)
            return entry
        self._entries[query] = entry
        self._entries.move_to_end(query)
        if len(self._entries) > _REMEMBERED_MAX:
            self._entries.popitem(last=False)
        return entry

    async def _answer(self, query: Query[Answer]) -> Answer:
        """Query the store, unless it has just failed to answer. Raises StoreUnavailable."""
        if self._away_until is not None and self._elapsed() < self._away_until:
            raise StoreUnavailable("the store did not answer a moment ago; ask again")
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT):
                seen = await self._read(query)
        except (TimeoutError, StoreUnavailable) as error:
            self._away_until = self._elapsed() + _AWAY_FOR
            raise StoreUnavailable(f"the store does not answer: {str(error) or 'it takes too long'}") from error
        self._away_until = None
        return seen

    def _good(self, entry: _Entry) -> ValidToken | None:
        now = entry.seen.now + self._elapsed() - entry.at
        row = entry.seen.row
        return ValidToken(row, now) if row is not None and row.is_good(now) else None
