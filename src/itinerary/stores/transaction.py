"""What a store must be able to do inside one transaction, so that the ledger can keep the books.

These are rows in and rows out, in bulk. What they mean is the ledger's business, once for all stores: a store that
does these few things well has done its part, and the protocol's rules are not written a second time.

**Isolation.** What `lock` returns stays as it is until the transaction ends, and what `add` creates nobody else can
create. Each call sees what was committed before the call: a store must not answer from a snapshot that is older than
its own locks (rule 4 and 6 were broken that way). A store with one writer has all of that for nothing.

**Order of locks** (rule 11): the gate, then the tables in the order limits, occurrences, slots, and within a
table by key. The ledger keeps the first half, `lock` and `add` the second: they work in the order of keys, whatever
order they were called with. Where that does not suffice, a deadlock is the store's to notice and the work's to repeat.

**Repetition.** A store may run the same work again after a deadlock, a lost connection, or a commit whose answer did
not come. The ledger's functions are written so that the second time answers as the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from itinerary.stores.tables import R, Table, Values

__all__ = ["Transaction"]


class Transaction(Protocol):
    """One transaction. It is committed when the ledger's function returns, and undone when that raises."""

    def now(self) -> int:
        """The store's time in microseconds: the same for the whole transaction, and never that of the asker."""

    def gate(self, *, exclusive: bool = False) -> None:
        """Pass the gate (rule 4): together with others, or, to change the timeline, alone. Held until the end.

        It is a statement of its own, before any that reads. A store whose schema is not the one that this program
        knows raises here (rule 26).
        """

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        """The rows that are there under these keys."""

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        """The rows that are there under these keys, locked in the order of the keys, and read when they are."""

    def expect(self, table: Table[R], keys: Collection[Values]) -> None:
        """These rows will be locked soon, by another transaction: a store that can remember them may read them now."""

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        """The rows that are there under these names."""

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        """Create the rows whose key (or name) is free, and return those, in the order of keys (or names).

        The others are left alone. Of a serial table the number that comes in is ignored, and returned as given out.
        """

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        """Write rows that are known to be new, which is cheaper: that one is not is a bug of ours, and may raise."""

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        """Write rows, over those that are there."""

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        """Write rows over those that are there, locked, and differ from them at most in these columns."""

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        """Delete every row whose key begins with one of these."""

    def scan(
        self,
        table: Table[R],
        prefix: Values = (),
        *,
        low: Values = (),
        high: Values = (),
        limit: int,
        newest_first: bool = False,
        by_name: bool = False,
    ) -> list[R]:
        """The rows along a key (or name), at most `limit` of them.

        `prefix` are the values of its first columns. `low` and `high` bound the columns that follow: from `low` on,
        and before `high`, compared as tuples as far as they go.
        """

    def names(self, table: Table[R], *, low: Values, high: Values, limit: int) -> list[Values]:
        """The names in a range, without their rows."""

    def tell(self, topics: Collection[str]) -> None:
        """Wake those who watch these topics, when this is committed."""
