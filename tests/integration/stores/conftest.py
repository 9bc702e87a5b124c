"""Places for durable stores, and processes that are to be killed on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.integration.stores.nursery import Nursery
from tests.integration.stores.nursery import nursery as opened_nursery
from tests.servers import PostgresServer, postgres_server

__all__ = ["Places", "nursery", "places", "postgres_server"]

Places = Callable[[], str]
"""Gives the URL of a new, empty store each time."""


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with opened_nursery() as opened:
        yield opened


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Places]:
    """New places of one kind, by the test's parameter: `sqlite`, `lmdb` or `postgres`."""
    kind: str = request.param
    numbers = count(1)
    with ExitStack() as stack:
        if kind == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            yield lambda: stack.enter_context(server.database())
            return
        yield lambda: f"{kind}:///{tmp_path}/store-{next(numbers)}"
