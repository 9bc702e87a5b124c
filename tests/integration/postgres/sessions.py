"""What the tests look at beside the engine: the server's own view of who waits, and who is connected."""

from __future__ import annotations

from typing import Any, Final

import psycopg

__all__ = ["ask", "until_waiting"]

_LOOKS_MAX: Final = 100_000


def ask(url: str, statement: str, *parameters: Any) -> list[Any]:
    """Run one statement on a connection of its own, and return its rows, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), parameters or None)
        return [] if cursor.description is None else cursor.fetchall()


def until_waiting(url: str, sessions: int = 1) -> None:
    """Return when so many sessions wait for a lock in this database."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(_LOOKS_MAX):
            found = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if found is not None and found[0] >= sessions:
                return
    raise AssertionError("nobody came to wait for a lock")
