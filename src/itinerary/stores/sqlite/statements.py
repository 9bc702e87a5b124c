"""The SQL of the row operations, generated from the declared tables.

Four measurements determine these statements, all on rows of occurrences, a thousand at a time.

**Many rows in one statement.** Python's sqlite3 releases the interpreter lock for every row that it steps over. A busy
thread returns the lock 5 ms later. Beside such a thread, a row of `executemany` took ten times as long as one of an
INSERT with a hundred rows. So rows are written with statements for 512, 256, 64, 16, 4 or one of them. Rows are read
with one statement that returns one row: a JSON array, which msgspec decodes at once. Reading that way takes a third of
the time even without a busy thread.

**No unnecessary binding.** Binding None goes through the adapters of sqlite3 and costs as much as several numbers.
Columns that are None in every row are left out of a statement, which halves the time of an insert.

**Shared values are bound once.** Occurrences that start or end together get the same values except for their key. An
UPDATE with a list of keys takes half the time of one that is joined with the values of each row.

**Keys are joined, not compared.** `key IN (SELECT … FROM wanted)` and a cross join with `wanted` use the index. `(a, b)
IN (VALUES …)` reads the whole table.
"""

# ruff: noqa: S608 - the text is made of names that our own tables declare; values are always bound

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple

from itinerary.stores.tables import Table

__all__ = [
    "BUMP",
    "PREFIX",
    "SIZES",
    "TAKE_NUMBERS",
    "Condition",
    "alike",
    "by_values",
    "delete",
    "insert",
    "scan",
    "split",
    "swap",
    "update",
    "update_alike",
]

PREFIX: Final = "itinerary_"
"""The prefix of our table names: a task's own tables (D6) are in the same file."""
SIZES: Final = (512, 256, 64, 16, 4, 1)
"""Rows in one statement. Few sizes, so that few statements must be cached."""

TAKE_NUMBERS: Final = f"UPDATE {PREFIX}numbers SET last = last + ? WHERE title = ? RETURNING last"
BUMP: Final = (
    f"INSERT INTO {PREFIX}notifications (topic, count) VALUES (?, 1)"
    " ON CONFLICT (topic) DO UPDATE SET count = count + 1"
)


def split(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows in as few statements as possible: the number of rows in each, and all their values in sequence."""
    at = 0
    for size in SIZES:
        while len(rows) - at >= size:
            yield size, list(chain.from_iterable(rows[at : at + size]))
            at += size


@cache
def insert(table: Table[Any], columns: tuple[str, ...], size: int, *, over: bool | None) -> str:
    """Build an INSERT of rows with these columns; the others become NULL.

    `over`: True overwrites existing rows, False skips them, None means that none exists.

    Not INSERT OR IGNORE, which would also ignore a NULL in a column that does not allow it.
    """
    head = f"INSERT INTO {PREFIX}{table.title} ({', '.join(columns)}) VALUES {_places(len(columns), size)}"
    rest = [name for name in table.names if name not in table.key]
    if over and rest:
        changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
        return f"{head} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changes}"
    return head if over is None else f"{head} ON CONFLICT DO NOTHING"


@cache
def update(table: Table[Any], columns: tuple[str, ...], nulls: tuple[str, ...], size: int) -> str:
    """Build an UPDATE of these columns, and of `nulls` to NULL. The values are the key, then the columns."""
    names = [f"new_{name}" for name in (*table.key, *columns)]
    changes = [*(f"{name} = new_{name}" for name in columns), *(f"{name} = NULL" for name in nulls)]
    same = " AND ".join(f"{name} = new_{name}" for name in table.key)
    return (
        f"WITH new ({', '.join(names)}) AS (VALUES {_places(len(names), size)})"
        f" UPDATE {PREFIX}{table.title} SET {', '.join(changes)} FROM new WHERE {same}"
    )


@cache
def update_alike(table: Table[Any], columns: tuple[str, ...], nulls: tuple[str, ...], size: int) -> str:
    """Build the same UPDATE with common values for all rows. The values come first, then the keys."""
    (key,) = table.key
    changes = [*(f"{name} = ?" for name in columns), *(f"{name} = NULL" for name in nulls)]
    return f"UPDATE {PREFIX}{table.title} SET {', '.join(changes)} WHERE {key} IN ({', '.join('?' * size)})"


class Condition(NamedTuple):
    """A condition on rows: columns that equal a value, that are not above a value, or that are NULL."""

    equal: tuple[str, ...]
    up_to: tuple[str, ...]
    null: tuple[str, ...]

    def sql(self) -> str:
        """Return the condition as SQL. Its values are those of `equal`, then those of `up_to`."""
        parts = [*(f"{name} = ?" for name in self.equal), *(f"{name} <= ?" for name in self.up_to)]
        return " AND ".join([*parts, *(f"{name} IS NULL" for name in self.null)])


@cache
def swap(
    table: Table[Any],
    condition: Condition,
    columns: tuple[str, ...],
    nulls: tuple[str, ...],
    beyond: tuple[str, ...],
    each: tuple[str, ...],
    size: int,
) -> str:
    """Build an UPDATE of the rows that meet a condition.

    Its values, in order: those of `columns`, the distances of `beyond` from the key, the keys with their values of
    `each`, those of the condition.

    The statement begins with UPDATE and not with WITH: otherwise sqlite3 does not report the number of changed rows.
    """
    (key,) = table.key
    changes = [f"{name} = ?" for name in columns] + [f"{name} = NULL" for name in nulls]
    changes += [f"{name} = {key} + ?" for name in beyond]
    changes += [f"{name} = column{place}" for place, name in enumerate(each, 2)]
    found = f"WHERE {key} IN ({', '.join('?' * size)})"
    if each:
        found = f"FROM (VALUES {_places(1 + len(each), size)}) WHERE {key} = column1"
    return f"UPDATE {PREFIX}{table.title} SET {', '.join(changes)} {found} AND {condition.sql()}"


@cache
def alike(table: Table[Any], condition: Condition, size: int) -> str:
    """Build a SELECT of those keys whose rows meet a condition."""
    (key,) = table.key
    return (
        f"SELECT json_group_array({key}) FROM {PREFIX}{table.title}"
        f" WHERE {key} IN ({', '.join('?' * size)}) AND {condition.sql()}"
    )


@cache
def by_values(table: Table[Any], by: tuple[str, ...], size: int) -> str:
    """Build a SELECT of the rows with these values in a key or a name."""
    wanted = [f"wanted_{name}" for name in by]
    same = " AND ".join(f"{name} = wanted_{name}" for name in by)
    return (
        f"WITH wanted ({', '.join(wanted)}) AS (VALUES {_places(len(by), size)})"
        f" SELECT {_as_json(table, table.names)} FROM wanted CROSS JOIN {PREFIX}{table.title} ON {same}"
    )


@cache
def delete(table: Table[Any], depth: int, size: int) -> str:
    """Build a DELETE of the rows whose key begins with these values."""
    if depth == 0:
        return f"DELETE FROM {PREFIX}{table.title}"
    wanted = ", ".join(f"wanted_{name}" for name in table.key[:depth])
    return (
        f"WITH wanted ({wanted}) AS (VALUES {_places(depth, size)})"
        f" DELETE FROM {PREFIX}{table.title} WHERE ({', '.join(table.key[:depth])}) IN (SELECT {wanted} FROM wanted)"
    )


@cache
def scan(
    table: Table[Any],
    by: tuple[str, ...],
    depths: tuple[int, int, int],
    *,
    newest_first: bool = False,
    names_only: bool = False,
) -> str:
    """Build a SELECT along these columns. `depths` are the numbers of values of the prefix and of both bounds."""
    prefix, low, high = depths
    conditions = [f"{name} = ?" for name in by[:prefix]]
    if low:
        conditions.append(_compared(by[prefix : prefix + low], ">="))
    if high:
        conditions.append(_compared(by[prefix : prefix + high], "<"))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = ", ".join(f"{name} DESC" if newest_first else name for name in by)
    columns = by if names_only else table.names
    # SQLite keeps the order of a subquery for aggregates that depend on it, such as json_group_array.
    return (
        f"SELECT {_as_json(table, columns)} FROM (SELECT {', '.join(columns)}"
        f" FROM {PREFIX}{table.title}{where} ORDER BY {order} LIMIT ?)"
    )


def _compared(columns: tuple[str, ...], operator: str) -> str:
    return f"({', '.join(columns)}) {operator} {_places(len(columns), 1)}"


def _as_json(table: Table[Any], columns: tuple[str, ...]) -> str:
    types = {column.name: column.type for column in table.columns}
    # JSON has no bytes, so they are written in hexadecimal digits.
    values = (f"hex({name})" if types[name] is bytes else name for name in columns)
    return f"json_group_array(json_array({', '.join(values)}))"


def _places(columns: int, size: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * size)
