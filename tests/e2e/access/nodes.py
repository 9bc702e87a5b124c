"""A real node with its web server, its tokens, and requests to it over sockets of their own."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Final

from itinerary.model.scopes import Scope
from itinerary.operations.tokens import create, revoke
from itinerary.stores.urls import open_store
from tests.e2e.cli.program import PATIENCE, Program

__all__ = ["STORE", "Answer", "ask", "live", "make_token", "node", "port_of", "rest_of", "revoke_token", "status_line"]

STORE: Final = "sqlite:///runs.db"
APP: Final = """
from itinerary import Itinerary, every

app = Itinerary()


@app.job(every("1h"))
def hourly() -> None: ...
"""


@dataclass(frozen=True)
class Answer:
    """An answer, with the first of all headers of one name."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@contextmanager
def node(folder: Path, settings: str = "", web: str = "127.0.0.1:0") -> Iterator[str]:
    """Run a node with its web server on loopback. Yields its address."""
    (folder / "app.py").write_text(APP, "utf-8")
    (folder / "itinerary.toml").write_text(settings, "utf-8")
    with Program(folder, "up", "app.py", "--store", STORE, web=web) as running:
        line = running.until(lambda line: "dashboard on" in line)
        found = re.search(r"http://(\S+:\d+)", line)
        assert found is not None
        yield found[1]
        running.signal(signal.SIGTERM)
        assert running.end() == 0


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def make_token(folder: Path, name: str = "me", scope: Scope = Scope.ADMIN, expires: str | None = "1h") -> str:
    """Make a token in the store of a folder, whether a node runs there or not. Returns its text."""

    async def run() -> str:
        async with open_store(_url(folder)) as store:
            return (await create(store, name, scope, by="tests", expires=expires)).text

    return asyncio.run(run())


def revoke_token(folder: Path, name: str = "me") -> None:
    """Revoke a token in the store of a folder."""

    async def run() -> None:
        async with open_store(_url(folder)) as store:
            await revoke(store, name, by="tests")

    asyncio.run(run())


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'runs.db'}"


def ask(
    address: str, path: str, headers: Mapping[str, str] | None = None, method: str = "GET", body: str | None = None
) -> Answer:
    """Send one request. A header `Host` takes the place of the address's own."""
    connection = HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
    finally:
        connection.close()


@contextmanager
def live(address: str, path: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
    """Open a live page or a stream, and read its first line. Yields the rest: to be read until its end."""
    connection = HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Accept": "text/event-stream", **headers})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.readline(), "it begins at once"
        yield answer
    finally:
        connection.close()


def rest_of(followed: HTTPResponse) -> str:
    """Read a stream until its end. Fails if it does not end: its signs of life would keep a plain read waiting."""
    deadline, told = time.monotonic() + PATIENCE, ""
    while line := followed.readline():
        told += line.decode()
        assert time.monotonic() < deadline, f"it goes on: {told}"
    return told


def status_line(
    port: int, head: str, *, user: int | None = None, host: str = "127.0.0.1", source: str | None = None
) -> int:
    """Send the head of a request, as a user of this machine. Returns the status of the answer.

    A request as this process's own user is sent from here, since a process for each takes long; one as another user
    is sent by a shell of that user.
    """
    if user is None:
        with socket.create_connection((host, port), PATIENCE, None if source is None else (source, 0)) as connection:
            connection.sendall(head.encode("latin-1"))
            told = b""
            with suppress(ConnectionResetError):
                while b"\r\n" not in told and (more := connection.recv(4_096)):
                    told += more
    else:
        script = 'exec 3<>/dev/tcp/$3/$1 && printf "%s" "$2" >&3 && head -n 1 <&3'
        told = subprocess.run(  # noqa: S603 - our own
            ["/bin/bash", "-c", script, "bash", str(port), head, host],
            stdout=subprocess.PIPE,
            check=True,
            timeout=PATIENCE,
            user=user,
            cwd="/",
        ).stdout
    assert told.startswith(b"HTTP/1."), told
    return int(told.split()[1])
