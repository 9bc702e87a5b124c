"""The SQL of the row operations, generated from the declared tables.

All rows of a call are sent in one array per column. So a statement does not depend on the number of rows, and a plan
can be cached. Each statement has one right plan: along an index, key by key. The planner would not always choose it.
The planner uses old statistics about a table, and a plan from the time when the table was empty stays when it has
millions of rows. So the planner gets no choice:

-   each transaction configures it (`SETTINGS`) to plan once, without looking at values, and along indexes;
-   a key of one column is matched by `t.key = ANY (keys)`: one forward scan of the index;
-   a key of several by `t.key = ANY (ARRAY[given.key])`. That equals a plain equals sign, and can use an index, but the
    planner cannot turn it around. With the equals sign, it scanned a formerly empty table as a whole, and looked up
    each of its rows among the keys.

`lock` finds and locks one row after the other, in the order of the keys (protocol rule 11). That is the order of the
index, or of the arrays, which the transaction has sorted. `add` and `put` also use the order of the arrays.

Arrays are unnested in the column list, `SELECT unnest($1), unnest($2)`, which streams row by row. As functions in FROM,
each would first be stored in a table of its own. A column with the same value in all rows is a plain parameter
(`same`).
"""
# ruff: noqa: S608 - names are those of the declared tables, and quoted; values are never in a statement

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from psycopg.types.numeric import Int8

from itinerary.stores.postgres.arrays import pack, pack_one
from itinerary.stores.tables import NOTIFICATIONS, Column, Table, Values
from itinerary.stores.transaction import ConditionalUpdate

__all__ = ["BEGIN_READING", "BEGIN_WRITING", "CLOCK", "SETTINGS", "SHAPES_MAX", "TYPES", "KeyRange", "Statements"]

SHAPES_MAX: Final = 400
"""The most cached statements: tables by operations, and by the set of columns with values."""
_MANY: Final = 32
"""The number of rows from which a check for columns with one common value is worthwhile."""
TYPES: Final[dict[type, str]] = {int: "bigint", str: "text", bytes: "bytea", bool: "boolean"}

BEGIN_WRITING: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
BEGIN_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
SETTINGS: Final = (
    "SELECT set_config('lock_timeout', $1::text, true),"
    " set_config('idle_in_transaction_session_timeout', $2::text, true),"
    " set_config('statement_timeout', $3::text, true),"
    " set_config('plan_cache_mode', 'force_generic_plan', true),"
    " set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),"
    " set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),"
    " set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),"
    " set_config('jit', 'off', true)"
)
_CLOCK: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
CLOCK: Final = f"SELECT {_CLOCK}"


class KeyRange(NamedTuple):
    """The bounds of a scan along a key: the number of columns with a fixed value, a lower bound, an upper bound."""

    prefix: int
    low: int
    high: int


class Statements:
    """The statements on the tables of one schema."""

    def __init__(self, schema: str) -> None:
        self.title = schema
        self.schema = quoted(schema)
        self.channel = channel(schema)
        self.gate_key = Int8(
            int.from_bytes(blake2b(b"itinerary " + schema.encode(), digest_size=8).digest(), signed=True)
        )
        """Advisory locks are numbers that all programs in a database share. This one is unlikely to collide."""
        self.migrations = f"{self.schema}.migrations"
        self.schema_and_clock = f"SELECT (SELECT max(number) FROM {self.migrations}), {_CLOCK}"
        self.schema_number = f"SELECT coalesce(max(number), 0) FROM {self.migrations}"
        self.migrated = f"INSERT INTO {self.migrations} (number, title) VALUES (%s, %s)"
        self.counts = f"SELECT topic, count FROM {self.table(NOTIFICATIONS)} ORDER BY topic LIMIT %s"
        self.notify = self._notify()
        # Callers request a statement thousands of times a second, so it is built once.
        self.select = lru_cache(SHAPES_MAX)(self._select)
        self.insert = lru_cache(SHAPES_MAX)(self._insert)
        self.update = lru_cache(SHAPES_MAX)(self._update)
        self.swap = lru_cache(SHAPES_MAX)(self._swap)
        self.delete = lru_cache(SHAPES_MAX)(self._delete)
        self.scan = lru_cache(SHAPES_MAX)(self._scan)

    def table(self, table: Table[Any]) -> str:
        """Return the full name of a table."""
        return f"{self.schema}.{quoted(table.title)}"

    def _select(self, table: Table[Any], by: tuple[str, ...], *, locked: bool) -> str:
        """Select the rows with some keys or names."""
        columns = _list(f"t.{quoted(name)}" for name in table.names)
        sql = f"SELECT {columns} FROM {self.table(table)} AS t WHERE"
        lock = " FOR NO KEY UPDATE" if locked else ""
        if len(by) == 1:
            return f"{sql} {_among(table, by[0])} ORDER BY t.{quoted(by[0])}{lock}"
        given = _unnested(_columns(table, by))
        return f"SELECT t.* FROM {given} CROSS JOIN LATERAL ({sql} {_matching(by)}{lock} OFFSET 0) AS t"

    def _insert(
        self, table: Table[Any], names: tuple[str, ...], same: tuple[str, ...] = (), *, over: bool | None
    ) -> str:
        """Insert rows of these columns.

        `over`: False skips existing rows, True overwrites them, None means that none exists. None saves a third of the
        time.
        """
        columns = _list(map(quoted, names + same))
        values = _list([*_unnesting(_columns(table, names)), *_places(_columns(table, same), len(names) + 1)])
        sql = f"INSERT INTO {self.table(table)} ({columns}) SELECT {values}"
        if over is None:
            return sql
        if not over:
            # The number is new anyway, so a check for a conflict would be useless.
            arbiter = f" ({_list(map(quoted, table.name))})" if table.is_serial else ""
            return f"{sql} ON CONFLICT{arbiter} DO NOTHING RETURNING {_list(map(quoted, table.key + table.name))}"
        key = _list(map(quoted, table.key))
        # A row that is only its key is overwritten all the same. DO NOTHING would not lock it, and another transaction
        # could
        # remove a row that this one relies on (mail was lost that way).
        others = [quoted(name) for name in table.names if name not in table.key] or [quoted(table.key[0])]
        return f"{sql} ON CONFLICT ({key}) DO UPDATE SET {_list(f'{name} = EXCLUDED.{name}' for name in others)}"

    def _update(self, table: Table[Any], names: tuple[str, ...], same: tuple[str, ...] = ()) -> str:
        """Update these columns of existing rows."""
        given = table.key + names
        values = [f"{quoted(name)} = given.{quoted(name)}" for name in names]
        places = _places(_columns(table, same), len(given) + 1)
        values += [f"{quoted(name)} = {place}" for name, place in zip(same, places, strict=True)]
        sql = f"UPDATE {self.table(table)} AS t SET {_list(values)}"
        if len(given) == 1:
            return f"{sql} WHERE {_among(table, table.key[0])}"
        return f"{sql} FROM {_unnested(_columns(table, given))} WHERE {_matching(table.key)}"

    def _swap(self, table: Table[Any], shape: SwapShape) -> str:
        """Update the rows that meet a condition. After a wait for its lock, a row is checked again."""
        (key,) = map(quoted, table.key)
        given, first = table.key + shape.each, len(table.key + shape.each) + 1
        changes = [f"{quoted(name)} = given.{quoted(name)}" for name in shape.each]
        named = [*shape.becomes, *shape.equal, *shape.up_to]
        taken = iter(_places(_columns(table, tuple(named)), first))
        changes += [f"{quoted(name)} = {next(taken)}" for name in shape.becomes]
        conditions = [f"t.{quoted(name)} = {next(taken)}" for name in shape.equal]
        conditions += [f"t.{quoted(name)} <= {next(taken)}" for name in shape.up_to]
        conditions += [f"t.{quoted(name)} IS NULL" for name in shape.null]
        sql = f"UPDATE {self.table(table)} AS t SET {_list(changes)}"
        if len(given) == 1:
            found = f"WHERE {_among(table, table.key[0])}"
        else:
            found = f"FROM {_unnested(_columns(table, given))} WHERE {_matching(table.key)}"
        changed = f"{sql} {found} AND {' AND '.join(conditions)} RETURNING t.{key}"
        # Nearly always all rows meet the condition, so usually only the count is returned.
        count = f"${len(given) + len(named) + 1}::bigint"
        return (
            f"WITH changed AS ({changed})"
            f" SELECT CASE WHEN count(*) < {count} THEN coalesce(array_agg({key}), '{{}}') END FROM changed"
        )

    def _delete(self, table: Table[Any], size: int) -> str:
        """Delete the rows whose keys begin with some prefixes of this size."""
        if size == 0:
            return f"DELETE FROM {self.table(table)}"
        begin = table.key[:size]
        if size == 1:
            return f"DELETE FROM {self.table(table)} AS t WHERE {_among(table, begin[0])}"
        given = _unnested(_columns(table, begin))
        return f"DELETE FROM {self.table(table)} AS t USING {given} WHERE {_matching(begin)}"

    def _scan(
        self,
        table: Table[Any],
        span: KeyRange,
        *,
        newest_first: bool = False,
        by_name: bool = False,
        whole: bool = True,
    ) -> str:
        """Select the rows along a key or a name, or only the names.

        The prefix is written as two bounds, not as an equality. Then only the index of this key has the requested
        order, and the planner cannot choose another index that begins with the same columns.
        """
        along = _columns(table, table.name if by_name else table.key)
        places = [f"${number}" for number in range(1, len(along) * 3 + 2)]
        prefix = places[: span.prefix]
        low, high = places[span.prefix : span.prefix + span.low], places[span.prefix + span.low :][: span.high]
        conditions = []
        if prefix or low:
            conditions.append(_bounded(along, ">=", prefix + low))
        if high:
            conditions.append(_bounded(along, "<", prefix + high))
        elif prefix:
            conditions.append(_bounded(along, "<=", prefix))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        direction = " DESC" if newest_first else ""
        order = _list(quoted(column.name) + direction for column in along)
        columns = _list(map(quoted, table.names if whole else (column.name for column in along)))
        return f"SELECT {columns} FROM {self.table(table)}{where} ORDER BY {order} LIMIT {places[sum(span)]}::bigint"

    def _notify(self) -> str:
        """Raise the counters, in the order of topics, and notify with their new values."""
        return (
            f"INSERT INTO {self.table(NOTIFICATIONS)} AS t (topic, count)"
            f" SELECT given.topic, 1 FROM {_unnested(_columns(NOTIFICATIONS, ('topic',)))}"
            " ON CONFLICT (topic) DO UPDATE SET count = t.count + 1"
            " RETURNING pg_notify($2::text, t.topic || ' ' || t.count::text)"
        )


def quoted(name: str) -> str:
    """Quote a name for SQL: some of our columns are SQL keywords."""
    return '"' + name.replace('"', '""') + '"'


def channel(schema: str) -> str:
    """Return the notification channel of a schema: short, because names are truncated at 63 bytes."""
    return f"itinerary_{blake2b(schema.encode(), digest_size=8).hexdigest()}"


class Arguments(NamedTuple):
    """Packed values of some columns: arrays of those that differ, then those common to all rows."""

    names: tuple[str, ...]
    same: tuple[str, ...]
    packed: list[Any]


class SwapShape(NamedTuple):
    """The columns that a swap sets, for each row or for all, and those that it checks."""

    each: tuple[str, ...]
    becomes: tuple[str, ...]
    equal: tuple[str, ...]
    up_to: tuple[str, ...]
    null: tuple[str, ...]


def swap_arguments(table: Table[Any], swap: ConditionalUpdate) -> tuple[SwapShape, list[Any]]:
    """Return the shape of a swap, and its values without the keys: arrays of those that differ, then the others."""
    equal = {name: value for name, value in swap.was.items() if value is not None}
    null = tuple(name for name, value in swap.was.items() if value is None)
    shape = SwapShape(tuple(swap.each), tuple(swap.becomes), tuple(equal), tuple(swap.up_to), null)
    ones = [*swap.becomes.items(), *equal.items(), *swap.up_to.items()]
    columns = _columns(table, tuple(name for name, _ in ones))
    packed = [pack_one(column, value) for column, (_, value) in zip(columns, ones, strict=True)]
    return shape, [*arguments(table, shape.each, map(tuple, swap.each.values())), *packed]


def arguments(table: Table[Any], names: tuple[str, ...], values: Iterable[Values]) -> list[Any]:
    """Return the values of these columns as arrays, in order."""
    return [pack(column, of_column) for column, of_column in zip(_columns(table, names), values, strict=True)]


def shared_arguments(given: Iterable[tuple[Column, Sequence[Any]]]) -> Arguments:
    """Return the values of some columns of many rows. A value that all rows share is sent once.

    With few rows the gain is small, and the set of shared columns is random. Each new set would cost a new statement
    and plan.
    """
    names, same, arrays, ones = [], [], [], []
    for column, values in given:
        if len(values) >= _MANY and values.count(values[0]) == len(values):
            same.append(column.name)
            ones.append(pack_one(column, values[0]))
        else:
            names.append(column.name)
            arrays.append(pack(column, values))
    return Arguments(tuple(names), tuple(same), [*arrays, *ones])


def _columns(table: Table[Any], names: tuple[str, ...]) -> list[Column]:
    return [table.columns[table.names.index(name)] for name in names]


def _unnesting(columns: list[Column]) -> list[str]:
    return [f"unnest(${number}::{TYPES[column.type]}[])" for number, column in enumerate(columns, 1)]


def _unnested(columns: list[Column]) -> str:
    arrays = zip(_unnesting(columns), columns, strict=True)
    return f"(SELECT {_list(f'{array} AS {quoted(column.name)}' for array, column in arrays)}) AS given"


def _places(columns: list[Column], first: int) -> list[str]:
    return [f"${number}::{TYPES[column.type]}" for number, column in enumerate(columns, first)]


def _among(table: Table[Any], name: str) -> str:
    (column,) = _columns(table, (name,))
    return f"t.{quoted(name)} = ANY ($1::{TYPES[column.type]}[])"


def _matching(names: tuple[str, ...]) -> str:
    first, *others = map(quoted, names)
    return " AND ".join([f"t.{first} = ANY (ARRAY[given.{first}])", *[f"t.{name} = given.{name}" for name in others]])


def _bounded(along: list[Column], comparison: str, places: list[str]) -> str:
    bounded = list(zip(along, places, strict=False))
    left = _list(quoted(column.name) for column, _ in bounded)
    right = _list(f"{place}::{TYPES[column.type]}" for column, place in bounded)
    return f"({left}) {comparison} ({right})"


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)
