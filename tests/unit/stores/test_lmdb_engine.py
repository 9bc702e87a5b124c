"""The engine around the tree: its life, its watchers, its forks."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from itinerary.errors import StoreError, StoreUnavailable, TransactionError
from itinerary.stores.lmdb import LmdbEngine
from itinerary.stores.tables import JOBS
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.samples import sample


def adding(name: str) -> Any:
    return lambda tx: tx.add(JOBS, [sample(JOBS, name=name)])


def names(tx: Transaction) -> list[str]:
    return [job.name for job in tx.scan(JOBS, limit=10_000)]


def test_closing_does_all_that_was_asked_and_closing_twice_is_fine(tmp_path: Path) -> None:
    async def close() -> list[str]:
        engine = LmdbEngine(tmp_path / "store")
        await engine.open()
        asked = [asyncio.create_task(engine.write(adding(f"{number}"))) for number in range(50)]
        await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        assert all([len(await task) == 1 for task in asked])
        for call in (engine.write, engine.read):
            with pytest.raises(StoreUnavailable, match="is not open"):
                await call(names)
        async with engine:
            return await engine.read(names)

    assert len(asyncio.run(close())) == 50


def test_an_engine_that_was_never_opened_can_be_closed(tmp_path: Path) -> None:
    asyncio.run(LmdbEngine(tmp_path / "store").close())
    assert list(tmp_path.iterdir()) == []


def test_a_caller_that_is_cancelled_leaves_the_writer_to_the_others(tmp_path: Path) -> None:
    async def cancel() -> list[str]:
        async with LmdbEngine(tmp_path / "store") as engine:
            has_begun, may_go_on = threading.Event(), threading.Event()

            def slow(tx: Transaction) -> None:
                has_begun.set()
                assert may_go_on.wait(60)
                adding("slow")(tx)

            begun = asyncio.create_task(engine.write(slow))
            await asyncio.to_thread(has_begun.wait, 60)
            waiting = asyncio.create_task(engine.write(adding("waiting")))
            other = asyncio.create_task(engine.write(adding("other")))
            await asyncio.sleep(0)
            begun.cancel()
            waiting.cancel()
            await asyncio.wait([begun, waiting])
            may_go_on.set()
            await other
            return await engine.read(names)

    assert asyncio.run(cancel()) == ["slow", "other"]


def test_event_loops_one_after_the_other_and_side_by_side_share_a_store(tmp_path: Path) -> None:
    engine = LmdbEngine(tmp_path / "store")
    asyncio.run(engine.open())
    threads = [
        threading.Thread(target=lambda number=number: asyncio.run(engine.write(adding(f"{number}"))))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asyncio.run(engine.read(names))) == ["0", "1", "2", "3"]
    asyncio.run(engine.close())


def test_the_clock_is_the_one_that_was_handed_in(tmp_path: Path) -> None:
    async def ask() -> tuple[int, int]:
        async with LmdbEngine(tmp_path / "store", clock=lambda: 1_234) as engine:
            return await engine.write(lambda tx: tx.now()), await engine.read(lambda tx: tx.now())

    assert asyncio.run(ask()) == (1_234, 1_234)


def test_watching_begins_with_all_that_was_ever_told_and_then_hears_at_once(tmp_path: Path) -> None:
    async def watch() -> None:
        engine = LmdbEngine(tmp_path / "store")
        async with engine:
            await engine.write(lambda tx: tx.notify(["old", "older"]))
        async with engine, aclosing(cast("Any", engine.watch())) as news:
            assert await anext(news) == {"old", "older"}
            told = asyncio.create_task(anext(news))
            await engine.write(adding("nobody is told of this"))
            assert not told.done()
            await engine.write(lambda tx: tx.notify(["new", "old"]))
            assert await told == {"new", "old"}

    asyncio.run(asyncio.wait_for(watch(), 60))


def test_what_is_told_in_work_that_is_undone_nobody_hears(tmp_path: Path) -> None:
    def broken(tx: Transaction) -> None:
        tx.notify(["never"])
        raise ZeroDivisionError

    async def watch() -> None:
        async with LmdbEngine(tmp_path / "store") as engine, aclosing(cast("Any", engine.watch())) as news:
            told = asyncio.create_task(anext(news))
            with pytest.raises(ZeroDivisionError):
                await engine.write(broken)
            await engine.write(lambda tx: tx.notify(["heard"]))
            assert await told == {"heard"}

    asyncio.run(asyncio.wait_for(watch(), 60))


def test_who_watches_is_told_when_the_store_is_closed(tmp_path: Path) -> None:
    async def watch() -> None:
        engine = LmdbEngine(tmp_path / "store")
        await engine.open()
        news: AsyncIterator[frozenset[str]] = engine.watch()
        await engine.write(lambda tx: tx.notify(["a"]))
        assert await anext(news) == {"a"}
        waiting = asyncio.ensure_future(anext(news))
        await asyncio.sleep(0)
        await engine.close()
        with pytest.raises(StoreUnavailable, match="is not open"):
            await waiting

    asyncio.run(asyncio.wait_for(watch(), 60))


@pytest.mark.spec("D6")
def test_asking_for_a_transaction_for_a_task_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TransactionError, match="has no transactions for tasks; use SQLite or PostgreSQL"):
        LmdbEngine(tmp_path / "store").transaction(lambda _: None, timeout=1)


def test_a_forked_child_is_told_to_open_its_own_and_the_parent_goes_on(tmp_path: Path) -> None:
    engine = LmdbEngine(tmp_path / "store")
    asyncio.run(engine.open())
    asyncio.run(engine.write(adding("before")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what this is about
        child = os.fork()
    if child == 0:
        os._exit(_refusals(engine))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    asyncio.run(engine.write(adding("after")))
    assert asyncio.run(engine.read(names)) == ["before", "after"]
    asyncio.run(engine.close())


def _refusals(engine: LmdbEngine) -> int:
    """How many calls are refused in the child; closing there does nothing."""
    refused = 0
    for call in (engine.write, engine.read):
        try:
            asyncio.run(call(names))
        except StoreError as error:
            refused += "was opened before a fork" in str(error)
    asyncio.run(engine.close())
    return refused
