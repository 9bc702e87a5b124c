"""A file whose lock another process never gives back, or whose disk never answers: real locks, and a held-up disk.

Nothing can stop a thread that waits in the kernel. Its caller is told when the deadline has passed, closing does not
wait for it, and the process can end.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from itinerary.errors import StoreBusy, StoreUnavailable
from itinerary.stores import open_store
from tests.integration.stores.nursery import environment

pytestmark = pytest.mark.spec("N5", "silent")

_HANG: Final = 60.0
"""Seconds after which a test takes something for one that never comes."""
_FOREVER: Final = "3600000000"
"""Microseconds."""
_HOLDS_SQLITE: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("holds", flush=True)
sys.stdin.read()
"""
_HOLDS_LMDB: Final = """
import lmdb, sys
env = lmdb.open(sys.argv[1], map_size=1 << 28, max_readers=32)
transaction = env.begin(write=True)
print("holds", flush=True)
sys.stdin.read()
"""


class _Process:
    """A process that says a line now and then."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def handle(self) -> str:
        assert self.process.stdout is not None
        watch = threading.Timer(_HANG, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        assert line, "it has ended, or it said nothing for too long"
        return line

    def word(self) -> dict[str, Any]:
        word: dict[str, Any] = json.loads(self.handle())
        return word

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(_HANG)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def _started(*arguments: str) -> Iterator[_Process]:
    process = _Process(*arguments)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def _holding(code: str, path: Path, *, frozen: bool = False) -> Iterator[_Process]:
    """A process that has the lock of a store for writing, stopped if it is to be frozen."""
    with _started("-c", code, str(path)) as holder:
        assert holder.handle() == "holds\n"
        if frozen:
            holder.process.send_signal(signal.SIGSTOP)
        yield holder


def _writer(url: str, *arguments: str) -> Any:
    return _started("-m", "tests.integration.stores.silent", url, *arguments)


@contextmanager
def _silent_disk(process: _Process) -> Iterator[None]:
    """Hold up each write of this process to the disk, for ever."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed here, and without it no disk can be held up")
    calls = "fdatasync,fsync,msync"
    tracer = subprocess.Popen(  # noqa: S603
        [
            *(strace, "-f", "-o", "/dev/null", "-e", f"trace={calls}", "-e", "signal=none"),
            *("-e", f"inject={calls}:delay_enter={_FOREVER}", "-p", str(process.process.pid)),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    try:
        if "attached" not in tracer.stderr.readline():
            pytest.skip("strace may not attach to a process here")
        yield
    finally:
        tracer.kill()
        tracer.wait(_HANG)
        tracer.stderr.close()


def _wait_for_exit(pid: int) -> None:
    """Wait until a process has exited; the kernel keeps the rest of it while one of its threads is held up."""
    until = time.monotonic() + _HANG
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until, "it has not exited"
        time.sleep(0.05)  # there is nothing to wait on


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_a_disk_that_does_not_answer_is_said_and_the_process_ends(kind: str, tmp_path: Path) -> None:
    options = "busy_timeout=0.5&answer_timeout=1" if kind == "sqlite" else "answer_timeout=1"
    with _writer(f"{kind}:///{tmp_path}/store?{options}") as writer:
        assert writer.word() == {"open": True}
        with _silent_disk(writer):
            writer.go()
            told = writer.word()
            assert told["error"] == "StoreUnavailable"
            seconds = "1.5" if kind == "sqlite" else "1"
            assert f"has not answered for {seconds} s: its disk, or a lock" in told["message"]
            assert writer.word() == {"read": True}, "readers need no disk"
            left = writer.word()
            assert (left["event"], left["threads"]) == ("store.left_behind", 1)
            assert writer.word() == {"closed": True}
            _wait_for_exit(writer.process.pid)
        assert writer.process.wait(_HANG) == 0


def test_a_lock_of_lmdb_that_a_frozen_process_holds_is_said_and_the_process_ends(tmp_path: Path) -> None:
    with _writer(f"lmdb:///{tmp_path}/store?answer_timeout=1") as writer:
        assert writer.word() == {"open": True}
        with _holding(_HOLDS_LMDB, tmp_path / "store", frozen=True):
            writer.go()
            told = writer.word()
            assert told["error"] == "StoreUnavailable"
            assert "a lock that another process holds, does not answer" in told["message"]
            assert writer.word() == {"read": True}
            assert writer.word()["event"] == "store.left_behind"
            assert writer.word() == {"closed": True}
            assert writer.process.wait(_HANG) == 0


def test_writing_to_lmdb_goes_on_when_the_holder_of_its_lock_has_died(tmp_path: Path) -> None:
    with _writer(f"lmdb:///{tmp_path}/store?answer_timeout=1", "heals") as writer:
        assert writer.word() == {"open": True}
        with _holding(_HOLDS_LMDB, tmp_path / "store", frozen=True):
            writer.go()
            assert writer.word()["error"] == "StoreUnavailable"
            assert writer.word() == {"read": True}
        writer.go()
        assert writer.word() == {"written": True}
        assert writer.word() == {"closed": True}
        assert writer.process.wait(_HANG) == 0


def test_a_store_of_lmdb_whose_lock_is_held_cannot_be_opened_and_says_so(tmp_path: Path) -> None:
    async def opened() -> None:
        async with open_store(f"lmdb:///{tmp_path}/store?answer_timeout=1"):
            pass

    (tmp_path / "store").mkdir(mode=0o700)
    with _holding(_HOLDS_LMDB, tmp_path / "store"), pytest.raises(StoreUnavailable, match="has not answered for 1 s"):
        asyncio.run(opened())


def test_a_file_of_sqlite_that_another_process_holds_is_said_to_be_held(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_store(f"sqlite:///{tmp_path}/store?busy_timeout=0.2") as store:
            held = _holding(_HOLDS_SQLITE, tmp_path / "store")
            with held, pytest.raises(StoreBusy, match="another process holds it"):
                await store.notify(["topic"])
            await store.notify(["topic"])

    asyncio.run(story())


def test_closing_does_not_wait_for_a_lock_as_long_as_writing_would(tmp_path: Path) -> None:
    async def story() -> None:
        store = open_store(f"sqlite:///{tmp_path}/store?busy_timeout=3600")
        await store.open()
        with _holding(_HOLDS_SQLITE, tmp_path / "store"):
            writing = asyncio.create_task(store.notify(["topic"]))
            await asyncio.sleep(0)  # it is asked
            async with asyncio.timeout(_HANG):
                await store.close()
            assert not writing.done()
        await asyncio.wait([writing], timeout=_HANG)

    asyncio.run(story())
