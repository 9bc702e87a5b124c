"""A database of its own for each scene, on the one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.protocol.scene import Scene
from tests.servers import PostgresServer, postgres_server

__all__ = ["postgres_server", "scene"]


@pytest.fixture
def scene(postgres_server: PostgresServer) -> Iterator[Scene]:
    """An empty database."""
    with postgres_server.database() as address:
        played = Scene(address)
        try:
            yield played
        finally:
            played.close()
