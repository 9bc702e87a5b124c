"""Hearing of what others have done, whatever becomes of the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.errors import StoreUnavailable
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.postgres import listen as listening
from itinerary.stores.transaction import Transaction
from tests.integration.postgres.sessions import ask
from tests.servers import PostgresServer


def _notify(*topics: str) -> Any:
    def work(tx: Transaction) -> None:
        tx.notify(topics)

    return work


async def _until(news: Any, wanted: set[str]) -> None:
    heard: set[str] = set()
    while not wanted <= heard:
        heard |= await anext(news)


def test_what_one_node_tells_the_other_hears(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as one, PostgresEngine(url) as other:
            await one.write(_notify("before"))
            news = other.watch()
            assert await anext(news) == {"before"}
            await one.write(_notify("timeline", "a topic with spaces"))
            await _until(news, {"timeline", "a topic with spaces"})
            await news.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


def test_what_is_told_reaches_nobody_unless_it_is_committed(url: str) -> None:
    def work(tx: Transaction) -> None:
        tx.notify(["undone"])
        raise LookupError

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(_notify("start"))
            news = engine.watch()
            assert await anext(news) == {"start"}
            with pytest.raises(LookupError):
                await engine.write(work)
            await engine.write(_notify("done"))
            assert await anext(news) == {"done"}
            await news.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


def test_what_was_told_while_the_connection_was_lost_is_heard_afterwards(
    url: str, postgres_server: PostgresServer
) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(_notify("start"))
            news = engine.watch()
            assert await anext(news) == {"start"}
            for number in range(3):
                postgres_server.terminate_clients()
                await engine.write(_notify(f"missed {number}"))
                await _until(news, {f"missed {number}"})
            await news.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


def test_what_was_told_before_a_restart_of_the_server_is_heard(url: str, postgres_server: PostgresServer) -> None:
    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(_notify("start"))
            news = engine.watch()
            assert await anext(news) == {"start"}
            await asyncio.to_thread(postgres_server.restart)
            await engine.write(_notify("after"))
            await _until(news, {"after"})
            await news.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


def test_a_notification_that_never_came_is_made_up_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_LOOK_INTERVAL", 0.01)

    async def main() -> None:
        async with PostgresEngine(url) as engine:
            await engine.write(_notify("start"))
            news = engine.watch()
            assert await anext(news) == {"start"}
            ask(url, "UPDATE itinerary.notifications SET count = count + 1")  # and nobody says a word
            assert await anext(news) == {"start"}
            await news.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


def test_listening_ends_with_an_error_when_the_server_stays_away(url: str, postgres_server: PostgresServer) -> None:
    async def main() -> None:
        async with PostgresEngine(url, patience=0.1) as engine:
            await engine.write(_notify("start"))
            news = engine.watch()
            assert await anext(news) == {"start"}
            postgres_server.stop()
            try:
                with pytest.raises(StoreUnavailable):
                    await anext(news)
            finally:
                postgres_server.start()

    asyncio.run(main())


def test_two_schemas_in_one_database_do_not_hear_each_other(url: str) -> None:
    async def main() -> None:
        async with PostgresEngine(url, schema="one") as one, PostgresEngine(url, schema="two") as two:
            await two.write(_notify("start"))
            news = two.watch()
            assert await anext(news) == {"start"}
            await one.write(_notify("not for you"))
            await two.write(_notify("for you"))
            assert await anext(news) == {"for you"}
            await news.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
