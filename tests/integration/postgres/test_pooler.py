"""Behind a pooler that gives each transaction another session: nothing of a session may be relied on."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from itinerary.model.rows import ConfigRow, StreamRow
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.tables import CONFIGS, STREAMS
from itinerary.stores.transaction import Transaction
from tests.integration.postgres.pooler import pooled
from tests.integration.postgres.sessions import ask


def _socket(url: str) -> str:
    directory = parse_qs(urlsplit(url).query).get("host")
    if directory is None:
        pytest.skip("the pooler speaks to a server on a unix socket")
    return f"{directory[0]}/.s.PGSQL.5432"


def _through(url: str, port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}{urlsplit(url).path}"


def test_the_pooler_is_as_hard_on_its_clients_as_it_claims(url: str) -> None:
    async def pid(connection: psycopg.AsyncConnection[Any], *, prepare: bool = False) -> int:
        answer = await (await connection.execute("SELECT pg_backend_pid()", prepare=prepare)).fetchone()
        assert answer is not None
        return int(answer[0])

    async def main() -> None:
        async with pooled(_socket(url)) as (_, port):
            connection = await psycopg.AsyncConnection.connect(_through(url, port), autocommit=True)
            assert len({await pid(connection) for _ in range(6)}) == 3
            async with connection.transaction():
                assert len({await pid(connection) for _ in range(6)}) == 1
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                await pid(connection, prepare=True)
            await connection.close()

    asyncio.run(main())


@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed", "told"])
def test_everything_works_behind_a_pooler(url: str, is_noticed: bool) -> None:
    def life(tx: Transaction, number: int) -> None:
        tx.gate(exclusive=number % 5 == 0)
        (config,) = tx.add(CONFIGS, [ConfigRow(0, f"digest {number}", "{}")])
        tx.put(STREAMS, [StreamRow(f"stream {number}"), StreamRow("all")])
        tx.save(STREAMS, [StreamRow(f"stream {number}", config.number)], {"last"})
        assert tx.lock(STREAMS, [(f"stream {number}",)])[(f"stream {number}",)].last == config.number
        tx.remove(STREAMS, [(f"stream {number}",)])
        tx.notify(["done"])

    async def main() -> None:
        async with (
            pooled(_socket(url)) as (pooler, port),
            PostgresEngine(_through(url, port), prepared_statements=is_noticed, listen=is_noticed) as engine,
        ):
            await asyncio.gather(*[engine.write(partial(life, number=number)) for number in range(40)])
            assert await engine.read(lambda tx: tx.scan(STREAMS, limit=10)) == [StreamRow("all")]
            assert len(await engine.read(lambda tx: tx.scan(CONFIGS, limit=100))) == 40
            news = engine.watch()
            assert await anext(news) == {"done"}
            await engine.write(lambda tx: tx.notify(["more"]))
            assert await anext(news) == {"more"}  # although nobody can listen
            await news.aclose()  # type: ignore[attr-defined]  # it is a generator
            assert pooler.transactions > 40

    asyncio.run(main())


def test_a_tasks_transaction_stays_on_one_session_behind_a_pooler(url: str) -> None:
    ask(url, "CREATE TABLE work (id bigint)")

    def end(tx: Transaction) -> None:
        tx.put(STREAMS, [StreamRow("ended")])

    async def main() -> None:
        async with pooled(_socket(url)) as (_, port), PostgresEngine(_through(url, port)) as engine:
            for number in range(5):
                sessions: set[Any] = set()
                async with engine.transaction(end, timeout=60) as task:
                    await task.execute("INSERT INTO work VALUES (%s)", [number])
                    for _ in range(3):
                        sessions.update(await task.fetch("SELECT pg_backend_pid()"))
                assert len(sessions) == 1
        assert ask(url, "SELECT count(*) FROM work") == [(5,)]

    asyncio.run(main())
