"""The owner and the schema of a file, and its upgrade (D7).

A file is ours if it has our `application_id`. A new, empty file becomes ours. `user_version` is the number of the
schema: that of the last migration. Both are read in the transaction that migrates. So if several processes open a file
at the same time, one migrates, and the others wait and find nothing left to do. Every later transaction checks the
number again (protocol rule 26), because a newer program may have upgraded the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from itinerary.errors import SchemaError
from itinerary.stores.engine import SchemaSeen
from itinerary.stores.migrations import Migration, migrations_of
from itinerary.stores.sqlite.failures import failure

__all__ = ["MIGRATIONS", "NUMBER", "check_number", "check_owner", "migrate", "number_of", "seen", "seen_by"]

APPLICATION: Final = 0x49544E59
"""`ITNY`, as `file` shows it."""
MIGRATIONS: Final[list[Migration]] = migrations_of("itinerary.stores.sqlite.migrations")
NUMBER: Final = MIGRATIONS[-1].number
"""The schema that this program knows."""


def check_owner(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the file does not belong to another program. Writes nothing.

    Raises:
        SchemaError: It does.
    """
    application = _application_of(connection)
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == APPLICATION or (application == 0 and tables == 0):
        return
    raise SchemaError(
        f"{path}: is a SQLite database of another program (application_id {application}, {tables} tables and indexes);"
        " choose a path of its own for the store"
    )


def _application_of(connection: sqlite3.Connection) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return int(application)


def number_of(connection: sqlite3.Connection) -> int:
    """Return the number of the schema of the file."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)


def seen(path: Path, busy_timeout: float) -> SchemaSeen:
    """Return the schema of a file, if it exists. Only reads."""
    if not path.exists():
        return SchemaSeen(None, NUMBER, tuple(map(str, MIGRATIONS)))
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=busy_timeout)) as connection:
            return seen_by(connection, path)
    except sqlite3.Error as error:
        raise failure(error, path) from error


def seen_by(connection: sqlite3.Connection, path: Path) -> SchemaSeen:
    """Return the schema of a file, by a connection to it. Only reads."""
    check_owner(connection, path)
    number = number_of(connection)
    return SchemaSeen(number or None, NUMBER, tuple(map(str, MIGRATIONS[number:])))


def check_number(number: int, path: Path) -> None:
    """Check that this is the schema that this program knows.

    Raises:
        SchemaError: It is older or newer.
    """
    if number > NUMBER:
        raise SchemaError(
            f"{path}: has schema {number}, and this program knows schemas up to {NUMBER}; upgrade Itinerary here"
        )
    if number < NUMBER:
        raise SchemaError(
            f"{path}: has schema {number} where this program had made {NUMBER}: an older file was put in its place;"
            " open the store again"
        )


def migrate(connection: sqlite3.Connection, path: Path, migrations: list[Migration] = MIGRATIONS) -> None:
    """Run all missing migrations, or none of them.

    A current file is only read, because its disk may be full.
    """
    if number_of(connection) == migrations[-1].number and _application_of(connection) == APPLICATION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        check_owner(connection, path)
        before = number_of(connection)
        if before > migrations[-1].number:
            check_number(before, path)
        for migration in migrations[before:]:
            for statement in _statements(migration.statements):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {migrations[-1].number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a script one by one: `executescript` would commit in between."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    assert not statement.strip(), f"a migration ends within a statement: {statement}"
