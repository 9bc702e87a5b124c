"""A disk that is full, and has room again later: a real file system of its own, mounted for the test.

What was asked meanwhile is refused with StoreFull, nothing is damaged, reading goes on, and so does writing when there
is room: in the same process, without opening the store again.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.errors import StoreFull
from itinerary.model.events import NewEvent
from itinerary.model.queries import EventsQuery
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Started
from itinerary.stores import open_store
from itinerary.stores.store import EngineStore
from tests.contracts.stores.desk import Desk
from tests.contracts.stores.dump import dump
from tests.integration.stores.nursery import Nursery

pytestmark = pytest.mark.spec("D4")

_MEGABYTE = 1 << 20
_PAGE = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of sixteen megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "tmpfs", str(disk)]
    try:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system can be mounted by root only; the unit tests of the stores limit the file's size")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: S603, S607


def _fill(disk: Path) -> Path:
    """Take all the room that there is."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (_MEGABYTE, _PAGE, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0
    return filler


def _big(cause: str) -> list[NewEvent]:
    return [NewEvent(kind="big", record="r", cause=cause, data="x" * 300_000)]


async def _append_until_full(store: EngineStore) -> int:
    """Append until there is no room. How many there are."""
    for number in range(100):
        try:
            await store.append("log", "p", _big(f"{number}"))
        except StoreFull:
            return number
    raise AssertionError("the disk is larger than it should be")


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_a_full_disk_is_said_to_be_full_damages_nothing_and_the_store_goes_on_with_room(
    small_disk: Path, kind: str
) -> None:
    url = f"{kind}:///{small_disk}/store"

    async def main() -> None:
        async with open_store(url) as store:
            desk = Desk(store, store._engine)
            node = await desk.node()
            job = await desk.job()
            running = await desk.run(node, job)
            ballast = small_disk / "ballast"
            ballast.write_bytes(b"x" * 9 * _MEGABYTE)
            done = await _append_until_full(store)
            filler = _fill(small_disk)
            for _ in range(3):
                with pytest.raises(StoreFull, match="room"):
                    await store.append("log", "p", _big("not now"))
                reads = await asyncio.gather(*[store.read(EventsQuery("log")) for _ in range(8)])
                assert [len(events) for events in reads] == [done] * 8
            filler.unlink()
            ballast.unlink()
            await store.append("log", "p", _big("now"))
            await desk.finish(node, running)
            assert isinstance(await desk.run(node, job), Started)
            assert await desk.status(running.ref) is OccurrenceState.COMPLETED
            (await dump(store._engine)).check()
        async with open_store(url) as store:
            assert len(await store.read(EventsQuery("log"))) == done + 1
            (await dump(store._engine)).check()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_a_store_that_cannot_be_created_for_want_of_room_says_so_and_is_created_later(
    small_disk: Path, nursery: Nursery, kind: str
) -> None:
    filler = _fill(small_disk)
    for _ in range(16):  # in a process of its own: a map that cannot be filled ends one with a signal
        life = nursery.born("open", f"{kind}:///{small_disk}/store")
        assert life.end() == 0
        (unopened,) = [word.get("unopened", "") for word in life.words]
        if not unopened:
            break
        assert unopened.startswith("StoreFull: ")
        os.truncate(filler, filler.stat().st_size - _PAGE)
    filler.unlink()
    life = nursery.born("open", f"{kind}:///{small_disk}/store")
    assert life.end() == 0
    assert life.words == [{"opened": True}]
