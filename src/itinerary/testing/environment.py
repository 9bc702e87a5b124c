"""The environment of a test node: a store in memory, executors, and the clock that the test moves.

    the loop's time ──► the store's clock                     decides, as in production
          └──────────► less skipped time ──► the node's own clock, which only measures

An idle node still polls: a second of that costs a third of a millisecond, and a hundred days have nine million seconds.
So time is skipped where nothing is due, and the node does not notice.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any, Final, TypeVar

from itinerary.errors import TransactionError
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.router import ExecutorOptions
from itinerary.executors.transactions import TransactionFactory
from itinerary.model.queries import Answer, Query
from itinerary.model.rows import NodeNumber
from itinerary.node.environment import NodeEnvironment
from itinerary.ports import Executor, TaskTransaction
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.engine import T, Work
from itinerary.stores.memory import MemoryEngine, MemoryTransaction
from itinerary.stores.notifications import Bell
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ACTIVE, MAIL, OCCURRENCES, OVERLAP_QUEUE, WAITING, Table, Values
from itinerary.testing.executors import FakingExecutor
from itinerary.testing.fakes import Fakes
from itinerary.testing.test_node_loop import TestNodeLoop

__all__ = ["TestNodeEnvironment"]

F = TypeVar("F")
_LOOKED_AT_MAX: Final = 100
"""The number of active occurrences above which time is never skipped."""


class _Telling(MemoryTransaction):
    """A transaction that knows whether it has sent a notification."""

    has_told = False

    def notify(self, topics: Collection[str]) -> None:
        super().notify(topics)
        self.has_told = True


class _Statements:
    """The statements of a task, on the database of a test node.

    Writes are collected, tried, and made at the end. So a transaction may stay open for hours of virtual time without
    blocking others.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._written: list[tuple[str, tuple[Any, ...]]] = []

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        with self._tried():
            count = self._database.execute(statement, tuple(parameters)).rowcount
        self._written.append((statement, tuple(parameters)))
        return count

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._tried():
            return self._database.execute(statement, tuple(parameters)).fetchall()

    @contextmanager
    def _tried(self) -> Iterator[None]:
        """Apply the collected writes, and roll them back at the end of the block."""
        with self.made():
            yield
            self._database.execute("rollback")

    @contextmanager
    def made(self) -> Iterator[None]:
        """Write everything, and commit unless the block raises."""
        self._database.execute("begin")
        try:
            for statement, parameters in self._written:
                self._database.execute(statement, parameters)
            yield
            if self._database.in_transaction:
                self._database.execute("commit")
        finally:
            if self._database.in_transaction:
                self._database.execute("rollback")


class TestNodeEngine(MemoryEngine):
    """The memory engine with notifications in place of polling.

    Tasks have transactions (D6), on a SQLite database in memory that the test can read.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._bell = Bell()

    @cached_property
    def database(self) -> sqlite3.Connection:
        """The database of the tasks' transactions."""
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    async def close(self) -> None:
        """Keep the content: another node may start after this one."""

    @asynccontextmanager
    async def transaction(self, end: Work[None], *, timeout: float) -> AsyncIterator[TaskTransaction]:  # noqa: ASYNC109 - the port's
        statements = _Statements(self.database)
        try:
            async with asyncio.timeout(timeout):
                yield statements
        except TimeoutError as error:
            raise TransactionError(f"the task's transaction took longer than {timeout:g} s: undone") from error
        with statements.made():
            await self.write(end)

    def now_answer(self, query: Query[Answer]) -> Answer:
        """Answer a query at once: memory needs no wait."""
        return ledger.answer(MemoryTransaction(self._tables, self._clock()), query)

    @property
    def is_idle(self) -> bool:
        """True if nothing is active."""
        return not any(self._rows(table) for table in (ACTIVE, WAITING, OVERLAP_QUEUE, MAIL))

    def is_in_hand(self, node: NodeNumber) -> bool:
        """True if every active occurrence has started on this node, or is queued behind such an occurrence.

        Then no node has to search for work, or to detect a dead node.
        """
        active = self._rows(ACTIVE)
        if self._rows(WAITING) or self._rows(MAIL) or len(active) > _LOOKED_AT_MAX:
            return False
        occurrences = [self._rows(OCCURRENCES)[(row.ref,)] for row in active.values()]
        if any(row.owner != node or row.started_at is None for row in occurrences):
            return False
        return {row.job for row in self._rows(OVERLAP_QUEUE).values()} <= {row.job for row in occurrences}

    def _rows(self, table: Table[Any]) -> dict[Values, Any]:
        return self._tables[table.title].rows

    async def write(self, work: Work[T]) -> T:
        tx = _Telling(self._tables, self._clock())
        try:
            answer = work(tx)
        except BaseException:
            tx.undo()
            raise
        if tx.has_told:
            self._bell.ring()
        return answer

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        with self._bell.listening() as news:

            async def next_look() -> None:
                await news.wait()
                news.clear()

            yield next_look


class TestNodeEnvironment(NodeEnvironment):
    """The environment of one test, for its nodes one after the other."""

    def __init__(self, loop: TestNodeLoop, begins_at: int, drive: Callable[[Future[Any]], None]) -> None:
        """Create the environment. `drive` runs the loop until a future is done."""
        super().__init__()
        self._loop, self._begins_at, self._drive = loop, begins_at, drive
        self.skipped = 0.0
        """Seconds that were skipped for the node."""
        self.engine = TestNodeEngine(self.now)
        self.fakes = Fakes()
        self.elapsed = self.awake = self._elapsed
        self.elsewhere = _here

    def now(self) -> int:
        """Return the time of the store, in microseconds since the epoch."""
        return self._begins_at + round(self._loop.time() * SECOND)

    def seconds(self, instant: int) -> float:
        """Return the time of an instant on the loop."""
        return (instant - self._begins_at) / SECOND

    def _elapsed(self) -> int:
        return round((self._loop.time() - self.skipped) * SECOND)

    def store(self, url: str) -> EngineStore:
        del url  # the configured store is not used: a test leaves nothing behind
        return EngineStore(self.engine)

    def executors(
        self,
        registry: Registry,
        options: ExecutorOptions,
        *,
        loop: asyncio.AbstractEventLoop | None,
        transaction: TransactionFactory,
    ) -> tuple[Executor, CoroutineExecutor]:
        del options
        assert loop is self._loop, "everything runs on the one loop"
        stage = FakingExecutor(registry, self.fakes, self._loop, transaction)
        return stage, stage.coroutines

    def close(self) -> None:
        """Close the database, if it was used."""
        if "database" in vars(self.engine):
            self.engine.database.close()

    def asked(self, answer: Future[Any]) -> None:
        self._drive(answer)


async def _here(work: Callable[..., F], *arguments: object) -> F:
    """Do the work at once. A real node uses a thread to avoid delays, but here nothing is late."""
    return work(*arguments)
