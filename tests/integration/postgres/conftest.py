"""A database of its own for each test, on the one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import PostgresServer, postgres_server

__all__ = ["postgres_server", "url"]


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """Where an empty database is."""
    with postgres_server.database() as address:
        yield address
