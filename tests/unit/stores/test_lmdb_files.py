"""The directory of an LMDB store: who may read it, who may open it, and what is not one."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from itinerary.errors import SchemaError, StoreBusy, StoreError
from itinerary.stores.engine import SchemaSeen
from itinerary.stores.lmdb import LmdbEngine, engine, files, transaction
from itinerary.stores.lmdb.layout import MARK
from itinerary.stores.lmdb.transaction import LAYOUTS, SCHEMA
from itinerary.stores.tables import JOBS
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.samples import sample

HOLDER = """
import asyncio, sys
from itinerary.stores.lmdb import LmdbEngine
from itinerary.stores.tables import JOBS
from tests.contracts.stores.samples import sample

async def hold():
    async with LmdbEngine(sys.argv[1]) as engine:
        await engine.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="of the other")]))
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(hold())
"""

LOOKER = """
import lmdb, sys
env = lmdb.open(sys.argv[1], readonly=True)
txn = env.begin()
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(program: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open, until its input ends."""
    command = [sys.executable, "-c", program, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as other:  # noqa: S603 - ours
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
            yield other
        finally:
            other.kill()


def jobs(tx: Transaction) -> list[str]:
    return [job.name for job in tx.scan(JOBS, limit=100)]


async def contents(path: Path) -> list[str]:
    async with LmdbEngine(path) as engine:
        return await engine.read(jobs)


@pytest.mark.spec("Q7")
def test_all_that_is_created_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        asyncio.run(contents(tmp_path / "store"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "store").iterdir()}
    assert modes == {"data.mdb": 0o600, "lock.mdb": 0o600, "node.lock": 0o600}


def test_a_second_process_is_refused_and_told_which_one_has_it(tmp_path: Path) -> None:
    with process(HOLDER, tmp_path / "store") as other:
        with pytest.raises(StoreBusy, match=f"open in process {other.pid}, and LMDB serves one node only"):
            asyncio.run(contents(tmp_path / "store"))
        other.communicate("")
        assert asyncio.run(contents(tmp_path / "store")) == ["of the other"]


def test_a_store_whose_process_was_killed_can_be_opened_at_once(tmp_path: Path) -> None:
    with process(HOLDER, tmp_path / "store") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert asyncio.run(contents(tmp_path / "store")) == ["of the other"]


def test_a_second_engine_in_one_process_is_refused_and_does_not_loosen_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "store"

    async def twice() -> None:
        async with LmdbEngine(path):
            with pytest.raises(StoreBusy, match="open in this process already"):
                await LmdbEngine(path).open()
            refused = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", HOLDER, str(path)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                capture_output=True,
                text=True,
                check=False,
            )
            assert f"open in process {os.getpid()}" in refused.stderr

    asyncio.run(twice())
    assert asyncio.run(contents(path)) == []


def test_a_child_that_lives_on_does_not_keep_the_store_locked(tmp_path: Path) -> None:
    forker = HOLDER.replace(
        'print("open", flush=True)',
        'import os, warnings; warnings.simplefilter("ignore")\n'
        "        if os.fork() == 0: sys.stdin.read(); os._exit(0)\n"
        '        print("open", flush=True)',
    )
    with process(forker, tmp_path / "store") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert asyncio.run(contents(tmp_path / "store")) == ["of the other"]


def test_a_reader_that_was_killed_is_cleared_when_the_store_is_opened(tmp_path: Path) -> None:
    asyncio.run(contents(tmp_path / "store"))
    with process(LOOKER, tmp_path / "store") as living, process(LOOKER, tmp_path / "store") as dead:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        table = asyncio.run(_readers(tmp_path / "store"))
        assert str(living.pid) in table
        assert str(dead.pid) not in table


async def _readers(path: Path) -> str:
    async with LmdbEngine(path) as engine:
        assert engine._map is not None
        return engine._map.env.readers()


@pytest.mark.spec("D7")
def test_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    asyncio.run(contents(tmp_path / "store"))
    with lmdb.open(str(tmp_path / "store")) as env, env.begin(write=True) as txn:
        txn.put(MARK, (7).to_bytes(4))
    with pytest.raises(SchemaError, match=f"has schema 7, this program knows {SCHEMA}"):
        asyncio.run(contents(tmp_path / "store"))


@pytest.mark.spec("D7")
def test_an_older_schema_is_seen_without_touching_it_and_migrated_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def seen() -> SchemaSeen:
        return await LmdbEngine(tmp_path / "store").schema()

    assert asyncio.run(seen()) == SchemaSeen(None, SCHEMA, ("0001 first tables",))
    with process(HOLDER, tmp_path / "store"):
        pass
    for module in (engine, files, transaction):  # a later program
        monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)
    monkeypatch.setattr(engine, "LAYOUTS", (*LAYOUTS, "later"))
    for _ in range(2):
        assert asyncio.run(seen()) == SchemaSeen(SCHEMA, SCHEMA + 1, (f"{SCHEMA + 1:04} later",))
    assert asyncio.run(contents(tmp_path / "store")) == ["of the other"]
    assert asyncio.run(seen()).is_current


@pytest.mark.spec("D7")
def test_a_schema_is_seen_while_the_store_is_open_here_or_elsewhere(tmp_path: Path) -> None:
    async def seen_twice() -> list[SchemaSeen]:
        async with LmdbEngine(tmp_path / "store") as engine:
            return [await engine.schema(), await LmdbEngine(tmp_path / "store").schema()]

    assert asyncio.run(seen_twice()) == [SchemaSeen(SCHEMA, SCHEMA)] * 2
    with process(HOLDER, tmp_path / "store"):
        assert asyncio.run(LmdbEngine(tmp_path / "store").schema()) == SchemaSeen(SCHEMA, SCHEMA)


@pytest.mark.spec("D7")
def test_a_schema_that_changes_under_a_running_node_stops_it_at_the_gate(tmp_path: Path) -> None:
    async def upgrade() -> None:
        async with LmdbEngine(tmp_path / "store") as engine:
            await engine.write(lambda tx: tx.gate())
            await engine.write(lambda tx: tx._txn.put(MARK, (99).to_bytes(4)))  # type: ignore[attr-defined]
            with pytest.raises(SchemaError, match="has schema 99"):
                await engine.write(lambda tx: tx.gate(exclusive=True))

    asyncio.run(upgrade())


def test_the_store_of_another_program_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "store")) as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"1")
    with pytest.raises(SchemaError, match="somebody else's"):
        asyncio.run(contents(tmp_path / "store"))
    with lmdb.open(str(tmp_path / "store")) as env, env.begin() as txn:
        assert list(txn.cursor()) == [(b"theirs", b"1")]


def test_a_directory_with_other_things_in_it_is_refused_and_nothing_is_added(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(SchemaError, match=r"other things in it \('letters.txt'\)"):
        asyncio.run(contents(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["letters.txt"]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(SchemaError, match="is a file"):
        asyncio.run(contents(tmp_path / "store"))


def test_a_data_file_that_is_not_of_lmdb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"SQLite format 3\0" * 1_000)
    with pytest.raises(SchemaError, match="is not an LMDB store"):
        asyncio.run(contents(tmp_path))


def test_a_path_that_leads_nowhere_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere/store cannot be opened"):
        asyncio.run(contents(tmp_path / "nowhere" / "store"))


def test_an_engine_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    engine = LmdbEngine(tmp_path / "nowhere" / "store")

    async def again() -> None:
        with pytest.raises(StoreError):
            await engine.open()
        await engine.close()
        (tmp_path / "nowhere").mkdir()
        async with engine:
            await engine.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a")]))

    asyncio.run(again())
