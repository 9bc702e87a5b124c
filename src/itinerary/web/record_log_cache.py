"""Record schedulers and their logs, for the pages: each log is read incrementally, not from its beginning.

Only the log determines which records wait (E1). So the web server caches a projection of each record scheduler that was
viewed, and reads some more of the log each time. A page shows the progress, and completes while it is open. The command
line handles logs that are too long for this.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.ports import Store
from itinerary.records.inspect import DeskBook, PartitionSeen

__all__ = ["LOG_MAX", "DeskNow", "RecordLogCache"]

LOG_MAX: Final = 500_000
"""The maximum length of a log, in events: a projection keeps a number for each record."""
_AT_ONCE: Final = 6_000
_BOOKS_MAX: Final = 10


class DeskNow(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting records of a record scheduler, as far as its log was read."""

    partitions: tuple[PartitionSeen, ...]
    upto: int
    last: int

    @property
    def is_whole(self) -> bool:
        """True if the whole log was read."""
        return self.upto >= self.last

    @property
    def is_too_long(self) -> bool:
        """True if the rest of the log is too long to be read here."""
        return self.last - self.upto > LOG_MAX

    @property
    def stalled(self) -> int:
        """The number of partitions that their nodes do not schedule, for lack of a time zone."""
        return sum(partition.stalled is not None for partition in self.partitions)

    def total(self, what: str) -> int:
        """Return a sum over all partitions: new, queue, callbacks, verifications, records."""
        return sum(getattr(partition, what) for partition in self.partitions)


class RecordLogCache:
    """The record schedulers that were viewed last."""

    def __init__(self) -> None:
        self._books: dict[str, DeskBook] = {}

    async def desk(self, store: Store, desk: str, last: int) -> DeskNow:
        """Return the state of a record scheduler whose log has `last` events."""
        book = self._books.pop(desk, None) or DeskBook(desk)
        self._books[desk] = book
        if len(self._books) > _BOOKS_MAX:
            del self._books[next(iter(self._books))]
        if last - book.sequence <= LOG_MAX:
            await book.read(store, _AT_ONCE)
        partitions = await book.partitions(store)
        return DeskNow(partitions=tuple(partitions), upto=book.sequence, last=max(last, book.sequence))
