"""The schema: made once, equal to what is declared, refused when it is newer, and read along its indexes."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor

from itinerary.errors import SchemaError
from itinerary.stores.migrations import Migration, migrations_of
from itinerary.stores.postgres import PostgresEngine, engine
from itinerary.stores.postgres.statements import SETTINGS, TYPES, KeyRange, Statements
from itinerary.stores.tables import ALL, STORE_META, Table
from itinerary.stores.transaction import Transaction
from itinerary.stores.urls import schema_at
from tests.integration.postgres.sessions import ask

NEWEST = len(migrations_of("itinerary.stores.postgres.migrations"))


@pytest.mark.spec("D7")
def test_of_eight_who_come_first_one_migrates_and_the_others_wait(url: str) -> None:
    async def open_and_close() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(lambda tx: tx.gate())

    async def main() -> None:
        await asyncio.gather(*[open_and_close() for _ in range(8)])

    asyncio.run(main())
    assert ask(url, "SELECT count(*), max(number) FROM itinerary.migrations") == [(NEWEST, NEWEST)]


@pytest.mark.spec("D7")
def test_a_store_is_brought_to_a_later_schema_with_what_is_in_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _open_once(url)
    ask(url, "INSERT INTO itinerary.limits (name) VALUES ('api')")
    later = Migration(NEWEST + 1, "later", "ALTER TABLE limits ADD COLUMN kept bigint DEFAULT 7")
    known = [*migrations_of("itinerary.stores.postgres.migrations"), later]
    monkeypatch.setattr(engine, "migrations_of", lambda _: known)
    seen = asyncio.run(schema_at(url))
    assert (seen.found, seen.known, seen.pending) == (NEWEST, later.number, (str(later),))
    _open_once(url)
    assert ask(url, "SELECT count(*), max(number) FROM itinerary.migrations") == [(later.number, later.number)]
    assert ask(url, "SELECT name, kept FROM itinerary.limits") == [("api", 7)]


@pytest.mark.spec("D7")
def test_a_newer_schema_is_refused_with_both_numbers(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(lambda tx: tx.gate())
            ask(url, "INSERT INTO itinerary.migrations (number, title) VALUES (99, 'of the future')")
            with pytest.raises(SchemaError, match=rf"from number {NEWEST} to 99"):
                await engine.write(lambda tx: tx.gate())
        with pytest.raises(SchemaError, match=rf"has number 99, and this program knows up to {NEWEST}.*upgrade"):
            await PostgresEngine(url).open()

    asyncio.run(main())


@pytest.mark.spec("D7")
def test_who_trips_over_a_newer_schema_is_told_of_its_number_and_not_of_what_it_tripped_over(url: str) -> None:
    def pass_and_read(tx: Transaction) -> None:
        tx.gate()
        tx.get(STORE_META, [(0,)])

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(pass_and_read)
            ask(url, "ALTER TABLE itinerary.store_meta RENAME COLUMN revision TO edition")
            ask(url, "INSERT INTO itinerary.migrations (number, title) VALUES (99, 'of the future')")
            with pytest.raises(SchemaError, match=rf"from number {NEWEST} to 99"):
                await engine.write(pass_and_read)

    asyncio.run(main())


def test_a_schema_of_somebody_elses_is_left_alone(url: str) -> None:
    ask(url, "CREATE SCHEMA itinerary")
    ask(url, "CREATE TABLE itinerary.trips (place text)")

    async def main() -> None:
        with pytest.raises(SchemaError, match="tables that are not ours"):
            await PostgresEngine(url).open()
        async with PostgresEngine(url, schema="elsewhere"):
            pass

    asyncio.run(main())


def test_an_empty_schema_that_was_made_for_us_is_used(url: str) -> None:
    ask(url, "CREATE SCHEMA itinerary")

    async def main() -> None:
        async with PostgresEngine(url):
            pass

    asyncio.run(main())


def _open_once(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url):
            pass

    asyncio.run(main())


def _declared(table: Table[Any]) -> list[tuple[str, str, str, str, str | None]]:
    return [
        (
            column.name,
            TYPES[column.type],
            "YES" if column.is_optional else "NO",
            "YES" if table.is_serial and column is table.columns[0] else "NO",
            "C" if column.type is str else None,
        )
        for column in table.columns
    ]


@pytest.mark.spec("D7")
def test_all_migrations_together_make_the_declared_tables(url: str) -> None:
    _open_once(url)
    tables = {title for (title,) in ask(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'itinerary'")}
    assert tables == {table.title for table in ALL} | {"migrations"}
    for table in ALL:
        columns = ask(
            url,
            "SELECT column_name, data_type, is_nullable, is_identity, collation_name FROM information_schema.columns"
            " WHERE table_schema = 'itinerary' AND table_name = %s ORDER BY ordinal_position",
            table.title,
        )
        assert columns == _declared(table), table
        keys = ask(
            url,
            "SELECT c.contype::text, (SELECT array_agg(a.attname::text ORDER BY place) FROM pg_attribute a JOIN"
            " unnest(c.conkey) WITH ORDINALITY AS k (attnum, place) USING (attnum) WHERE a.attrelid = c.conrelid)"
            " FROM pg_constraint c WHERE c.conrelid = %s::regclass AND c.contype IN ('p', 'u')",
            f'itinerary."{table.title}"',
        )
        assert dict(keys) == {"p": list(table.key)} | ({"u": list(table.name)} if table.name else {}), table


def _statements(made: Statements, table: Table[Any]) -> list[str]:
    found = [
        made.select(table, table.key, locked=False),
        made.select(table, table.key, locked=True),
        *[made.delete(table, size) for size in range(1, len(table.key) + 1)],
        made.scan(table, KeyRange(0, 0, 0)),
        made.scan(table, KeyRange(0, 1, 1)),
        made.scan(table, KeyRange(0, len(table.key), 1), newest_first=True),
        made.scan(table, KeyRange(len(table.key) - 1, 1, 1)),
    ]
    if others := tuple(name for name in table.names if name not in table.key):
        found += [
            made.update(table, others),
            made.update(table, (), others),
            made.update(table, others[:1], others[1:]),
        ]
    if table.name:
        found += [
            made.select(table, table.name, locked=False),
            made.scan(table, KeyRange(0, 1, 1), by_name=True, newest_first=True),
            made.scan(table, KeyRange(0, len(table.name), 1), by_name=True, whole=False),
        ]
    return found


@pytest.mark.parametrize("state", ["new", "known to be empty", "known to be small"])
def test_every_statement_goes_along_an_index_whatever_the_planner_believes(url: str, state: str) -> None:
    _open_once(url)
    made = Statements("itinerary")
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.info.server_version < 160_000:
            pytest.skip("the server cannot show a plan for parameters")
        if state == "known to be small":
            connection.execute("INSERT INTO itinerary.active SELECT n, n, n FROM generate_series(1, 3) AS n")
            connection.execute("INSERT INTO itinerary.streams SELECT n, n FROM generate_series(1, 3) AS n")
        if state != "new":
            connection.execute("VACUUM ANALYZE")
        with connection.transaction():
            RawCursor(connection).execute(SETTINGS, ["2s", "5s", "40s"])
            for sql in [sql for table in ALL for sql in _statements(made, table)] + [made.schema_and_clock]:
                lines = [line for (line,) in connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {sql}".encode())]
                plan = "\n".join(lines)
                assert "Seq Scan" not in plan, plan
                assert "Join Filter" not in plan, plan
                assert "given" in sql or "Filter" not in plan, plan
                if "given" in sql:
                    assert lines.index(next(line for line in lines if "ProjectSet" in line)) < lines.index(
                        next(line for line in lines if "Index" in line)
                    ), plan
                else:
                    assert "Index" in plan, plan
                assert "Sort" not in plan, plan
