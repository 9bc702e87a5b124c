"""A TCP proxy between a node and PostgreSQL whose faults a test switches on and off while it runs.

    node ──► 127.0.0.1:port ──► proxy (a thread of the test's process) ──► the server's socket

How to use it, from any thread and from any event loop; each method has taken effect when it returns:

    with Proxy(url) as proxy:              # url: the database's own, on a unix socket or on TCP
        open_store(proxy.url)              # the same database, through the proxy
        proxy.drop()                       # bytes vanish in both directions, sockets stay open
        proxy.stall()                      # nothing is read in either direction, sockets stay open
        proxy.half_open("answers")         # requests arrive, answers are lost; "requests": the reverse
        proxy.stall("new")                 # new connections are accepted and get no answer; open ones work
        proxy.delay(0.2)                   # each chunk waits for 0.2 s
        proxy.heal()                       # pass everything again; what stalled is delivered, what was dropped is lost
        proxy.cut()                        # reset every open connection (RST); new ones are accepted as before
        proxy.cut_at_commit("answered")    # the next COMMIT stands, and its answer is lost with the connection

`drop`, `stall`, `half_open`, `delay` and `heal` take the connections that they apply to: "all" (the default), "open"
(only those that exist now) or "new" (only those that are accepted from now on). `drop`, `stall`, `half_open` and `cut`
take `count` as well: that many of the open connections, chosen at random.

`cut_at_commit(when, count)` arms the proxy for the next `count` COMMITs on any connection:

    "before"     the COMMIT is lost: the server undoes the transaction when it sees the end of the connection
    "forwarded"  the server is sent the COMMIT, and both ends are reset at once: whether it stands is open
    "answered"   the server commits and answers; the answer is lost and the client's connection is reset

The proxy reads the client's messages, so it recognises a COMMIT as a simple query, as a statement that is parsed and
executed, and as a prepared statement that is only bound and executed, in pipeline mode too. `commits_cut` counts those
that were hit.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

__all__ = ["Direction", "Proxy", "Scope", "When"]

A = TypeVar("A")
Direction = Literal["requests", "answers"]
Scope = Literal["all", "open", "new"]
When = Literal["before", "forwarded", "answered"]

_CHUNK: Final = 1 << 16
_CONTROL_FOR: Final = 30.0
"""Seconds in which the proxy's thread takes up a change; more means that the proxy itself is broken."""
_COMMIT_FOR: Final = 30.0
"""Seconds in which the server answers a COMMIT whose answer is to be lost."""
_UNTYPED_REQUESTS: Final = (80877103, 80877104)
"""SSL and GSS: asked before the session's first message, and answered by one byte."""


class _Fault(Enum):
    """What happens to the bytes of one direction."""

    PASS = auto()
    DROP = auto()
    STALL = auto()


class Proxy:
    """A way to the database at a URL, with faults."""

    def __init__(self, url: str) -> None:
        self._server = _address(url)
        self._parts = urlsplit(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._for_new = _Faults()
        self._listening: socket.socket | None = None
        self._armed: list[When] = []
        self._commits_cut = 0
        self._accepted = 0

    def __enter__(self) -> Self:
        listening = self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        listening.setblocking(False)
        self._port: int = listening.getsockname()[1]
        self._thread.start()
        self._in_loop(lambda: self._spawn(self._accept(listening)))
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_CONTROL_FOR)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONTROL_FOR)
        self._loop.close()

    @property
    def url(self) -> str:
        """The database's URL through the proxy."""
        user = f"{self._parts.username}:{self._parts.password or ''}"
        return f"postgresql://{user}@127.0.0.1:{self._port}{self._parts.path}?sslmode=disable&gssencmode=disable"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._in_loop(lambda: len(self._links))

    @property
    def accepted(self) -> int:
        """The number of connections that were ever accepted."""
        return self._in_loop(lambda: self._accepted)

    @property
    def commits_cut(self) -> int:
        """The number of COMMITs that `cut_at_commit` has hit."""
        return self._in_loop(lambda: self._commits_cut)

    # -- faults ------------------------------------------------------------------------------------------------------

    def drop(self, scope: Scope = "all", *, count: int | None = None) -> None:
        """Lose the bytes of both directions; sockets stay open."""
        self._apply(scope, count, requests=_Fault.DROP, answers=_Fault.DROP)

    def stall(self, scope: Scope = "all", *, count: int | None = None) -> None:
        """Read nothing in either direction; sockets stay open."""
        self._apply(scope, count, requests=_Fault.STALL, answers=_Fault.STALL)

    def half_open(self, lost: Direction, scope: Scope = "all", *, count: int | None = None) -> None:
        """Lose the bytes of one direction only."""
        if lost == "requests":
            self._apply(scope, count, requests=_Fault.DROP, answers=_Fault.PASS)
        else:
            self._apply(scope, count, requests=_Fault.PASS, answers=_Fault.DROP)

    def delay(self, seconds: float, scope: Scope = "all") -> None:
        """Hold each chunk for so long, in both directions."""
        self._apply(scope, None, delay=seconds)

    def heal(self, scope: Scope = "all") -> None:
        """Pass everything again, at once; forget a `cut_at_commit` that was not used."""
        self._in_loop(self._armed.clear)
        self._apply(scope, None, requests=_Fault.PASS, answers=_Fault.PASS, delay=0.0)

    def cut(self, *, count: int | None = None) -> None:
        """Reset open connections, at both ends."""

        def reset() -> None:
            for link in self._some(count):
                link.reset()

        self._in_loop(reset)

    def cut_at_commit(self, when: When = "answered", count: int = 1) -> None:
        """Arm the proxy for the next COMMITs; see the top of this module."""
        self._in_loop(lambda: self._armed.extend([when] * count))

    # -- in the proxy's thread ---------------------------------------------------------------------------------------

    def take_armed(self) -> When | None:
        """What to do to the COMMIT that has just been seen."""
        if not self._armed:
            return None
        self._commits_cut += 1
        return self._armed.pop(0)

    def _apply(self, scope: Scope, count: int | None, **changes: Any) -> None:
        def apply() -> None:
            faults = [link.faults for link in self._some(count)] if scope != "new" else []
            if scope != "open" and count is None:
                faults.append(self._for_new)
            for fault in faults:
                fault.change(**changes)

        self._in_loop(apply)

    def _some(self, count: int | None) -> list[_Link]:
        links = list(self._links)
        return links if count is None else random.sample(links, min(count, len(links)))

    def _in_loop(self, change: Callable[[], A]) -> A:
        async def run() -> A:
            return change()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_CONTROL_FOR)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            client, _ = await self._loop.sock_accept(listening)
            client.setblocking(False)
            self._accepted += 1
            self._spawn(self._serve(client))

    async def _serve(self, client: socket.socket) -> None:
        link = _Link(self, client, self._for_new.copy())
        self._links.add(link)
        try:
            await link.run(*self._server)
        finally:
            self._links.discard(link)

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()


class _Faults:
    """What happens to the bytes of one connection, or of those to come."""

    def __init__(self) -> None:
        self.requests = self.answers = _Fault.PASS
        self.delay = 0.0
        self._changed = asyncio.Event()

    def copy(self) -> _Faults:
        same = _Faults()
        same.requests, same.answers, same.delay = self.requests, self.answers, self.delay
        return same

    def change(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def unstalled(self, direction: Direction) -> None:
        """Wait until this direction does not stall."""
        while getattr(self, direction) is _Fault.STALL:
            await self._changed.wait()

    async def held(self) -> None:
        """Wait for the delay, and no longer than it is wanted."""
        if self.delay:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.delay):
                    await self._changed.wait()


class _Link:
    """One client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, faults: _Faults) -> None:
        self._proxy = proxy
        self._client = client
        self._server: socket.socket | None = None
        self.faults = faults
        self._messages = _Messages()
        self._loop = asyncio.get_running_loop()
        self._running = asyncio.current_task()

    def reset(self) -> None:
        """End both connections at once."""
        if self._running is not None:
            self._running.cancel()

    async def run(self, family: int, address: Any) -> None:
        """Relay until one end leaves or the link is reset."""
        try:
            server = self._server = socket.socket(family, socket.SOCK_STREAM)
            server.setblocking(False)
            await self._loop.sock_connect(server, address)
            async with asyncio.TaskGroup() as group:
                self._back = group.create_task(self._answers(server))
                group.create_task(self._requests(server))
        except* (OSError, asyncio.CancelledError):
            pass  # an end has left, the server is not there, or the link was reset
        finally:
            for end in (self._client, self._server):
                if end is not None:
                    _abort(end)

    async def _requests(self, server: socket.socket) -> None:
        while True:
            await self.faults.unstalled("requests")
            data = await self._loop.sock_recv(self._client, _CHUNK)
            await self.faults.held()
            await self.faults.unstalled("requests")
            if not data:
                raise ConnectionResetError("the client has left")
            is_passing = self.faults.requests is _Fault.PASS
            commits = list(self._messages.commits(data))
            if is_passing and commits and (when := self._proxy.take_armed()):
                await self._cut_at(server, data, when)
            if is_passing:
                await self._loop.sock_sendall(server, data)

    async def _cut_at(self, server: socket.socket, data: bytes, when: When) -> None:
        """Lose a COMMIT or the answer to it, and the connection."""
        self._back.cancel()
        await asyncio.wait([self._back])
        if when != "before":
            await self._loop.sock_sendall(server, data)
        if when == "answered":
            seen = b""
            async with asyncio.timeout(_COMMIT_FOR):
                while b"COMMIT\x00" not in seen and b"ROLLBACK\x00" not in seen:
                    answer = await self._loop.sock_recv(server, _CHUNK)
                    if not answer:
                        break
                    seen += answer
        raise ConnectionResetError(f"cut at a COMMIT: {when}")

    async def _answers(self, server: socket.socket) -> None:
        while True:
            await self.faults.unstalled("answers")
            data = await self._loop.sock_recv(server, _CHUNK)
            await self.faults.held()
            await self.faults.unstalled("answers")
            if not data:
                raise ConnectionResetError("the server has left")
            if self.faults.answers is _Fault.PASS:
                await self._loop.sock_sendall(self._client, data)


class _Messages:
    """The messages in a client's bytes, as far as is needed to see the COMMITs among them."""

    def __init__(self) -> None:
        self._pending = b""
        self._is_started = False
        self._statements: dict[bytes, bool] = {}
        """Whether a prepared statement is a COMMIT."""
        self._portals: dict[bytes, bool] = {}

    def commits(self, data: bytes) -> Iterator[bytes]:
        """Yield each message that commits and ends in these bytes."""
        self._pending += data
        while (message := self._next()) is not None:
            kind, body = message
            if kind == b"Q" and _is_commit(body):
                yield body
            elif kind == b"P":
                name, text, *_ = body.split(b"\x00", 2)
                self._statements[name] = _is_commit(text)
            elif kind == b"B":
                portal, name, *_ = body.split(b"\x00", 2)
                self._portals[portal] = self._statements.get(name, False)
            elif kind == b"E" and self._portals.get(body.split(b"\x00", 1)[0], False):
                yield body

    def _next(self) -> tuple[bytes, bytes] | None:
        head = 1 if self._is_started else 0
        if len(self._pending) < head + 4:
            return None
        (length,) = struct.unpack_from(">i", self._pending, head)
        if len(self._pending) < head + length:
            return None
        kind, body = self._pending[:head], self._pending[head + 4 : head + length]
        self._pending = self._pending[head + length :]
        if not self._is_started:
            self._is_started = struct.unpack(">i", body[:4])[0] not in _UNTYPED_REQUESTS
        return kind, body


def _is_commit(text: bytes) -> bool:
    return text.strip(b"\x00; \n").upper() in (b"COMMIT", b"END")


def _abort(end: socket.socket) -> None:
    """Close with a reset, so that the peer learns of it at its next byte at the latest."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def _address(url: str) -> tuple[int, Any]:
    parts = urlsplit(url)
    port = parts.port or 5432
    host = (parse_qs(parts.query).get("host") or [parts.hostname or "127.0.0.1"])[0]
    if host.startswith("/"):
        return socket.AF_UNIX, f"{host}/.s.PGSQL.{port}"
    return socket.AF_INET, (host, port)
