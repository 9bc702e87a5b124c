"""The row operations on PostgreSQL.

Statements are sent in pipeline mode. A statement whose answer is not needed (`put`, `save`, `remove`) is sent while the
server still works on the one before. Its errors arrive at the next synchronisation, at the latest at the commit. With
the server on the same machine this measures no different. Over a network each such statement saves a round trip while
rows are locked. Each call is still its own statement with its own view of the commits before it (READ COMMITTED), as
protocol rules 4 and 6 need.

Where an answer is needed, the pipeline is synchronised. Then the server knows that it waits for the client, and since
when. A client that freezes between two statements keeps its locks for at most `idle_timeout`. Without that, the server
would consider a transaction in a pipeline busy, however long it is silent.

The gate is passed without a wait as well. Its answer is checked with the first answer after it, before any caller sees
that one.

`notify` runs last, whenever it was called. The row of a counter is locked from then until the commit, and every
transaction that notifies the same topic waits for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import psycopg
from msgspec.structs import astuple, replace
from psycopg import Connection, Pipeline, RawCursor
from psycopg.types.numeric import Int8

from itinerary.errors import SchemaError, StoreError
from itinerary.stores.postgres import statements
from itinerary.stores.postgres.statements import KeyRange, Statements
from itinerary.stores.tables import NOTIFICATIONS, R, Table, Values
from itinerary.stores.transaction import ConditionalUpdate

__all__ = ["PostgresTransaction"]


class PostgresTransaction:
    """A transaction, on a connection in pipeline mode that has begun it."""

    def __init__(self, connection: Connection[Any], pipeline: Pipeline, made: Statements, schema_number: int) -> None:
        self._connection, self._pipeline = connection, pipeline
        self._made = made
        self._schema_number = schema_number
        self._now: int | None = None
        self._gate: RawCursor[Any] | None = None
        """The answer of the gate, until it is checked."""
        self._topics: set[str] = set()

    def finish(self) -> None:
        """Send the deferred notifications. Only the commit may follow."""
        if self._topics:
            arrays = statements.arguments(NOTIFICATIONS, ("topic",), [tuple(sorted(self._topics))])
            self._send(self._made.notify, [*arrays, self._made.channel])
            self._topics.clear()
        self._look_at_gate()

    # -- Transaction -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        self._look_at_gate()
        if self._now is None:
            ((self._now,),) = self._ask(statements.CLOCK)
        assert self._now is not None
        return self._now

    def gate(self, *, exclusive: bool = False) -> None:
        kind = "" if exclusive else "_shared"
        self._look_at_gate()
        self._send(f"SELECT pg_advisory_xact_lock{kind}($1)", [self._made.gate_key])
        self._gate = self._send(self._made.schema_and_clock)

    def _look_at_gate(self) -> None:
        if self._gate is None:
            return
        gate, self._gate = self._gate, None
        if gate.description is None:
            self._pipeline.sync()
        ((number, now),) = gate.fetchall()
        if number != self._schema_number:
            raise SchemaError(
                f"schema {self._made.schema} has been brought from number {self._schema_number} to {number} while this"
                f" program was running, and it does not know that one: upgrade it, and start it again"
            )
        if self._now is None:
            self._now = now

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self._under(table, table.key, keys, locked=False)

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self._under(table, table.key, keys, locked=True)

    def expect(self, table: Table[R], keys: Collection[Values]) -> None:
        """Do nothing: this engine has no cache of rows."""

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        return self._under(table, table.name, names, locked=False)

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        if not rows:
            return []
        if not table.is_serial:
            return self._add_keyed(table, sorted(rows, key=table.key_of))
        latest_first = rows[::-1]
        first = dict(zip(table.names_of(latest_first), latest_first, strict=True))
        names = sorted(first)
        created = self._ask(*self._inserted(table, [first[name] for name in names], over=False))
        numbers = {made[1:]: made[0] for made in created}
        (number,) = table.key
        return [replace(first[name], **{number: numbers[name]}) for name in names if name in numbers]

    def _add_keyed(self, table: Table[R], rows: list[R]) -> list[R]:
        """Create rows. Of several with the same key, the first one with a free name is created."""
        first: dict[tuple[Values, Values], R] = {}
        for row in rows:
            first.setdefault((table.key_of(row), table.name_of(row)), row)
        size = len(table.key)
        created = self._ask(*self._inserted(table, list(first.values()), over=False))
        return [first[made[:size], made[size:]] for made in sorted(created)]

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        if rows:
            self._send(*self._inserted(table, list(rows), over=None))

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        last = dict(zip(table.keys_of(rows), rows, strict=True))
        if last:
            self._send(*self._inserted(table, [last[key] for key in sorted(last)], over=True))

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        changed = [column for column in table.columns if column.name in columns]
        if not rows or not changed:
            return
        last = dict(zip(table.keys_of(rows), rows, strict=True))
        keys = statements.arguments(table, table.key, zip(*last, strict=True))
        values = [(column, list(map(attrgetter(column.name), last.values()))) for column in changed]
        names, same, packed = statements.shared_arguments(values)
        self._send(self._made.update(table, names, same), [*keys, *packed])

    def swap(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> Sequence[Values]:
        if not keys:
            return []
        shape, packed = statements.swap_arguments(table, swap)
        arrays = statements.arguments(table, table.key, zip(*keys, strict=True))
        ((changed,),) = self._ask(self._made.swap(table, shape), [*arrays, *packed, Int8(len(keys))])
        return keys if changed is None else [(key,) for key in sorted(changed)]

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        by_size: defaultdict[int, set[Values]] = defaultdict(set)
        for prefix in prefixes:
            by_size[len(prefix)].add(prefix)
        for size, same in by_size.items():
            arrays = statements.arguments(table, table.key[:size], zip(*sorted(same), strict=True))
            self._send(self._made.delete(table, size), arrays)

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
        span = KeyRange(len(prefix), len(low), len(high))
        sql = self._made.scan(table, span, newest_first=newest_first, by_name=by_name)
        return self._read(table, sql, _plain((*prefix, *low, *high, limit)))

    def names(self, table: Table[R], *, low: Values, high: Values, limit: int) -> list[Values]:
        sql = self._made.scan(table, KeyRange(0, len(low), len(high)), by_name=True, whole=False)
        decoders = [table.columns[table.names.index(name)].decode for name in table.name]
        return [
            tuple([value if decode is None else decode[value] for value, decode in zip(name, decoders, strict=True)])
            for name in self._ask(sql, _plain((*low, *high, limit)))
        ]

    def notify(self, topics: Collection[str]) -> None:
        self._topics.update(topics)

    # -- statements --------------------------------------------------------------------------------------------------

    def _under(
        self, table: Table[R], by: tuple[str, ...], keys: Collection[Values], *, locked: bool
    ) -> dict[Values, R]:
        asked = sorted(set(keys)) if locked else list(dict.fromkeys(keys))
        if not asked:
            return {}
        arrays = statements.arguments(table, by, zip(*asked, strict=True))
        rows = self._read(table, self._made.select(table, by, locked=locked), arrays)
        found_under = table.keys_of(rows) if by == table.key else table.names_of(rows)
        found = dict(zip(found_under, rows, strict=True))
        return found if locked else {key: found[key] for key in asked if key in found}

    def _inserted(self, table: Table[R], rows: list[R], *, over: bool | None) -> tuple[str, list[Any]]:
        """Return the statement that inserts these rows, and its arrays. Columns without any value are left out."""
        columns = zip(*map(astuple, rows), strict=True)
        present = [
            (column, values)
            for column, values in zip(table.columns, columns, strict=True)
            if not column.is_optional or values.count(None) < len(values)
        ]
        if table.is_serial and over is False:
            del present[0]
        names, same, packed = statements.shared_arguments(present)
        assert names, f"the same row of {table.title}, {len(rows)} times"
        return self._made.insert(table, names, same, over=over), packed

    def _read(self, table: Table[R], sql: str, arguments: Sequence[Any]) -> list[R]:
        try:
            return table.build(self._ask(sql, arguments))
        except msgspec.ValidationError as error:
            raise StoreError(
                f"schema {self._made.title}: a row of {table.title} is not what it should be: {error}; was it written"
                " by hand?"
            ) from error

    def _send(self, sql: str, arguments: Sequence[Any] = ()) -> RawCursor[Any]:
        cursor = RawCursor(self._connection)
        cursor.execute(sql, arguments, binary=True)
        return cursor

    def _ask(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        try:
            cursor = self._send(sql, arguments)
            self._pipeline.sync()
            answer = cursor.fetchall()
        except psycopg.Error:
            if self._gate is not None and self._gate.description is not None:
                self._look_at_gate()  # an unknown schema explains the error
            raise
        self._look_at_gate()
        return answer


def _plain(values: Iterable[Any]) -> list[Any]:
    """Return single values for parameters: integers as int8, and subclasses of str as plain text."""
    return [Int8(value) if type(value) is int else str(value) if isinstance(value, str) else value for value in values]
