"""Rows that need not be read, since it is known what they are.

An occurrence is written three times within seconds, and each time it has to be looked at first, with its job's slot. As
long as nobody else has written to the file, what this connection wrote last is what is there. SQLite says whether that
is so: `PRAGMA data_version` is another number as soon as another connection has committed, and inside a transaction
that may write nobody else can. So the rows are kept as long as the number stays, and all of them are forgotten when it
changes, or when anything is undone.

It saves a quarter of what a claim, a start and an end together cost the thread that writes.

What was changed without having been read (`Transaction.swap`) is made a row of only when somebody looks at it: a herd
has no time for that while it begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from itinerary.stores.tables import OCCURRENCES, SLOTS, Table, Values
from itinerary.stores.transaction import Swap

__all__ = ["Known"]

_MAX: Final = 16_384
"""Rows of each table that are kept; the oldest go first."""


class Known:
    """What a writer's connection knows of the tables that are looked at most."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Values, Any]] = {table.title: {} for table in (OCCURRENCES, SLOTS)}
        self._changed: dict[str, list[tuple[Sequence[Values], Swap]]] = {title: [] for title in self._rows}
        """What has become of some of these rows since."""
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Forget everything if somebody else has written; called when nobody can any more."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Nothing is known any more."""
        for title, rows in self._rows.items():
            rows.clear()
            self._changed[title].clear()

    def find(self, table: Table[Any], keys: Collection[Values]) -> dict[Values, Any] | None:
        """What is known of these rows; None if nothing ever is of such a table's."""
        if (kept := self._rows.get(table.title)) is None:
            return None
        self._catch_up(table)
        return {key: kept[key] for key in keys if key in kept}

    def change(self, table: Table[Any], keys: Sequence[Values], swap: Swap) -> None:
        """This has been done to these rows."""
        if table.title in self._rows:
            self._changed[table.title].append((keys, swap))

    def _catch_up(self, table: Table[Any]) -> None:
        """Make rows of what has been done to them."""
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
        """These rows are as they are in the file, from now on."""
        if (kept := self._rows.get(table.title)) is not None:
            self._catch_up(table)
            kept.update(zip(table.keys_of(rows), rows, strict=True))
            for key in list(islice(kept, max(0, len(kept) - _MAX))):
                del kept[key]

    def drop(self, table: Table[Any], prefixes: Iterable[Values]) -> None:
        """These rows are gone, or those below them."""
        if (kept := self._rows.get(table.title)) is not None:
            self._catch_up(table)
            for prefix in prefixes:
                if len(prefix) < len(table.key):
                    kept.clear()
                kept.pop(prefix, None)
