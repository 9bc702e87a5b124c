"""The operations that a store provides inside one transaction.

The operations read and write rows in bulk. Their meaning is in the ledger, once for all stores. An engine implements
only these few operations, and never repeats the rules of the protocol.

**Isolation.** Rows returned by `lock` stay unchanged until the transaction ends, and no other transaction can create a
row that `add` has created. Each call sees all commits before the call. A store must not answer from a snapshot older
than its own locks: that once broke protocol rules 4 and 6. A store with one writer meets all this without effort.

**Lock order** (protocol rule 11): the gate, then the tables limits, occurrences, slots, and within a table by key. The
ledger keeps the order of tables. `lock` and `add` keep the order of keys, whatever the order of their arguments. A
remaining deadlock is detected by the store, which then repeats the work.

**Repetition.** A store may run the same work again after a deadlock, a lost connection, or a commit without an answer.
The ledger functions are written so that the second run gives the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from itinerary.stores.tables import R, Table, Values

__all__ = ["ConditionalUpdate", "Transaction", "swap_one_by_one"]


class ConditionalUpdate:
    """An update of all rows that meet a condition, with the same values for all rows except those in `each`.

    A store may apply it to a thousand rows in one statement, without reading them.
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
        """Required values of columns; None means that the column is NULL."""
        self.up_to = up_to or {}
        """Upper bounds of columns, inclusive."""
        self.becomes = becomes
        """New values of columns. No column here or in `each` is in the key or the name of the table."""
        self.each = each or {}
        """New values of columns that differ from row to row, in the order of the keys."""

    def is_met_by(self, row: Any) -> bool:
        """True if a row meets the condition."""
        return all(getattr(row, name) == value for name, value in self.was.items()) and all(
            getattr(row, name) <= value for name, value in self.up_to.items()
        )

    def values_at(self, place: int) -> dict[str, Any]:
        """Return the new values for the row of the key at this position."""
        return {**self.becomes, **{name: values[place] for name, values in self.each.items()}}

    def narrowed(self, places: Sequence[int]) -> ConditionalUpdate:
        """Return the same swap for the keys at these positions only."""
        each = {name: [values[place] for place in places] for name, values in self.each.items()}
        return ConditionalUpdate(self.was, self.becomes, up_to=self.up_to, each=each)


class Transaction(Protocol):
    """A transaction. The store commits when the ledger function returns, and rolls back when it raises."""

    def now(self) -> int:
        """Return the store time in microseconds: constant in a transaction, and never the clock of the caller."""

    def gate(self, *, exclusive: bool = False) -> None:
        """Pass the gate (protocol rule 4) and hold it until the transaction ends.

        This is a statement of its own, before any read. The default is shared; a change of the timeline is exclusive.

        Raises:
            SchemaError: The schema is not the one that this program knows (protocol rule 26).
        """

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        """Return the existing rows with these keys."""

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        """Lock the existing rows with these keys, in key order, and return them as read under the lock."""

    def expect(self, table: Table[R], keys: Collection[Values]) -> None:
        """Announce that another transaction will lock these rows soon. A store with a cache may read them now."""

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        """Return the existing rows with these names."""

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        """Create the rows whose key (or name) is free.

        Existing rows stay unchanged. For a serial table, the number in the row is ignored and replaced by the assigned
        one.

        Returns:
            The created rows, in the order of keys (or names).
        """

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        """Write rows that are known to be new, which is cheaper.

        An existing row is a bug in Itinerary, and may raise.
        """

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        """Write rows, and overwrite existing ones."""

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        """Overwrite existing, locked rows that differ at most in these columns."""

    def swap(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> Sequence[Values]:
        """Update those rows that meet the condition of the swap. Each row is checked under its lock.

        Args:
            table: The table, with a key of one column.
            keys: Distinct keys, in order.
            swap: The condition and the new values.

        Returns:
            The keys of the changed rows, in order.
        """

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        """Delete every row whose key begins with one of these prefixes."""

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
        """Return at most `limit` rows along a key (or name).

        Args:
            table: The table to read.
            prefix: The values of the first columns.
            low: The lower bound of the following columns, inclusive, compared as a tuple.
            high: The upper bound of the following columns, exclusive, compared as a tuple.
            limit: The most rows to return.
            newest_first: True for descending order.
            by_name: True to scan along the name instead of the key.
        """

    def names(self, table: Table[R], *, low: Values, high: Values, limit: int) -> list[Values]:
        """Return the names in a range, without their rows."""

    def notify(self, topics: Collection[str]) -> None:
        """Notify the watchers of these topics when the transaction commits."""


def swap_one_by_one(tx: Transaction, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> list[Values]:
    """Run `Transaction.swap` row by row, for a store without a faster way."""
    rows = tx.lock(table, keys)
    changed = {
        key: replace(rows[key], **swap.values_at(place))
        for place, key in enumerate(keys)
        if key in rows and swap.is_met_by(rows[key])
    }
    if changed:
        tx.save(table, list(changed.values()), {*swap.becomes, *swap.each})
    return list(changed)
