"""Rows that need not be read, since it is known what they are.

An occurrence is written three times within seconds, and each time it has to be looked at first, with its job's slot. As
long as nobody else has written to the file, what this connection wrote last is what is there. SQLite says whether that
is so: `PRAGMA data_version` is another number as soon as another connection has committed, and inside a transaction
that may write nobody else can. So the rows are kept as long as the number stays, and all of them are forgotten when it
changes, or when anything is undone.

It saves a quarter of what a claim, a start and an end together cost the thread that writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from itinerary.stores.tables import OCCURRENCES, SLOTS, Table, Values

__all__ = ["Known"]

_MAX: Final = 16_384
"""Rows of each table that are kept; the oldest go first."""


class Known:
    """What a writer's connection knows of the tables that are looked at most."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Values, Any]] = {table.title: {} for table in (OCCURRENCES, SLOTS)}
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Forget everything if somebody else has written; called when nobody can any more."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Nothing is known any more."""
        for rows in self._rows.values():
            rows.clear()

    def of(self, table: Table[Any]) -> Mapping[Values, Any] | None:
        """What is known of a table; None if it is not one of those."""
        return self._rows.get(table.title)

    def keep(self, table: Table[Any], rows: Sequence[Any]) -> None:
        """These rows are as they are in the file, from now on."""
        if (kept := self._rows.get(table.title)) is not None:
            kept.update(zip(table.keys_of(rows), rows, strict=True))
            for key in list(islice(kept, max(0, len(kept) - _MAX))):
                del kept[key]

    def drop(self, table: Table[Any], prefixes: Iterable[Values]) -> None:
        """These rows are gone, or those below them."""
        if (kept := self._rows.get(table.title)) is not None:
            for prefix in prefixes:
                if len(prefix) < len(table.key):
                    kept.clear()
                kept.pop(prefix, None)
