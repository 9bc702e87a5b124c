"""What an occurrence costs a store, counted in statements: the same for a thousand as for one, and beside any number of
jobs and any history."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.lives import EPOCH, live, registered, wanted_at
from itinerary.model.rows import JobNumber, NodeNumber
from itinerary.schedules.durations import SECOND
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.sqlite.session import SqliteSession
from itinerary.stores.store import EngineStore


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of the writer, without the values in it."""
    statements: list[str] = []
    made: Callable[..., None] = SqliteSession.__init__

    def listen(self: SqliteSession, *args: Any, **values: Any) -> None:
        made(self, *args, **values)
        self._connection.set_trace_callback(statements.append)

    monkeypatch.setattr(SqliteSession, "__init__", listen)
    return statements


def lives(path: Path, heard: list[str], *, jobs: int, history: int, herd: int) -> list[str]:
    """The statements that the lives of a herd take, one life each, on a store with so many jobs and old lives."""

    async def story() -> list[str]:
        async with EngineStore(SqliteEngine(path, synchronous="normal")) as store:
            node: NodeNumber = await store.join("a", "a", "{}")
            numbers: list[JobNumber]
            numbers, revision = await registered(store, jobs)
            for number in range(history):
                await live(store, node, revision, wanted_at(EPOCH + number * SECOND, numbers), at_once=1)
            heard.clear()
            herd_of = wanted_at(EPOCH + history * SECOND, numbers[:herd])
            await live(store, node, revision, herd_of, at_once=1)
            return [re.sub(r"[^A-Z_a-z]+", " ", statement) for statement in heard]

    return asyncio.run(story())


def writes(statements: list[str]) -> list[str]:
    return [statement for statement in statements if re.search(r"\b(UPDATE|INSERT|DELETE)\b", statement)]


@pytest.mark.spec("P3", "few statements")
def test_512_occurrences_take_as_many_writes_as_one(tmp_path: Path, heard: list[str]) -> None:
    one = lives(tmp_path / "one.db", heard, jobs=512, history=1, herd=1)
    many = lives(tmp_path / "many.db", heard, jobs=512, history=1, herd=512)
    assert len(writes(many)) == len(writes(one)) <= 12


@pytest.mark.spec("P6", "statements")
def test_a_life_takes_the_same_statements_beside_many_jobs_and_a_long_history(tmp_path: Path, heard: list[str]) -> None:
    few = lives(tmp_path / "few.db", heard, jobs=16, history=2, herd=16)
    many = lives(tmp_path / "many.db", heard, jobs=2_000, history=2, herd=16)
    old = lives(tmp_path / "old.db", heard, jobs=16, history=12, herd=16)
    assert [one[:60] for one in few] == [one[:60] for one in many] == [one[:60] for one in old]
