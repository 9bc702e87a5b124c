"""A task's own statements in a SQLite store (D6): with the success of its attempt, or not at all."""

# ruff: noqa: PT012 - what raises is often the end of an `async with`, which has a body

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from itinerary.errors import StoreFull, TransactionError
from itinerary.stores.sqlite import SqliteEngine, statements
from itinerary.stores.sqlite.transaction import SqliteTransaction
from itinerary.stores.tables import ACTIVE
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.samples import sample

pytestmark = pytest.mark.spec("D6")

Body = Callable[[SqliteEngine], Coroutine[Any, Any, Any]]

ENDLESS = "INSERT INTO mine WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT a, 'x' FROM n"


class Refused(Exception):
    """What `end` raises when the attempt's success was not accepted."""


def notify(number: int, tx: Transaction) -> int:
    tx.notify([f"{number}"])
    return number


def succeed(tx: Transaction) -> None:
    """The end of an attempt, as the ledger would write it."""
    tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=1)])


def refuse(tx: Transaction) -> None:
    succeed(tx)
    raise Refused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "itinerary.db"


def run(path: Path, body: Body) -> tuple[list[tuple[Any, ...]], int]:
    """Run this, and return what is then in the task's table, and how many attempts have succeeded."""

    async def with_engine() -> int:
        async with SqliteEngine(path) as engine:
            async with engine.transaction(lambda _: None, timeout=60) as tx:
                await tx.execute("CREATE TABLE mine (a INTEGER PRIMARY KEY, b TEXT)")
            await body(engine)
            return len(await engine.read(lambda tx: tx.scan(ACTIVE, limit=9)))

    succeeded = asyncio.run(with_engine())
    file = sqlite3.connect(path)
    rows = file.execute("SELECT * FROM mine ORDER BY a").fetchall()
    file.close()
    return rows, succeeded


def test_the_statements_and_the_success_are_committed_together(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        async with engine.transaction(succeed, timeout=60) as tx:
            assert await tx.fetch("SELECT count(*) FROM mine") == [(0,)]
            assert await tx.execute("INSERT INTO mine VALUES (?, ?)", [1, "one"]) == -1
            assert await tx.execute("INSERT INTO mine VALUES (?, ?) RETURNING a", (2, None)) == -1
            assert await tx.execute("UPDATE mine SET b = b || '!' WHERE a = 1") == -1

    assert run(path, body) == ([(1, "one!"), (2, None)], 1)


def test_neither_stands_if_the_body_raises(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(ZeroDivisionError):
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")
                _ = 1 / 0

    assert run(path, body) == ([], 0)


def test_neither_stands_if_the_success_is_refused(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(Refused):
            async with engine.transaction(refuse, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")

    assert run(path, body) == ([], 0)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("INSERT INTO mine VALUES (1, 'again')", sqlite3.IntegrityError),
        ("INSERT INTO nowhere VALUES (1)", sqlite3.OperationalError),
        ("NONSENSE", sqlite3.OperationalError),
        ("INSERT OR ROLLBACK INTO mine VALUES (1, 'again')", sqlite3.IntegrityError),
        ("INSERT INTO mine VALUES (2, ?)", sqlite3.ProgrammingError),
    ],
)
def test_a_mistake_of_the_task_is_raised_as_it_is_and_harms_nobody_else(
    path: Path, statement: str, error: type[Exception]
) -> None:
    async def mistaken(engine: SqliteEngine) -> None:
        async with engine.transaction(succeed, timeout=60) as tx:
            await tx.execute("INSERT INTO mine VALUES (1, 'one')")
            await tx.execute(statement)

    async def body(engine: SqliteEngine) -> None:
        neighbours = [engine.write(partial(notify, n)) for n in range(3)]
        before, failed, *after = await asyncio.gather(
            neighbours[0], mistaken(engine), *neighbours[1:], return_exceptions=True
        )
        assert isinstance(failed, error)
        assert [before, *after] == [0, 1, 2]

    assert run(path, body) == ([], 0)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("COMMIT", "begins or ends a transaction"),
        ("ROLLBACK", "begins or ends a transaction"),
        ("BEGIN IMMEDIATE", "begins or ends a transaction"),
        ("SAVEPOINT work", "savepoint"),
        ("RELEASE work", "savepoint"),
        ("ROLLBACK TO work", "savepoint"),
        ("PRAGMA synchronous = off", "PRAGMA"),
        ("SELECT * FROM pragma_user_version", "PRAGMA"),
        ("ATTACH ':memory:' AS other", "attaches"),
        ("UPDATE itinerary_active SET due_at = 1", "itinerary_active"),
        ("DELETE FROM Itinerary_Active", "itinerary_active"),
        ("INSERT INTO itinerary_numbers VALUES ('x', 1)", "itinerary_numbers"),
        ("DROP TABLE itinerary_overlap_slots", "itinerary_overlap_slots"),
        ("ALTER TABLE itinerary_overlap_slots ADD COLUMN x", "itinerary_overlap_slots"),
        ("CREATE INDEX extra ON itinerary_overlap_slots (ref)", "itinerary_overlap_slots"),
        ("CREATE TABLE ITINERARY_extra (a)", "ITINERARY_extra"),
        ("CREATE TRIGGER t AFTER INSERT ON itinerary_active BEGIN DELETE FROM mine; END", "itinerary_active"),
        ("CREATE TEMP TRIGGER t AFTER INSERT ON itinerary_active BEGIN DELETE FROM mine; END", "itinerary_active"),
    ],
)
def test_a_task_may_not_end_the_transaction_or_write_to_the_stores_own_tables(
    path: Path, statement: str, why: str
) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(TransactionError, match=why):
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")
                await tx.execute(statement)
        await engine.write(lambda tx: tx.notify(["still there"]))

    assert run(path, body) == ([], 0)


def test_a_trigger_of_the_tasks_own_does_not_get_around_that(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        async with engine.transaction(lambda _: None, timeout=60) as tx:
            await tx.execute("CREATE TRIGGER t AFTER INSERT ON mine BEGIN DELETE FROM itinerary_active; END")
        with pytest.raises(TransactionError, match="itinerary_active"):
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")

    assert run(path, body) == ([], 0)


@pytest.mark.parametrize(
    "statement",
    [
        statements.insert(ACTIVE, ACTIVE.names, 1, over=True),
        statements.delete(ACTIVE, 2, 1),
        "BEGIN IMMEDIATE",
        "SAVEPOINT work",
        "RELEASE work",
        "COMMIT",
    ],
)
def test_a_statement_of_ours_is_refused_even_though_it_stands_ready(path: Path, statement: str) -> None:
    def prepare(tx: Transaction) -> None:
        tx.put(ACTIVE, [sample(ACTIVE, job=2, ref=2)])
        tx.remove(ACTIVE, [(2, 2)])

    async def body(engine: SqliteEngine) -> None:
        await engine.write(prepare)
        with pytest.raises(TransactionError, match="a task's statement"):
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute(statement, [0] * statement.count("?"))

    assert run(path, body) == ([], 0)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("INSERT INTO mine VALUES (1, 'one')", "use execute"),
        ("DELETE FROM mine", "use execute"),
        ("CREATE TABLE other (a)", "use execute"),
        ("PRAGMA query_only = 0", "PRAGMA"),
        ("BEGIN", "begins or ends"),
    ],
)
def test_fetch_only_reads(path: Path, statement: str, why: str) -> None:
    async def body(engine: SqliteEngine) -> None:
        async with engine.transaction(succeed, timeout=60) as tx:
            with pytest.raises(TransactionError, match=why):
                await tx.fetch(statement)
            assert await tx.fetch("SELECT ? + 1, job FROM itinerary_active", [1]) == []

    assert run(path, body) == ([], 1)


def test_nothing_is_fetched_after_the_first_statement(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        async with engine.transaction(succeed, timeout=60) as tx:
            await tx.execute("INSERT INTO mine VALUES (1, 'one')")
            with pytest.raises(TransactionError, match="fetch first"):
                await tx.fetch("SELECT * FROM mine")

    assert run(path, body) == ([(1, "one")], 1)


def test_the_engine_cannot_be_written_to_from_inside_not_even_by_a_helper(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        async with engine.transaction(succeed, timeout=60) as tx:
            with pytest.raises(TransactionError, match="inside a task's transaction"):
                await engine.write(lambda tx: tx.notify(["no"]))
            with pytest.raises(TransactionError, match="inside a task's transaction"):
                await asyncio.ensure_future(engine.write(lambda tx: tx.notify(["no"])))
            with pytest.raises(TransactionError, match="inside a task's transaction"):
                async with engine.transaction(succeed, timeout=60):
                    pass
            await tx.execute("INSERT INTO mine VALUES (1, 'one')")
        await engine.write(lambda tx: tx.notify(["yes"]))
        with pytest.raises(TransactionError, match="is over"):
            await tx.execute("INSERT INTO mine VALUES (2, 'two')")

    assert run(path, body) == ([(1, "one")], 1)


def test_others_write_while_a_task_takes_its_time(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        is_inside, may_end = asyncio.Event(), asyncio.Event()

        async def task() -> None:
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")
                is_inside.set()
                await may_end.wait()

        running = asyncio.ensure_future(task())
        await is_inside.wait()
        await engine.write(lambda tx: tx.notify(["meanwhile"]))
        may_end.set()
        await running

    assert run(path, body) == ([(1, "one")], 1)


def test_a_body_over_its_time_is_stopped_and_nothing_stands(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(TransactionError, match=r"longer than 0\.01 s"):
            async with engine.transaction(succeed, timeout=0.01) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")
                await asyncio.Event().wait()

    assert run(path, body) == ([], 0)


def test_a_timeout_of_the_tasks_own_is_not_taken_for_ours(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(TimeoutError, match="my own"):
            async with engine.transaction(succeed, timeout=60):
                raise TimeoutError("my own")

    assert run(path, body) == ([], 0)


def test_statements_over_their_time_are_stopped_and_nobody_else_loses_anything(path: Path) -> None:
    async def endless(engine: SqliteEngine) -> None:
        async with engine.transaction(succeed, timeout=0.2) as tx:
            await tx.execute(ENDLESS)

    async def body(engine: SqliteEngine) -> None:
        neighbours = [engine.write(partial(notify, n)) for n in range(4)]
        answers = await asyncio.gather(*neighbours[:2], endless(engine), *neighbours[2:], return_exceptions=True)
        stopped = answers.pop(2)
        assert isinstance(stopped, TransactionError)
        assert "longer than" in str(stopped)
        assert answers == [0, 1, 2, 3]

    assert run(path, body) == ([], 0)


def test_a_question_over_its_time_is_stopped(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(TransactionError, match="longer than"):
            async with engine.transaction(succeed, timeout=0.05) as tx:
                await tx.fetch("WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT sum(a) FROM n")

    assert run(path, body) == ([], 0)


def test_a_task_that_is_cancelled_leaves_nothing(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        async def task() -> None:
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, 'one')")
                is_inside.set()
                await asyncio.Event().wait()

        is_inside = asyncio.Event()
        running = asyncio.ensure_future(task())
        await is_inside.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await engine.write(lambda tx: tx.notify(["still there"]))

    assert run(path, body) == ([], 0)


def test_a_task_that_fills_the_disk_is_told_so(path: Path) -> None:
    def limit(tx: Transaction) -> None:
        assert isinstance(tx, SqliteTransaction)
        tx.connection.execute("PRAGMA max_page_count = 200")

    async def body(engine: SqliteEngine) -> None:
        await engine.write(limit)
        with pytest.raises(StoreFull):
            async with engine.transaction(succeed, timeout=60) as tx:
                await tx.execute("INSERT INTO mine VALUES (1, ?)", ["x" * 2_000_000])
        await engine.write(lambda tx: tx.notify(["still there"]))

    assert run(path, body) == ([], 0)


def test_there_is_a_limit_to_what_is_kept(path: Path) -> None:
    async def body(engine: SqliteEngine) -> None:
        with pytest.raises(TransactionError, match="at most 10000"):
            async with engine.transaction(succeed, timeout=60) as tx:
                for number in range(10_001):
                    await tx.execute("INSERT INTO mine VALUES (?, 'x')", [number])

    assert run(path, body) == ([], 0)
