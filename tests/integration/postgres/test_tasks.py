"""A task's own transaction (D6): with its attempt's success, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from itinerary.errors import CommitInDoubt, TransactionError
from itinerary.model.rows import StreamRow
from itinerary.stores.engine import Work
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.postgres.task_transaction import _Session
from itinerary.stores.tables import STREAMS
from itinerary.stores.transaction import Transaction
from tests.integration.postgres.sessions import ask
from tests.servers import PostgresServer

pytestmark = pytest.mark.spec("D6")


@pytest.fixture(autouse=True)
def _table(url: str) -> None:
    ask(url, "CREATE TABLE work (id bigint PRIMARY KEY)")


def _end(tx: Transaction) -> None:
    tx.put(STREAMS, [StreamRow("ended")])


def _refused(tx: Transaction) -> None:
    tx.put(STREAMS, [StreamRow("ended")])
    raise TransactionError("the fence is higher")


async def _task(
    engine: PostgresEngine, *steps: str | Callable[[], Any], end: Work[None] = _end, allowed: float = 60
) -> None:
    """A task that runs these statements, or calls these, in its transaction."""
    async with engine.transaction(end, timeout=allowed) as task:
        for step in steps:
            if isinstance(step, str):
                await task.execute(step)
            elif asyncio.iscoroutine(awaitable := step()):
                await awaitable


def _stands(url: str) -> tuple[int, int]:
    ((work, ended),) = ask(url, "SELECT (SELECT count(*) FROM work), (SELECT count(*) FROM itinerary.streams)")
    return work, ended


def _in_transactions(url: str) -> int:
    ((count,),) = ask(
        url,
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend' AND (state <> 'idle' OR xact_start IS NOT NULL)",
    )
    return int(count)


def test_the_tasks_rows_and_the_end_are_committed_together(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            async with engine.transaction(_end, timeout=60) as task:
                assert await task.execute("INSERT INTO work SELECT generate_series(%s::bigint, 3)", [1]) == 3
                assert await task.fetch("SELECT id FROM work ORDER BY id") == [(1,), (2,), (3,)]
                assert await task.fetch("SELECT id FROM work WHERE id %% 2 = %s", [0]) == [(2,)]
                assert await task.fetch("SELECT '100%'") == [("100%",)]
                assert await task.execute("CREATE TEMP TABLE t (x int)") == 0
                assert _stands(url) == (0, 0)
            assert _stands(url) == (3, 1)

    asyncio.run(main())


def test_an_error_of_the_tasks_undoes_everything_and_a_retry_sees_nothing_of_it(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, task_connections=1) as engine:
            with pytest.raises(ZeroDivisionError):
                await _task(engine, "INSERT INTO work VALUES (1)", lambda: 1 / 0)
            async with engine.transaction(_end, timeout=60) as task:
                assert await task.fetch("SELECT * FROM work") == []
                await task.execute("INSERT INTO work VALUES (1)")
            assert _stands(url) == (1, 1)

    asyncio.run(main())


def test_an_error_of_a_statement_is_the_tasks_to_see(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(psycopg.errors.UniqueViolation):
                await _task(engine, "INSERT INTO work VALUES (1)", "INSERT INTO work VALUES (1)")
            assert _stands(url) == (0, 0)

    asyncio.run(main())


def test_a_failed_statement_can_be_gone_back_from_to_a_savepoint(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            async with engine.transaction(_end, timeout=60) as task:
                await task.execute("INSERT INTO work VALUES (1)")
                await task.execute("SAVEPOINT before")
                with pytest.raises(psycopg.errors.UniqueViolation):
                    await task.execute("INSERT INTO work VALUES (1)")
                await task.execute("ROLLBACK TO before")
            assert _stands(url) == (1, 1)

    asyncio.run(main())


def test_a_failed_transaction_whose_error_was_kept_quiet_is_not_taken_for_a_success(url: str) -> None:
    async def keep_quiet(engine: PostgresEngine) -> None:
        async with engine.transaction(_end, timeout=60) as task:
            with pytest.raises(psycopg.errors.UndefinedTable):
                await task.execute("INSERT INTO nowhere VALUES (1)")

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TransactionError, match="had failed"):
                await keep_quiet(engine)
            assert _stands(url) == (0, 0)

    asyncio.run(main())


def test_when_the_end_refuses_nothing_stands(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TransactionError, match="the fence is higher"):
                await _task(engine, "INSERT INTO work VALUES (1)", end=_refused)
            assert _stands(url) == (0, 0)
            assert _in_transactions(url) == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "commit and chain",
        " ; -- a remark\n /* and\n another */ Commit",
        "END",
        "ROLLBACK",
        "ABORT",
        "BEGIN",
        "START TRANSACTION",
        "PREPARE TRANSACTION 'x'",
        "INSERT INTO work VALUES (2); COMMIT; BEGIN",
    ],
)
def test_the_transaction_is_not_the_tasks_to_end(url: str, statement: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises((TransactionError, psycopg.errors.SyntaxError)):
                await _task(engine, "INSERT INTO work VALUES (1)", statement)
            assert _stands(url) == (0, 0)

    asyncio.run(main())


def test_over_its_time_a_running_statement_is_cancelled_and_all_is_undone(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TransactionError, match="longer than"):
                await _task(engine, "INSERT INTO work VALUES (1)", "SELECT pg_sleep(3600)", allowed=0.2)
            assert _stands(url) == (0, 0)
            assert _in_transactions(url) == 0

    asyncio.run(main())


def test_over_its_time_a_task_that_does_something_else_is_interrupted(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TransactionError, match="longer than"):
                await _task(engine, "INSERT INTO work VALUES (1)", asyncio.Event().wait, allowed=0.1)
            assert _stands(url) == (0, 0)

    asyncio.run(main())


def test_a_timeout_of_the_tasks_own_stays_its_own(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TimeoutError):
                async with engine.transaction(_end, timeout=60) as task, asyncio.timeout(0.05):
                    await task.fetch("SELECT pg_sleep(3600)")
            assert _in_transactions(url) == 0

    asyncio.run(main())


def test_a_cancelled_task_leaves_nothing_behind(url: str) -> None:
    async def body(engine: PostgresEngine, has_begun: asyncio.Event) -> None:
        async with engine.transaction(_end, timeout=3_600) as task:
            await task.execute("INSERT INTO work VALUES (1)")
            has_begun.set()
            await task.fetch("SELECT pg_sleep(3600)")

    async def main() -> None:
        async with PostgresEngine(url, task_connections=1) as engine:
            for _ in range(3):
                has_begun = asyncio.Event()
                running = asyncio.create_task(body(engine, has_begun))
                await has_begun.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                assert _in_transactions(url) == 0
            assert _stands(url) == (0, 0)

    asyncio.run(main())


def test_a_statement_that_was_not_yet_there_to_be_cancelled_does_not_run_on_for_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_cancelled = threading.Event()
    cancel, run = psycopg.Connection.cancel_safe, _Session._statement

    def cancel_first(connection: psycopg.Connection[Any], *, timeout: float) -> None:
        cancel(connection, timeout=timeout)
        was_cancelled.set()

    def run_afterwards(session: _Session, statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        assert "pg_sleep" not in statement or was_cancelled.wait(30)
        return run(session, statement, parameters)

    monkeypatch.setattr(psycopg.Connection, "cancel_safe", cancel_first)
    monkeypatch.setattr(_Session, "_statement", run_afterwards)

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TimeoutError):
                async with engine.transaction(_end, timeout=3_600) as task, asyncio.timeout(0.05):
                    await task.fetch("SELECT pg_sleep(3600)")
            assert _in_transactions(url) == 0

    asyncio.run(main())


def test_transactions_of_tasks_take_no_connection_from_the_engine(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, connections=1, task_connections=2) as engine:
            async with engine.transaction(_end, timeout=60) as one, engine.transaction(_end, timeout=60) as two:
                await one.execute("INSERT INTO work VALUES (1)")
                await two.execute("INSERT INTO work VALUES (2)")
                await engine.write(lambda tx: tx.put(STREAMS, [StreamRow("beside")]))
                with pytest.raises(TransactionError, match="no place"):
                    async with engine.transaction(_end, timeout=0.05):
                        pass
            async with engine.transaction(_end, timeout=60):
                pass
            assert _stands(url) == (2, 2)

    asyncio.run(main())


def test_those_who_wait_for_a_place_get_it_in_turn(url: str) -> None:
    async def body(engine: PostgresEngine, number: int) -> None:
        async with engine.transaction(_end, timeout=60) as task:
            await task.execute("INSERT INTO work VALUES (%s)", [number])

    async def main() -> None:
        async with PostgresEngine(url, task_connections=1) as engine:
            await asyncio.gather(*[body(engine, number) for number in range(10)])
            assert _stands(url) == (10, 1)

    asyncio.run(main())


def test_a_connection_lost_before_the_commit_is_no_doubt(url: str, postgres_server: PostgresServer) -> None:
    lose = postgres_server.terminate_clients

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(TransactionError) as caught:
                await _task(engine, "INSERT INTO work VALUES (1)", lose, "INSERT INTO work VALUES (2)")
            assert not isinstance(caught.value, CommitInDoubt)
            with pytest.raises(TransactionError) as caught:
                await _task(engine, "INSERT INTO work VALUES (1)", lose)
            assert not isinstance(caught.value, CommitInDoubt)
            assert _stands(url) == (0, 0)
            async with engine.transaction(_end, timeout=60) as task:
                await task.execute("INSERT INTO work VALUES (1)")
            assert _stands(url) == (1, 1)

    asyncio.run(main())


def _at_commit(url: str, what: str) -> None:
    ask(url, f"CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what} RETURN NULL; END $$")
    ask(
        url,
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION at_commit()",
    )


def test_a_connection_lost_while_committing_is_a_doubt(url: str) -> None:
    _at_commit(url, "PERFORM pg_terminate_backend(pg_backend_pid());")

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(CommitInDoubt):
                await _task(engine, "INSERT INTO work VALUES (1)")

    asyncio.run(main())


def test_a_constraint_that_is_checked_while_committing_is_the_tasks_to_see(url: str) -> None:
    _at_commit(url, "RAISE check_violation;")

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            with pytest.raises(psycopg.errors.CheckViolation):
                await _task(engine, "INSERT INTO work VALUES (1)")
            assert _stands(url) == (0, 0)

    asyncio.run(main())


def test_what_a_task_set_for_its_session_is_gone_for_the_next(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, task_connections=1) as engine:
            sessions: list[Any] = []
            for _ in range(2):
                async with engine.transaction(_end, timeout=60) as task:
                    sessions += await task.fetch("SELECT pg_backend_pid(), current_setting('search_path')")
                    await task.execute("SET search_path = nowhere")
                    await task.execute("CREATE TEMP TABLE scratch (x int)")
            assert sessions[0] == sessions[1]

    asyncio.run(main())


def test_statements_after_the_end_are_refused(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            async with engine.transaction(_end, timeout=60) as task:
                pass
            with pytest.raises(TransactionError, match="is over"):
                await task.execute("INSERT INTO work VALUES (1)")

    asyncio.run(main())
