"""The store in an LMDB directory: one writer thread, a few reader threads, and a bell for watchers.

Readers and the writer do not block each other: a reader sees the store as of the start of its read. An answered write
survives a power failure (`sync=True`). Damage outside of LMDB, such as a truncated file or an unreadable disk, ends the
process with a signal from the memory map. Then only a backup helps (`mdb_copy` makes one during use).

LMDB waits without a limit for the lock of another writing process, and a disk may not answer either. Nothing can stop a
thread in such a wait. Callers get StoreUnavailable if nothing was answered for `answer_timeout`.
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
"""The initial address space in bytes. The file grows with its content."""
MAP_MAX: Final = 64 << 30
"""The maximum size of the map in bytes."""


class LmdbEngine(Engine):
    """A directory that one process opens.

    With `sync=False` the operating system decides when data reaches the disk. A power failure can then lose or damage
    the store. The death of the process cannot.
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
        """Create the engine. `trust` names the users who may change the files, besides root and the current user."""
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
        else:  # a thread inside LMDB still needs its map
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
        """Wait for the bell. No other process can write, so there is nothing else to wait for."""
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
