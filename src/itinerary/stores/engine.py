"""The common part of every store: how work runs, and how long callers wait.

A store runs *work*: a ledger function that gets a `Transaction` and returns an answer. The store may run the same work
again, after a deadlock or a lost connection. The store answers only when the writes are durable.

    write(work)     in a transaction of its own, or grouped with other work; each piece succeeds or fails alone
    read(work)      in a read-only transaction, in parallel with writes

`watch` reports which topics changed, never the change itself: the watcher then reads the store. `watch` compares the
counters that `Transaction.tell` raises (see `notifications`). Each engine decides when to compare.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from itinerary.errors import ConfigError, TransactionError
from itinerary.ports import TaskTransaction
from itinerary.stores.notifications import changed, counts
from itinerary.stores.transaction import Transaction

__all__ = [
    "ANSWER_TIMEOUT",
    "ANSWER_TIMEOUT_MAX",
    "CLOSE_TIMEOUT",
    "POLL_INTERVAL",
    "Engine",
    "SchemaSeen",
    "T",
    "Work",
    "check_answer_timeout",
]

T = TypeVar("T")
Work = Callable[[Transaction], T]

POLL_INTERVAL: Final = 0.25
"""Seconds between two polls of the counters."""
ANSWER_TIMEOUT: Final = 30.0
"""Seconds after which callers give up on a file that does not answer.

A slow disk can take ten seconds to sync. Other nodes notice a silent node after three heartbeats, 15 s.
"""
ANSWER_TIMEOUT_MAX: Final = 3_600.0
CLOSE_TIMEOUT: Final = 3.0
"""Seconds that `close` waits for submitted work. After that it leaves the threads behind."""


class SchemaSeen(msgspec.Struct, frozen=True):
    """The schema that a store has, and the schema that this program knows."""

    found: int | None
    """None if the store does not exist yet."""
    known: int
    pending: tuple[str, ...] = ()
    """The migrations that have not run yet, in order: `0002 more tables`."""

    @property
    def is_current(self) -> bool:
        """True if opening the store would change nothing."""
        return self.found == self.known


class NoLog:
    """The default log of a store, which drops everything. A command reports errors, and has no log."""

    def warning(self, event: str, **fields: Any) -> None:
        """Log nothing."""


class Engine(ABC):
    """The part of a store that knows where the rows are."""

    log: Any = NoLog()
    """The log for events that callers do not get: cut connections, locks that other sessions hold."""

    warm_up_size = 0
    """The number of occurrences for the warm-up run at startup; 0 if a warm-up does not make later calls faster."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for messages, without a password."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, create missing tables and upgrade an older schema.

        An engine opens once. After `close`, make a new engine.

        Raises:
            SchemaError: The schema is newer than this program.
        """

    async def schema(self) -> SchemaSeen:
        """Return the schema of the store before it is opened. Creates and changes nothing.

        Raises:
            StoreError: The store cannot be reached, or belongs to another program.
        """
        return SchemaSeen(1, 1)

    @property
    def files(self) -> tuple[Path, ...]:
        """The local files of the store, whether they exist or not; empty if the store is remote."""
        return ()

    @property
    def file_mode(self) -> int:
        """The permissions for the files: owner only, unless a group shares the store."""
        return 0o600

    async def warnings(self) -> list[str]:
        """Return the settings that break a guarantee, in words, each with what to do about it."""
        return []

    @abstractmethod
    async def close(self) -> None:
        """Finish submitted work and release all resources. Closing twice has no effect."""

    def say_left_behind(self, threads: int, what: str) -> None:
        """Log that threads did not end when the store was closed, because the server or the disk does not answer."""
        hint = f"{what} did not answer while the store was closed; the process can end all the same"
        self.log.warning("store.left_behind", store=self.url, threads=threads, hint=hint)

    @abstractmethod
    async def write(self, work: Work[T]) -> T:
        """Run work durably.

        Returns:
            The answer of the work, after the commit.

        Raises:
            StoreError: The work failed. The commit may have happened or not.
        """

    @abstractmethod
    async def read(self, work: Work[T]) -> T:
        """Run work in a read-only transaction."""

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        """Return a transaction for a task's own statements (D6).

        If the body or `end` raises, or `timeout` seconds pass, the store rolls everything back.

        Args:
            end: Work that runs last, just before the commit.
            timeout: Seconds for the whole transaction.

        Raises:
            CommitInDoubt: The commit got no answer. The caller looks up whether it happened (protocol rule 24).
            TransactionError: The engine has no transactions for tasks.
        """
        del end, timeout
        raise TransactionError(f"{self.url} has no transactions for tasks; use SQLite or PostgreSQL")

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        """Yield the topics that changed since the last poll. The first poll yields every topic with a counter."""
        seen: dict[str, int] = {}
        async with self.looks() as next_look:
            while True:
                now = await self.read(counts)
                if told := changed(seen, now):
                    seen = now
                    yield told
                await next_look()

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Provide the wait between two polls of the counters by `watch`."""
        yield lambda: asyncio.sleep(POLL_INTERVAL)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def check_answer_timeout(seconds: float) -> float:
    """Return the deadline that a URL names.

    Raises:
        ConfigError: The deadline is out of range.
    """
    if not 0 < seconds <= ANSWER_TIMEOUT_MAX:
        raise ConfigError(f"answer_timeout = {seconds:g}: expected seconds above 0, up to {ANSWER_TIMEOUT_MAX:g}")
    return seconds
