"""The SQLite engine: one writer thread with group commit, a few reader threads, and a watch on the file.

    write ──► Writer ──► SqliteSession      all waiting work in one transaction; one wait for the disk
    read  ──► Readers                       in parallel with the writer, from the last committed state
    watch ──► Bell, CommitPoller            rung by our own writer; has another process committed anything?

On a full disk an existing store can be opened and read (`read_only`). Writes are refused with StoreFull until there is
room. Then they succeed again, without reopening the store.

Several processes may use one file: the one that writes locks it (`BEGIN IMMEDIATE`), and the others wait up to
`busy_timeout`. The clock is that of the machine, which all of them share.

A disk that does not answer blocks a thread that nothing can stop. Callers get StoreUnavailable if nothing was answered
for `busy_timeout` plus `answer_timeout`.

An engine does not survive a fork (see `forks`): using or opening it in the child raises.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Final, NamedTuple, get_args

from itinerary.errors import ConfigError, StoreError, StoreFull, StoreUnavailable
from itinerary.ports import TaskTransaction
from itinerary.stores.engine import (
    ANSWER_TIMEOUT,
    POLL_INTERVAL,
    Engine,
    SchemaSeen,
    T,
    Work,
    check_answer_timeout,
)
from itinerary.stores.group_commit import Writer
from itinerary.stores.memory import wall_clock
from itinerary.stores.notifications import Bell
from itinerary.stores.ownership import PRIVATE, Trust, check_files
from itinerary.stores.sqlite import schema
from itinerary.stores.sqlite.connections import Synchronous, store_files
from itinerary.stores.sqlite.file_watch import CommitPoller
from itinerary.stores.sqlite.forks import HOW_TO, FileId, check_not_inherited, closed, opened
from itinerary.stores.sqlite.read_only import ExclusiveReader
from itinerary.stores.sqlite.readers import Readers
from itinerary.stores.sqlite.session import SqliteSession
from itinerary.stores.sqlite.statements import SIZES
from itinerary.stores.sqlite.task_transaction import refuse_inside, task_transaction
from itinerary.stores.threads import in_thread

__all__ = ["BUSY_TIMEOUT", "SqliteEngine"]

_MIGRATION_TIMEOUT: Final = 600.0
"""Seconds for an upgrade of the schema."""

BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for another process that writes."""


class _Open(NamedTuple):
    """The parts of an open engine."""

    writer: Writer
    readers: Readers
    file: FileId
    process: int


class SqliteEngine(Engine):
    """A store in one file."""

    warm_up_size = sum(SIZES)
    """This many occurrences use one statement of each size, so SQLite parses every statement."""

    def __init__(
        self,
        path: Path | str,
        *,
        synchronous: Synchronous = "full",
        busy_timeout: float = BUSY_TIMEOUT,
        answer_timeout: float = ANSWER_TIMEOUT,
        clock: Callable[[], int] = wall_clock,
        trust: Trust = PRIVATE,
    ) -> None:
        """Create the engine. `trust` names the users who may change the files, besides root and the current user."""
        if synchronous not in get_args(Synchronous):
            allowed = ", ".join(get_args(Synchronous))
            raise ConfigError(f"synchronous: {synchronous!r} is none of {allowed}")
        if not 0 <= busy_timeout <= 3600:
            raise ConfigError(f"busy_timeout: {busy_timeout} is out of range 0-3600 seconds")
        self._path = Path(path).absolute()
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._answer_timeout = busy_timeout + check_answer_timeout(answer_timeout)
        self._clock = clock
        self._trust = trust
        self._bell = Bell()
        self._open: _Open | None = None
        self._alone: ExclusiveReader | None = None
        """The reader of a store that could not be opened fully, because its disk is full."""
        self._opening = asyncio.Lock()

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    async def open(self) -> None:
        if self._open is not None:
            self._opened()
            return
        check_not_inherited(self._path)
        try:
            await self._open_in_full()
        except StoreFull:
            alone = self._read_alone()
            if not self._path.stat().st_size or (await alone.seen()).found != schema.NUMBER:
                raise
            self._alone = alone

    async def _open_in_full(self) -> None:
        writer = Writer(
            str(self._path),
            lambda: self._session(lambda: writer.allow(_MIGRATION_TIMEOUT)),
            answer_timeout=self._answer_timeout,
        )
        await writer.start()
        readers = Readers(
            self._path, busy_timeout=self._busy_timeout, answer_timeout=self._answer_timeout, clock=self._clock
        )
        self._open, self._alone = _Open(writer, readers, opened(self._path), os.getpid()), None

    async def schema(self) -> SchemaSeen:
        try:
            return await in_thread(self._seen, self._answer_timeout, str(self._path))
        except StoreFull:
            return await self._read_alone().seen()

    def _seen(self) -> SchemaSeen:
        check_files(store_files(self._path), self._trust)
        return schema.seen(self._path, self._busy_timeout)

    def _read_alone(self) -> ExclusiveReader:
        return ExclusiveReader(
            self._path, busy_timeout=self._busy_timeout, answer_timeout=self._answer_timeout, clock=self._clock
        )

    @property
    def file_mode(self) -> int:
        return self._trust.file_mode

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._path.with_name(self._path.name + end) for end in ("", "-wal", "-shm"))

    async def warnings(self) -> list[str]:
        if self._synchronous != "normal":
            return []
        why = "a loss of power can forget the last starts, and they would start again"
        return [f"synchronous is normal: {why}; leave ?synchronous=normal out of the store's URL"]

    async def close(self) -> None:
        was_open, self._open, self._alone = self._open, None, None
        if was_open is None or was_open.process != os.getpid():
            return
        ended, left = await asyncio.gather(was_open.writer.close(), was_open.readers.close())
        if left := left + (not ended):
            self.say_left_behind(left, "the disk or a lock")
        closed(was_open.file)

    async def write(self, work: Work[T]) -> T:
        refuse_inside(self.url)
        return await (await self._opened_in_full()).writer.run(work)

    async def read(self, work: Work[T]) -> T:
        alone = self._alone
        if alone is None:
            return await self._opened().readers.run(work)
        try:
            return await (await self._opened_in_full()).readers.run(work)
        except StoreFull:
            return await alone.read(work)

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        parts = self._opened()
        return task_transaction(self.url, parts.writer, parts.readers, end, timeout)

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Wait for the bell of our own writer, and poll at intervals for commits of other processes."""
        readers = (await self._opened_in_full()).readers
        lookout = await readers.call(lambda: CommitPoller(self._path, self._busy_timeout))
        with closing(lookout), self._bell.listening() as rung:

            async def next_look() -> None:
                while not await readers.call(lookout.has_news):
                    # Not wait_for: up to Python 3.11 it loses a cancellation that arrives at the moment of the bell.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_INTERVAL):
                            await rung.wait()
                    rung.clear()

            yield next_look

    def _session(self, on_migration: Callable[[], None]) -> SqliteSession:
        return SqliteSession(
            self._path,
            synchronous=self._synchronous,
            busy_timeout=self._busy_timeout,
            clock=self._clock,
            on_told=self._bell.ring,
            on_migration=on_migration,
            trust=self._trust,
        )

    async def _opened_in_full(self) -> _Open:
        """Open the store fully, if that was not possible before. Raises StoreFull if the disk still has no room."""
        if self._alone is not None:
            async with self._opening:
                if self._alone is not None:
                    await self._open_in_full()
        return self._opened()

    def _opened(self) -> _Open:
        if self._alone is not None:
            raise StoreFull(f"{self._path}: its disk has no room for more than reading; make some")
        if self._open is None:
            raise StoreUnavailable(f"{self.url} is not open")
        if self._open.process != os.getpid():
            raise StoreError(f"{self.url} was opened by process {self._open.process}, before a fork: {HOW_TO}")
        return self._open
