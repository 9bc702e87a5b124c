"""What the engine of a rehearsal stands on: a store in memory, the stage, and the clock that the test moves.

    the loop's time ──► the store's clock                     it decides, as always
          └──────────► less what was skipped ──► the node's own clock, which only measures

A node that has nothing to do spends its time with looking around: a second of it costs a third of a millisecond, and a
hundred days have nine million. So time is skipped where nothing is due, and as far as the node can tell it never was.
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
from itinerary.node.environment import Ground
from itinerary.ports import Executor, TaskTransaction
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.engine import T, Work
from itinerary.stores.memory import MemoryEngine, MemoryTransaction
from itinerary.stores.notifications import Bell
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ACTIVE, LINES, MAIL, OCCURRENCES, WAITING, Table, Values
from itinerary.testing.executors import Stage
from itinerary.testing.fakes import Fakes
from itinerary.testing.loop import RehearsalLoop

__all__ = ["RehearsalGround"]

F = TypeVar("F")
_LOOKED_AT_MAX: Final = 100
"""Where more than this is under way there is always something to do."""


class _Telling(MemoryTransaction):
    """A transaction that knows whether it has told of anything."""

    has_told = False

    def tell(self, topics: Collection[str]) -> None:
        super().tell(topics)
        self.has_told = True


class _Statements:
    """A task's own statements, on the database of a rehearsal.

    What they write is gathered, tried, and made at the end: so a transaction may stay open for hours of virtual time
    without anybody having to wait for it.
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
        """What was written so far is there, and then it is not."""
        with self.made():
            yield
            self._database.execute("rollback")

    @contextmanager
    def made(self) -> Iterator[None]:
        """Write everything; it stands if nothing is raised."""
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


class RehearsalEngine(MemoryEngine):
    """The memory engine. Who waits for news is woken by it, rather than looking four times a second; and tasks have
    transactions (D6), on a SQLite database in memory that the test can look into."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._bell = Bell()

    @cached_property
    def database(self) -> sqlite3.Connection:
        """Where the transactions of tasks write."""
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    async def close(self) -> None:
        """A node ends, and another one may come: what is in memory stays."""

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
        """Answer a query at once: nothing waits in memory."""
        return ledger.answer(MemoryTransaction(self._tables, self._clock()), query)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not any(self._rows(table) for table in (ACTIVE, WAITING, LINES, MAIL))

    def is_in_hand(self, node: NodeNumber) -> bool:
        """Whether all that is under way has begun on this node, or stands in line behind that: nobody has to look for
        work, or to find out that somebody is dead."""
        active = self._rows(ACTIVE)
        if self._rows(WAITING) or self._rows(MAIL) or len(active) > _LOOKED_AT_MAX:
            return False
        occurrences = [self._rows(OCCURRENCES)[(row.ref,)] for row in active.values()]
        if any(row.owner != node or row.started_at is None for row in occurrences):
            return False
        return {row.job for row in self._rows(LINES).values()} <= {row.job for row in occurrences}

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


class RehearsalGround(Ground):
    """One world, for one node after the other."""

    def __init__(self, loop: RehearsalLoop, begins_at: int, drive: Callable[[Future[Any]], None]) -> None:
        """`drive` has the loop turn until something is answered."""
        super().__init__()
        self._loop, self._begins_at, self._drive = loop, begins_at, drive
        self.skipped = 0.0
        """Seconds that passed without the node."""
        self.engine = RehearsalEngine(self.now)
        self.fakes = Fakes()
        self.elapsed = self.awake = self._elapsed
        self.elsewhere = _here

    def now(self) -> int:
        """The time of the store, in microseconds since the epoch."""
        return self._begins_at + round(self._loop.time() * SECOND)

    def seconds(self, instant: int) -> float:
        """When an instant is, on the loop."""
        return (instant - self._begins_at) / SECOND

    def _elapsed(self) -> int:
        return round((self._loop.time() - self.skipped) * SECOND)

    def store(self, url: str) -> EngineStore:
        del url  # whatever the app is configured with: a test leaves nothing behind
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
        stage = Stage(registry, self.fakes, self._loop, transaction)
        return stage, stage.coroutines

    def close(self) -> None:
        """Let go of the database, if anybody has used it."""
        if "database" in vars(self.engine):
            self.engine.database.close()

    def asked(self, answer: Future[Any]) -> None:
        self._drive(answer)


async def _here(work: Callable[..., F], *arguments: object) -> F:
    """What a node has done in a thread, so as not to be held up: here nothing is late."""
    return work(*arguments)
