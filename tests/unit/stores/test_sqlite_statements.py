"""The SQL of the primitives finds rows by searching, never by reading a whole table."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from itinerary.stores.sqlite import SqliteEngine, statements
from itinerary.stores.tables import ALL, Table

WITH_NAMES = [table for table in ALL if table.name]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "itinerary.db"

    async def make() -> None:
        async with SqliteEngine(Path(path)):
            pass

    asyncio.run(make())
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def plan(file: sqlite3.Connection, statement: str) -> list[str]:
    """The steps on our tables; what is only handed in does not count."""
    bound = [None] * statement.count("?")
    steps = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
    return [step for step in steps if "itinerary_" in step or "TEMP B-TREE" in step]


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.title)
@pytest.mark.parametrize("size", [1, 64])
def test_rows_are_found_by_key_with_one_search(file: sqlite3.Connection, table: Table[Any], size: int) -> None:
    (step,) = plan(file, statements.by_values(table, table.key, size))
    assert step.startswith("SEARCH")


@pytest.mark.parametrize("table", WITH_NAMES, ids=lambda table: table.title)
@pytest.mark.parametrize("size", [1, 64])
def test_rows_are_found_by_name_with_one_search(file: sqlite3.Connection, table: Table[Any], size: int) -> None:
    (step,) = plan(file, statements.by_values(table, table.name, size))
    assert step.startswith("SEARCH")
    assert all(f"{name}=?" in step for name in table.name)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.title)
@pytest.mark.parametrize("size", [1, 64])
def test_rows_are_deleted_and_changed_with_one_search(file: sqlite3.Connection, table: Table[Any], size: int) -> None:
    for depth in range(1, len(table.key) + 1):
        (step,) = plan(file, statements.delete(table, depth, size))
        assert step.startswith("SEARCH")
    rest = tuple(name for name in table.names if name not in table.key)
    if rest:
        (step,) = plan(file, statements.update(table, rest[:1], rest[1:], size))
        assert step.startswith("SEARCH")


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.title)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_scan_searches_its_beginning_and_never_sorts(
    file: sqlite3.Connection, table: Table[Any], newest_first: bool
) -> None:
    for by in (table.key, table.name) if table.name else (table.key,):
        for prefix in range(len(by) + 1):
            for low in range(len(by) - prefix + 1):
                statement = statements.scan(table, by, (prefix, low, 0), newest_first=newest_first)
                (step,) = plan(file, statement)
                assert step.startswith("SEARCH" if prefix or low else "SCAN")


@pytest.mark.parametrize("table", WITH_NAMES, ids=lambda table: table.title)
def test_names_are_read_from_their_index_alone(file: sqlite3.Connection, table: Table[Any]) -> None:
    (step,) = plan(file, statements.scan(table, table.name, (0, 1, 1), names_only=True))
    assert step.startswith("SEARCH")
    assert "COVERING INDEX" in step


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 63, 64, 65, 255, 256, 257, 1_000])
def test_rows_are_split_into_few_statements_and_none_is_lost(count: int) -> None:
    parts = list(statements.split([(number, -number) for number in range(count)]))
    assert [value for _, values in parts for value in values[::2]] == list(range(count))
    assert all(len(values) == 2 * size for size, values in parts)
    assert len(parts) <= count // 256 + 12
