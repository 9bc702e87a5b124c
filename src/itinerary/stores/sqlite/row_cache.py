"""A cache of rows, so that the writer need not read them again.

An occurrence is written three times within seconds, and each write first reads its row and its overlap slot. While no
other connection writes to the file, the last write of this connection is the current content. `PRAGMA data_version`
shows that: it changes as soon as another connection has committed, and during a write transaction no other can. So the
rows stay cached until the number changes, or until anything is rolled back. Then all are dropped.

The cache saves the writer thread a quarter of the cost of a claim, a start and an end together.

Rows that were changed without a read (`Transaction.swap`) are updated in the cache only on their next read. The start
of many jobs at once has no time for that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from itinerary.stores.tables import OCCURRENCES, OVERLAP_SLOTS, Table, Values
from itinerary.stores.transaction import ConditionalUpdate

__all__ = ["RowCache"]

_MAX: Final = 16_384
"""The most cached rows of each table. The oldest are dropped first."""


class RowCache:
    """The cached rows of the most used tables, for the connection of the writer."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Values, Any]] = {table.title: {} for table in (OCCURRENCES, OVERLAP_SLOTS)}
        self._changed: dict[str, list[tuple[Sequence[Values], ConditionalUpdate]]] = {title: [] for title in self._rows}
        """The swaps that are not applied to the cached rows yet."""
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Drop all rows if another connection has written. Called when no other connection can write."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Drop all rows."""
        for title, rows in self._rows.items():
            rows.clear()
            self._changed[title].clear()

    def find(self, table: Table[Any], keys: Collection[Values]) -> dict[Values, Any] | None:
        """Return the cached rows with these keys, or None if the table is not cached."""
        if (kept := self._rows.get(table.title)) is None:
            return None
        self._catch_up(table)
        return {key: kept[key] for key in keys if key in kept}

    def change(self, table: Table[Any], keys: Sequence[Values], swap: ConditionalUpdate) -> None:
        """Record a swap of these rows."""
        if table.title in self._rows:
            self._changed[table.title].append((keys, swap))

    def _catch_up(self, table: Table[Any]) -> None:
        """Apply the recorded swaps to the cached rows."""
        kept, changed = self._rows[table.title], self._changed[table.title]
        for keys, swap in changed:
            values = dict(swap.becomes)
            for place, key in enumerate(keys):
                if (row := kept.get(key)) is not None:
                    for name, own in swap.each.items():
                        values[name] = own[place]
                    kept[key] = replace(row, **values)
        changed.clear()

    def keep(self, table: Table[Any], rows: Sequence[Any]) -> None:
        """Cache these rows as the current content of the file."""
        if (kept := self._rows.get(table.title)) is not None:
            self._catch_up(table)
            kept.update(zip(table.keys_of(rows), rows, strict=True))
            for key in list(islice(kept, max(0, len(kept) - _MAX))):
                del kept[key]

    def drop(self, table: Table[Any], prefixes: Iterable[Values]) -> None:
        """Drop the rows with these keys or key prefixes."""
        if (kept := self._rows.get(table.title)) is not None:
            self._catch_up(table)
            for prefix in prefixes:
                if len(prefix) < len(table.key):
                    kept.clear()
                kept.pop(prefix, None)
