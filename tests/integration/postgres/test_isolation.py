"""What PostgreSQL has to keep of the transactions' promises when there are several: gate, locks, creation."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from itinerary.errors import StoreBusy, TransactionError
from itinerary.model.rows import ConfigRow, StreamRow
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.tables import CONFIGS, STREAMS
from itinerary.stores.transaction import Transaction
from tests.integration.postgres.sessions import ask, until_waiting

ROWS = [StreamRow(f"stream {number:03}") for number in range(200)]
KEYS = [(row.stream,) for row in ROWS]


class Held:
    """Work that stops in the middle of its transaction until it is let go."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self.arrived = threading.Event()
        self.go = threading.Event()

    def __call__(self, tx: Transaction) -> None:
        self._before(tx)
        self.arrived.set()
        assert self.go.wait(60)


def test_who_has_waited_at_the_gate_sees_what_was_done_behind_it(url: str) -> None:
    def change(tx: Transaction) -> None:
        tx.gate(exclusive=True)
        tx.add(STREAMS, ROWS[:1])

    def look(tx: Transaction) -> list[StreamRow]:
        tx.gate()
        return tx.scan(STREAMS, limit=10)

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            held = Held(change)
            changing = asyncio.create_task(engine.write(held))
            await asyncio.to_thread(held.arrived.wait)
            looking = asyncio.create_task(engine.write(look))
            await asyncio.to_thread(until_waiting, url)
            held.go.set()
            assert await looking == ROWS[:1]
            await changing

    asyncio.run(main())


def test_the_time_is_that_after_the_gate_and_stays_the_same(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            held = Held(lambda tx: tx.gate(exclusive=True))
            first = asyncio.create_task(engine.write(held))
            await asyncio.to_thread(held.arrived.wait)

            def work(tx: Transaction) -> tuple[int, int]:
                tx.gate()
                return tx.now(), tx.now()

            second = asyncio.create_task(engine.write(work))
            await asyncio.to_thread(until_waiting, url)
            ((opened_at,),) = ask(url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            held.go.set()
            now, again = await second
            assert now == again
            assert now > opened_at
            await first

    asyncio.run(main())


def test_two_schemas_in_one_database_have_a_gate_each(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, schema="one") as one, PostgresEngine(url, schema='an "other"') as other:
            held = Held(lambda tx: tx.gate(exclusive=True))
            changing = asyncio.create_task(one.write(held))
            await asyncio.to_thread(held.arrived.wait)
            await other.write(lambda tx: tx.gate(exclusive=True))
            held.go.set()
            await changing

    asyncio.run(main())


def test_a_row_that_was_waited_for_is_read_as_it_is_then(url: str) -> None:
    def change(tx: Transaction) -> None:
        tx.lock(STREAMS, KEYS[:2])
        tx.save(STREAMS, [StreamRow(ROWS[0].stream, 7)], {"last"})
        tx.remove(STREAMS, KEYS[1:2])

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(lambda tx: tx.add(STREAMS, ROWS[:2]))
            held = Held(change)
            changing = asyncio.create_task(engine.write(held))
            await asyncio.to_thread(held.arrived.wait)
            locking = asyncio.create_task(engine.write(lambda tx: tx.lock(STREAMS, KEYS[:2])))
            await asyncio.to_thread(until_waiting, url)
            held.go.set()
            assert await locking == {KEYS[0]: StreamRow(ROWS[0].stream, 7)}
            await changing

    asyncio.run(main())


def test_batches_in_any_order_never_deadlock(url: str) -> None:
    def raise_all(tx: Transaction, keys: list[Any]) -> None:
        rows = tx.lock(STREAMS, keys)
        tx.save(STREAMS, [StreamRow(row.stream, row.last + 1) for row in rows.values()], {"last"})

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(lambda tx: tx.add(STREAMS, ROWS))
            orders = [KEYS, KEYS[::-1], KEYS[100:] + KEYS[:100], KEYS[1::2] + KEYS[::2]]
            await asyncio.gather(*[engine.write(partial(raise_all, keys=keys)) for _ in range(15) for keys in orders])
            rows = await engine.read(lambda tx: tx.scan(STREAMS, limit=1_000))
            assert {row.last for row in rows} == {60}
        assert ask(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]

    asyncio.run(main())


@pytest.mark.spec("D5")
def test_of_eight_who_create_the_same_rows_each_row_has_one_winner(url: str) -> None:
    def create(tx: Transaction, backwards: bool) -> list[ConfigRow]:
        rows = [ConfigRow(0, f"digest {number:03}", "{}") for number in range(300)]
        return tx.add(CONFIGS, rows[::-1] if backwards else rows)

    async def main() -> None:
        async with PostgresEngine(url, connections=8) as engine:
            won = await asyncio.gather(
                *[engine.write(partial(create, backwards=number % 2 == 1)) for number in range(8)]
            )
            digests = [row.digest for rows in won for row in rows]
            assert len(digests) == len(set(digests)) == 300
            assert all([row.digest for row in rows] == sorted(row.digest for row in rows) for rows in won)
            stored = await engine.read(lambda tx: tx.scan(CONFIGS, limit=1_000))
            assert sorted(stored, key=lambda row: row.number) == sorted(
                (row for rows in won for row in rows), key=lambda row: row.number
            )

    asyncio.run(main())


def test_a_deadlock_is_noticed_and_the_work_repeated(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, lock_timeout=30) as engine:
            await engine.write(lambda tx: tx.add(STREAMS, ROWS[:2]))
            both, one_is_done = threading.Barrier(2), threading.Event()
            tries: list[int] = []

            def work(tx: Transaction, first: int, second: int) -> None:
                is_first_try = first not in tries
                tries.append(first)
                if not is_first_try:
                    assert one_is_done.wait(60)  # else the same deadlock could come again, and again
                tx.lock(STREAMS, [KEYS[first]])
                if is_first_try:
                    both.wait(60)
                row = tx.lock(STREAMS, [KEYS[second]])[KEYS[second]]
                tx.save(STREAMS, [StreamRow(row.stream, row.last + 1)], {"last"})

            async def written(first: int, second: int) -> None:
                await engine.write(lambda tx: work(tx, first, second))
                one_is_done.set()

            await asyncio.gather(written(0, 1), written(1, 0))
            assert len(tries) == 3
            rows = await engine.read(lambda tx: tx.scan(STREAMS, limit=10))
            assert [row.last for row in rows] == [1, 1]

    asyncio.run(main())


def test_a_lock_that_others_keep_is_given_up_in_the_end(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, patience=0.2, lock_timeout=0.02) as engine:
            await engine.write(lambda tx: tx.add(STREAMS, ROWS[:1]))
            held = Held(lambda tx: tx.lock(STREAMS, KEYS[:1]))
            holding = asyncio.create_task(engine.write(held))
            await asyncio.to_thread(held.arrived.wait)
            with pytest.raises(StoreBusy, match="can be repeated"):
                await engine.write(lambda tx: tx.lock(STREAMS, KEYS[:1]))
            held.go.set()
            await holding
            assert await engine.write(lambda tx: tx.lock(STREAMS, KEYS[:1]))

    asyncio.run(main())


@pytest.mark.spec("N5", "frozen")
@pytest.mark.parametrize("is_answered", [True, False], ids=["after an answer", "in the middle of a pipeline"])
def test_who_is_frozen_in_the_middle_of_a_transaction_does_not_keep_others_from_the_gate(
    url: str, is_answered: bool
) -> None:
    async def main() -> None:
        patient = PostgresEngine(url, idle_timeout=0.4, lock_timeout=0.1)
        async with patient as engine, PostgresEngine(url, idle_timeout=0.2) as other:
            tries: list[int] = []
            is_frozen, thaws = threading.Event(), threading.Event()

            def work(tx: Transaction) -> None:
                tx.gate()
                tx.now()
                tx.put(STREAMS, ROWS[:1])
                if is_answered:
                    tx.scan(STREAMS, limit=1)  # the server has done all that, and waits
                tries.append(len(tries))
                is_frozen.set()
                assert thaws.wait(60)

            freezing = asyncio.create_task(other.write(work))
            await asyncio.to_thread(is_frozen.wait)
            await engine.write(lambda tx: tx.gate(exclusive=True))
            assert await engine.read(lambda tx: tx.scan(STREAMS, limit=10)) == [], "what it did was undone"
            thaws.set()
            await freezing
            assert len(tries) == 2, "and was done again"
            assert await engine.read(lambda tx: tx.scan(STREAMS, limit=10)) == ROWS[:1]

    asyncio.run(main())


def test_who_may_not_end_sessions_waits_for_a_frozen_one_as_for_any_other_lock(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, connections=1, idle_timeout=30) as owner:
            is_frozen, thaws = threading.Event(), threading.Event()

            def work(tx: Transaction) -> None:
                tx.gate()
                tx.now()
                tx.put(STREAMS, ROWS[:1])
                is_frozen.set()
                assert thaws.wait(60)

            ask(url, "REVOKE EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) FROM PUBLIC")
            ask(url, "CREATE ROLE plain LOGIN")
            try:
                ask(url, "GRANT USAGE ON SCHEMA itinerary TO plain")
                ask(url, "GRANT ALL ON ALL TABLES IN SCHEMA itinerary TO plain")
                freezing = asyncio.create_task(owner.write(work))
                await asyncio.to_thread(is_frozen.wait)
                plain = PostgresEngine(make_conninfo(url, user="plain"), idle_timeout=0.2, lock_timeout=0.1)
                async with plain as engine:
                    waiting = asyncio.create_task(engine.write(lambda tx: tx.gate(exclusive=True)))
                    assert not (await asyncio.wait([waiting], timeout=2.0))[0], "it waits, and is told nothing wrong"
                    thaws.set()
                    await waiting
                await freezing
            finally:
                thaws.set()
                ask(url, "DROP OWNED BY plain")
                ask(url, "DROP ROLE plain")

    asyncio.run(main())


def test_readers_do_not_wait_for_writers(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, connections=1) as engine:
            held = Held(lambda tx: tx.add(STREAMS, ROWS[:1]))
            writing = asyncio.create_task(engine.write(held))
            await asyncio.to_thread(held.arrived.wait)
            assert await engine.read(lambda tx: tx.scan(STREAMS, limit=10)) == []
            held.go.set()
            await writing

    asyncio.run(main())


def test_a_caller_who_leaves_takes_no_connection_along(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, connections=2, lock_timeout=30) as engine:
            await engine.write(lambda tx: tx.add(STREAMS, ROWS[:1]))
            held = Held(lambda tx: tx.lock(STREAMS, KEYS[:1]))
            holding = asyncio.create_task(engine.write(held))
            await asyncio.to_thread(held.arrived.wait)
            waiting = [asyncio.create_task(engine.write(lambda tx: tx.lock(STREAMS, KEYS[:1]))) for _ in range(5)]
            await asyncio.to_thread(until_waiting, url)
            for task in waiting:
                task.cancel()
            assert all(
                isinstance(left, asyncio.CancelledError)
                for left in await asyncio.gather(*waiting, return_exceptions=True)
            )
            held.go.set()
            await holding
            assert await engine.write(lambda tx: tx.lock(STREAMS, KEYS[:1]))
            ((connected,),) = ask(
                url,
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            assert connected <= 2
        assert (
            ask(
                url,
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'itinerary'"
                " AND datname = current_database() AND state LIKE 'idle in%%'",
            )
            == []
        )

    asyncio.run(main())


def test_work_that_raises_leaves_nothing_and_its_connection_is_as_before(url: str) -> None:
    def work(tx: Transaction) -> None:
        tx.gate(exclusive=True)
        tx.put(STREAMS, ROWS)
        tx.notify(["nothing"])
        raise TransactionError("no more")

    async def main() -> None:
        async with PostgresEngine(url, connections=1) as engine:
            for _ in range(3):
                with pytest.raises(TransactionError, match="no more"):
                    await engine.write(work)
            assert await engine.write(lambda tx: tx.scan(STREAMS, limit=10)) == []
            assert ask(url, "SELECT count(*) FROM itinerary.notifications") == [(0,)]

    asyncio.run(main())
