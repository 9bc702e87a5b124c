"""SQLite and LMDB on a small disk: the log does not fill it, what is there can be read when it is full, and a node goes
on when there is room again. A real file system of its own, mounted for the test.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from itinerary.cli.main import app as program
from itinerary.errors import StoreFull
from itinerary.model.events import NewEvent
from itinerary.model.queries import EventsQuery
from itinerary.model.rows import JobNumber, OverlapSlotRow, Ref
from itinerary.stores import open_store
from itinerary.stores.migrations import Migration
from itinerary.stores.sqlite import SqliteEngine, schema
from itinerary.stores.sqlite.session import SqliteSession
from itinerary.stores.sqlite.wal_limit import LOG_MIN, SHARE
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OVERLAP_SLOTS
from itinerary.stores.transaction import Transaction

_MEGABYTE: Final = 1 << 20
_DISK: Final = 24 * _MEGABYTE
_PATIENCE: Final = 120.0
"""Seconds after which something has hung. Nothing is measured by it."""
_READS: Final = (
    ["explain", "tick"],
    ["history", "tick"],
    ["show", "tick"],
    ["jobs"],
    ["upcoming"],
    ["nodes"],
)
_PROGRAM: Final = """
import sys
from itinerary import Itinerary, every
app = Itinerary(store=sys.argv[1], name="small", node_heartbeat_interval="1s")
@app.job(every("1s"))
def tick():
    with open(sys.argv[2], "a") as ran:
        ran.write("ran\\n")
sys.exit(app.run())
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK},mode=0700", "tmpfs", str(disk)]
    try:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system can be mounted by root only")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: S603, S607


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (_MEGABYTE, 4_096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


_TURNS: Final = count(1)


def _slots(tx: Transaction) -> None:
    """Change the same rows: the database stays as long as it is, and each time the log takes it all."""
    turn = Ref(next(_TURNS))
    tx.put(OVERLAP_SLOTS, [OverlapSlotRow(JobNumber(number), turn) for number in range(10_000)])


def _write(session: SqliteSession) -> None:
    session.begin()
    _slots(session.savepoint())
    session.release()
    session.commit()


def _log_size(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


# -- the log -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D4")
def test_the_log_never_takes_more_than_its_share_of_a_small_disk(disk: Path) -> None:
    path, sizes = disk / "store", []

    async def main() -> None:
        engine = SqliteEngine(path)
        await engine.open()
        for _ in range(80):
            await engine.write(_slots)
            sizes.append(_log_size(path))
        await engine.close()

    asyncio.run(main())
    assert max(sizes) > LOG_MIN, "it was put to the test"
    assert max(sizes) <= _DISK // SHARE + _MEGABYTE, "a share, and one group that went past it"


def test_a_log_that_takes_half_of_its_share_is_emptied_in_a_quiet_moment(disk: Path) -> None:
    path = disk / "store"
    session = SqliteSession(path, synchronous="full", busy_timeout=5.0, clock=lambda: 1, on_told=lambda: None)
    while _log_size(path) <= _DISK // SHARE // 2:
        _write(session)
    session.rest()
    assert _log_size(path) == 0
    session.close()


def test_a_reader_that_looks_at_an_old_state_delays_the_emptying_and_nothing_else(disk: Path) -> None:
    path = disk / "store"
    session = SqliteSession(path, synchronous="full", busy_timeout=60.0, clock=lambda: 1, on_told=lambda: None)
    _write(session)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM itinerary_overlap_slots").fetchone() == (10_000,)
    held = _DISK // SHARE + 2 * _MEGABYTE
    while _log_size(path) < held:
        _write(session)
    reader.execute("COMMIT")
    reader.close()
    for _ in range(110):  # it is tried again after a hundred commits
        _write(session)
    assert _log_size(path) < held
    session.close()


def test_a_write_that_does_not_fit_makes_room_by_emptying_the_log(disk: Path) -> None:
    path = disk / "store"
    session = SqliteSession(path, synchronous="full", busy_timeout=5.0, clock=lambda: 1, on_told=lambda: None)
    _write(session)
    session._log.empty()  # the database is as long as it gets
    while _log_size(path) < 2 * _MEGABYTE:
        _write(session)
    _fill(disk)
    assert session.repair(StoreFull("no room")) is None, "try again"
    assert _log_size(path) == 0
    assert isinstance(session.repair(StoreFull("no room")), StoreFull), "once"
    session.close()


# -- reading on a full disk --------------------------------------------------------------------------------------------


class Node:
    """A node in a process of its own."""

    def __init__(self, url: str, tmp_path: Path) -> None:
        self.ran, script = tmp_path / "ran", tmp_path / "small.py"
        self.log = tmp_path / "node.log"
        script.write_text(_PROGRAM)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, str(script), url, str(self.ran)], stdout=log, stderr=log, cwd=tmp_path
            )

    def runs(self) -> int:
        return len(self.ran.read_text().splitlines()) if self.ran.exists() else 0

    def until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(_PATIENCE)


def _assert_all_can_be_read(url: str) -> None:
    for command in _READS:
        answered = CliRunner().invoke(program, [*command, "--store", url])
        assert answered.exit_code == 0, (command, answered.output)
        assert answered.output.strip(), command
    audited = CliRunner().invoke(program, ["audit", "--store", url])
    assert "0 lost, 0 doubled" in audited.output, audited.output
    checked = CliRunner().invoke(program, ["doctor", "--store", url])
    assert "can be reached" in checked.output, checked.output
    assert "make room" in checked.output, checked.output


@pytest.mark.spec("D4")
@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_commands_that_read_work_on_a_full_disk_without_a_node(
    disk: Path, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    url = f"{kind}:///{disk}/store"
    node = Node(url, tmp_path)
    try:
        node.until(lambda: node.runs() > 1)
    finally:
        node.end(number)
    _fill(disk)
    _assert_all_can_be_read(url)


@pytest.mark.spec("D4")
def test_the_commands_that_read_work_beside_a_node_on_a_full_disk_and_the_node_goes_on_with_room(
    disk: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{disk}/store"
    node = Node(url, tmp_path)
    try:
        node.until(lambda: node.runs() > 1)
        filler = _fill(disk)
        node.until(lambda: "make room on its disk" in node.log.read_text())
        _assert_all_can_be_read(url)
        filler.unlink()
        before = node.runs()
        node.until(lambda: node.runs() > before + 1)
    finally:
        node.end(signal.SIGTERM)
    audited = CliRunner().invoke(program, ["audit", "--store", url])
    assert "0 lost, 0 doubled" in audited.output, audited.output


@pytest.mark.spec("D4")
def test_a_store_that_was_opened_on_a_full_disk_refuses_writes_and_takes_them_when_there_is_room(disk: Path) -> None:
    url = f"sqlite:///{disk}/store"
    event = NewEvent(kind="small", record="r", cause="first")

    async def make() -> None:
        async with open_store(url) as store:
            await store.append("log", "p", [event])

    async def use() -> None:
        async with open_store(url) as store:
            assert [row.kind for row in await store.read(EventsQuery("log"))] == ["small"]
            with pytest.raises(StoreFull, match="make"):
                await store.append("log", "p", [NewEvent(kind="late", record="r", cause="second")])
            reads = await asyncio.gather(*[store.read(EventsQuery("log")) for _ in range(4)])
            assert [len(rows) for rows in reads] == [1] * 4
            filler.unlink()
            assert await store.append("log", "p", [NewEvent(kind="late", record="r", cause="second")]) == [2]
            assert len(await store.read(EventsQuery("log"))) == 2

    asyncio.run(make())
    filler = _fill(disk)
    asyncio.run(use())
    assert isinstance(open_store(url), EngineStore)
    assert not (disk / "store-shm").exists(), "the last one has closed it as always"


def test_a_store_of_an_older_schema_is_not_opened_on_a_full_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = disk / "store"

    async def open_it() -> None:
        async with open_store(f"sqlite:///{path}"):
            pass

    asyncio.run(open_it())
    later = Migration(schema.NUMBER + 1, "later", "CREATE TABLE itinerary_later (a INTEGER) STRICT;")
    monkeypatch.setattr(schema.migrate, "__defaults__", ([*schema.MIGRATIONS, later],))
    monkeypatch.setattr(schema, "NUMBER", later.number)
    _fill(disk)
    with pytest.raises(StoreFull):
        asyncio.run(open_it())
