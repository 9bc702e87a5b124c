"""The operations of a transaction, on a tree of keys.

A row is one key, and a second one for its name if it has one. There is one writer, so no locks are needed: rows that a
transaction reads stay unchanged until it ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import lmdb
import msgspec
from msgspec.structs import astuple

from itinerary.errors import SchemaError, UnwritableError
from itinerary.stores.lmdb.keys import Path
from itinerary.stores.lmdb.layout import COUNTER, HOME, MARK, PLACES, TablePlace
from itinerary.stores.lmdb.row_locations import NOWHERE, Known, RowLocations
from itinerary.stores.lmdb.scan import walk
from itinerary.stores.notifications import raise_counts
from itinerary.stores.tables import R, Table, Values
from itinerary.stores.transaction import ConditionalUpdate, swap_one_by_one

__all__ = ["LAYOUTS", "SCHEMA", "LmdbTransaction", "check_schema"]

LAYOUTS: Final = ("first tables",)
"""The additions of each layout. Newer layouts keep the places of older ones."""
SCHEMA: Final = len(LAYOUTS)
"""The number of the layout that this program writes."""
_INT_MAX: Final = (1 << 63) - 1
"""The largest number that every store can hold. MessagePack itself allows twice that."""
_maybe_unsigned: Final = re.compile(rb"\xcf[\x80-\xff]").search
"""A search for the encoding of a larger number, much faster than a check of every field."""


class LmdbTransaction:
    """A piece of work on the tree of keys."""

    def __init__(self, txn: lmdb.Transaction[bytes], now: int, known: Known) -> None:
        self._txn = txn
        self._now = now
        self._homes = RowLocations(txn, known)
        self.has_told = False
        """True if watchers must be woken after the commit."""

    # -- Transaction -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return self._now

    def gate(self, *, exclusive: bool = False) -> None:  # noqa: ARG002 - one writer: always exclusive
        """Check the schema. No other transaction writes at the same time."""
        check_schema(self._txn.get(MARK))

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        place = PLACES[table.title]
        wanted = {self._key(place, key): key for key in keys}
        wanted.pop(b"", None)
        found = self._txn.cursor().getmulti(wanted)
        return {wanted[key]: _decoded(place, key, value) for key, value in found}

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self.get(table, sorted(keys))

    def expect(self, table: Table[R], keys: Collection[Values]) -> None:
        """Do nothing: this engine has no cache of rows."""

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        place = PLACES[table.title]
        assert place.names is not None
        found: dict[Values, R] = {}
        for name in names:
            if (key := self._txn.get(place.names.key(name))) is not None:
                found[name] = self._row(place, key)
        return found

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        place = PLACES[table.title]
        if table.is_serial:
            return self._add_numbered(place, table, rows)
        created: list[R] = []
        for row in sorted(rows, key=table.key_of):
            key = self._key(place, table.key_of(row), makes_home=True)
            name = place.names.key(table.name_of(row)) if place.names else None
            if name is not None and self._txn.get(name) is not None:
                continue
            if not self._txn.put(key, _encoded(place, row), overwrite=False):
                continue
            if name is not None:
                self._txn.put(name, key)
            created.append(row)
        return created

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        self.put(table, rows)

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        place = PLACES[table.title]
        if place.names is not None:
            for row in rows:
                self._put_named(place, row)
            return
        self._write(place, [(self._key(place, table.key_of(row), makes_home=True), row) for row in rows])

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        if table.name and not set(table.name).isdisjoint(columns):
            self.put(table, rows)
            return
        place = PLACES[table.title]
        self._write(place, [(self._key(place, table.key_of(row)), row) for row in rows])

    def swap(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> Sequence[Values]:
        return swap_one_by_one(self, table, keys, swap)

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        place = PLACES[table.title]
        for prefix in prefixes:
            for key in self._keys_of(place, prefix):
                value = self._txn.pop(key)
                if value is not None and place.names is not None:
                    self._txn.delete(place.names.key(table.name_of(_decoded(place, key, value))))
            if place.is_below:
                self._homes.leave(prefix)

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
        place = PLACES[table.title]
        if place.is_below and not by_name:
            below = self._homes.below(place, prefix, low, high, newest_first=newest_first)
            return [_decoded(place, key, value) for key, value in islice(below, limit)]
        path = place.names if by_name else place.path
        assert path is not None
        if len(prefix) == len(path.fields):
            return list((self.named if by_name else self.get)(table, [prefix]).values())[:limit]
        bounds = path.bounds(prefix, low, high)
        items = walk(self._txn.cursor(), bounds, size=path.size, newest_first=newest_first)
        rows = ((key, self._row(place, value) if by_name else _decoded(place, key, value)) for key, value in items)
        if not path.has_text:
            return [row for _, row in islice(rows, limit)]
        pick = table.name_of if by_name else table.key_of
        ordered = _in_order(path, rows, pick, (prefix, low, high), newest_first=newest_first)
        return list(islice(ordered, limit))

    def names(self, table: Table[R], *, low: Values, high: Values, limit: int) -> list[Values]:
        place = PLACES[table.title]
        assert place.names is not None
        found: list[Values] = []
        bounds = place.names.bounds((), low, high)
        for name, _ in islice(walk(self._txn.cursor(), bounds, size=place.names.size), limit):
            if (values := place.names.values(name)) is None:  # too long to be in the key, so read the rows
                rows = self.scan(table, low=low, high=high, limit=limit, by_name=True)
                return [table.name_of(row) for row in rows]
            found.append(values)
        return found

    def notify(self, topics: Collection[str]) -> None:
        raise_counts(self, topics)
        self.has_told = True

    # -- rows --------------------------------------------------------------------------------------------------------

    def _key(self, place: TablePlace, values: Values, *, makes_home: bool = False) -> bytes:
        """Return the key of a row; empty if it is below an occurrence that has no home."""
        if not place.is_below:
            return place.path.key(values)
        home = self._homes.of(values[0])
        if home is None:
            if not makes_home:
                return b""
            home = self._homes.settle(values[0], NOWHERE)
        return home + place.path.key(values[1:])

    def _row(self, place: TablePlace, key: bytes) -> Any:
        value = self._txn.get(key)
        if value is None:
            raise SchemaError(f"the LMDB store is damaged: a name says that {key!r} is there; restore a backup")
        return _decoded(place, key, value)

    def _write(self, place: TablePlace, rows: list[tuple[bytes, Any]]) -> None:
        self._txn.cursor().putmulti([(key, _encoded(place, row)) for key, row in rows])

    def _add_numbered(self, place: TablePlace, table: Table[R], rows: Sequence[R]) -> list[R]:
        assert place.names is not None
        counter = COUNTER + table.title.encode()
        number = before = int.from_bytes(self._txn.get(counter, b""))
        created: list[R] = []
        written: list[tuple[bytes, Any]] = []
        for row in sorted(rows, key=table.name_of):
            key = HOME.key((place.job_of(row), number + 1)) if place.job_of else place.path.key((number + 1,))
            if not self._txn.put(place.names.key(table.name_of(row)), key, overwrite=False):
                continue
            number += 1
            if place.job_of is not None:
                self._homes.settle(number, place.job_of(row))
            created.append(msgspec.structs.replace(row, **{table.key[0]: number}))
            written.append((key, created[-1]))
        if number != before:
            self._txn.put(counter, number.to_bytes(8))
            self._write(place, written)
        return created

    def _put_named(self, place: TablePlace, row: Any) -> None:
        """Write a row, and make sure that its name, and no other, refers to it."""
        assert place.names is not None
        table = place.table
        values = table.key_of(row)
        before = self.get(table, [values]).get(values)
        key = self._homes.settle(values[0], place.job_of(row)) if place.job_of else place.path.key(values)
        self._txn.put(key, _encoded(place, row))
        name = place.names.key(table.name_of(row))
        if before is not None and (old := place.names.key(table.name_of(before))) != name:
            self._txn.delete(old)
        led_to = self._txn.replace(name, key)
        assert led_to is None or before is not None, f"{row!r} has the name of another row"

    def _keys_of(self, place: TablePlace, prefix: Values) -> list[bytes]:
        """Return the keys of the rows whose key begins with this prefix."""
        if place.is_below:
            return [key for key, _ in self._homes.below(place, prefix, (), ())]
        if len(prefix) == len(place.path.fields):
            return [place.path.key(prefix)]
        bounds = place.path.bounds(prefix, (), ())
        return [key for key, _ in walk(self._txn.cursor(), bounds, size=place.path.size)]


def check_schema(stored: bytes | None) -> None:
    """Check that a store belongs to Itinerary, and has the schema of this program.

    Raises:
        SchemaError: The store does not.
    """
    if stored is None:
        raise SchemaError("the LMDB store has no schema number: it is somebody else's; choose another directory")
    number = int.from_bytes(stored)
    if number != SCHEMA:
        raise SchemaError(
            f"the LMDB store has schema {number}, this program knows {SCHEMA}: run the newer program on it, "
            "or restore the backup from before the upgrade"
        )


def _encoded(place: TablePlace, row: Any) -> bytes:
    try:
        value = place.encode(row)
    except (OverflowError, UnicodeEncodeError) as error:
        raise UnwritableError(f"a row of {place.table.title} cannot be written: {error}; it is {row!r}") from error
    if _maybe_unsigned(value) and any(isinstance(part, int) and part > _INT_MAX for part in astuple(row)):
        raise UnwritableError(f"a row of {place.table.title} has a number above {_INT_MAX}; it is {row!r}")
    return value


def _decoded(place: TablePlace, key: bytes, value: bytes) -> Any:
    try:
        return place.decode(value)
    except msgspec.DecodeError as error:
        raise SchemaError(f"the LMDB store is damaged at {key!r}: {error}; restore a backup") from error


def _in_order(
    path: Path,
    rows: Iterable[tuple[bytes, R]],
    pick: Callable[[R], Values],
    bounds: tuple[Values, Values, Values],
    *,
    newest_first: bool,
) -> Iterator[R]:
    """Yield the scanned rows, sorted among those whose long texts have the same first bytes."""
    prefix, low, high = bounds
    place, offset = len(prefix), len(path.key(prefix))
    ties: list[R] = []
    tied: bytes | None = None
    for key, row in rows:
        tie = path.tie(key, place, offset)
        if tie != tied:
            yield from sorted(ties, key=pick, reverse=newest_first)
            ties, tied = [], tie
        if tie is None:
            yield row
        elif low <= (values := pick(row)[place:]) and (not high or values[: len(high)] < high):
            ties.append(row)
    yield from sorted(ties, key=pick, reverse=newest_first)
