"""A pooler for tests: like PgBouncer in transaction mode, as far as it matters to a client.

    client ──► pooler ──► one of several sessions, another one for each transaction

It logs in for everybody, announces a process of its own making, and gives the session back when the server says that no
transaction is open and all that was asked is answered. To be hard on its clients it takes the session that was used
longest ago, so that the next transaction is never where the last one was.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

__all__ = ["Pooler", "pooled"]

_SSL_REQUEST: Final = 80877103
_GSS_REQUEST: Final = 80877104
_CANCEL_REQUEST: Final = 80877102
_ASKS_FOR_READY: Final = b"QS"


class _Side:
    """A connection, to a client or to the server. A message that is on its way stays so until it is taken."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._coming: asyncio.Task[tuple[bytes, bytes]] | None = None
        self.greeting = b""
        """What the server said about itself: encodings, version, and so on."""

    def coming(self) -> asyncio.Task[tuple[bytes, bytes]]:
        if self._coming is None:
            self._coming = asyncio.create_task(_message(self.reader))
        return self._coming

    async def take(self) -> tuple[bytes, bytes]:
        message = await self.coming()
        self._coming = None
        return message

    def send(self, kind: bytes, body: bytes) -> None:
        self.writer.write(kind + struct.pack(">i", len(body) + 4) + body)

    async def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait([self._coming])
            with suppress(asyncio.CancelledError):
                self._coming.exception()
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Pooler:
    """Where clients connect to, and how many transactions it has seen."""

    def __init__(self, server_socket: str, sessions: int) -> None:
        self._server_socket = server_socket
        self._count = sessions
        self._sessions: deque[_Side] = deque()
        self._free = asyncio.Semaphore(0)
        self._logging_in = asyncio.Lock()
        self._clients: set[asyncio.Task[None]] = set()
        self._greeting = b""
        self.transactions = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from its first byte to its last."""
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        client = _Side(reader, writer)
        try:
            startup = await _startup(reader, writer)
            if startup is None:
                return
            await self._log_in(startup)
            client.send(b"R", struct.pack(">i", 0))
            writer.write(self._greeting)
            client.send(b"K", struct.pack(">ii", 1, 1))
            client.send(b"Z", b"I")
            while await self._transaction(client):
                self.transactions += 1
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            return  # the client is gone, or the pooler is closing
        finally:
            self._clients.discard(task)
            await client.close()

    async def close(self) -> None:
        """Have all go."""
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients)
        for session in self._sessions:
            await session.close()

    async def _log_in(self, startup: bytes) -> None:
        """Make all sessions, as the first client would have logged in."""
        async with self._logging_in:
            while self._count > 0:
                session = _Side(*await asyncio.open_unix_connection(self._server_socket))
                self._sessions.append(session)
                session.writer.write(struct.pack(">i", len(startup) + 4) + startup)
                kind, greeting = b"", b""
                while kind != b"Z":
                    kind, body = await session.take()
                    if kind == b"E":
                        raise ConnectionError(body.decode(errors="replace"))
                    if kind == b"S":
                        greeting += kind + struct.pack(">i", len(body) + 4) + body
                self._greeting = greeting
                self._count -= 1
                self._free.release()

    async def _transaction(self, client: _Side) -> bool:
        """Relay one transaction. False: the client has said goodbye instead."""
        kind, body = await client.take()
        if kind == b"X":
            return False
        await self._free.acquire()
        session = self._sessions.popleft()
        try:
            await _relay(kind, body, client, session)
        finally:
            self._sessions.append(session)
            self._free.release()
        return True


async def _relay(kind: bytes, body: bytes, client: _Side, session: _Side) -> None:
    session.send(kind, body)
    asked = int(kind in _ASKS_FOR_READY)
    while True:
        await asyncio.wait([client.coming(), session.coming()], return_when=asyncio.FIRST_COMPLETED)
        if client.coming().done():
            kind, body = await client.take()
            session.send(kind, body)
            asked += kind in _ASKS_FOR_READY
        elif session.coming().done():
            kind, body = await session.take()
            client.send(kind, body)
            asked -= kind == b"Z"
            if kind == b"Z" and body == b"I" and asked == 0:
                return


async def _startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    while True:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        startup = await reader.readexactly(length - 4)
        (code,) = struct.unpack(">i", startup[:4])
        if code == _CANCEL_REQUEST:
            return None
        if code not in (_SSL_REQUEST, _GSS_REQUEST):
            return startup
        writer.write(b"N")


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


@asynccontextmanager
async def pooled(server_socket: str, *, sessions: int = 3) -> AsyncIterator[tuple[Pooler, int]]:
    """A pooler on a free port of this machine."""
    pooler = Pooler(server_socket, sessions)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    try:
        yield pooler, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await pooler.close()
