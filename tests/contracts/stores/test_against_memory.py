"""Any sequence of primitives answers on every engine as it does in memory.

Numbers that a store gives out may differ, by gaps: rows of such tables are picked by their names, and compared without
their numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.stores.memory import MemoryEngine
from itinerary.stores.tables import (
    ACTIVE,
    ENTRIES,
    EVENTS,
    JOBS,
    NOTIFICATIONS,
    OCCURRENCES,
    OVERLAP_SLOTS,
    SHARES,
    TOKENS,
    WAITING,
    Table,
    Values,
)
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.conftest import Opened

TABLES: tuple[Table[Any], ...] = (ACTIVE, WAITING, OVERLAP_SLOTS, SHARES, EVENTS, ENTRIES, JOBS, OCCURRENCES, TOKENS)

# Few values, so that rows meet.
NUMBERS = st.sampled_from([0, 1, -300, 2**63 - 1])
TEXTS = st.sampled_from(["", "a", "ab", "🗝"])
BYTES = st.sampled_from([b"", b"\x00", b"ab\xff"])


class Step(NamedTuple):
    """One call of a primitive: what to call it with, and its answer as it may be compared."""

    said: str
    call: Callable[[Transaction], Any]

    def __repr__(self) -> str:
        return self.said


class Broken(Exception):
    """What a work raises in order to be undone."""


def values_of(table: Table[Any], columns: tuple[str, ...]) -> st.SearchStrategy[Values]:
    return st.tuples(*(column_values(table, name) for name in columns))


def column_values(table: Table[Any], name: str) -> st.SearchStrategy[Any]:
    (column,) = (column for column in table.columns if column.name == name)
    if column.decode is not None:
        plain = st.sampled_from([value for value in column.decode.values() if value is not None][:2])
    else:
        plain = {int: NUMBERS, str: TEXTS, bytes: BYTES}[column.type]
    return st.none() | plain if column.is_optional else plain


def rows_of(table: Table[Any]) -> st.SearchStrategy[Any]:
    return st.builds(table.row, *(column_values(table, name) for name in table.names))


def bare(table: Table[Any], answer: Any) -> Any:
    """The answer without the numbers that the store gave out."""
    if isinstance(answer, dict):
        return sorted((bare(table, row) for row in answer.values()), key=msgspec.json.encode)
    if isinstance(answer, list):
        return [bare(table, row) for row in answer]
    if table.is_serial and isinstance(answer, table.row):
        return msgspec.structs.replace(answer, **{table.key[0]: 0})
    return answer


def picked(tx: Transaction, table: Table[Any], wanted: list[Values]) -> list[Values]:
    """Keys, of a table whose keys the store gives out: those of the rows with these names."""
    return [table.key_of(row) for row in tx.named(table, wanted).values()] if table.is_serial else wanted


def unlike(table: Table[Any], rows: list[Any]) -> list[Any]:
    """At most one row of each key."""
    return list({table.key_of(row): row for row in rows}.values())


@st.composite
def steps(draw: st.DrawFn) -> Step:
    table = draw(st.sampled_from(TABLES))
    identity = table.name if table.is_serial else table.key
    kinds: list[Callable[..., Step]] = [adding, looking, changing, removing, scanning, naming]
    kind: Callable[..., Step] = draw(st.sampled_from(kinds))
    return kind(draw, table, identity)


def adding(draw: st.DrawFn, table: Table[Any], _identity: tuple[str, ...]) -> Step:
    rows = draw(st.lists(rows_of(table), max_size=12))
    return Step(f"add({table}, {rows})", lambda tx: bare(table, tx.add(table, rows)))


def looking(draw: st.DrawFn, table: Table[Any], identity: tuple[str, ...]) -> Step:
    wanted = draw(st.lists(values_of(table, identity), max_size=6))
    by_name = draw(st.booleans())
    if table.name and by_name:
        names = draw(st.lists(values_of(table, table.name), max_size=6))
        return Step(f"named({table}, {names})", lambda tx: bare(table, tx.named(table, names)))
    if draw(st.booleans()):
        return Step(f"get({table}, {wanted})", lambda tx: bare(table, tx.get(table, picked(tx, table, wanted))))
    return Step(f"lock({table}, {wanted})", lambda tx: bare(table, tx.lock(table, picked(tx, table, wanted))))


def changing(draw: st.DrawFn, table: Table[Any], identity: tuple[str, ...]) -> Step:
    """`put` of any rows; where a name could be taken twice by that, put and save of what is there, changed."""
    if not table.name and draw(st.booleans()):
        rows = unlike(table, draw(st.lists(rows_of(table), max_size=6)))
        return Step(f"put({table}, {rows})", lambda tx: tx.put(table, rows))
    free = [name for name in table.names if name not in (*table.key, *table.name)]
    columns = draw(st.lists(st.sampled_from(free), unique=True)) if free else []
    values = {name: draw(column_values(table, name)) for name in columns}
    wanted = draw(st.lists(values_of(table, identity), max_size=6))
    only_columns = draw(st.booleans())

    def change(tx: Transaction) -> None:
        there = tx.lock(table, picked(tx, table, wanted))
        changed = [msgspec.structs.replace(row, **values) for row in there.values()]
        if only_columns:
            tx.save(table, changed, columns)
        else:
            tx.put(table, changed)

    return Step(f"{'save' if only_columns else 'put'}({table}, {wanted}, {values})", change)


def removing(draw: st.DrawFn, table: Table[Any], identity: tuple[str, ...]) -> Step:
    whole = draw(st.lists(values_of(table, identity), max_size=4))
    depth = (
        len(identity) if table.is_serial else draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, len(identity)))
    )
    prefixes = [values[:depth] for values in whole]
    return Step(f"remove({table}, {prefixes})", lambda tx: tx.remove(table, picked(tx, table, prefixes)))


def scanning(draw: st.DrawFn, table: Table[Any], _identity: tuple[str, ...]) -> Step:
    by_name = bool(table.name) and draw(st.booleans())
    columns = table.name if by_name else table.key
    prefix: Values = ()
    low: Values = ()
    high: Values = ()
    if by_name or not table.is_serial:
        depth = draw(st.integers(0, len(columns)))
        prefix = draw(values_of(table, columns[:depth]))
        low = draw(values_of(table, columns[depth : depth + draw(st.integers(0, len(columns) - depth))]))
        high = draw(values_of(table, columns[depth : depth + draw(st.integers(0, len(columns) - depth))]))
    options: dict[str, Any] = {
        "low": low,
        "high": high,
        "limit": draw(st.sampled_from([0, 1, 2, 50])),
        "newest_first": draw(st.booleans()),
        "by_name": by_name,
    }
    return Step(f"scan({table}, {prefix}, {options})", lambda tx: bare(table, tx.scan(table, prefix, **options)))


def naming(draw: st.DrawFn, table: Table[Any], identity: tuple[str, ...]) -> Step:
    if not table.name:
        return scanning(draw, table, identity)
    low, high = (draw(values_of(table, table.name[: draw(st.integers(0, len(table.name)))])) for _ in range(2))
    limit = draw(st.sampled_from([0, 1, 50]))
    return Step(f"names({table}, {low}, {high})", lambda tx: tx.names(table, low=low, high=high, limit=limit))


BATCHES = st.lists(st.tuples(st.lists(steps(), min_size=1, max_size=5), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(batches=BATCHES)
def test_any_sequence_of_primitives_answers_as_in_memory(store: Opened, batches: list[tuple[list[Step], bool]]) -> None:
    reference = MemoryEngine()
    store.write(clear)
    for work_steps, is_broken in batches:
        assert outcome(store, work_steps, is_broken) == asyncio.run(on(reference, work_steps, is_broken))
    for table in TABLES:

        def all_of(tx: Transaction, table: Table[Any] = table) -> Any:
            return bare(table, tx.scan(table, limit=1_000))

        assert store.read(all_of) == asyncio.run(reference.read(all_of))


def clear(tx: Transaction) -> None:
    for table in (*TABLES, NOTIFICATIONS):
        tx.remove(table, [()])


def run_steps(tx: Transaction, work_steps: list[Step], is_broken: bool) -> list[Any]:
    answers = [step.call(tx) for step in work_steps]
    if is_broken:
        raise Broken(answers)
    return answers


def outcome(store: Opened, work_steps: list[Step], is_broken: bool) -> Any:
    return store.runner.run(on(store.engine, work_steps, is_broken))


async def on(engine: Any, work_steps: list[Step], is_broken: bool) -> Any:
    try:
        return await engine.write(lambda tx: run_steps(tx, work_steps, is_broken))
    except Broken as broken:
        return broken.args
