"""A scene: a store on PostgreSQL with its jobs and nodes, and the sessions that a test plays on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from psycopg.conninfo import make_conninfo

from itinerary.model.rows import EntryKind, OverlapSlotRow
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OVERLAP_SLOTS
from tests.contracts.stores.desk import Desk
from tests.integration.protocol.sessions import Plain, Session

__all__ = ["PATIENT", "Scene", "update"]

A = TypeVar("A")

PATIENT = 60.0
"""Seconds to wait for a lock: a session is let go by the test, and not by a timeout."""


def update(**values: Any) -> TimelineEntryRequest:
    """The second version of the job that a desk makes."""
    given: dict[str, Any] = {"job": "backup", "kind": EntryKind.VERSION, "from_version": 1, "body": "{}", **values}
    return TimelineEntryRequest(request="second", by="anna", **given)


class Scene:
    """A database, and who is in it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._sessions: list[Session[Any]] = []
        self._plain: dict[str, Plain] = {}
        self._runner = asyncio.Runner()
        self._engine: PostgresEngine | None = None

    # -- our code ----------------------------------------------------------------------------------------------------

    def desk(self, *, begins_plainly: bool = False) -> Desk:
        """A desk on our store, for what has happened before."""
        self._engine = PostgresEngine(self.url)
        store = EngineStore(self._engine)
        self.do(store.open())
        return Desk(store, self._engine, begins_plainly=begins_plainly)

    def do(self, happening: Coroutine[Any, Any, A]) -> A:
        """Have something happen from beginning to end."""
        return self._runner.run(happening)

    def session(self, name: str, act: Callable[[EngineStore], Awaitable[A]], **options: Any) -> Session[A]:
        """A node that is about to do this, and has not begun."""
        engine = PostgresEngine(
            make_conninfo(self.url, application_name=name), lock_timeout=PATIENT, idle_timeout=PATIENT, **options
        )
        session = Session(name, engine, act, self.watcher)
        self._sessions.append(session)
        return session

    def slot(self, desk: Desk, job: int) -> OverlapSlotRow:
        """A job's slot, as it is committed."""
        return self.do(desk.engine.read(lambda tx: tx.get(OVERLAP_SLOTS, [(job,)])))[job,]

    # -- the naive forms ---------------------------------------------------------------------------------------------

    @property
    def watcher(self) -> Plain:
        """Somebody who only looks."""
        return self.plain("watcher")

    def plain(self, name: str) -> Plain:
        """A connection of this name."""
        if name not in self._plain:
            self._plain[name] = Plain(self.url, name)
        return self._plain[name]

    def close(self) -> None:
        """End whatever a test has left in the middle."""
        for plain in self._plain.values():
            if plain is not self._plain.get("watcher"):
                plain.close()
        for session in self._sessions:
            session.stops.go()  # all of them, before one is waited for: they may wait for each other
        for session in self._sessions:
            session.leave()
        if self._engine is not None:
            self.do(self._engine.close())
        self._runner.close()
        if "watcher" in self._plain:
            self.watcher.close()
