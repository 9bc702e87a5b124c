"""What is the same in every store: how work is run, and how long one waits.

A store runs *work*: a function of the ledger that gets a `Transaction` and returns an answer. It may run the same work
again, after a deadlock or a lost connection; it answers only when what was written is durable.

    write(work)     in a transaction of its own, or in one with other work, each of which stands or falls alone
    read(work)      in a transaction that only reads, beside those that write

`watch` tells that something has happened, never what: who hears it reads the store. It looks at the counters that
`Transaction.tell` raises (see `news`); when, is each engine's own affair.
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
"""Seconds between two looks at the counters."""
ANSWER_TIMEOUT: Final = 30.0
"""Seconds after which a file that does not answer is given up on. A slow disk can take ten seconds to sync; a node's
silence is noticed after three heartbeats, 15 s."""
ANSWER_TIMEOUT_MAX: Final = 3_600.0
CLOSE_TIMEOUT: Final = 3.0
"""Seconds in which a store that is closed finishes what it was asked; then its threads are left behind."""


class SchemaSeen(msgspec.Struct, frozen=True):
    """Which schema a store has, and which one this program would make of it."""

    found: int | None
    """None: no store has been made there yet."""
    known: int
    pending: tuple[str, ...] = ()
    """The migrations that are still to be run, in order: `0002 more tables`."""

    @property
    def is_current(self) -> bool:
        """Whether opening it would change nothing."""
        return self.found == self.known


class NoLog:
    """The log of a store that nothing was said about: a command has its errors, and no log."""

    def warning(self, event: str, **fields: Any) -> None:
        """Log nothing."""


class Engine(ABC):
    """The part of a store that knows where the rows are."""

    log: Any = NoLog()
    """Where it says what callers are not told: connections that were cut, locks that others hold."""

    rehearses_with = 0
    """With how many occurrences everything should be gone through once, if that makes later times quicker."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is, as messages may name it: without a password."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, create what is not there yet, bring an older schema up to date; refuse a newer one.

        Once: for a store that was closed, another engine is made.
        """

    async def schema(self) -> SchemaSeen:
        """Which schema is there, before it is opened: nothing is made or changed for that. Raises a StoreError where
        it cannot be reached, or is somebody else's."""
        return SchemaSeen(1, 1)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it has here, whether they are there or not; none, if it is elsewhere."""
        return ()

    @property
    def file_mode(self) -> int:
        """The permissions that its files should have: for their owner only, unless a group shares the store."""
        return 0o600

    async def warnings(self) -> list[str]:
        """How it is set up so that our promises do not hold, in words, each with what to do about it."""
        return []

    @abstractmethod
    async def close(self) -> None:
        """Finish what was asked, and let go of everything. Closing twice has no effect."""

    def say_left_behind(self, threads: int, what: str) -> None:
        """Log that threads did not end when the store was closed, since the server, or whatever it was, is silent."""
        hint = f"{what} did not answer while the store was closed; the process can end all the same"
        self.log.warning("store.left_behind", store=self.url, threads=threads, hint=hint)

    @abstractmethod
    async def write(self, work: Work[T]) -> T:
        """Run work durably: when this returns it is committed; when this raises a StoreError it may not be."""

    @abstractmethod
    async def read(self, work: Work[T]) -> T:
        """Run work that only reads."""

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        """A transaction for a task's own statements (D6), which `end` is run in as the last thing before the commit.

        If the body or `end` raises, or more than `timeout` seconds have passed, nothing of it stands. A commit whose
        answer did not come raises CommitInDoubt: the caller finds out what came of it (protocol rule 24).
        """
        del end, timeout
        raise TransactionError(f"{self.url} has no transactions for tasks; use SQLite or PostgreSQL")

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        """The topics that have been told of since the last look; the first look yields those that ever were."""
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
        """How `watch` waits until another look at the counters may be worth it."""
        yield lambda: asyncio.sleep(POLL_INTERVAL)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def check_answer_timeout(seconds: float) -> float:
    """The deadline that a URL names. Raises ConfigError if it is none."""
    if not 0 < seconds <= ANSWER_TIMEOUT_MAX:
        raise ConfigError(f"answer_timeout = {seconds:g}: expected seconds above 0, up to {ANSWER_TIMEOUT_MAX:g}")
    return seconds
