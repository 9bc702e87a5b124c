"""What a store must be able to do inside one transaction, so that the ledger can keep the books.

These are rows in and rows out, in bulk. What they mean is the ledger's business, once for all stores: a store that
does these few things well has done its part, and the protocol's rules are not written a second time.

**Isolation.** What `lock` returns stays as it is until the transaction ends, and what `add` creates nobody else can
create. Each call sees what was committed before the call: a store must not answer from a snapshot that is older than
its own locks (protocol rules 4 and 6 were broken that way). A store with one writer has all of that for nothing.

**Order of locks** (protocol rule 11): the gate, then the tables in the order limits, occurrences, slots, and within a
table by key. The ledger keeps the first half, `lock` and `add` the second: they work in the order of keys, whatever
order they were called with. Where that does not suffice, a deadlock is the store's to notice and the work's to repeat.

**Repetition.** A store may run the same work again after a deadlock, a lost connection, or a commit whose answer did
not come. The ledger's functions are written so that the second time answers as the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from itinerary.stores.tables import R, Table, Values

__all__ = ["Swap", "Transaction", "swap_one_by_one"]


class Swap:
    """What is to become of rows that are as they should be: the same for all of them, but for what `each` has.

    A store may do that for a thousand rows in one statement, without reading any of them.
    """

    __slots__ = ("becomes", "each", "up_to", "was")

    def __init__(
        self,
        was: Mapping[str, Any],
        becomes: Mapping[str, Any],
        *,
        up_to: Mapping[str, int] | None = None,
        each: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.was = was
        """Columns that have these values; None: none."""
        self.up_to = up_to or {}
        """Columns whose values are not above these."""
        self.becomes = becomes
        """What columns have afterwards. None of these, nor of `each`, is in the table's key or name."""
        self.each = each or {}
        """The same, of columns that are different for each: in the order of the keys."""

    def is_met_by(self, row: Any) -> bool:
        """Whether a row is as it should be."""
        return all(getattr(row, name) == value for name, value in self.was.items()) and all(
            getattr(row, name) <= value for name, value in self.up_to.items()
        )

    def values_at(self, place: int) -> dict[str, Any]:
        """What the row of the key at this place gets."""
        return {**self.becomes, **{name: values[place] for name, values in self.each.items()}}

    def narrowed(self, places: Sequence[int]) -> Swap:
        """The same, for the keys at these places alone."""
        each = {name: [values[place] for place in places] for name, values in self.each.items()}
        return Swap(self.was, self.becomes, up_to=self.up_to, each=each)


class Transaction(Protocol):
    """One transaction. It is committed when the ledger's function returns, and undone when that raises."""

    def now(self) -> int:
        """The store's time in microseconds: the same for the whole transaction, and never that of the asker."""

    def gate(self, *, exclusive: bool = False) -> None:
        """Pass the gate (protocol rule 4): together with others, or, to change the timeline, alone. Held until the end.

        It is a statement of its own, before any that reads. A store whose schema is not the one that this program
        knows raises here (protocol rule 26).
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

    def swap(self, table: Table[R], keys: Sequence[Values], swap: Swap) -> Sequence[Values]:
        """Of the rows under these keys, change those that are as they should be, and return their keys, in order.

        Each is looked at when it is locked. The keys are all different, of one column, and come in their order.
        """

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


def swap_one_by_one(tx: Transaction, table: Table[R], keys: Sequence[Values], swap: Swap) -> list[Values]:
    """`Transaction.swap`, for a store that has nothing better."""
    rows = tx.lock(table, keys)
    changed = {
        key: replace(rows[key], **swap.values_at(place))
        for place, key in enumerate(keys)
        if key in rows and swap.is_met_by(rows[key])
    }
    if changed:
        tx.save(table, list(changed.values()), {*swap.becomes, *swap.each})
    return list(changed)
