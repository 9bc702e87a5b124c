"""A server that accepts everything and answers nothing: each call ends at its deadline, and goes on when it can."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from itinerary.errors import StoreBusy, StoreUnavailable, TransactionError
from itinerary.model.rows import StreamRow
from itinerary.stores.engine import CLOSE_TIMEOUT
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.tables import STREAMS
from itinerary.stores.transaction import Transaction
from tests.proxy import Proxy
from tests.servers import PostgresServer

_ANSWER_TIMEOUT = 1.0
_HANG = 60.0
"""Seconds after which a test takes a call for one that never ends."""
_CLOSES_WITHIN = CLOSE_TIMEOUT + 10.0


class Log:
    """What a store says."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def said(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy(url) as opened:
        yield opened


def _run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(_HANG):
            await story

    asyncio.run(within())


def _engine(url: str, log: Log | None = None, **options: Any) -> PostgresEngine:
    engine = PostgresEngine(
        f"{url}&connect_timeout=2", **{"answer_timeout": _ANSWER_TIMEOUT, "patience": 30.0, **options}
    )
    engine.log = log or Log()
    return engine


def _put(number: int) -> Any:
    def work(tx: Transaction) -> None:
        tx.lock(STREAMS, [(f"stream {number}",)])
        tx.put(STREAMS, [StreamRow(f"stream {number}", number)])

    return work


async def _numbers(engine: PostgresEngine) -> list[int]:
    rows = await engine.read(lambda tx: tx.scan(STREAMS, limit=100))
    return [row.last for row in rows]


def test_work_on_frozen_backends_is_repeated_on_new_connections(url: str, postgres_server: PostgresServer) -> None:
    async def story() -> None:
        log = Log()
        async with _engine(url, log, connections=2) as engine:
            await asyncio.gather(*[engine.write(_put(number)) for number in range(2)])
            await _numbers(engine)
            with postgres_server.frozen(postgres_server.backends()):
                await asyncio.gather(*[engine.write(_put(number)) for number in range(2, 6)])
                assert await _numbers(engine) == [0, 1, 2, 3, 4, 5]
                for cut in log.said("store.unanswered"):
                    assert _ANSWER_TIMEOUT <= cut["seconds"] < _HANG
                    assert "repeated on a new one" in cut["hint"]
                assert log.said("store.unanswered")

    _run(story())


def test_a_frozen_server_is_an_error_after_the_patience_and_answers_again_when_it_thaws(
    url: str, postgres_server: PostgresServer
) -> None:
    async def story() -> None:
        async with _engine(url, patience=2.0) as engine:
            await engine.write(_put(1))
            with postgres_server.frozen(), pytest.raises(StoreUnavailable, match=r"could not be reached for 2 s"):
                await engine.write(_put(2))
            await engine.write(_put(3))
            assert 3 in await _numbers(engine)

    _run(story())


def test_a_store_cannot_be_opened_on_a_silent_server_and_says_so_in_time(proxy: Proxy) -> None:
    async def story() -> None:
        proxy.stall("new")
        with pytest.raises(StoreUnavailable, match="timeout expired"):
            async with _engine(proxy.url, patience=1.0):
                raise AssertionError("it was opened")

    _run(story())


@pytest.mark.parametrize("fault", ["drop", "stall", "half-open"])
def test_every_write_arrives_once_when_bytes_were_lost_and_the_connection_stays_open(proxy: Proxy, fault: str) -> None:
    async def story() -> None:
        async with _engine(proxy.url, connections=2) as engine:
            await asyncio.gather(*[engine.write(_put(number)) for number in range(2)])
            match fault:
                case "drop":
                    proxy.drop()
                case "stall":
                    proxy.stall("open")
                case _:
                    proxy.half_open("answers")
            writing = [asyncio.create_task(engine.write(_put(number))) for number in range(2, 6)]
            assert not (await asyncio.wait(writing, timeout=_ANSWER_TIMEOUT / 2))[0]
            if fault != "stall":  # there what is open stays silent for ever, and new connections answer
                proxy.heal()
            await asyncio.gather(*writing)
            assert await _numbers(engine) == [0, 1, 2, 3, 4, 5]
            proxy.heal()

    _run(story())


@pytest.mark.parametrize("when", ["forwarded", "answered"])
def test_a_write_whose_commit_was_cut_off_is_repeated(proxy: Proxy, when: Any) -> None:
    async def story() -> None:
        async with _engine(proxy.url, connections=1) as engine:
            await engine.write(_put(1))
            proxy.cut_at_commit(when)
            await engine.write(_put(2))
            assert proxy.commits_cut == 1
            assert await _numbers(engine) == [1, 2]

    _run(story())


def test_a_listener_notices_that_its_server_is_silent_and_hears_the_news_on_a_new_connection(
    proxy: Proxy, url: str
) -> None:
    def notify(topic: str) -> Any:
        return lambda tx: tx.notify([topic])

    async def story() -> None:
        async with _engine(url) as other, _engine(proxy.url) as engine:
            await other.write(notify("before"))
            news = engine.watch()
            assert await anext(news) == {"before"}
            proxy.stall("open")
            await other.write(notify("after"))
            assert await anext(news) == {"after"}
            await news.aclose()  # type: ignore[attr-defined]
            proxy.heal()

    _run(story())


def test_a_listener_that_is_cancelled_while_its_server_is_silent_ends_at_once(proxy: Proxy) -> None:
    async def story() -> None:
        async with _engine(proxy.url, answer_timeout=_HANG) as engine:
            await engine.write(lambda tx: tx.notify(["before"]))

            async def listen() -> None:
                async for _ in engine.watch():
                    proxy.stall("open")
                    heard.set()

            heard = asyncio.Event()
            listening = asyncio.create_task(listen())
            await heard.wait()
            listening.cancel()
            await asyncio.wait([listening], timeout=_CLOSES_WITHIN)
            assert listening.cancelled()

    _run(story())


def test_closing_does_not_wait_for_a_server_that_does_not_answer(proxy: Proxy) -> None:
    async def story() -> None:
        engine = _engine(proxy.url, answer_timeout=_HANG)
        await engine.open()
        await engine.write(_put(1))
        proxy.stall()
        writing = [asyncio.create_task(engine.write(_put(number))) for number in range(2, 8)]
        reading = asyncio.create_task(_numbers(engine))
        await asyncio.sleep(0)  # they are asked
        began_at = time.monotonic()
        await engine.close()
        assert time.monotonic() - began_at < _CLOSES_WITHIN
        answers = await asyncio.gather(*writing, reading, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers), answers

    _run(story())


def test_a_task_whose_transaction_meets_a_silent_server_is_told_in_time(proxy: Proxy) -> None:
    async def meet_silence(engine: PostgresEngine) -> None:
        async with engine.transaction(lambda _: None, timeout=2.0) as transaction:
            await transaction.execute("SELECT 1")
            proxy.stall("open")
            await transaction.execute("SELECT 2")

    async def story() -> None:
        async with _engine(proxy.url, task_connections=1) as engine:
            with pytest.raises(TransactionError, match=r"took longer than 2 s"):
                await meet_silence(engine)
            # its place and its thread are free again
            async with engine.transaction(lambda _: None, timeout=20.0) as transaction:
                assert await transaction.fetch("SELECT 3") == [(3,)]
            proxy.heal()

    _run(story())


def test_locks_of_a_frozen_backend_are_an_error_after_the_patience_and_the_log_says_whose_they_are(
    url: str, postgres_server: PostgresServer
) -> None:
    is_held, goes_on = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        tx.lock(STREAMS, [("stream 1",)])
        is_held.set()
        goes_on.wait(_HANG)

    async def story() -> None:
        log = Log()
        async with (
            _engine(url, connections=1, idle_timeout=_HANG) as owner,
            _engine(url, log, patience=4.0, lock_timeout=0.2, idle_timeout=0.5) as engine,
        ):
            await engine.write(_put(1))
            holding = asyncio.create_task(owner.write(hold))
            await asyncio.to_thread(is_held.wait)
            (holder,) = _holder(url)
            with postgres_server.frozen([holder]):
                with pytest.raises(StoreBusy, match="held by others for 4 s"):
                    await engine.write(_put(1))
                (said, *_) = log.said("store.blocked")
                assert f"process {holder} of the server (itinerary" in said["holders"][0]
                assert "continued or killed" in said["hint"]
            goes_on.set()
            await holding
            await engine.write(_put(1))

    _run(story())


def _holder(url: str) -> set[int]:
    """The backend that is in the middle of a transaction."""
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url, autocommit=True) as admin:
        found = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'itinerary' AND state = 'idle in transaction'"
        ).fetchall()
    return {pid for (pid,) in found}
