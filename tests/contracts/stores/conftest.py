"""Every engine, for every test of the stores' contract: `engine` is one after the other, each empty and not yet open.

A test opens it in its own event loop, `async with engine:`, or takes `store`, which is that one, opened. None is ever
left out: what an engine needs is among the tests' own dependencies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from itinerary.stores.engine import Engine, T, Work
from itinerary.stores.lmdb import LmdbEngine
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.sqlite import SqliteEngine
from tests.servers import PostgresServer, postgres_server

__all__ = ["Opened", "engine", "postgres_server", "store"]


@contextmanager
def _memory(_request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield MemoryEngine()


@contextmanager
def _sqlite(request: pytest.FixtureRequest) -> Iterator[Engine]:
    directory: Path = request.getfixturevalue("tmp_path")
    yield SqliteEngine(directory / "itinerary.db")


@contextmanager
def _postgres(request: pytest.FixtureRequest) -> Iterator[Engine]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        yield PostgresEngine(url)


@contextmanager
def _lmdb(request: pytest.FixtureRequest) -> Iterator[Engine]:
    directory: Path = request.getfixturevalue("tmp_path")
    yield LmdbEngine(directory / "itinerary.lmdb")


_MAKERS: Final[dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Engine]]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "lmdb": _lmdb,
}


@pytest.fixture(params=_MAKERS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An empty engine, which nobody has opened yet."""
    with _MAKERS[request.param](request) as made:
        yield made


class Opened:
    """An engine that is open, for tests that say one thing after the other."""

    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self.engine = engine
        self.runner = runner

    def write(self, work: Work[T]) -> T:
        return self.runner.run(self.engine.write(work))

    def read(self, work: Work[T]) -> T:
        return self.runner.run(self.engine.read(work))


@pytest.fixture
def store(engine: Engine) -> Iterator[Opened]:
    """An empty engine, open."""
    with asyncio.Runner() as runner:
        runner.run(engine.open())
        yield Opened(engine, runner)
        runner.run(engine.close())
