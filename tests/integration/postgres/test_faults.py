"""A server that goes away, connections that break, values that it cannot hold."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import pytest

from itinerary.errors import SchemaError, StoreError, StoreUnavailable, UnwritableError
from itinerary.model.rows import Ref, StreamRow, TaskRow
from itinerary.model.states import TaskState
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.tables import STREAMS, TASKS
from itinerary.stores.transaction import Transaction
from tests.integration.postgres.sessions import ask
from tests.servers import PostgresServer


def _row(number: int) -> StreamRow:
    return StreamRow(f"stream {number:04}", number)


def _put(tx: Transaction, row: StreamRow) -> None:
    tx.put(STREAMS, [row])


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_writes_go_on_when_the_server_has_been_away(url: str, postgres_server: PostgresServer, how: str) -> None:
    def go_away() -> None:
        if how == "restart":
            postgres_server.stop()
        else:
            postgres_server.crash()
        postgres_server.start()

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            is_away = asyncio.create_task(asyncio.to_thread(go_away))
            written = 0
            while not is_away.done():
                rows = [_row(number) for number in range(written, written + 8)]
                await asyncio.gather(*[engine.write(partial(_put, row=row)) for row in rows])
                written += 8
                if written > 400:
                    await is_away
            await is_away
            await engine.write(lambda tx: tx.put(STREAMS, [_row(written)]))
            stored = await engine.read(lambda tx: tx.scan(STREAMS, limit=100_000))
            assert stored == [_row(number) for number in range(written + 1)]

    asyncio.run(main())


def test_a_connection_that_was_ended_in_the_middle_is_replaced_and_the_work_repeated(
    url: str, postgres_server: PostgresServer
) -> None:
    tries = []

    def work(tx: Transaction) -> None:
        tx.put(STREAMS, [_row(1)])
        assert tx.get(STREAMS, [(_row(1).stream,)])
        tries.append(1)
        if len(tries) == 1:
            assert postgres_server.terminate_clients() > 0
        tx.put(STREAMS, [_row(2)])

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(work)
            assert await engine.read(lambda tx: tx.scan(STREAMS, limit=10)) == [_row(1), _row(2)]
        assert len(tries) == 2

    asyncio.run(main())


def test_idle_connections_that_were_ended_are_noticed_only_by_us(url: str, postgres_server: PostgresServer) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            for _ in range(3):
                await asyncio.gather(*[engine.write(lambda tx: tx.put(STREAMS, [_row(1)])) for _ in range(8)])
                postgres_server.terminate_clients()

    asyncio.run(main())


def test_patience_ends_and_the_message_has_no_password(url: str, postgres_server: PostgresServer) -> None:
    with_password = urlunsplit(urlsplit(url)._replace(netloc="postgres:geheim@"))

    async def main() -> None:
        async with PostgresEngine(with_password, patience=0.1) as engine:
            assert "geheim" not in engine.url
            postgres_server.stop()
            try:
                with pytest.raises(StoreUnavailable) as caught:
                    await engine.write(lambda tx: tx.put(STREAMS, [_row(1)]))
                assert "geheim" not in str(caught.value)
                assert "can be repeated" in str(caught.value)
            finally:
                postgres_server.start()
            await engine.write(lambda tx: tx.put(STREAMS, [_row(1)]))

    asyncio.run(main())


def test_closing_does_not_wait_for_a_server_that_is_away(url: str, postgres_server: PostgresServer) -> None:
    async def main() -> None:
        engine = PostgresEngine(url, patience=3_600)
        await engine.open()
        postgres_server.stop()
        try:
            writing = asyncio.create_task(engine.write(lambda tx: tx.put(STREAMS, [_row(1)])))
            await asyncio.sleep(0)  # it has been asked for
            await engine.close()
            with pytest.raises(StoreUnavailable):
                await writing
        finally:
            postgres_server.start()
        with pytest.raises(StoreUnavailable, match="not open"):
            await engine.write(lambda tx: tx.put(STREAMS, []))

    asyncio.run(main())


def test_an_unknown_database_is_said_at_once(url: str) -> None:
    async def main() -> None:
        engine = PostgresEngine(f"{url.replace('/itinerary_', '/nowhere_')}", patience=3_600)
        with pytest.raises(StoreError, match=r"does not let us in.*nowhere_.*does not exist") as caught:
            await engine.open()
        assert not isinstance(caught.value, StoreUnavailable)
        await engine.close()

    asyncio.run(main())


def test_a_user_without_rights_is_told_so(url: str) -> None:
    ask(url, "DO $$ BEGIN CREATE ROLE itinerary_nobody LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")

    async def main() -> None:
        engine = PostgresEngine(urlunsplit(urlsplit(url)._replace(netloc="itinerary_nobody:@")))
        with pytest.raises(StoreError, match="does not allow this: permission denied"):
            await engine.open()
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "row",
    [
        StreamRow("a\0b"),
        StreamRow("lone \ud800"),
        StreamRow("too much", 2**63),
        StreamRow("too little", -(2**63) - 1),
        StreamRow("".join(chr(0x4E00 + number % 20_000) for number in range(20_000))),
    ],
    ids=["nul", "surrogate", "large", "small", "too long for an index"],
)
def test_what_can_never_be_held_is_said_to_be_so_and_harms_nothing_else(url: str, row: StreamRow) -> None:
    async def main() -> None:
        async with PostgresEngine(url, connections=1) as engine:
            with pytest.raises(UnwritableError):
                await engine.write(lambda tx: tx.put(STREAMS, [_row(1), row]))
            await engine.write(lambda tx: tx.put(STREAMS, [_row(2)]))
            assert await engine.read(lambda tx: tx.scan(STREAMS, limit=10)) == [_row(2)]

    asyncio.run(main())


def test_a_schema_that_was_dropped_is_said_to_be_gone(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            ask(url, "DROP SCHEMA itinerary CASCADE")
            with pytest.raises(SchemaError, match="restore it"):
                await engine.write(lambda tx: tx.put(STREAMS, [_row(1)]))

    asyncio.run(main())


def test_it_can_be_used_from_several_event_loops(url: str) -> None:
    engine = PostgresEngine(url)
    with asyncio.Runner() as runner:
        runner.run(engine.open())
        threads = [
            threading.Thread(
                target=lambda number=number: asyncio.run(engine.write(lambda tx: tx.put(STREAMS, [_row(number)])))
            )
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(runner.run(engine.read(lambda tx: tx.scan(STREAMS, limit=10)))) == 4
        runner.run(engine.close())


def test_settings_that_would_break_our_promises_are_named(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            assert await engine.warnings() == []
        (name,) = ask(url, "SELECT current_database()")[0]
        ask(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
        async with PostgresEngine(url) as engine:
            (warning,) = await engine.warnings()
            assert warning.startswith("synchronous_commit is off")

    asyncio.run(main())


def test_a_row_that_was_changed_by_hand_into_what_cannot_be_is_told_with_its_table_and_the_value(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(lambda tx: tx.put(TASKS, [TaskRow(Ref(7), 0, "main", TaskState.SUCCESS)]))
            ask(url, "UPDATE itinerary.tasks SET status = 'splendid'")
            with pytest.raises(StoreError, match=r"a row of tasks is not .* 'splendid'.*by hand"):
                await engine.read(lambda tx: tx.get(TASKS, [(7, 0)]))

    asyncio.run(main())
