"""Desks and their logs, for the pages: each log is read on from where it was, and not from its beginning.

What waits at a desk can only be read off its log (E1). So the web server keeps a book of each desk that somebody has
looked at, and takes in some more of the log each time; a page says how far it is, and completes itself while it is
open. A log that is too long for that is left to the command line.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.ports import Store
from itinerary.records.inspect import DeskBook, PartitionSeen

__all__ = ["LOG_MAX", "Books", "DeskNow"]

LOG_MAX: Final = 500_000
"""The longest log that is read, in events: the book of one keeps a number for each record."""
_AT_ONCE: Final = 6_000
_BOOKS_MAX: Final = 10


class DeskNow(msgspec.Struct, frozen=True, kw_only=True):
    """What waits at a desk, as far as its log was read."""

    partitions: tuple[PartitionSeen, ...]
    upto: int
    last: int

    @property
    def is_whole(self) -> bool:
        """Whether all of the log was read."""
        return self.upto >= self.last

    @property
    def is_too_long(self) -> bool:
        """Whether it never will be, here."""
        return self.last - self.upto > LOG_MAX

    @property
    def stalled(self) -> int:
        """The number of partitions that their nodes do not schedule, for lack of a time zone."""
        return sum(partition.stalled is not None for partition in self.partitions)

    def total(self, what: str) -> int:
        """A figure, over all partitions: new, queue, callbacks, verifications, records."""
        return sum(getattr(partition, what) for partition in self.partitions)


class Books:
    """The desks that somebody has looked at last."""

    def __init__(self) -> None:
        self._books: dict[str, DeskBook] = {}

    async def desk(self, store: Store, desk: str, last: int) -> DeskNow:
        """A desk whose log has `last` events."""
        book = self._books.pop(desk, None) or DeskBook(desk)
        self._books[desk] = book
        if len(self._books) > _BOOKS_MAX:
            del self._books[next(iter(self._books))]
        if last - book.sequence <= LOG_MAX:
            await book.read(store, _AT_ONCE)
        partitions = await book.partitions(store)
        return DeskNow(partitions=tuple(partitions), upto=book.sequence, last=max(last, book.sequence))
