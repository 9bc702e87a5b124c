"""The wire between one node and the database: it can be cut, and mended.

While it is cut nothing comes through in either direction, and nobody is told: a connection that is open stays open and
is silent, and a new one is accepted by nobody who answers. That is how a network fails. When it is mended, what was
open breaks, and new connections get through.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

__all__ = ["Wire"]

_CHUNK: Final = 1 << 16


class Wire:
    """A way to the database at a URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        (directory,) = parse_qs(parts.query)["host"]
        self._socket = f"{directory}/.s.PGSQL.5432"
        self._parts = parts
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """The URL of the database through this wire."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}:{self._parts.password or ''}"
        return f"postgresql://{user}@127.0.0.1:{port}{self._parts.path}?sslmode=disable"

    async def close(self) -> None:
        """End everything."""
        assert self._server is not None, "it was opened"
        self._server.close()
        self.mend()
        await asyncio.gather(*self._open, return_exceptions=True)

    def cut(self) -> None:
        """Nothing comes through any more."""
        self._is_whole.clear()

    def mend(self) -> None:
        """What was open breaks; what comes now gets through."""
        for connection in self._open:
            connection.cancel()
        self._is_whole.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "it is one"
        self._open.add(task)
        sides = [writer]
        try:
            await self._is_whole.wait()
            answers, server = await asyncio.open_unix_connection(self._socket)
            sides.append(server)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, server))
                group.create_task(self._copy(answers, writer))
        except* (OSError, asyncio.CancelledError):
            pass  # the server is away, or the wire was cut
        finally:
            for side in sides:
                side.transport.abort()
            self._open.discard(task)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            await self._is_whole.wait()
            writer.write(data)
            await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.close()
            await writer.wait_closed()
        raise ConnectionError("one end has gone, so the other goes too")
