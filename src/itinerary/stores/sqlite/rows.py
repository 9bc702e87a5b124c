"""Conversion of rows to values and back, in bulk: the work per row runs in C.

For a write, rows are split into columns, and only the written columns are touched. sqlite3 binds plain values several
times as fast as others: text but no enumerations, numbers but no booleans, bytearrays but no bytes. For a read, msgspec
checks the type of every value, so that a damaged file is detected here and not later in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Generic, get_type_hints

import msgspec

from itinerary.stores.tables import Column, R, Table, Values

__all__ = ["Codec", "codec_of", "plain"]


def plain(values: Collection[Values]) -> list[list[Any]]:
    """Return keys or names in the form in which sqlite3 binds them."""
    plain_values: list[list[Any]] = msgspec.to_builtins(list(values), builtin_types=(bytes,))
    return plain_values


class Codec(Generic[R]):
    """The reader and writer for the rows of one table."""

    def __init__(self, table: Table[R]) -> None:
        hints = get_type_hints(table.row)
        name_types = tuple(hints[name] for name in table.name)
        self._names = msgspec.json.Decoder(list[tuple[*name_types]])  # type: ignore[valid-type]  # made of hints
        self._list: Any = list[table.row]  # type: ignore[name-defined]  # known at run time only
        # Not strict: SQLite stores booleans as 0 and 1.
        rows: msgspec.json.Decoder[list[R]] = msgspec.json.Decoder(self._list, strict=False)
        blobs = [place for place, column in enumerate(table.columns) if column.type is bytes]
        self.read: Callable[[str], list[R]] = self._reader_with(blobs) if blobs else rows.decode
        """Reads the rows from an answer in JSON."""
        self._columns = {column.name: _reader_of(column) for column in table.columns}

    def names(self, answer: str) -> list[Values]:
        """Return the names from an answer in JSON."""
        return list(self._names.decode(answer))

    def columns(self, rows: Sequence[R], names: Sequence[str]) -> dict[str, list[Any]]:
        """Return these columns of the rows in the form for binding, without those that are None in every row."""
        columns = {name: self._columns[name](rows) for name in names}
        return {name: values for name, values in columns.items() if values[0] is not None or _has_any(values)}

    def _reader_with(self, blobs: list[int]) -> Callable[[str], list[R]]:
        plain_rows = msgspec.json.Decoder(list[list[Any]])

        def read(answer: str) -> list[R]:
            values = plain_rows.decode(answer)
            for row in values:
                for place in blobs:
                    row[place] = bytes.fromhex(row[place])
            rows: list[R] = msgspec.convert(values, self._list, strict=False, builtin_types=(bytes,))
            return rows

        return read


def _reader_of(column: Column) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that reads a column from rows, in the form that sqlite3 binds quickly."""
    read = attrgetter(column.name)
    if column.type is bytes:
        return lambda rows: [None if value is None else bytearray(value) for value in map(read, rows)]
    if column.decode is None:
        return lambda rows: list(map(read, rows))
    if column.is_optional:
        return lambda rows: [None if value is None else value._value_ for value in map(read, rows)]
    # The rest are enumerations and booleans, and both have an attribute with the plain value. `value` of an enumeration
    # is
    # a Python function; `_value_` is its result, and documented as well.
    read_plain = attrgetter(f"{column.name}.{'real' if column.type is bool else '_value_'}")
    return lambda rows: list(map(read_plain, rows))


def _has_any(values: list[Any]) -> bool:
    return values.count(None) < len(values)


@cache
def codec_of(table: Table[R]) -> Codec[R]:
    """Return the codec of this table."""
    return Codec(table)
