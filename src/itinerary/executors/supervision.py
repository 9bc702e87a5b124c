"""Supervision of a node's children: they end with the node, even if the node is killed with SIGKILL.

    spawn ──► wait for the children of killed nodes ──► record in the table ──► start ──► add the process group
    forget ─► clear the record: the child has ended, and processes that it left running on purpose are left alone

The first child starts the supervisor, one per node (see `supervisor`, which also explains the table and its locks). All
tables of a user are in one directory, so a node sees the tables of other nodes on its machine. A node reads them before
it starts a child:

    byte 0 is locked           the node of this table is alive
    only byte 1 is locked      the node is dead, and its supervisor is ending its children: wait for that
    no byte is locked          both are dead (a supervisor can be killed, too): end the children here, by their mark

A command that runs again on the same machine therefore never starts before the first copy is gone. On another machine,
the time until a node is declared dead is far longer than the supervisor needs.

There are two possible failures: the directory is not writable, or no interpreter can be started (a frozen program has
none). Children then run without a supervisor, and the log says so once.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import structlog

from itinerary.executors import supervisor
from itinerary.executors.subprocesses import spawn
from itinerary.executors.supervisor import (
    AT_ONCE,
    MARK,
    NODE_BYTE,
    RECORD,
    SUPERVISOR_BYTE,
    end_children,
    lock,
    running,
)

__all__ = ["Supervision", "directory"]

_READY_TIMEOUT: Final = 30.0
"""Seconds that a supervisor may take to start: the machine may be busy."""
_NEIGHBOURS_TIMEOUT: Final = 40.0
"""Seconds that a start waits for the children of a killed node: longer than a supervisor tries."""
_LOOK_INTERVAL: Final = 0.01
_COARSE: Final = 2_000_000_000
_RECORDS_AT_FIRST: Final = 4_096
"""Records that are allocated at the start, so that a full disk later does not stop the start of children."""
_RESTARTS_MAX: Final = 10
"""The most replacements of a dead supervisor. After more deaths, supervision is not possible on this machine."""
_END_TIMEOUT: Final = 5.0

_log: Final = structlog.stdlib.get_logger()
_own: Final[set[str]] = set()
"""The tables of this process. Record locks belong to a process, so it must not test its own."""


class Supervision:
    """The start of a node's children, which then end with the node. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._table: _Table | None = None
        self._neighbours = _Neighbours()
        self._supervisor: _Supervisor | None = None
        self._restarts = 0
        self._is_broken = False

    def spawn(
        self, arguments: Sequence[str], *, env: Mapping[str, str] | None = None, at_once: bool = False, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a child like `subprocesses.spawn`. Call `forget` when it has ended.

        Args:
            arguments: The program and its arguments.
            env: The environment; None for that of the node.
            at_once: True to send SIGKILL when the node dies, without SIGTERM and a second of grace before.
            options: Other arguments of `subprocesses.spawn`.
        """
        table = self._ready()
        if table is None:
            return spawn(arguments, env=env, **options)
        self._neighbours.wait(table.directory)
        flag = AT_ONCE if at_once else 0
        number = table.reserve(flag)
        try:
            marked = {**(os.environ if env is None else env), MARK: f"{table.name}.{number}"}
            process = spawn(arguments, env=marked, **options)
        except BaseException:
            table.take_back(number)
            raise
        table.started(number, process.pid, flag)
        return process

    def forget(self, pid: int) -> None:
        """Clear the record of an ended child, before its pid can be reused."""
        table = self._table
        if table is not None:
            table.ended(pid)

    def open(self) -> None:
        """Count one more executor that starts children here."""
        with self._lock:
            self._users += 1

    def close(self) -> None:
        """End the supervisor, if no other executor uses it. Remaining children end with it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            (table, self._table), (process, self._supervisor) = (self._table, None), (self._supervisor, None)
        if process is not None:
            process.end()
        if table is not None:
            table.close()

    def _ready(self) -> _Table | None:
        """Return the table with a running supervisor; None if supervision is not possible."""
        with self._lock:
            if self._users <= 0:
                return None  # the executor was closed, and ends this child at once
            if self._supervisor is None and not self._is_broken:
                self._start()
            return None if self._is_broken else self._table

    def _start(self) -> None:
        try:
            if self._table is None:
                self._table = _Table()
            self._supervisor = _Supervisor(self._table, self._died)
        except OSError as error:
            self._is_broken = True
            _log.warning("children.unsupervised", error=str(error), hint="if the node is killed, its commands go on")

    def _died(self, which: _Supervisor) -> None:
        """Replace a supervisor that was killed, because the running children need one."""
        with self._lock:
            if self._supervisor is not which:
                return
            which.end()
            self._supervisor = None
            self._restarts += 1
            if self._restarts > _RESTARTS_MAX:
                self._is_broken = True
                _log.warning(
                    "children.unsupervised",
                    error=f"the supervisor has died {self._restarts} times",
                    hint="if the node is killed, its commands go on",
                )
                return
            _log.warning("children.supervisor_died", hint="another one is started")
            self._start()


class _Table:
    """The running children, in a file that outlives this process."""

    def __init__(self) -> None:
        self.name = uuid4().hex
        _own.add(self.name)
        self.path = directory() / self.name
        self.directory = str(self.path.parent)
        made = self.path.with_suffix(".new")
        file = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._file: int | None = file
        self._lock = threading.Lock()
        self._last = self._size = 0
        self._free: list[int] = []
        self._places: dict[int, int] = {}
        """The record of each child, by its number."""
        self._numbers: dict[int, int] = {}
        """The number of each child, by its process group."""
        try:
            os.pwrite(file, bytes(_RECORDS_AT_FIRST * RECORD.size), 0)
            lock(file, NODE_BYTE)
            made.rename(self.path)
        except BaseException:
            os.close(file)
            made.unlink(missing_ok=True)
            raise

    def reserve(self, flag: int = 0) -> int:
        """Write the record of a child before its start, and return its number."""
        with self._lock:
            self._last += 1
            if self._free:
                place = self._free.pop()
            else:
                place, self._size = self._size, self._size + 1
            self._places[self._last] = place
            self._write(place, self._last, flag)
            return self._last

    def started(self, number: int, group: int, flag: int = 0) -> None:
        """Add the process group of a child, which is the pid of the child."""
        with self._lock:
            self._numbers[group] = number
            self._write(self._places[number], number, group | flag)

    def ended(self, group: int) -> None:
        """Clear the record of a child that has ended."""
        with self._lock:
            number = self._numbers.pop(group, None)
            if number is not None:
                self._clear(number)

    def take_back(self, number: int) -> None:
        """Clear the record of a child that could not be started."""
        with self._lock:
            self._clear(number)

    def close(self) -> None:
        """Close the file. The supervisor has removed it, unless the supervisor was killed."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None
        _own.discard(self.name)

    def _clear(self, number: int) -> None:
        place = self._places.pop(number)
        self._write(place, 0, 0)
        self._free.append(place)

    def _write(self, place: int, number: int, group: int) -> None:
        if self._file is not None:
            os.pwrite(self._file, RECORD.pack(number, group), place * RECORD.size)


class _Supervisor:
    """The process of the supervisor."""

    def __init__(self, table: _Table, died: Callable[[_Supervisor], None]) -> None:
        """Start the process. `died` is called in another thread if the process ends without a request."""
        script = Path(supervisor.__file__)
        if getattr(sys, "frozen", False) or not sys.executable or not script.is_file():
            raise OSError("this program has no Python interpreter that could run a supervisor")
        self._pipe, its = socket.socketpair()
        try:
            with its:
                arguments = [sys.executable, "-I", "-S", str(script), str(table.path), str(os.getpid())]
                self._process = subprocess.Popen(  # noqa: S603 - our own script
                    [*arguments, str(its.fileno())],
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=[its.fileno()],
                )
            self._wait_until_ready()
        except BaseException:
            self._pipe.close()
            raise
        self._pipe.settimeout(None)
        threading.Thread(target=self._watch, args=(died,), name="itinerary-supervisor", daemon=True).start()

    def _wait_until_ready(self) -> None:
        self._pipe.settimeout(_READY_TIMEOUT)
        try:
            is_ready = bool(self._pipe.recv(1))
        except TimeoutError:
            is_ready = False
        if not is_ready:
            self._process.kill()
            raise OSError(f"the supervisor did not start: {sys.executable} ended with {self._process.wait()}")

    def _watch(self, died: Callable[[_Supervisor], None]) -> None:
        with suppress(OSError):
            self._pipe.recv(1)  # no message follows: this returns when one side closes
        died(self)

    def end(self) -> None:
        """Close the pipe: the supervisor then ends the remaining children and itself."""
        with suppress(OSError):
            self._pipe.shutdown(socket.SHUT_RDWR)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT)
        self._pipe.close()


def directory() -> Path:
    """Return the directory of this user's tables, and create it if necessary.

    Raises OSError if it is not safe to use.
    """
    path = _place()
    with suppress(FileExistsError):
        path.mkdir(0o700)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise PermissionError(f"{path}: it is not a directory that only this user can write")
    return path


def _place() -> Path:
    return Path(tempfile.gettempdir(), f"itinerary-{os.geteuid()}")


# -- the children of other nodes ---------------------------------------------------------------------------------------


class _Neighbours:
    """The other nodes of this user on this machine."""

    def __init__(self) -> None:
        self._none_since: int | None = None
        """When the directory was last changed, if it had no table of another process then."""

    def wait(self, tables: str) -> None:
        """Wait until the children of killed nodes are gone. `tables` is the directory of all tables."""
        try:
            names = self._names(tables)
        except OSError:
            return  # the directory was removed
        deadline = time.monotonic() + _NEIGHBOURS_TIMEOUT
        for name in names:
            while not _is_settled(Path(tables, name)):
                if time.monotonic() > deadline:
                    hint = "they hang in the kernel; this node goes on"
                    _log.warning("children.still_running", table=name, hint=hint)
                    return
                time.sleep(_LOOK_INTERVAL)

    def _names(self, tables: str) -> list[str]:
        changed_at = os.stat(tables).st_mtime_ns  # noqa: PTH116 - for speed: this runs for every child
        if changed_at == self._none_since:
            return []
        found = [name for name in os.listdir(tables) if name not in _own and "." not in name]  # noqa: PTH208 - speed
        # The file system's clock is coarse: a recent change and a later one can have the same time.
        is_certain = not found and time.time_ns() - changed_at > _COARSE
        self._none_since = changed_at if is_certain else None
        return found


def _is_settled(path: Path) -> bool:
    """True if the node of this table is alive, or none of its children is left."""
    with _opened(path) as file:
        if file is None or not lock(file, NODE_BYTE, shared=True):
            return True
        if not lock(file, SUPERVISOR_BYTE):
            return False
        # Both the node and its supervisor were killed, so this process has to end the children.
        if not end_children(path.name, running(file), trust_groups=False):
            return False
        path.unlink(missing_ok=True)
        return True


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        yield None  # the file has just been removed
        return
    try:
        yield file
    finally:
        os.close(file)
