"""A map that is full grows; one that may not grow, and a disk that is full, lose what was asked and nothing else."""

from __future__ import annotations

import asyncio
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from itinerary.errors import StoreFull
from itinerary.stores.lmdb import LmdbEngine
from itinerary.stores.lmdb.session import READING_THREADS
from itinerary.stores.tables import CONFIGS
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.samples import sample
from tests.unit.stores.test_lmdb_files import LOOKER, process

MEGABYTE = 1 << 20


def adding(name: str, size: int) -> Callable[[Transaction], list[Any]]:
    return lambda tx: tx.add(CONFIGS, [sample(CONFIGS, digest=name, body="x" * size)])


def digests(tx: Transaction) -> list[str]:
    return [row.digest for row in tx.scan(CONFIGS, limit=10_000)]


def map_size(engine: LmdbEngine) -> int:
    assert engine._map is not None
    return engine._map.env.info()["map_size"]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process may become larger: what a full disk looks like, without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_the_map_grows_under_writes_while_others_read(tmp_path: Path) -> None:
    async def grow() -> None:
        async with LmdbEngine(tmp_path / "store", map_size=MEGABYTE, sync=False) as engine:
            names = [f"{number:03}" for number in range(200)]
            done = asyncio.Event()

            async def read() -> int:
                seen: list[str] = []
                while not done.is_set():
                    found = await engine.read(digests)
                    assert found[: len(seen)] == seen
                    seen = found
                return len(seen)

            readers = [asyncio.create_task(read()) for _ in range(2 * READING_THREADS)]
            for some in (names[start : start + 20] for start in range(0, 200, 20)):
                await asyncio.gather(*(engine.write(adding(name, 50_000)) for name in some))
            done.set()
            await asyncio.gather(*readers)
            assert map_size(engine) >= 10 * MEGABYTE
            assert await engine.read(digests) == names

    asyncio.run(grow())


def test_a_map_waits_for_its_readers_before_it_grows(tmp_path: Path) -> None:
    async def grow() -> None:
        async with LmdbEngine(tmp_path / "store", map_size=MEGABYTE, sync=False) as engine:
            await engine.write(adding("first", 10))
            is_reading, may_end = threading.Event(), threading.Event()

            def slow(tx: Transaction) -> list[str]:
                is_reading.set()
                assert may_end.wait(60)
                return digests(tx)

            reading = asyncio.create_task(engine.read(slow))
            await asyncio.to_thread(is_reading.wait, 60)
            writing = asyncio.create_task(engine.write(adding("large", 3 * MEGABYTE)))
            done, _ = await asyncio.wait([writing], timeout=0.1)
            assert not done, "it waits for the reader, and new readers wait for it"
            may_end.set()
            assert await reading == ["first"]
            await writing
            assert map_size(engine) > 3 * MEGABYTE

    asyncio.run(grow())


def test_a_map_at_its_maximum_is_full_for_what_does_not_fit_and_for_nothing_else(tmp_path: Path) -> None:
    async def fill() -> None:
        async with LmdbEngine(tmp_path / "store", map_size=MEGABYTE, map_max=2 * MEGABYTE, sync=False) as engine:
            works = [adding("a", 100), adding("large", 5 * MEGABYTE), adding("b", 100)]
            answers = await asyncio.gather(*map(engine.write, works), return_exceptions=True)
            assert [type(answer) for answer in answers] == [list, StoreFull, list]
            assert "has reached its map_max" in str(answers[1])
            assert await engine.read(digests) == ["a", "b"]

    asyncio.run(fill())


def test_a_full_map_goes_on_as_soon_as_something_is_removed(tmp_path: Path) -> None:
    async def fill() -> None:
        async with LmdbEngine(tmp_path / "store", map_size=MEGABYTE, map_max=2 * MEGABYTE, sync=False) as engine:
            added = [await _is_added(engine, f"{number}") for number in range(12)].count(True)
            assert 4 <= added < 12
            await engine.write(lambda tx: tx.remove(CONFIGS, [(1,), (2,)]))
            await engine.write(adding("again", 200_000))
            assert len(await engine.read(digests)) == added - 1

    asyncio.run(fill())


async def _is_added(engine: LmdbEngine, name: str) -> bool:
    try:
        await engine.write(adding(name, 200_000))
    except StoreFull:
        return False
    return True


def test_a_store_that_is_larger_than_its_map_should_be_opens_and_grows(tmp_path: Path) -> None:
    async def both() -> None:
        async with LmdbEngine(tmp_path / "store", sync=False) as engine:
            await engine.write(adding("large", 5 * MEGABYTE))
        async with LmdbEngine(tmp_path / "store", map_size=MEGABYTE, sync=False) as engine:
            await engine.write(adding("larger", 5 * MEGABYTE))
            assert await engine.read(digests) == ["large", "larger"]

    asyncio.run(both())


def test_a_full_disk_loses_what_was_asked_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def fill() -> None:
        async with LmdbEngine(tmp_path / "store") as engine:
            await engine.write(adding("before", 1_000))
            with files_up_to(MEGABYTE):
                works = [adding(f"{number}", 300_000) for number in range(8)]
                answers = await asyncio.gather(*map(engine.write, works), return_exceptions=True)
                kinds = [type(answer) for answer in answers]
                stand = kinds.count(list)
                assert kinds.count(StoreFull) == len(kinds) - stand > 0
                assert len(await engine.read(digests)) == 1 + stand
            created = [len(rows) for rows in await asyncio.gather(*map(engine.write, works))]
            assert created == [0 if kind is list else 1 for kind in kinds]
        async with LmdbEngine(tmp_path / "store") as engine:
            assert len(await engine.read(digests)) == 9

    asyncio.run(fill())


def test_a_reader_that_was_killed_does_not_keep_the_store_growing(tmp_path: Path) -> None:
    async def churn() -> None:
        path = tmp_path / "store"
        async with LmdbEngine(path, map_size=4 * MEGABYTE, map_max=4 * MEGABYTE, sync=False) as engine:
            await engine.write(adding("0", MEGABYTE))
            with process(LOOKER, path) as dead:
                dead.send_signal(signal.SIGKILL)
                dead.wait()
            for number in range(1, 10):  # ten times what fits, if old pages could not be used again
                await engine.write(lambda tx: tx.remove(CONFIGS, [()]))
                await engine.write(adding(f"{number}", MEGABYTE))
            assert await engine.read(digests) == ["9"]

    asyncio.run(churn())
