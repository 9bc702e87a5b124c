"""A worker process, as the web server sees it: its start, requests, end and CPU time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final, NamedTuple, TypeAlias, assert_never

import msgspec

from itinerary.audit import AuditProgress
from itinerary.executors.secrets import SECRET_PREFIX
from itinerary.executors.subprocesses import describe_status
from itinerary.web.heavy.worker import BOOTSTRAP
from itinerary.web.heavy.works import FRAME_MAX, AnyWork, Ask, Done, Ready, Setup, WorkFailure, WorkProgress, framed

__all__ = ["WorkerDied", "WorkerProcess"]

_READER: Final[msgspec.json.Decoder[Ready | WorkProgress | Done | WorkFailure]] = msgspec.json.Decoder(
    Ready | WorkProgress | Done | WorkFailure
)
_START_TIMEOUT: Final = 60.0
"""The maximum start time of a worker, in seconds: the machine may be busy."""
_TAIL: Final = 2_000
"""The number of bytes from the end of a worker's standard error that are logged."""
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Variables that keep the address space of a worker small: its memory limit counts address space."""

Hear: TypeAlias = Callable[[AuditProgress], None]


class WorkerDied(Exception):
    """Raised when a worker ended without an answer."""


class _Ended(NamedTuple):
    status: int | None
    cpu: float | None
    """Total CPU seconds; None if other code in this program has reaped the process."""


class WorkerProcess:
    """A worker process. Create it with `WorkerProcess.start`."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process, self._errors = process, errors
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._ended: asyncio.Future[_Ended] = self._loop.create_future()
        self._counted = 0.0
        threading.Thread(target=self._wait, name="itinerary-web-wait", daemon=True).start()

    @classmethod
    async def start(cls, setup: Setup) -> WorkerProcess:
        """Start a process and wait until it is ready. Raises WorkerDied, or OSError if the system cannot start it."""
        errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the process
        try:
            here, there = socket.socketpair()
        except BaseException:
            errors.close()
            raise
        spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, there, errors))
        try:
            worker = cls(await asyncio.shield(spawning), errors)
        except BaseException:
            here.close()  # the process, if it starts, sees the closed socket and ends
            spawning.add_done_callback(lambda done: _abandon(done, errors))
            raise
        try:
            worker._reader, worker._writer = await asyncio.open_unix_connection(sock=here)
            worker._writer.write(framed(setup))
            async with asyncio.timeout(_START_TIMEOUT):
                ready = await worker._receive()
            assert isinstance(ready, Ready), "a worker says this first"
            worker._counted = ready.cpu
        except TimeoutError:
            await worker.end()
            raise WorkerDied(f"it was not ready after {_START_TIMEOUT:g} s") from None
        except BaseException:
            await worker.end()  # the process is killed, so this returns soon
            raise
        return worker

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if the process has not ended."""
        return not self._ended.done()

    async def ask(self, work: AnyWork, handle: Hear) -> Done | WorkFailure:
        """Run a work in the process. Raises WorkerDied."""
        self._writer.write(framed(Ask(work)))
        while True:
            match message := await self._receive():
                case WorkProgress():
                    handle(message.far)
                case Done() | WorkFailure():
                    return message
                case Ready():
                    raise AssertionError("a worker says this once")
                case _:
                    assert_never(message)

    def used(self, total: float | None) -> float:
        """Count CPU seconds up to a total. Returns those that were not counted before."""
        if total is None:
            return 0.0
        before, self._counted = self._counted, max(total, self._counted)
        return self._counted - before

    def kill(self) -> None:
        """Kill the process. No effect if it has ended."""
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def end(self) -> float:
        """Kill the process and wait until it has exited. Returns the CPU seconds that were not counted before."""
        self.kill()
        ended = await asyncio.shield(self._ended)
        if hasattr(self, "_writer"):
            self._writer.close()
        self._errors.close()
        return self.used(ended.cpu)

    async def _receive(self) -> Ready | WorkProgress | Done | WorkFailure:
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            assert size <= FRAME_MAX, "a worker sends no longer frames"
            return _READER.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.kill()
            ended = await asyncio.shield(self._ended)
            self._errors.seek(0)
            told = self._errors.read()[-_TAIL:].decode("utf-8", "replace").strip()
            raise WorkerDied(f"{describe_status(ended.status)}{': ' if told else ''}{told}") from None

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        try:
            _, status, used = os.wait4(self.pid, 0)
        except ChildProcessError:
            ended = _Ended(None, None)
        else:
            ended = _Ended(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)
        self._process.returncode = -1 if ended.status is None else ended.status
        with suppress(RuntimeError):  # the loop is closed, and no request waits
            self._loop.call_soon_threadsafe(self._ended.set_result, ended)


def _abandon(spawned: asyncio.Future[subprocess.Popen[bytes]], errors: IO[bytes]) -> None:
    """Reap a process that no request waits for, as soon as it ends."""
    errors.close()
    if not spawned.cancelled() and spawned.exception() is None:
        WorkerProcess(spawned.result(), errors)


def _spawn(there: socket.socket, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    with there:
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", BOOTSTRAP, json.dumps(sys.path)],
            env={name: text for name, text in os.environ.items() if not name.startswith(SECRET_PREFIX)} | _ENVIRONMENT,
            stdin=there.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
