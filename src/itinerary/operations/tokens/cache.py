"""The server's own look at the tokens, so that not every request has to ask the store.

    a request ──► known for less than 1 s? ──yes──► as it was
                         │ no
                         ▼
                  ask the store ──► as it is
                         │ it is away
                         ▼
                  known for less than 15 min? ──yes──► as it was, and `is_stale`: good for looking, not for changing

So a token that was revoked is refused everywhere at most 1 s later, plus the time that the store takes to answer. What
is not in the store is never remembered: a made-up token costs the store a look at an index each time. A client that
makes up many is held against a list of all tokens instead (`has`), which is read once a second.

While the store is away there is nothing that could be changed, and whoever watches the dashboard should see that it is
away and not a page that asks for a token. That is what a stale answer is for.

Time is the store's, as of the last answer, plus what has passed here since: whether a token has expired needs no clock
of this machine.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from itinerary.errors import StoreError, StoreUnavailable
from itinerary.model.queries import Answer, Query, TokenNamed, TokenOf, Tokens
from itinerary.model.rows import TokenRow
from itinerary.model.tokens import TokenSeen
from itinerary.operations.tokens.admin import Read
from itinerary.operations.tokens.format import digest_of
from itinerary.runtime.clock import boot_time
from itinerary.schedules.durations import SECOND

__all__ = ["FRESH_FOR", "STALE_FOR", "Found", "TokenBook"]

FRESH_FOR: Final = SECOND
"""How old an answer may be, in microseconds: this long a revoked token may still be taken for good."""
STALE_FOR: Final = 900 * SECOND
"""How old it may be while the store is away."""
_ANSWER_TIMEOUT: Final = 3.0
"""Seconds that the store has for an answer; some stores wait for much longer by themselves."""
_AWAY_FOR: Final = SECOND
"""For how long a store that did not answer is not asked again, in microseconds."""
_REMEMBERED_MAX: Final = 2_000


class Found(msgspec.Struct, frozen=True):
    """A token that is good."""

    row: TokenRow
    now: int
    """The store's time, as far as it is known."""
    is_stale: bool = False
    """The store is away, and this is what it said before."""


class _Entry(msgspec.Struct, frozen=True):
    seen: TokenSeen
    at: int


class TokenBook:
    """Finds tokens by their text, and by their name."""

    def __init__(
        self,
        read: Read,
        *,
        elapsed: Callable[[], int] = boot_time,
        fresh_for: int = FRESH_FOR,
        stale_for: int = STALE_FOR,
    ) -> None:
        """`elapsed` is a clock that only goes forward, in microseconds."""
        self._read, self._elapsed = read, elapsed
        self._fresh_for, self._stale_for = fresh_for, stale_for
        self._entries: OrderedDict[Query[TokenSeen], _Entry] = OrderedDict()
        self._away_until: int | None = None
        self._listed: tuple[frozenset[str], int] | None = None
        """The hashes of all tokens that were not revoked, and when the store was asked for them."""
        self._listing = asyncio.Lock()

    async def find(self, text: str) -> Found | None:
        """The token with this text, if it is good. Raises StoreUnavailable where nothing is known of it."""
        digest = digest_of(text)
        if digest is None:
            return None
        found = await self._look(TokenOf(digest))
        # The index has compared them already, one byte after the other. What could be learned from how long that takes
        # is the beginning of a hash, which leads to no token; this is here so that nobody has to think about it again.
        if found is None or not hmac.compare_digest(found.row.hash, digest):
            return None
        return found

    async def named(self, name: str) -> Found | None:
        """The token of this name, if it is good. Raises StoreUnavailable where nothing is known of it."""
        return await self._look(TokenNamed(name))

    async def has_any(self) -> bool:
        """True if the store has a token that was not revoked. Raises StoreUnavailable where that is not known."""
        return bool(await self._hashes())

    async def has(self, text: str) -> bool:
        """True if a token was in the store at most 1 s ago. The store is read once a second, for any number of texts.

        Raises:
            StoreUnavailable: The store does not answer, and the tokens are not known.
        """
        digest = digest_of(text)
        return digest is not None and digest in await self._hashes()

    def knows(self, text: str) -> bool:
        """True if this was a good token when it was last asked for. The store is not asked."""
        digest = digest_of(text)
        if digest is None:
            return False
        entry = self._entries.get(TokenOf(digest))
        return entry is not None and self._good(entry) is not None

    async def _hashes(self) -> frozenset[str]:
        async with self._listing:  # one question for all who wait for the answer
            known = self._listed
            if known is not None and self._elapsed() - known[1] < self._fresh_for:
                return known[0]
            asked_at = self._elapsed()
            try:
                seen = await self._answer(Tokens())
            except StoreError:
                if known is None or self._elapsed() - known[1] >= self._stale_for:
                    raise
                return known[0]
            hashes = frozenset(row.hash for row in seen.rows if row.revoked_at is None)
            self._listed = hashes, asked_at
            return hashes

    async def _look(self, query: Query[TokenSeen]) -> Found | None:
        entry = self._entries.get(query)
        if entry is None or self._elapsed() - entry.at >= self._fresh_for:
            try:
                entry = await self._asked(query)
            except StoreError:
                if entry is None or self._elapsed() - entry.at >= self._stale_for:
                    raise
                found = self._good(entry)
                return None if found is None else Found(found.row, found.now, is_stale=True)
        return self._good(entry)

    async def _asked(self, query: Query[TokenSeen]) -> _Entry:
        asked_at = self._elapsed()
        seen = await self._answer(query)
        entry = _Entry(seen, asked_at)  # it may have been so when it was asked, and not later
        if seen.row is None:
            self._entries.pop(query, None)
            return entry
        self._entries[query] = entry
        self._entries.move_to_end(query)
        if len(self._entries) > _REMEMBERED_MAX:
            self._entries.popitem(last=False)
        return entry

    async def _answer(self, query: Query[Answer]) -> Answer:
        """Ask the store, unless it has just failed to answer. Raises StoreUnavailable."""
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

    def _good(self, entry: _Entry) -> Found | None:
        now = entry.seen.now + self._elapsed() - entry.at
        row = entry.seen.row
        return Found(row, now) if row is not None and row.is_good(now) else None
