"""A SQLite store's file: what the migrations make of it, and which files are refused."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreUnavailable
from itinerary.stores.migrations import Migration, migrations_of
from itinerary.stores.sqlite import SqliteEngine, schema
from itinerary.stores.sqlite.connections import use_log
from itinerary.stores.sqlite.statements import PREFIX
from itinerary.stores.tables import ACTIVE, ALL, STORE_META, Table
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.samples import sample

TYPES = {int: "INTEGER", bool: "INTEGER", str: "TEXT", bytes: "BLOB"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "itinerary.db"


def test_the_switch_to_a_log_waits_for_another_process_that_creates_the_file(path: Path) -> None:
    """SQLite itself answers "database is locked" at once here, and one of two nodes that started together ended."""
    with closing(sqlite3.connect(path)) as other, closing(sqlite3.connect(path, timeout=0.0)) as ours:
        tried: list[str] = []

        def traced(statement: str) -> None:
            tried.append(statement)
            if len(tried) == 3:
                other.rollback()

        ours.set_trace_callback(traced)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another process has held it for 0 s"):
            use_log(ours, path, busy_timeout=0.0)
        assert len(tried) == 1
        use_log(ours, path, busy_timeout=60.0)
        assert len(tried) == 3


def open_and_close(path: Path) -> None:
    async def run() -> None:
        async with SqliteEngine(path):
            pass

    asyncio.run(run())


@pytest.fixture
def made(path: Path) -> sqlite3.Connection:
    """What all migrations together have made."""
    open_and_close(path)
    return sqlite3.connect(path)


@pytest.mark.spec("D7")
@pytest.mark.parametrize("table", ALL, ids=lambda table: table.title)
def test_the_migrations_make_the_declared_table(made: sqlite3.Connection, table: Table[Any]) -> None:
    columns = made.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', [PREFIX + table.title])
    found = {name: (kind, bool(not_null) or bool(place), place) for name, kind, not_null, place in columns}
    declared = {
        column.name: (
            TYPES[column.type],
            not column.is_optional,
            table.key.index(column.name) + 1 if column.name in table.key else 0,
        )
        for column in table.columns
    }
    assert list(found.items()) == list(declared.items()), "see the declared rows: the migrations have to follow"
    unique = [
        tuple(name for (name,) in made.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", [index]))
        for index, origin in made.execute("SELECT name, origin FROM pragma_index_list(?)", [PREFIX + table.title])
        if origin == "u"
    ]
    assert unique == ([table.name] if table.name else [])
    (strict,) = made.execute("SELECT strict FROM pragma_table_list WHERE name = ?", [PREFIX + table.title]).fetchone()
    assert strict
    made.close()


@pytest.mark.spec("D7")
def test_the_migrations_make_nothing_else_but_the_numbers(made: sqlite3.Connection) -> None:
    names = {name for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert names == {PREFIX + title for title in ["numbers", *(table.title for table in ALL)]}
    serial = {title for (title,) in made.execute("SELECT title FROM itinerary_numbers")}
    assert serial == {table.title for table in ALL if table.is_serial}
    made.close()


def test_migrations_are_read_in_order() -> None:
    found = migrations_of("itinerary.stores.sqlite.migrations")
    assert [migration.number for migration in found] == list(range(1, len(found) + 1))
    assert found[0].title == "first tables"
    assert found[0].statements.startswith("--")


@pytest.mark.spec("D7")
def test_only_what_has_not_been_run_is_run_and_all_of_it_or_nothing(path: Path) -> None:
    open_and_close(path)
    more = Migration(schema.NUMBER + 1, "more", "CREATE TABLE itinerary_more (a INTEGER) STRICT;")
    broken = Migration(schema.NUMBER + 2, "broken", "CREATE TABLE itinerary_yet (a INTEGER) STRICT;\nNONSENSE;")
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="NONSENSE"):
        schema.migrate(connection, path, [*schema.MIGRATIONS, more, broken])
    assert schema.number_of(connection) == schema.NUMBER
    assert not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'itinerary_more'").fetchall()
    schema.migrate(connection, path, [*schema.MIGRATIONS, more])
    assert schema.number_of(connection) == more.number
    assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'itinerary_more'").fetchall()
    connection.close()


@pytest.mark.spec("D7")
def test_a_store_is_brought_to_a_later_schema_with_what_is_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO itinerary_limits (name) VALUES ('api')")
    later = Migration(schema.NUMBER + 1, "later", "ALTER TABLE itinerary_limits ADD COLUMN kept INTEGER DEFAULT 7;")
    monkeypatch.setattr(schema, "MIGRATIONS", known := [*schema.MIGRATIONS, later])
    monkeypatch.setattr(schema.migrate, "__defaults__", (known,))
    monkeypatch.setattr(schema, "NUMBER", later.number)
    assert schema.seen(path, 1.0).pending == (str(later),)
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        assert schema.number_of(connection) == later.number
        assert connection.execute("SELECT name, kept FROM itinerary_limits").fetchall() == [("api", 7)]
    assert schema.seen(path, 1.0).pending == ()


@pytest.mark.spec("D7")
def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    open_and_close(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaError, match=f"schema 99.*up to {schema.NUMBER}.*upgrade"):
        open_and_close(path)


@pytest.mark.spec("D7")
def test_a_node_stops_at_the_gate_when_another_has_moved_the_schema_on(path: Path) -> None:
    def work(tx: Transaction) -> None:
        tx.gate()
        tx.add(STORE_META, [sample(STORE_META, one=7)])

    async def run() -> int:
        async with SqliteEngine(path) as engine:
            newer = sqlite3.connect(path)
            newer.execute("PRAGMA user_version = 99")
            newer.close()
            with pytest.raises(SchemaError, match="schema 99"):
                await engine.write(work)
            with pytest.raises(SchemaError, match="schema 99"):
                await engine.read(lambda tx: tx.gate())
            return len(await engine.read(lambda tx: tx.scan(STORE_META, limit=9)))

    assert asyncio.run(run()) == 0


def test_an_older_file_put_in_place_of_ours_is_noticed(path: Path) -> None:
    async def run() -> None:
        async with SqliteEngine(path) as engine:
            older = sqlite3.connect(path)
            older.execute("PRAGMA user_version = 0")
            older.close()
            with pytest.raises(SchemaError, match=r"schema 0.*open the store again"):
                await engine.write(lambda tx: tx.gate())

    asyncio.run(run())


def test_somebody_elses_database_is_refused_and_not_written_to(path: Path) -> None:
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE customers (name TEXT)")
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(SchemaError, match=r"another program.*path of its own"):
        open_and_close(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 50])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SchemaError, match="not a SQLite database"):
        open_and_close(path)
    assert path.read_bytes() == content


def test_a_damaged_file_is_reported_with_what_to_do(path: Path) -> None:
    async def fill() -> None:
        async with SqliteEngine(path) as engine:
            await engine.write(lambda tx: tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=ref) for ref in range(5_000)]))

    asyncio.run(fill())
    content = bytearray(path.read_bytes())
    content[4096 * 30 :] = b"\xff" * (len(content) - 4096 * 30)
    path.write_bytes(content)

    async def read() -> None:
        async with SqliteEngine(path) as engine:
            await engine.read(lambda tx: tx.scan(ACTIVE, limit=10_000))

    with pytest.raises(StoreError, match=r"damaged.*restore"):
        asyncio.run(read())


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere.*directory"):
        open_and_close(tmp_path / "nowhere" / "itinerary.db")


@pytest.mark.spec("D7")
def test_of_several_processes_that_open_a_new_file_at_once_none_fails(path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from itinerary.stores.sqlite import SqliteEngine\n"
        "async def run():\n"
        "    sys.stdin.read(1)\n"
        "    async with SqliteEngine(sys.argv[1]): pass\n"
        "asyncio.run(run())\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    pipe = subprocess.PIPE
    openers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(5)]  # noqa: S603 - ours
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write(b"x")
        opener.stdin.flush()
    ended = [(opener.communicate(timeout=60)[1].decode(), opener.returncode) for opener in openers]
    assert ended == [("", 0)] * 5
    connection = sqlite3.connect(path)
    assert schema.number_of(connection) == schema.NUMBER
    connection.close()
