"""The SQL of the primitives, made from the declared tables.

Four measurements decided what these look like. All were taken on rows of occurrences, a thousand at a time.

**Many rows in one statement.** Python's sqlite3 gives up the interpreter lock for every row that is stepped over, and a
thread that computes meanwhile gives it back 5 ms later: beside a busy thread a row of `executemany` took ten times as
long as one of an INSERT with a hundred rows. So rows are written with statements for 512, 256, 64, 16, 4 or one of
them, and read with one statement that answers in one row: a JSON array, which msgspec turns into rows in one go.
Reading that way takes a third of the time even when nobody else computes.

**Nothing is bound that need not be.** Binding None goes through sqlite3's adapters and costs as much as some numbers.
Columns that are None in every row are left out of a statement, which halves the time of an insert.

**What all rows share is bound once.** Occurrences that begin or end together get the same values but for their key, and
an UPDATE of those with these keys takes half the time of one that is joined with the values of each.

**Keys are joined, not compared**: `key IN (SELECT … FROM wanted)` and a cross join with `wanted` use the index, while
`(a, b) IN (VALUES …)` reads the whole table.
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
"""What our tables' names begin with: a task's own tables (D6) are in the same file."""
SIZES: Final = (512, 256, 64, 16, 4, 1)
"""Rows in one statement. Few sizes, so that few statements have to be kept ready."""

TAKE_NUMBERS: Final = f"UPDATE {PREFIX}numbers SET last = last + ? WHERE title = ? RETURNING last"
BUMP: Final = (
    f"INSERT INTO {PREFIX}signals (topic, count) VALUES (?, 1) ON CONFLICT (topic) DO UPDATE SET count = count + 1"
)


def split(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """The rows in as few statements as the sizes allow: how many are in each, and all their values in a row."""
    at = 0
    for size in SIZES:
        while len(rows) - at >= size:
            yield size, list(chain.from_iterable(rows[at : at + size]))
            at += size


@cache
def insert(table: Table[Any], columns: tuple[str, ...], size: int, *, over: bool | None) -> str:
    """Write rows of these columns, the others being NULL: over what is there under the same key, or only if nothing is.

    With `over` None nothing is known to be there.

    Not INSERT OR IGNORE, which would ignore a NULL where none may be as well.
    """
    head = f"INSERT INTO {PREFIX}{table.title} ({', '.join(columns)}) VALUES {_places(len(columns), size)}"
    rest = [name for name in table.names if name not in table.key]
    if over and rest:
        changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
        return f"{head} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changes}"
    return head if over is None else f"{head} ON CONFLICT DO NOTHING"


@cache
def update(table: Table[Any], columns: tuple[str, ...], nulls: tuple[str, ...], size: int) -> str:
    """Change these columns of rows that are there, and set those to NULL. Values are the key's, then the columns'."""
    names = [f"new_{name}" for name in (*table.key, *columns)]
    changes = [*(f"{name} = new_{name}" for name in columns), *(f"{name} = NULL" for name in nulls)]
    same = " AND ".join(f"{name} = new_{name}" for name in table.key)
    return (
        f"WITH new ({', '.join(names)}) AS (VALUES {_places(len(names), size)})"
        f" UPDATE {PREFIX}{table.title} SET {', '.join(changes)} FROM new WHERE {same}"
    )


@cache
def update_alike(table: Table[Any], columns: tuple[str, ...], nulls: tuple[str, ...], size: int) -> str:
    """The same, where all rows get the same values. These come first, then the keys."""
    (key,) = table.key
    changes = [*(f"{name} = ?" for name in columns), *(f"{name} = NULL" for name in nulls)]
    return f"UPDATE {PREFIX}{table.title} SET {', '.join(changes)} WHERE {key} IN ({', '.join('?' * size)})"


class Condition(NamedTuple):
    """How rows are that are to be changed: columns that are equal to a value, not above one, or NULL."""

    equal: tuple[str, ...]
    up_to: tuple[str, ...]
    null: tuple[str, ...]

    def sql(self) -> str:
        """Its values are those of `equal`, then those of `up_to`."""
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
    """Change rows that are as the condition says. Values are those of `columns`, then how far those of `beyond` are
    from the key, then the keys, each with its own of `each`, then those of the condition.

    It begins with UPDATE, and not with what it is joined to: else sqlite3 does not say how many rows it changed.
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
    """Which of so many keys are those of rows that are as the condition says."""
    (key,) = table.key
    return (
        f"SELECT json_group_array({key}) FROM {PREFIX}{table.title}"
        f" WHERE {key} IN ({', '.join('?' * size)}) AND {condition.sql()}"
    )


@cache
def by_values(table: Table[Any], by: tuple[str, ...], size: int) -> str:
    """The rows with these values in these columns, a key or a name."""
    wanted = [f"wanted_{name}" for name in by]
    same = " AND ".join(f"{name} = wanted_{name}" for name in by)
    return (
        f"WITH wanted ({', '.join(wanted)}) AS (VALUES {_places(len(by), size)})"
        f" SELECT {_as_json(table, table.names)} FROM wanted CROSS JOIN {PREFIX}{table.title} ON {same}"
    )


@cache
def delete(table: Table[Any], depth: int, size: int) -> str:
    """Delete the rows whose key begins with these values."""
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
    """The rows along these columns: a prefix, a lower and an upper bound of so many values each, and a limit."""
    prefix, low, high = depths
    conditions = [f"{name} = ?" for name in by[:prefix]]
    if low:
        conditions.append(_compared(by[prefix : prefix + low], ">="))
    if high:
        conditions.append(_compared(by[prefix : prefix + high], "<"))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = ", ".join(f"{name} DESC" if newest_first else name for name in by)
    columns = by if names_only else table.names
    # SQLite keeps a subquery's order for every aggregate that depends on it, and json_group_array is one.
    return (
        f"SELECT {_as_json(table, columns)} FROM (SELECT {', '.join(columns)}"
        f" FROM {PREFIX}{table.title}{where} ORDER BY {order} LIMIT ?)"
    )


def _compared(columns: tuple[str, ...], operator: str) -> str:
    return f"({', '.join(columns)}) {operator} {_places(len(columns), 1)}"


def _as_json(table: Table[Any], columns: tuple[str, ...]) -> str:
    types = {column.name: column.type for column in table.columns}
    # JSON has no bytes: they are written in hexadecimal digits.
    values = (f"hex({name})" if types[name] is bytes else name for name in columns)
    return f"json_group_array(json_array({', '.join(values)}))"


def _places(columns: int, size: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * size)
