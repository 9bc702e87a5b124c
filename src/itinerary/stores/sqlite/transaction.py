"""The primitives of a transaction, on one connection.

SQLite has one writer at a time: `BEGIN IMMEDIATE` is the gate and every lock. So `lock` is `get`, and what was read
stays true until the end.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from itinerary.errors import StoreError
from itinerary.stores.sqlite import statements
from itinerary.stores.sqlite.failures import UNWRITABLE, failure
from itinerary.stores.sqlite.guard import Guard
from itinerary.stores.sqlite.rows import codec_of, plain
from itinerary.stores.sqlite.schema import check_number
from itinerary.stores.tables import R, Table, Values

__all__ = ["SqliteTransaction"]


class SqliteTransaction:
    """One transaction, or the part of one that belongs to one piece of work."""

    def __init__(
        self, connection: sqlite3.Connection, guard: Guard, path: Path, clock: Callable[[], int], number: int
    ) -> None:
        self.connection = connection
        self.guard = guard
        self.path = path
        self.failure: StoreError | None = None
        """The last thing that went wrong in it."""
        self.told = False
        """Whether somebody may be waiting for this to be committed."""
        self._clock = clock
        self._number = number
        self._now: int | None = None

    # -- Transaction -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        if self._now is None:
            self._now = self._clock()
        return self._now

    def gate(self, *, exclusive: bool = False) -> None:  # noqa: ARG002 - there is one writer, so it is always alone
        check_number(self._number, self.path)

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self._by_values(table, table.key, table.key_of, keys)

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self._by_values(table, table.key, table.key_of, sorted(keys))

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        return self._by_values(table, table.name, table.name_of, names)

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        if not rows:
            return []
        if table.is_serial:
            return self._add_numbered(table, sorted(rows, key=table.name_of))
        rows = sorted(rows, key=table.key_of)
        values = codec_of(table).values(rows)
        if len(rows) == 1:
            return rows if self._insert(table, values, over=False) else []
        # Nearly always all of them are new, and then how many there were is all that has to be known.
        self._execute("SAVEPOINT adding")
        if self._insert(table, values, over=False) < len(rows):
            self._execute("ROLLBACK TO adding")
            rows = [row for row, one in zip(rows, values, strict=True) if self._insert(table, [one], over=False)]
        self._execute("RELEASE adding")
        return rows

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        if rows:
            self._insert(table, codec_of(table).values(rows), over=None)

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        if rows:
            self._insert(table, codec_of(table).values(rows), over=True)

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        changed = [name for name in table.names if name in columns and name not in table.key]
        if not rows or not changed:
            return
        names = (*table.key, *changed)
        places = [table.names.index(name) for name in names]
        present, values = _without_empty(names, list(map(itemgetter(*places), codec_of(table).values(rows))))
        nulls = tuple(name for name in changed if name not in present)
        for size, bound in statements.split(values):
            self._execute(statements.update(table, present[len(table.key) :], nulls, size), bound)

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        by_depth: defaultdict[int, list[Values]] = defaultdict(list)
        for prefix in prefixes:
            by_depth[len(prefix)].append(prefix)
        for depth, of_depth in by_depth.items():
            for size, bound in statements.split(plain(of_depth if depth else of_depth[:1])):
                self._execute(statements.delete(table, depth, size), bound)

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
        by = table.name if by_name else table.key
        depths = (len(prefix), len(low), len(high))
        statement = statements.scan(table, by, depths, newest_first=newest_first)
        return self._read(table, statement, [*plain([prefix + low + high])[0], limit])

    def names(self, table: Table[R], *, low: Values, high: Values, limit: int) -> list[Values]:
        statement = statements.scan(table, table.name, (0, len(low), len(high)), names_only=True)
        ((answer,),) = self._execute(statement, [*plain([low + high])[0], limit])
        return codec_of(table).names(answer)

    def tell(self, topics: Collection[str]) -> None:
        self.told |= bool(topics)
        for topic in sorted(set(topics)):
            self._execute(statements.BUMP, [topic])

    # -- in bulk -----------------------------------------------------------------------------------------------------

    def _by_values(
        self, table: Table[R], by: tuple[str, ...], identity: Callable[[Any], Values], wanted: Collection[Values]
    ) -> dict[Values, R]:
        found: dict[Values, R] = {}
        for size, bound in statements.split(plain(wanted)):
            rows = self._read(table, statements.by_values(table, by, size), bound)  # in the order that is asked in
            found.update(zip(map(identity, rows), rows, strict=True))
        return found

    def _add_numbered(self, table: Table[R], rows: list[R]) -> list[R]:
        """Give all of them numbers, and insert them under those: what is there afterwards was new."""
        codec = codec_of(table)
        values = codec.values(rows)
        ((last,),) = self._execute(statements.TAKE_NUMBERS, [len(rows), table.title])
        first = last - len(rows) + 1
        for number, one in enumerate(values, first):
            one[0] = number
        if self._insert(table, values, over=False) < len(rows):
            by_number = statements.scan(table, table.key, (0, 1, 0), names_only=True)
            ((answer,),) = self._execute(by_number, [first, len(rows)])
            new = {number for (number,) in msgspec.json.decode(answer)}
            values = [one for one in values if one[0] in new]
        return codec.rows(values)

    def _insert(self, table: Table[Any], values: list[list[Any]], *, over: bool | None) -> int:
        """Insert these, and return how many were."""
        columns, rows = _without_empty(table.names, values)
        inserted = 0
        for size, bound in statements.split(rows):
            inserted += self._execute(statements.insert(table, columns, size, over=over), bound).rowcount
        return inserted

    def _read(self, table: Table[R], statement: str, bound: list[Any]) -> list[R]:
        ((answer,),) = self._execute(statement, bound)
        try:
            return codec_of(table).read(answer)
        except (msgspec.ValidationError, ValueError) as error:
            message = f"{self.path}: a row of {table.title} is not what it should be: {error}; was it written by hand?"
            raise StoreError(message) from error

    def _execute(self, statement: str, bound: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self.connection.execute(statement, bound)
        except (sqlite3.Error, *UNWRITABLE) as error:
            self.failure = failure(error, self.path)
            raise self.failure from error


def _without_empty(
    names: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> tuple[tuple[str, ...], Sequence[Sequence[Any]]]:
    """The rows, and the names of their columns, without the columns that are None in every row."""
    empty = [place for place, value in enumerate(rows[0]) if value is None]
    if not empty:
        return names, rows
    pick = itemgetter(*empty)
    if len(set(map(pick, rows))) > 1:
        empty = [place for place in empty if all(row[place] is None for row in rows)]
    kept = [place for place in range(len(names)) if place not in empty]
    present = itemgetter(*kept)
    if len(kept) == 1:
        return (present(names),), [(present(row),) for row in rows]
    return present(names), list(map(present, rows))
