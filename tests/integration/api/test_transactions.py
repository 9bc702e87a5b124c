"""A task's own transaction commits with its success, or not at all (D6)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from itinerary import ExecutionContext, Itinerary, OccurrenceReport, Retry, cron
from itinerary.errors import TransactionError
from itinerary.model import OccurrenceState
from itinerary.stores import open_store
from tests.integration.api.conftest import run

MakeApp = Callable[[], Itinerary]
NEVER = cron("0 0 29 2 *")


@pytest.fixture
def ledger(tmp_path: Path, store: str) -> Callable[[], list[int]]:
    """The task's own table, in the same file, and what is in it."""

    async def create() -> None:
        async with open_store(store):
            pass

    run(create())
    path = tmp_path / "itinerary.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table ledger (attempt integer)")
    connection.close()

    def rows() -> list[int]:
        connection = sqlite3.connect(path)
        try:
            return [attempt for (attempt,) in connection.execute("select attempt from ledger order by attempt")]
        finally:
            connection.close()

    return rows


def outcome(app: Itinerary, name: str) -> OccurrenceReport:
    async def program() -> OccurrenceReport:
        async with app.running() as node:
            return await node.wait(await app[name].trigger())

    return run(program())


@pytest.mark.spec("D6", "together")
def test_rows_and_success_are_committed_together(make_app: MakeApp, ledger: Callable[[], list[int]]) -> None:
    app = make_app()

    @app.job(NEVER)
    async def book(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            assert await tx.fetch("select count(*) from ledger") == [(0,)]
            await tx.execute("insert into ledger values (?)", (ctx.attempt,))

    assert outcome(app, "book").outcome is OccurrenceState.COMPLETED
    assert ledger() == [1]


@pytest.mark.spec("D6", "in a thread")
def test_a_plain_function_has_a_transaction_too(make_app: MakeApp, ledger: Callable[[], list[int]]) -> None:
    app = make_app()

    @app.job(NEVER)
    def book(ctx: ExecutionContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into ledger values (?)", (ctx.attempt,))

    assert outcome(app, "book").outcome is OccurrenceState.COMPLETED
    assert ledger() == [1]


@pytest.mark.spec("D6", "a retry sees none of it")
def test_a_body_that_raises_leaves_nothing_and_its_retry_sees_nothing(
    make_app: MakeApp, ledger: Callable[[], list[int]]
) -> None:
    app = make_app()
    seen: list[int] = []

    @app.job(NEVER, retry=Retry(1, "1ms"))
    async def book(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            ((count,),) = await tx.fetch("select count(*) from ledger")
            seen.append(count)
            await tx.execute("insert into ledger values (?)", (ctx.attempt,))
            if ctx.attempt == 1:
                raise ValueError("the first time it goes wrong")

    report = outcome(app, "book")
    assert report.outcome is OccurrenceState.COMPLETED
    assert len(report.tasks[0].attempts) == 2
    assert seen == [0, 0]
    assert ledger() == [2]


@pytest.mark.spec("D6", "a statement that fails")
def test_a_statement_that_fails_fails_the_attempt_and_leaves_nothing(
    make_app: MakeApp, ledger: Callable[[], list[int]]
) -> None:
    app = make_app()

    @app.job(NEVER)
    async def book(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("insert into ledger values (?)", (ctx.attempt,))
            await tx.execute("insert into nowhere values (1)")

    report = outcome(app, "book")
    assert report.outcome is OccurrenceState.FAILED
    assert "no such table: nowhere" in (report.tasks[0].attempts[0].error or "")
    assert ledger() == []


@pytest.mark.spec("D6", "once for each attempt")
def test_a_second_transaction_of_one_attempt_is_refused(make_app: MakeApp, ledger: Callable[[], list[int]]) -> None:
    app = make_app()
    errors: list[str] = []

    @app.job(NEVER)
    async def book(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("insert into ledger values (?)", (ctx.attempt,))
        try:
            async with ctx.transaction():
                pass
        except TransactionError as error:
            errors.append(str(error))

    assert outcome(app, "book").outcome is OccurrenceState.COMPLETED
    assert errors == ["no transaction for this attempt: its attempt has committed a transaction already"]
    assert ledger() == [1]


@pytest.mark.spec("D6", "the rest goes on")
def test_what_is_written_of_other_tasks_waits_for_a_transaction_and_is_written_then(
    make_app: MakeApp, ledger: Callable[[], list[int]]
) -> None:
    app = make_app()
    both = app.job("both", NEVER, mode="parallel")
    is_open = asyncio.Event()
    is_done = asyncio.Event()

    @both.task
    async def book(ctx: ExecutionContext) -> None:
        async with ctx.transaction() as tx:
            is_open.set()
            await is_done.wait()
            await tx.execute("insert into ledger values (?)", (ctx.attempt,))

    @both.task
    async def quick() -> str:
        await is_open.wait()
        is_done.set()
        return "done while the other holds the pen"

    assert outcome(app, "both").outcome is OccurrenceState.COMPLETED
    assert ledger() == [1]
