"""The operations of a transaction, on one connection.

SQLite has one writer at a time: `BEGIN IMMEDIATE` is the gate and every lock. So `lock` is `get`, and rows stay
unchanged until the end of the transaction. Some rows are known for longer, and not read again: see `row_cache`.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from itinerary.errors import StoreError
from itinerary.stores.sqlite import statements
from itinerary.stores.sqlite.authorizer import Authorizer
from itinerary.stores.sqlite.failures import UNWRITABLE, failure
from itinerary.stores.sqlite.row_cache import RowCache
from itinerary.stores.sqlite.rows import codec_of, plain
from itinerary.stores.sqlite.schema import check_number
from itinerary.stores.tables import R, Table, Values
from itinerary.stores.transaction import ConditionalUpdate

__all__ = ["SqliteTransaction"]


class SqliteTransaction:
    """A transaction, or the part of one that belongs to one piece of work."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        guard: Authorizer,
        path: Path,
        clock: Callable[[], int],
        number: int,
        known: RowCache | None = None,
    ) -> None:
        self.connection = connection
        self.guard = guard
        self.path = path
        self.failure: StoreError | None = None
        """The last error in this transaction."""
        self.told = False
        """True if the commit must wake watchers."""
        self._clock = clock
        self._number = number
        self._now: int | None = None
        self._known = RowCache() if known is None else known

    # -- Transaction -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        if self._now is None:
            self._now = self._clock()
        return self._now

    def gate(self, *, exclusive: bool = False) -> None:  # noqa: ARG002 - there is one writer, so it is always alone
        check_number(self._number, self.path)

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        if (found := self._known.find(table, keys)) is None:
            return self._by_values(table, table.key, table.keys_of, keys)
        if len(found) < len(keys):
            read = self._by_values(table, table.key, table.keys_of, [key for key in keys if key not in found])
            self._known.keep(table, list(read.values()))
            found = {key: row for key in keys if (row := found.get(key) or read.get(key)) is not None}
        return found

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self.get(table, sorted(keys))

    def expect(self, table: Table[R], keys: Collection[Values]) -> None:
        self.get(table, keys)

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        return self._by_values(table, table.name, table.names_of, names)

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        if not rows:
            return []
        if table.is_serial:
            return self._add_numbered(table, sorted(rows, key=table.name_of))
        rows = sorted(rows, key=table.key_of)
        if len(rows) == 1:
            return rows if self._insert(table, rows, over=False) else []
        # Nearly always all rows are new, and then the count is enough.
        self._execute("SAVEPOINT adding")
        if self._insert(table, rows, over=False) < len(rows):
            self._execute("ROLLBACK TO adding")
            rows = [row for row in rows if self._insert(table, [row], over=False)]
        self._execute("RELEASE adding")
        return rows

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        if rows:
            self._insert(table, rows, over=None)
            self._known.keep(table, rows)

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        if rows:
            self._insert(table, rows, over=True)
            self._known.keep(table, rows)

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        changed = [name for name in table.names if name in columns and name not in table.key]
        if not rows or not changed:
            return
        present = codec_of(table).columns(rows, (*table.key, *changed))
        nulls = tuple(name for name in changed if name not in present)
        keys, given = list(present.values())[: len(table.key)], list(present.values())[len(table.key) :]
        written = tuple(present)[len(table.key) :]
        if len(keys) == 1 and all(values.count(values[0]) == len(values) for values in given):
            shared = [values[0] for values in given]
            for size, bound in statements.split(list(zip(*keys, strict=True))):
                self._execute(statements.update_alike(table, written, nulls, size), [*shared, *bound])
        else:
            for size, bound in statements.split(list(zip(*keys, *given, strict=True))):
                self._execute(statements.update(table, written, nulls, size), bound)
        self._known.keep(table, rows)

    def swap(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> Sequence[Values]:
        if not keys:
            return []
        # Nearly always all rows meet the condition, and then the count is enough.
        wanted = list(keys)
        self._execute("SAVEPOINT swapping")
        if self._swap(table, wanted, swap) < len(wanted):
            self._execute("ROLLBACK TO swapping")
            alike = self._alike(table, wanted, swap)
            places = [place for place, (key,) in enumerate(wanted) if key in alike]
            wanted, swap = [wanted[place] for place in places], swap.narrowed(places)
            if wanted:
                self._swap(table, wanted, swap)
        self._execute("RELEASE swapping")
        self._known.change(table, wanted, swap)
        return wanted

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        by_depth: defaultdict[int, list[Values]] = defaultdict(list)
        for prefix in prefixes:
            by_depth[len(prefix)].append(prefix)
        for depth, of_depth in by_depth.items():
            for size, bound in statements.split(plain(of_depth if depth else of_depth[:1])):
                self._execute(statements.delete(table, depth, size), bound)
            self._known.drop(table, of_depth)

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

    def notify(self, topics: Collection[str]) -> None:
        self.told |= bool(topics)
        for topic in sorted(set(topics)):
            self._execute(statements.BUMP, [topic])

    # -- in bulk -----------------------------------------------------------------------------------------------------

    def _swap(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> int:
        """Update the rows that meet the condition, and return their number."""
        condition, compared = _condition(swap)
        given, each = _bound(swap.becomes), _bound(swap.each)
        nulls = tuple(name for name, value in swap.becomes.items() if value is None)
        (numbers,) = zip(*keys, strict=True)
        # Rows that were created together often have numbers with a constant distance, and then the distance is enough.
        beyond = {name: own[0] - numbers[0] for name, own in each.items() if _go_together(numbers, own)}
        apart = {name: own for name, own in each.items() if name not in beyond}
        shared = [*given.values(), *beyond.values()]
        changed = 0
        for size, bound in statements.split(list(zip(numbers, *apart.values(), strict=True))):
            statement = statements.swap(table, condition, tuple(given), nulls, tuple(beyond), tuple(apart), size)
            changed += self._execute(statement, [*shared, *bound, *compared]).rowcount
        return changed

    def _alike(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> set[int]:
        """Return the keys of the rows that meet the condition."""
        condition, compared = _condition(swap)
        alike: set[int] = set()
        for size, bound in statements.split(keys):
            ((answer,),) = self._execute(statements.alike(table, condition, size), [*bound, *compared])
            alike.update(msgspec.json.decode(answer))
        return alike

    def _by_values(
        self,
        table: Table[R],
        by: tuple[str, ...],
        identities: Callable[[Sequence[R]], Iterable[Values]],
        wanted: Collection[Values],
    ) -> dict[Values, R]:
        found: dict[Values, R] = {}
        for size, bound in statements.split(plain(wanted)):
            rows = self._read(table, statements.by_values(table, by, size), bound)  # in the requested order
            found.update(zip(identities(rows), rows, strict=True))
        return found

    def _add_numbered(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        """Assign a number to each row, and insert them all. Rows that exist afterwards were new."""
        ((last,),) = self._execute(statements.TAKE_NUMBERS, [len(rows), table.title])
        first, (serial,) = last - len(rows) + 1, table.key
        rows = [replace(row, **{serial: number}) for number, row in enumerate(rows, first)]
        if self._insert(table, rows, over=False) < len(rows):
            by_number = statements.scan(table, table.key, (0, 1, 0), names_only=True)
            ((answer,),) = self._execute(by_number, [first, len(rows)])
            new = {number for (number,) in msgspec.json.decode(answer)}
            rows = [row for number, row in enumerate(rows, first) if number in new]
        self._known.keep(table, rows)
        return rows

    def _insert(self, table: Table[R], rows: Sequence[R], *, over: bool | None) -> int:
        """Insert these rows, and return the number of inserted ones."""
        present = codec_of(table).columns(rows, table.names)
        columns, inserted = tuple(present), 0
        for size, bound in statements.split(list(zip(*present.values(), strict=True))):
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


def _bound(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values, or lists of them, in the form for binding: numbers for booleans, text for enumerations."""
    plain_values: dict[str, Any] = msgspec.to_builtins(
        {name: int(value) if isinstance(value, bool) else value for name, value in values.items() if value is not None},
        builtin_types=(bytes,),
    )
    return plain_values


def _go_together(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """True if both are numbers with a constant distance."""
    if not isinstance(second[0], int):
        return False
    apart = second[0] - first[0]
    return all(two is not None and two - one == apart for one, two in zip(first, second, strict=True))


def _condition(swap: ConditionalUpdate) -> tuple[statements.Condition, list[Any]]:
    equal = _bound(swap.was)
    null = tuple(name for name, value in swap.was.items() if value is None)
    return statements.Condition(tuple(equal), tuple(swap.up_to), null), [*equal.values(), *swap.up_to.values()]
