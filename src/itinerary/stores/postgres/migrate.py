"""Upgrades of the schema: by one node, once, while the others wait (D7).

Migrations are numbered SQL files, applied once and in order. The table `migrations` records which. Missing ones are
applied together, in one transaction, which holds the gate exclusively (protocol rule 26). A transaction that passes the
gate afterwards sees the new number, and stops if it does not know it.

A current schema is recognised without the gate. So a joining node waits for no other node, and needs no right to create
anything.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from itinerary.errors import SchemaError
from itinerary.stores.engine import SchemaSeen
from itinerary.stores.migrations import Migration
from itinerary.stores.postgres.deadlines import allowing
from itinerary.stores.postgres.statements import Statements

__all__ = ["bring_up_to_date", "seen"]

_STATEMENT_TIMEOUT: Final = 600
"""Seconds for one statement of a migration, including the wait for another node's migration."""


def bring_up_to_date(connection: psycopg.Connection[Any], made: Statements, known: list[Migration]) -> None:
    """Apply the missing migrations.

    Raises:
        SchemaError: The schema is newer than this program, or belongs to another program.
    """
    if _number(connection, made, known) == known[-1].number:
        return
    with allowing(connection, _STATEMENT_TIMEOUT), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE")
        # The transactions of other nodes may take long.
        connection.execute(f"SET LOCAL lock_timeout = '{_STATEMENT_TIMEOUT}s'")
        connection.execute(f"SET LOCAL statement_timeout = '{_STATEMENT_TIMEOUT}s'")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [made.gate_key])
        number = _number(connection, made, known)
        if number == 0:
            _create(connection, made)
        connection.execute(f"SET LOCAL search_path = {made.schema}")  # the files name no schema
        for migration in known:
            if migration.number > number:
                connection.execute(migration.statements.encode())
                connection.execute(made.migrated.encode(), [migration.number, migration.title])


def seen(connection: psycopg.Connection[Any], made: Statements, known: list[Migration]) -> SchemaSeen:
    """Return the schema of the store. Only reads."""
    number = _applied(connection, made)
    pending = tuple(str(migration) for migration in known if migration.number > number)
    return SchemaSeen(number or None, known[-1].number, pending)


def _number(connection: psycopg.Connection[Any], made: Statements, known: list[Migration]) -> int:
    """Return the number of the existing schema, or 0.

    Raises:
        SchemaError: The schema is newer than this program.
    """
    number = _applied(connection, made)
    if number > known[-1].number:
        raise SchemaError(
            f"schema {made.schema} has number {number}, and this program knows up to {known[-1].number}: a newer"
            " version of it has been here; upgrade this one"
        )
    return number


def _applied(connection: psycopg.Connection[Any], made: Statements) -> int:
    if "migrations" not in _relations(connection, made):
        return 0
    answer = connection.execute(made.schema_number.encode()).fetchone()
    assert answer is not None
    number: int = answer[0]
    return number


def _create(connection: psycopg.Connection[Any], made: Statements) -> None:
    """Create the table of migrations, and the schema unless an administrator has created it."""
    if _relations(connection, made):
        raise SchemaError(
            f"schema {made.schema} is there, with tables that are not ours: name another one for this store"
        )
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [made.title]).fetchone() is None:
        connection.execute(f"CREATE SCHEMA {made.schema}")
    connection.execute(
        f"CREATE TABLE {made.migrations} (number bigint PRIMARY KEY, title text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )


def _relations(connection: psycopg.Connection[Any], made: Statements) -> set[str]:
    """Return the names of the relations in the schema.

    The names come from the catalog, not from `to_regclass`. That function answers from a cache of the session, which
    does not see at the gate what another node has just created.
    """
    found = connection.execute(
        "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s",
        [made.title],
    )
    return {name for (name,) in found}
