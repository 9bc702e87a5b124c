"""A proxy between a client and PostgreSQL that loses a COMMIT, or the answer to one.

    "commit"    the COMMIT itself is lost: both ends find the connection broken
    "answer"    the server gets the COMMIT and answers it; the client finds the connection broken instead
    "patience"  the server gets the COMMIT; the client finds the connection broken while the server still works on it

It relays until it is armed (`loses`), and does this once: the engine's own transactions end in COMMIT too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

__all__ = ["Proxy", "proxied"]

_CHUNK = 1 << 16


class Proxy:
    """Where clients connect to."""

    def __init__(self, server_socket: str) -> None:
        self._server_socket = server_socket
        self.loses: str | None = None
        """What is lost next."""
        self._clients: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, to its end or to its loss."""
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        answers, server = await asyncio.open_unix_connection(self._server_socket)
        back = asyncio.create_task(_copy(answers, writer))
        try:
            await self._relay(reader, server, answers, back)
        except ConnectionError:
            pass  # one of the ends has gone
        finally:
            back.cancel()
            await asyncio.wait([back])
            for side in (writer, server):
                side.close()
                with suppress(ConnectionError):
                    await side.wait_closed()
            self._clients.discard(task)

    async def close(self) -> None:
        """Wait for the last to leave; who uses a proxy closes what goes through it first."""
        await asyncio.gather(*self._clients)

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        back: asyncio.Task[None],
    ) -> None:
        while data := await reader.read(_CHUNK):
            loses = self.loses if b"COMMIT" in data else None
            if loses is None:
                server.write(data)
                await server.drain()
                continue
            self.loses = None
            back.cancel()
            await asyncio.wait([back])
            if loses != "commit":
                server.write(data)
                await server.drain()
            if loses == "answer":
                await answers.read(_CHUNK)
            return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy to the database at this URL, and the URL of that database through it."""
    parts = urlsplit(url)
    (directory,) = parse_qs(parts.query)["host"]
    proxy = Proxy(f"{directory}/.s.PGSQL.5432")
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield (
            proxy,
            f"postgresql://{parts.username}:{parts.password or ''}@127.0.0.1:{port}{parts.path}?sslmode=disable",
        )
    finally:
        server.close()
        await proxy.close()
