"""A SQLite store among other processes, on a disk that fills up, and at the end of its life."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from itinerary.errors import ConfigError, StoreBusy, StoreError, StoreFull, StoreUnavailable
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.sqlite.transaction import SqliteTransaction
from itinerary.stores.tables import ACTIVE, HISTORY_CHUNKS, JOBS, NOTIFICATIONS, OVERLAP_SLOTS
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.samples import sample


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "itinerary.db"


def python(script: str, *arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)  # noqa: S603 - it is our own


def add(job: int) -> Any:
    return lambda tx: tx.add(ACTIVE, [sample(ACTIVE, job=job, ref=1)])


# -- whose file it is -------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q7")
def test_the_files_are_for_their_owner_only(path: Path) -> None:
    async def look() -> dict[str, int]:
        async with SqliteEngine(path) as engine:
            await engine.write(add(1))
            return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    assert asyncio.run(look()) == dict.fromkeys(["itinerary.db", "itinerary.db-wal", "itinerary.db-shm"], 0o600)


def test_what_is_set_is_in_force(path: Path) -> None:
    def settings(tx: Transaction) -> list[int]:
        assert isinstance(tx, SqliteTransaction)
        return [tx.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]

    async def ask(**options: Any) -> list[int]:
        async with SqliteEngine(path, **options) as engine:
            return await engine.write(settings)

    assert asyncio.run(ask()) == [2, "wal"], "the default waits for the disk"
    assert asyncio.run(ask(synchronous="normal")) == [1, "wal"]
    assert asyncio.run(ask(synchronous="extra")) == [3, "wal"]
    with pytest.raises(ConfigError, match="synchronous: 'off' is none of normal, full, extra"):
        SqliteEngine(path, synchronous="off")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="busy_timeout"):
        SqliteEngine(path, busy_timeout=-1)


def test_its_clock_is_the_one_it_was_given(path: Path) -> None:
    async def ask() -> int:
        async with SqliteEngine(path, clock=lambda: 1234) as engine:
            return await engine.write(lambda tx: tx.now())

    assert asyncio.run(ask()) == 1234


# -- several processes ------------------------------------------------------------------------------------------------

COUNT_UP = """
import asyncio, sys
import msgspec
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.tables import JOBS, OVERLAP_SLOTS
from tests.contracts.stores.samples import sample

def work(number):
    def count_up(tx):
        (slot,) = tx.lock(OVERLAP_SLOTS, [(1,)]).values()
        tx.save(OVERLAP_SLOTS, [msgspec.structs.replace(slot, fence=slot.fence + 1)], ["fence"])
        return [row.number for row in tx.add(JOBS, [sample(JOBS, name=f"job {number}")])]
    return count_up

async def run():
    async with SqliteEngine(sys.argv[1], synchronous="normal") as engine:
        for number in range(50):
            print(*await engine.write(work(number)))

asyncio.run(run())
"""


@pytest.mark.spec("D5")
def test_processes_that_share_a_file_lose_nothing_and_win_each_name_once(path: Path) -> None:
    async def prepare() -> None:
        async with SqliteEngine(path) as engine:
            await engine.write(lambda tx: tx.put(OVERLAP_SLOTS, [sample(OVERLAP_SLOTS, job=1)]))

    async def result() -> tuple[int, list[int]]:
        async with SqliteEngine(path) as engine:
            (slot,) = await engine.read(lambda tx: tx.scan(OVERLAP_SLOTS, limit=2))
            jobs = await engine.read(lambda tx: tx.scan(JOBS, limit=1_000))
            return slot.fence, sorted(job.number for job in jobs)

    asyncio.run(prepare())
    processes = [python(COUNT_UP, path) for _ in range(3)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [error for _, error in outputs] == ["", "", ""]
    won = sorted(int(number) for output, _ in outputs for number in output.split())
    fence, numbers = asyncio.run(result())
    assert fence == 150
    assert len(won) == 50
    assert won == numbers


def test_a_file_that_somebody_else_keeps_is_busy_and_then_goes_on(path: Path) -> None:
    async def run() -> None:
        async with SqliteEngine(path, busy_timeout=0.01) as engine:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="another process"):
                await engine.write(add(1))
            assert await engine.read(lambda tx: tx.scan(ACTIVE, limit=5)) == [], "who reads need not wait"
            other.execute("ROLLBACK")
            other.close()
            assert len(await engine.write(add(1))) == 1

    asyncio.run(run())


def test_who_watches_hears_of_another_process(path: Path) -> None:
    async def run() -> list[frozenset[str]]:
        async with SqliteEngine(path) as mine, SqliteEngine(path) as other:
            await mine.write(lambda tx: tx.notify(["first"]))
            heard = []
            async for topics in mine.watch():
                heard.append(topics)
                if len(heard) == 2:
                    break
                await other.write(add(1))
                await other.write(lambda tx: tx.notify(["second"]))
            return heard

    assert asyncio.run(run()) == [{"first"}, {"second"}]


def test_a_watcher_that_is_cancelled_leaves_nothing_open(path: Path) -> None:
    async def run() -> None:
        async with SqliteEngine(path) as engine:
            await engine.write(lambda tx: tx.notify(["old"]))

            async def listen() -> None:
                async for _ in engine.watch():
                    heard.set()

            heard = asyncio.Event()
            listener = asyncio.ensure_future(listen())
            await heard.wait()
            listener.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listener

    asyncio.run(run())
    assert [file.name for file in path.parent.iterdir()] == ["itinerary.db"], "the last to close clears the log away"


FORK = """
import asyncio, os, sys
from itinerary.errors import StoreError
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.tables import ACTIVE
from tests.contracts.stores.samples import sample

async def child(engine):
    for ask in (engine.write, engine.read):
        try:
            await ask(lambda tx: tx.scan(ACTIVE, limit=1))
        except StoreError as error:
            print("after forking" in str(error))
    await engine.close()
    for other in (engine, SqliteEngine(sys.argv[1])):
        try:
            await other.open()
        except StoreError as error:
            print("after forking" in str(error))
    async with SqliteEngine(sys.argv[1] + "2") as new:
        await new.write(lambda tx: tx.gate())

def main():
    engine, closed = SqliteEngine(sys.argv[1]), SqliteEngine(sys.argv[1] + "2")
    runner = asyncio.Runner()
    runner.run(engine.open())
    runner.run(closed.open())
    runner.run(closed.close())
    if (pid := os.fork()) == 0:
        asyncio.run(child(engine))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    print(len(runner.run(engine.write(lambda tx: tx.add(ACTIVE, [sample(ACTIVE, job=1, ref=1)])))))
    runner.run(engine.close())

main()
"""


def test_a_store_that_was_open_at_a_fork_is_refused_in_the_child_and_works_on_in_the_parent(path: Path) -> None:
    output, error = python(FORK, path).communicate(timeout=60)
    assert (output.split(), error) == (["True"] * 4 + ["1"], "")


# -- a full disk ------------------------------------------------------------------------------------------------------


def limit_pages(pages: int) -> Any:
    def work(tx: Transaction) -> None:
        assert isinstance(tx, SqliteTransaction)
        tx.connection.execute(f"PRAGMA max_page_count = {pages}")

    return work


def chapters(number: int, size: int) -> Any:
    return lambda tx: tx.put(HISTORY_CHUNKS, [sample(HISTORY_CHUNKS, job=number, refs=b"x" * size)])


@pytest.mark.spec("D4")
def test_a_full_disk_undoes_what_found_no_room_and_the_store_goes_on_with_room(path: Path) -> None:
    async def run() -> tuple[list[Any], list[int]]:
        async with SqliteEngine(path) as engine:
            await engine.write(limit_pages(200))
            works = [add(1), chapters(1, 2_000_000), add(2), chapters(2, 10)]
            answers = await asyncio.gather(*map(engine.write, works), return_exceptions=True)
            with pytest.raises(StoreFull, match="make room"):
                await engine.write(chapters(3, 2_000_000))
            await engine.write(limit_pages(100_000))
            await engine.write(chapters(3, 2_000_000))
            rows = await engine.read(lambda tx: tx.scan(HISTORY_CHUNKS, limit=9))
            return list(answers), [row.job for row in rows]

    answers, kept = asyncio.run(run())
    assert [type(answer) for answer in answers] == [list, StoreFull, list, type(None)]
    assert kept == [2, 3]


FULL_AT_COMMIT = """
import asyncio, resource, sys
from itinerary.errors import StoreError
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.tables import ACTIVE, HISTORY_CHUNKS
from tests.contracts.stores.samples import sample

async def run():
    async with SqliteEngine(sys.argv[1]) as engine:
        await engine.write(lambda tx: tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=1)]))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        big = lambda tx: tx.put(HISTORY_CHUNKS, [sample(HISTORY_CHUNKS, job=1, refs=b"x" * 1_000_000)])
        small = lambda tx: tx.put(ACTIVE, [sample(ACTIVE, job=2, ref=1)])
        answers = await asyncio.gather(engine.write(small), engine.write(big), return_exceptions=True)
        print(*(type(answer).__name__ for answer in answers))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await engine.write(big)
        print(len(await engine.read(lambda tx: tx.scan(HISTORY_CHUNKS, limit=9))))

asyncio.run(run())
"""


def test_a_commit_that_cannot_be_written_is_told_to_who_needed_the_room_and_to_nobody_else(path: Path) -> None:
    output, error = python(FULL_AT_COMMIT, path).communicate(timeout=60)
    assert (output.split(), error) == (["NoneType", "StoreError", "1"], "")
    checked = sqlite3.connect(path)
    assert checked.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    checked.close()


# -- group commit -----------------------------------------------------------------------------------------------------


def test_what_waits_together_is_committed_together(path: Path) -> None:
    may_go_on = threading.Event()
    statements: list[str] = []

    def hold_up(tx: Transaction) -> None:
        assert isinstance(tx, SqliteTransaction)
        tx.connection.set_trace_callback(statements.append)
        assert may_go_on.wait(60)

    async def run() -> int:
        async with SqliteEngine(path) as engine:
            first = asyncio.ensure_future(engine.write(hold_up))
            others = [asyncio.ensure_future(engine.write(add(job))) for job in range(200)]
            await asyncio.sleep(0)
            may_go_on.set()
            await asyncio.gather(first, *others)
            return len(await engine.read(lambda tx: tx.scan(ACTIVE, limit=1_000)))

    assert asyncio.run(run()) == 200
    assert statements.count("SAVEPOINT work") >= 200, "each stands or falls alone"
    assert statements.count("COMMIT") < 50, "and they share the wait for the disk"


# -- closing ----------------------------------------------------------------------------------------------------------


def test_nothing_can_be_asked_before_it_is_open_or_after_it_is_closed(path: Path) -> None:
    async def run() -> None:
        engine = SqliteEngine(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="not open"):
                await engine.write(add(1))
            with pytest.raises(StoreUnavailable, match="not open"):
                await engine.read(add(1))
            await engine.open()
            await engine.open()
            await engine.close()

    asyncio.run(run())


def test_work_that_only_reads_cannot_write(path: Path) -> None:
    async def run() -> None:
        async with SqliteEngine(path) as engine:
            with pytest.raises(StoreError, match="readonly"):
                await engine.read(add(1))
            assert len(await engine.write(add(1))) == 1

    asyncio.run(run())


def test_it_can_be_asked_from_any_event_loop(path: Path) -> None:
    async def run() -> int:
        async with SqliteEngine(path) as engine:
            threads = [
                threading.Thread(target=lambda n=n: asyncio.run(engine.write(lambda tx: tx.notify([f"loop {n}"]))))
                for n in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            return len(await engine.read(lambda tx: tx.scan(NOTIFICATIONS, limit=9)))

    assert asyncio.run(run()) == 4


def test_a_writer_that_comes_to_its_end_tells_those_who_wait_and_those_who_come(path: Path) -> None:
    def die(_tx: Transaction) -> None:
        raise SystemExit

    async def run() -> None:
        async with SqliteEngine(path) as engine:
            with pytest.raises(StoreUnavailable, match="its writer has ended"):
                await engine.write(die)
            with pytest.raises(StoreUnavailable, match="its writer has ended"):
                await engine.write(add(1))
            assert await engine.read(lambda tx: tx.scan(ACTIVE, limit=9)) == []

    asyncio.run(run())
