"""The SQLite engine: one writer's thread with group commit, a few readers, and a look at the file for who watches.

    write ──► Writer ──► SqliteSession      everything that waits, in one transaction; one wait for the disk
    read  ──► Readers                       beside the writer, from the file as it was
    watch ──► Bell, Lookout                 rung by our own writer; has anybody else committed anything?

Several processes may use one file: whoever writes holds it (`BEGIN IMMEDIATE`), and the others wait up to
`busy_timeout`. Its clock is the machine's, which all of them share.

An engine does not survive a fork (see `forks`): using or opening it in the child raises.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Final, NamedTuple, get_args

from itinerary.errors import ConfigError, StoreError, StoreUnavailable
from itinerary.ports import TaskTransaction
from itinerary.stores.base import POLL_INTERVAL, Engine, SchemaSeen, T, Work
from itinerary.stores.memory import wall_clock
from itinerary.stores.news import Bell
from itinerary.stores.sqlite import schema
from itinerary.stores.sqlite.connections import Synchronous
from itinerary.stores.sqlite.forks import HOW_TO, FileId, check_not_inherited, closed, opened
from itinerary.stores.sqlite.readers import Readers
from itinerary.stores.sqlite.session import SqliteSession
from itinerary.stores.sqlite.statements import SIZES
from itinerary.stores.sqlite.tasks import refuse_inside, task_transaction
from itinerary.stores.sqlite.watching import Lookout
from itinerary.stores.writer import Writer

__all__ = ["BUSY_TIMEOUT", "SqliteEngine"]

BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for another process that writes."""


class _Open(NamedTuple):
    """What an engine has while it is open."""

    writer: Writer
    readers: Readers
    file: FileId
    process: int


class SqliteEngine(Engine):
    """A store in one file."""

    rehearses_with = sum(SIZES)
    """So many go through one statement of each size, and so every statement is parsed."""

    def __init__(
        self,
        path: Path | str,
        *,
        synchronous: Synchronous = "full",
        busy_timeout: float = BUSY_TIMEOUT,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        if synchronous not in get_args(Synchronous):
            allowed = ", ".join(get_args(Synchronous))
            raise ConfigError(f"synchronous: {synchronous!r} is none of {allowed}")
        if not 0 <= busy_timeout <= 3600:
            raise ConfigError(f"busy_timeout: {busy_timeout} is out of range 0-3600 seconds")
        self._path = Path(path).absolute()
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._clock = clock
        self._bell = Bell()
        self._open: _Open | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    async def open(self) -> None:
        if self._open is not None:
            self._opened()
            return
        check_not_inherited(self._path)
        writer = Writer(str(self._path), self._session)
        await writer.start()
        readers = Readers(self._path, busy_timeout=self._busy_timeout, clock=self._clock)
        self._open = _Open(writer, readers, opened(self._path), os.getpid())

    async def schema(self) -> SchemaSeen:
        return await asyncio.to_thread(schema.seen, self._path, self._busy_timeout)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._path.with_name(self._path.name + end) for end in ("", "-wal", "-shm"))

    async def warnings(self) -> list[str]:
        if self._synchronous != "normal":
            return []
        why = "a loss of power can forget the last starts, and they would start again"
        return [f"synchronous is normal: {why}; leave ?synchronous=normal out of the store's URL"]

    async def close(self) -> None:
        was_open, self._open = self._open, None
        if was_open is None or was_open.process != os.getpid():
            return
        await was_open.writer.close()
        await was_open.readers.close()
        closed(was_open.file)

    async def write(self, work: Work[T]) -> T:
        refuse_inside(self.url)
        return await self._opened().writer.run(work)

    async def read(self, work: Work[T]) -> T:
        return await self._opened().readers.run(work)

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        parts = self._opened()
        return task_transaction(self.url, parts.writer, parts.readers, end, timeout)

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Our own writer rings; what other processes have written is looked for now and then."""
        readers = self._opened().readers
        lookout = await readers.call(lambda: Lookout(self._path, self._busy_timeout))
        with closing(lookout), self._bell.listening() as rung:

            async def next_look() -> None:
                while not await readers.call(lookout.has_news):
                    # Not wait_for: up to Python 3.11 it loses a cancellation that comes just as the bell rings.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_INTERVAL):
                            await rung.wait()
                    rung.clear()

            yield next_look

    def _session(self) -> SqliteSession:
        return SqliteSession(
            self._path,
            synchronous=self._synchronous,
            busy_timeout=self._busy_timeout,
            clock=self._clock,
            on_told=self._bell.ring,
        )

    def _opened(self) -> _Open:
        if self._open is None:
            raise StoreUnavailable(f"{self.url} is not open")
        if self._open.process != os.getpid():
            raise StoreError(f"{self.url} was opened by process {self._open.process}, before a fork: {HOW_TO}")
        return self._open
