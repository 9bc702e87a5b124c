"""The store in an LMDB directory: one thread that writes, a few that read, and a bell for those who watch.

Writers do not hinder readers, nor readers the writer: a reader sees the store as it was when it began. A write is
durable when it is answered, a power cut included (`sync=True`). What is damaged outside of LMDB, by a file cut short
or a disk that cannot be read, shows itself in a memory map as a signal that ends the process; what helps then is a
backup (`mdb_copy` makes one while the store is in use).

LMDB waits without a limit for the lock of another process that writes, and a disk may not answer either. Nothing can
stop a thread that waits so. Callers get StoreUnavailable when nothing was answered for `answer_timeout`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from itinerary.errors import StoreError, StoreUnavailable
from itinerary.stores.engine import ANSWER_TIMEOUT, CLOSE_TIMEOUT, Engine, SchemaSeen, T, Work, check_answer_timeout
from itinerary.stores.group_commit import Writer
from itinerary.stores.lmdb.files import Directory, schema_in
from itinerary.stores.lmdb.session import READING_THREADS, LmdbSession, Map
from itinerary.stores.lmdb.transaction import LAYOUTS, SCHEMA
from itinerary.stores.memory import wall_clock
from itinerary.stores.notifications import Bell
from itinerary.stores.ownership import PRIVATE, Trust
from itinerary.stores.threads import DaemonThreads, in_thread

__all__ = ["MAP_MAX", "MAP_SIZE", "LmdbEngine"]

MAP_SIZE: Final = 256 << 20
"""Bytes of address space to begin with; the file grows with what is in it."""
MAP_MAX: Final = 64 << 30
"""Bytes up to which the map grows."""


class LmdbEngine(Engine):
    """A directory, opened by one process.

    `sync=False` leaves it to the system when something reaches the disk: a power cut can then lose, or damage, the
    store; the death of the process cannot.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = MAP_SIZE,
        map_max: int = MAP_MAX,
        sync: bool = True,
        answer_timeout: float = ANSWER_TIMEOUT,
        clock: Callable[[], int] = wall_clock,
        trust: Trust = PRIVATE,
    ) -> None:
        """`trust` says who may change the files, beside root and the user who runs this process."""
        self._path = Path(path).absolute()
        self._answer_timeout = check_answer_timeout(answer_timeout)
        self._trust = trust
        self._directory = Directory(self._path, map_size=map_size, sync=sync, trust=trust)
        self._syncs = sync
        self._map_max = max(map_size, map_max)
        self._clock = clock
        self._process = os.getpid()
        self._map: Map | None = None
        self._writer: Writer | None = None
        self._readers: DaemonThreads | None = None
        self._bell = Bell()

    @property
    def url(self) -> str:
        return f"lmdb:///{self._path}"

    async def open(self) -> None:
        assert self._map is None, "it is open already"
        self._process = os.getpid()
        opened = await in_thread(
            lambda: Map(self._directory, map_max=self._map_max, clock=self._clock),
            self._answer_timeout,
            self.url,
            discard=Map.close,
        )
        self._map = opened
        self._readers = DaemonThreads(READING_THREADS, f"{self.url} reader")
        self._writer = Writer(
            self.url, lambda: LmdbSession(opened, self._bell.ring), answer_timeout=self._answer_timeout
        )
        await self._writer.start()

    async def schema(self) -> SchemaSeen:
        found = await in_thread(lambda: schema_in(self._path, self._trust), self._answer_timeout, self.url)
        pending = (f"{number:04} {title}" for number, title in enumerate(LAYOUTS, start=1) if number > (found or 0))
        return SchemaSeen(found, SCHEMA, tuple(pending))

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._path / name for name in ("data.mdb", "lock.mdb", "node.lock"))

    @property
    def file_mode(self) -> int:
        return self._trust.file_mode

    async def warnings(self) -> list[str]:
        if self._syncs:
            return []
        return ["sync is off: a loss of power can lose or damage the store; leave ?sync=off out of its URL"]

    async def close(self) -> None:
        if self._map is None or self._process != os.getpid():
            return
        opened, self._map = self._map, None
        assert self._writer is not None
        assert self._readers is not None
        ended, left = await asyncio.gather(self._writer.close(), self._readers.close(CLOSE_TIMEOUT))
        if left := left + (not ended):
            self.say_left_behind(left, "the disk or a lock")
        else:  # a thread that is still inside LMDB must not find its map gone
            opened.close()
        self._bell.ring()

    async def write(self, work: Work[T]) -> T:
        self._check()
        assert self._writer is not None
        return await self._writer.run(work)

    async def read(self, work: Work[T]) -> T:
        opened = self._check()
        assert self._readers is not None
        return await self._readers.answer(self._readers.submit(opened.read, work), self._answer_timeout, self.url)

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """There is no other process that could have told anybody anything: the bell is all there is to wait for."""
        with self._bell.listening() as rung:

            async def next_look() -> None:
                await rung.wait()
                rung.clear()

            yield next_look

    def _check(self) -> Map:
        if self._process != os.getpid():
            raise StoreError(f"{self.url} was opened before a fork, by process {self._process}: open another one here")
        if self._map is None:
            raise StoreUnavailable(f"{self.url} is not open")
        return self._map
