"""Idempotency: a key that the caller chooses, together with a digest of the request.

    the same key, the same request       one change; the second call gets the answer of the first
    the same key, another request        a mistake: IdempotencyKeyReusedError, and no change

A caller that got no answer sends the request again, to any node, even after a restart. So the key is stored in the
result of the request and nowhere else: in the timeline entry, the occurrence or the event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from itinerary.errors import IdempotencyKeyReusedError
from itinerary.model.rows import EntryRow
from itinerary.model.text import check_name, shown

__all__ = ["RequestKey", "check_same"]

_MARK = "/key/"


class RequestKey(msgspec.Struct, frozen=True):
    """The key of one request."""

    text: str
    fingerprint: str
    """A digest of the request."""

    def __post_init__(self) -> None:
        check_name("request key", self.text)

    def request(self, what: str) -> str:
        """Return the request id of the timeline entry that this request makes."""
        return f"{what}{_MARK}{_digest(self.text)}/{self.fingerprint}"

    def made(self, entries: Iterable[EntryRow]) -> EntryRow | None:
        """Return the entry that this request has made, if any.

        Raises:
            IdempotencyKeyReusedError: Another request used the key.
        """
        mine = _digest(self.text)
        for entry in entries:
            _, _, rest = entry.request.rpartition(_MARK)
            key, _, fingerprint = rest.partition("/")
            if key == mine:
                check_same(self.text, fingerprint, self.fingerprint)
                return entry
        return None


def check_same(key: str | None, before: str | None, now: str | None) -> None:
    """Raise IdempotencyKeyReusedError if a key was used for another request. A missing fingerprint is not compared."""
    if before is not None and now is not None and before != now:
        raise IdempotencyKeyReusedError(
            f"the key {shown(key)} was used for another request already, and nothing was done; "
            "send what you sent then, or take a new key"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
