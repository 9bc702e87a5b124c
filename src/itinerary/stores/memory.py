"""The memory engine: the reference for the other engines, and the store of the simulator.

A table is a dictionary, and a sorted list of its keys. A transaction keeps a journal of overwritten rows, and restores
them if the work raises. Isolation needs nothing else, because nothing here waits. The data ends with the process.

The caller passes the clock. A test moves it, the simulator makes it jump. In a program it is the clock of the machine.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from itinerary.stores.engine import Engine, T, Work
from itinerary.stores.notifications import raise_counts
from itinerary.stores.tables import ALL, R, Table, Values
from itinerary.stores.transaction import ConditionalUpdate, swap_one_by_one

__all__ = ["MemoryEngine", "wall_clock"]


def wall_clock() -> int:
    """Return the time of the machine, in microseconds since the epoch."""
    return time.time_ns() // 1_000


class _Stored:
    """The rows of one table, and its sorted keys and names."""

    def __init__(self) -> None:
        self.rows: dict[Values, Any] = {}
        self.keys: list[Values] = []
        self.by_name: dict[Values, Any] = {}
        self.names: list[Values] = []
        self.last_number = 0

    def copied(self) -> _Stored:
        """Return an independent copy. Rows are immutable, so both share them."""
        copy = _Stored()
        copy.rows, copy.keys, copy.by_name, copy.names = (
            self.rows.copy(),
            self.keys.copy(),
            self.by_name.copy(),
            self.names.copy(),
        )
        copy.last_number = self.last_number
        return copy


class MemoryEngine(Engine):
    """An engine whose data lives in this process only."""

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self._clock = clock
        self._tables = {table.title: _Stored() for table in ALL}

    def copied(self, clock: Callable[[], int]) -> MemoryEngine:
        """Return an independent copy of the data, in an engine with another clock."""
        copy = MemoryEngine(clock)
        copy._tables = {title: stored.copied() for title, stored in self._tables.items()}
        return copy

    @property
    def url(self) -> str:
        return "memory:"

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: the data ends with the process."""

    async def write(self, work: Work[T]) -> T:
        tx = MemoryTransaction(self._tables, self._clock())
        try:
            return work(tx)
        except BaseException:
            tx.undo()
            raise

    async def read(self, work: Work[T]) -> T:
        return await self.write(work)


class MemoryTransaction:
    """A transaction on the tables."""

    def __init__(self, tables: dict[str, _Stored], now: int) -> None:
        self._tables = tables
        self._now = now
        self._journal: list[tuple[Table[Any], Values, Any]] = []

    def undo(self) -> None:
        """Restore every row that this transaction changed."""
        for table, key, before in reversed(self._journal):
            self._set(table, key, before)

    # -- Transaction -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return self._now

    def gate(self, *, exclusive: bool = False) -> None:
        """Do nothing: no other transaction runs at the same time."""

    def get(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        rows = self._tables[table.title].rows
        return {key: rows[key] for key in keys if key in rows}

    def lock(self, table: Table[R], keys: Collection[Values]) -> dict[Values, R]:
        return self.get(table, sorted(keys))

    def expect(self, table: Table[R], keys: Collection[Values]) -> None:
        """Do nothing: this engine has no cache."""

    def named(self, table: Table[R], names: Collection[Values]) -> dict[Values, R]:
        by_name = self._tables[table.title].by_name
        return {name: by_name[name] for name in names if name in by_name}

    def add(self, table: Table[R], rows: Sequence[R]) -> list[R]:
        stored = self._tables[table.title]
        created = []
        for row in sorted(rows, key=table.name_of if table.is_serial else table.key_of):
            has_key = not table.is_serial and table.key_of(row) in stored.rows
            if has_key or (table.name and table.name_of(row) in stored.by_name):
                continue
            new = self._numbered(table, row) if table.is_serial else row
            self._keep(table, table.key_of(new), new)
            created.append(new)
        return created

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        stored = self._tables[table.title].rows
        for row in rows:
            assert table.key_of(row) not in stored, f"{row} is not new"
            self._keep(table, table.key_of(row), row)

    def put(self, table: Table[R], rows: Sequence[R]) -> None:
        for row in rows:
            self._keep(table, table.key_of(row), row)

    def save(self, table: Table[R], rows: Sequence[R], columns: Collection[str]) -> None:
        del columns  # rows are stored whole
        self.put(table, rows)

    def swap(self, table: Table[R], keys: Sequence[Values], swap: ConditionalUpdate) -> Sequence[Values]:
        return swap_one_by_one(self, table, keys, swap)

    def remove(self, table: Table[R], prefixes: Iterable[Values]) -> None:
        keys = self._tables[table.title].keys
        for prefix in prefixes:
            for key in [keys[place] for place in _along(keys, prefix, (), ())]:
                self._keep(table, key, None)

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
        stored = self._tables[table.title]
        ordered, rows = (stored.names, stored.by_name) if by_name else (stored.keys, stored.rows)
        places = _along(ordered, prefix, low, high)
        return [rows[ordered[place]] for place in (places[::-1] if newest_first else places)[:limit]]

    def names(self, table: Table[R], *, low: Values, high: Values, limit: int) -> list[Values]:
        names = self._tables[table.title].names
        return [names[place] for place in _along(names, (), low, high)[:limit]]

    def notify(self, topics: Collection[str]) -> None:
        raise_counts(self, topics)

    def _numbered(self, table: Table[R], row: R) -> R:
        """Return the row with the next number. An undone number is not reused: a gap does no harm."""
        stored = self._tables[table.title]
        stored.last_number += 1
        return msgspec.structs.replace(row, **{table.key[0]: stored.last_number})

    # -- one row at a time -------------------------------------------------------------------------------------------

    def _keep(self, table: Table[Any], key: Values, row: Any) -> None:
        self._journal.append((table, key, self._tables[table.title].rows.get(key)))
        self._set(table, key, row)

    def _set(self, table: Table[Any], key: Values, row: Any) -> None:
        """Store this row under this key; None removes the row."""
        stored = self._tables[table.title]
        before = stored.rows.get(key)
        if row is not None:
            stored.rows[key] = row
            if before is None:
                insort(stored.keys, key)
        elif before is not None:
            del stored.rows[key]
            del stored.keys[bisect_left(stored.keys, key)]
        if table.name:
            _rename(table, stored, before, row)


def _rename(table: Table[Any], stored: _Stored, before: Any, row: Any) -> None:
    old = None if before is None else table.name_of(before)
    new = None if row is None else table.name_of(row)
    if old is not None and old != new:
        del stored.by_name[old]
        del stored.names[bisect_left(stored.names, old)]
    if new is not None:
        stored.by_name[new] = row
        if old != new:
            insort(stored.names, new)


def _along(ordered: list[Values], prefix: Values, low: Values, high: Values) -> range:
    """Return the positions of the keys that begin with `prefix` and continue from `low` to before `high`."""
    begin = bisect_left(ordered, prefix + low)
    if high:
        return range(begin, bisect_left(ordered, prefix + high))
    return range(begin, bisect_left(ordered, _next(prefix)) if prefix else len(ordered))


def _next(prefix: Values) -> Values:
    """Return the first possible key behind those that begin with `prefix`."""
    last = prefix[-1]
    return (*prefix[:-1], last + "\0" if isinstance(last, str) else last + 1)
