"""What makes two requests the same one: a key that whoever asks has chosen, and what they asked for with it.

    the same key, the same request       one change; the second is answered as the first
    the same key, another request        a mistake, and nothing is done: KeyUsed

Whoever got no answer sends the request again, to any node, also after a restart. So the key is not remembered
anywhere but in what the request made: the entry on the timeline, the occurrence, the event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from itinerary.errors import KeyUsed
from itinerary.model.rows import EntryRow
from itinerary.model.text import check_name, shown

__all__ = ["RequestKey", "check_same"]

_MARK = "/key/"


class RequestKey(msgspec.Struct, frozen=True):
    """The key of one request."""

    text: str
    fingerprint: str
    """A digest of what is asked for."""

    def __post_init__(self) -> None:
        check_name("request key", self.text)

    def request(self, what: str) -> str:
        """What an entry on the timeline is known by that this request makes."""
        return f"{what}{_MARK}{_digest(self.text)}/{self.fingerprint}"

    def made(self, entries: Iterable[EntryRow]) -> EntryRow | None:
        """The entry among these that this request has made already. Raises KeyUsed where another one has."""
        mine = _digest(self.text)
        for entry in entries:
            _, _, rest = entry.request.rpartition(_MARK)
            key, _, fingerprint = rest.partition("/")
            if key == mine:
                check_same(self.text, fingerprint, self.fingerprint)
                return entry
        return None


def check_same(key: str | None, before: str | None, now: str | None) -> None:
    """Refuse a key that was used for something else; who does not say what they ask for is believed."""
    if before is not None and now is not None and before != now:
        raise KeyUsed(
            f"the key {shown(key)} was used for another request already, and nothing was done; "
            "send what you sent then, or take a new key"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
