"""Notifications of changes by other nodes: LISTEN, on a connection of its own.

A notification carries a topic and its counter. The counters decide: they are compared after connecting, after each lost
connection, and at intervals. So nothing is missed if a notification is lost. That poll also distinguishes a silent peer
from an idle one: its answer has a deadline.

LISTEN belongs to a session, and a pooler offers none. That is detected (see `connections`), and `ChannelListener.news`
then ends: the engine polls the counters instead.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Final

import psycopg

from itinerary.errors import StoreUnavailable
from itinerary.stores.notifications import TOPICS_MAX, changed
from itinerary.stores.postgres.connections import Address, is_pooled
from itinerary.stores.postgres.deadlines import ListeningConnection
from itinerary.stores.postgres.failures import as_store_error, meaning
from itinerary.stores.postgres.statements import Statements

__all__ = ["ChannelListener"]

_LOOK_INTERVAL: Final = 5.0
"""Seconds without a notification after which the counters are polled."""
_PAUSE: Final = 0.25
"""Seconds between two tries to connect."""


class ChannelListener:
    """A listener on the channel of one schema."""

    def __init__(self, address: Address, made: Statements, *, patience: float, answer_timeout: float) -> None:
        self._address = address
        self._made = made
        self._patience = patience
        self._answer_timeout = answer_timeout
        self._look_interval = min(_LOOK_INTERVAL, answer_timeout)
        self.is_closed = False

    async def news(self) -> AsyncIterator[frozenset[str]]:
        """Yield the topics that changed since the last time. Ends if LISTEN is not possible here."""
        seen: dict[str, int] = {}
        while True:
            connection = await self._connected()
            if connection is None:
                return
            try:
                async for topics in self._heard(connection, seen):
                    yield topics
            except psycopg.Error as error:
                if not meaning(error).is_passing:
                    raise as_store_error(error, self._address.shown, self._patience) from error
            finally:
                await connection.close()

    async def _connected(self) -> ListeningConnection | None:
        """Return a connection that listens, or None if that is not possible here."""
        until = time.monotonic() + self._patience
        while True:
            if self.is_closed:
                raise StoreUnavailable(f"{self._address.shown} is closed")
            try:
                return await self._connect()
            except psycopg.Error as error:
                pause = _PAUSE * random.uniform(0.5, 1.5)  # noqa: S311 - no secret, only spread
                if not meaning(error).is_passing or time.monotonic() + pause > until:
                    raise as_store_error(error, self._address.shown, self._patience) from error
            await asyncio.sleep(pause)

    async def _connect(self) -> ListeningConnection | None:
        connection = await ListeningConnection.connect(autocommit=True, prepare_threshold=None, **self._address.options)
        connection.answer_timeout = self._answer_timeout
        try:
            answer = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
            assert answer is not None
            if is_pooled(connection, answer[0]):
                await connection.close()
                return None
            await connection.execute(f"LISTEN {self._made.channel}".encode())
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _heard(self, connection: ListeningConnection, seen: dict[str, int]) -> AsyncIterator[frozenset[str]]:
        while True:
            counts = dict(await (await connection.execute(self._made.counts.encode(), [TOPICS_MAX])).fetchall())
            if told := changed(seen, counts):
                seen.update(counts)
                yield told
            while heard := await self._notices(connection):
                counts = _counts(heard)
                seen.update(counts)
                yield frozenset(counts)
            if self.is_closed:
                raise StoreUnavailable(f"{self._address.shown} is closed")

    async def _notices(self, connection: ListeningConnection) -> list[psycopg.Notify]:
        """Return the next notifications; empty after some time without one, which is not a silence of the server."""
        connection.answer_timeout = self._look_interval + self._answer_timeout
        try:
            return [notice async for notice in connection.notifies(timeout=self._look_interval, stop_after=1)]
        finally:
            connection.answer_timeout = self._answer_timeout


def _counts(heard: list[psycopg.Notify]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for notice in heard:
        topic, _, count = notice.payload.rpartition(" ")
        counts[topic] = int(count)
    return counts
