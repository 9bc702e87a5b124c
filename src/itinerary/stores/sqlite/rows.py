"""Rows to values and back, many at a time: what is done per row is done in C.

sqlite3 binds plain values of a few types several times as fast as others: text but no enumerations, which `to_builtins`
turns into text; numbers but no booleans; arrays of bytes but no bytes. On the way back msgspec looks at the type of
every value, so that a damaged file is noticed here and not somewhere in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, Generic, get_type_hints

import msgspec

from itinerary.stores.tables import R, Table, Values

__all__ = ["Codec", "codec_of", "plain"]


def plain(values: Collection[Values]) -> list[list[Any]]:
    """Keys or names, as they are bound."""
    plain_values: list[list[Any]] = msgspec.to_builtins(list(values), builtin_types=(bytes,))
    return plain_values


class Codec(Generic[R]):
    """Reads and writes the rows of one table."""

    def __init__(self, table: Table[R]) -> None:
        hints = get_type_hints(table.row)
        name_types = tuple(hints[name] for name in table.name)
        self._names = msgspec.json.Decoder(list[tuple[*name_types]])  # type: ignore[valid-type]  # made of hints
        self._list: Any = list[table.row]  # type: ignore[name-defined]  # known at run time only
        # Not strict: SQLite's 0 and 1 are booleans where they should be.
        rows: msgspec.json.Decoder[list[R]] = msgspec.json.Decoder(self._list, strict=False)
        blobs = [place for place, column in enumerate(table.columns) if column.type is bytes]
        self.read: Callable[[str], list[R]] = self._reader_with(blobs) if blobs else rows.decode
        """The rows of an answer in JSON."""
        self._quick = [
            (place, int if column.type is bool else bytearray)
            for place, column in enumerate(table.columns)
            if column.type in (bool, bytes)
        ]
        self._table = table

    def names(self, answer: str) -> list[Values]:
        """The names of an answer in JSON."""
        return list(self._names.decode(answer))

    def values(self, rows: Sequence[R]) -> list[list[Any]]:
        """The rows' values, in the order of the columns."""
        values: list[list[Any]] = msgspec.to_builtins(rows, builtin_types=(bytes,))
        for place, quick in self._quick:
            for row in values:
                if row[place] is not None:
                    row[place] = quick(row[place])
        return values

    def rows(self, values: list[list[Any]]) -> list[R]:
        """Rows from what `values` returned."""
        rows: list[R] = msgspec.convert(values, self._list, strict=False, builtin_types=(bytes,))
        return rows

    def _reader_with(self, blobs: list[int]) -> Callable[[str], list[R]]:
        plain_rows = msgspec.json.Decoder(list[list[Any]])

        def read(answer: str) -> list[R]:
            values = plain_rows.decode(answer)
            for row in values:
                for place in blobs:
                    row[place] = bytes.fromhex(row[place])
            return self.rows(values)

        return read


@cache
def codec_of(table: Table[R]) -> Codec[R]:
    """The codec of this table."""
    return Codec(table)
