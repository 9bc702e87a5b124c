"""The PostgreSQL engine: which threads and connections run what.

    write       own threads and connections; each piece of work is a transaction, repeated until it commits
    read        the same on separate ones, so that a report does not wait for a batch
    transaction a task's own transaction, on connections that neither of them uses
    watch       one more connection, which listens

Connections are opened on demand. At most `connections + task_connections` plus two are open, and one for each `watch`.
Every answer has a deadline (`deadlines`), and so has `close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import psycopg

from itinerary.errors import ConfigError, StoreUnavailable
from itinerary.ports import TaskTransaction
from itinerary.stores.engine import Engine, SchemaSeen, T, Work, check_answer_timeout
from itinerary.stores.migrations import migrations_of
from itinerary.stores.postgres import checks
from itinerary.stores.postgres.connections import parse
from itinerary.stores.postgres.deadlines import ANSWER_TIMEOUT, Deadlines
from itinerary.stores.postgres.idle_transactions import LockHolder
from itinerary.stores.postgres.listen import ChannelListener
from itinerary.stores.postgres.migrate import bring_up_to_date, seen
from itinerary.stores.postgres.runner import Runner, TransactionRunner
from itinerary.stores.postgres.statements import Statements
from itinerary.stores.postgres.task_transaction import TaskTransactions

__all__ = ["PostgresEngine"]

_CONNECTIONS_MAX: Final = 100
_READERS: Final = 2


class PostgresEngine(Engine):
    """A schema in a PostgreSQL database.

    Args:
        url: The address, in the format of libpq.
        schema: The schema for all tables.
        connections: The most connections for writes.
        task_connections: The most connections for transactions of tasks.
        prepared_statements: Off if a pooler needs that and is not recognised.
        listen: Off if a pooler needs that and is not recognised.
        patience: Seconds for which work is repeated during an outage or while others hold locks.
        lock_timeout: Seconds that one try waits for a lock, so that one transaction does not delay many.
        idle_timeout: Seconds of silence after which the server rolls a transaction back and frees its locks.
        answer_timeout: Seconds without an answer after which a connection is cut and the work repeated on a new one.
    """

    def __init__(  # noqa: PLR0913 - everything that an operator may choose
        self,
        url: str,
        *,
        schema: str = "itinerary",
        connections: int = 4,
        task_connections: int = 4,
        prepared_statements: bool = True,
        listen: bool = True,
        patience: float = 60.0,
        lock_timeout: float = 2.0,
        idle_timeout: float = 5.0,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        check_answer_timeout(answer_timeout)
        for name, count in (("connections", connections), ("task_connections", task_connections)):
            if not 1 <= count <= _CONNECTIONS_MAX:
                raise ConfigError(f"{name} = {count}: expected 1 to {_CONNECTIONS_MAX}")
        for name, seconds in (("lock_timeout", lock_timeout), ("idle_timeout", idle_timeout)):
            if seconds <= 0:
                raise ConfigError(f"{name} = {seconds}: expected seconds above 0")
        if patience < 0:
            raise ConfigError(f"patience = {patience}: expected seconds, or 0")
        self._address = parse(url, schema=schema, prepared_statements=prepared_statements, listen=listen)
        self._known = migrations_of("itinerary.stores.postgres.migrations")
        self._made = Statements(self._address.schema)
        self._books = TransactionRunner(
            self._made,
            self._known[-1].number,
            lock_timeout=lock_timeout,
            idle_timeout=idle_timeout,
            answer_timeout=answer_timeout,
        )
        self._patience = patience
        self._deadlines = Deadlines(answer_timeout, self._was_cut)
        self._writers = self._runner(connections, patience, idle_timeout)
        self._readers = self._runner(_READERS, patience, idle_timeout)
        self._tasks = TaskTransactions(self._address, self._deadlines, self._books, places=task_connections)
        self._listener = ChannelListener(self._address, self._made, patience=patience, answer_timeout=answer_timeout)
        self._is_open = False

    def _runner(self, threads: int, patience: float, idle_timeout: float) -> Runner:
        return Runner(
            self._address,
            self._deadlines,
            threads=threads,
            patience=patience,
            idle_timeout=idle_timeout,
            blocked=self._is_blocked,
        )

    @property
    def url(self) -> str:
        return self._address.shown

    async def open(self) -> None:
        try:
            await self._writers.run(lambda connection: bring_up_to_date(connection, self._made, self._known))
        except BaseException:
            self._writers.rest()  # no caller closes a store that failed to open
            raise
        self._is_open = True

    async def schema(self) -> SchemaSeen:
        return await self._readers.run(lambda connection: seen(connection, self._made, self._known))

    async def close(self) -> None:
        self._is_open = False
        self._listener.is_closed = True
        left = sum(await asyncio.gather(self._tasks.close(), self._writers.close(), self._readers.close()))
        self._deadlines.close()
        if left:
            self.say_left_behind(left, "the server")

    async def write(self, work: Work[T]) -> T:
        self._check_open()
        return await self._writers.run(self._books.write(work))

    async def read(self, work: Work[T]) -> T:
        self._check_open()
        return await self._readers.run(self._books.read(work))

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        self._check_open()
        return self._tasks.one(end, allowed=timeout)

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        self._check_open()
        if self._address.is_listening:
            async for news in self._listener.news():
                yield news
        async for news in super().watch():  # LISTEN is not possible here
            yield news

    async def warnings(self) -> list[str]:
        """Return the server settings that break a guarantee, in words (protocol rule 27)."""
        self._check_open()
        return checks.warnings(await self._readers.run(_settings))

    # -- in a thread -------------------------------------------------------------------------------------------------

    def _was_cut(self, waited: float) -> None:
        self.log.warning(
            "store.unanswered",
            store=self.url,
            seconds=round(waited, 1),
            hint="the connection was cut, and the work is repeated on a new one",
        )

    def _is_blocked(self, holders: list[LockHolder]) -> None:
        self.log.warning(
            "store.blocked",
            store=self.url,
            holders=[str(holder) for holder in holders],
            hint="work waits for locks that these hold; a process that is stopped must be continued or killed there",
        )

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable(f"{self.url} is not open")


def _settings(connection: psycopg.Connection[Any]) -> dict[str, str]:
    return dict(connection.execute(checks.SETTINGS_READ).fetchall())
