"""A table that is a task's own, in the same database as the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from itinerary.model.rows import OccurrenceRow
from itinerary.model.writes import Claimed

__all__ = ["as_claimed", "count_effects", "create_effects", "run"]


def run(url: str, statement: str) -> list[Any]:
    """Run one statement beside the store, and return its rows."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(urlsplit(url).path.removeprefix("/"), isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url, autocommit=True) as server:
        cursor = server.execute(statement.encode())
        return [] if cursor.description is None else cursor.fetchall()


def create_effects(url: str) -> None:
    """Create the table that a task's statements write to."""
    run(url, "CREATE TABLE effects (what TEXT)")


def count_effects(url: str) -> int:
    """How many rows tasks have written."""
    ((count,),) = run(url, "SELECT count(*) FROM effects")
    return int(count)


def as_claimed(row: OccurrenceRow) -> Claimed:
    """A row, as its owner has it."""
    return Claimed(row.ref, row.key, row.fence, row.adjustments)
