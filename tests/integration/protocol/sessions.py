"""Two sessions, and a test that says who goes on, and how far.

    Session     our own code, a store's call on a real engine, in a thread of its own. It is stopped between its
                statements: `until("after lock overlap_slots")`, `until(THE_END)`, which is before the commit
    Plain       a connection of the driver's, for the naive forms: one statement after the other

What both must be able to say is "now it waits for the other". The server knows: a session that waits for a lock is
shown as such in `pg_stat_activity`, where each of ours has a name. Nothing here sleeps, and nothing goes on by itself.

Nothing of ours is replaced. `_Watched` hands every call to the real transaction, and stops before or after it if the
test wants that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar, cast

import psycopg

from itinerary.ports import TaskTransaction
from itinerary.stores.engine import Engine, Work
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import STORE_META, Table
from itinerary.stores.transaction import Transaction
from tests.engines import Wrapped

__all__ = ["THE_END", "Plain", "Session", "Stepped", "Stops", "until_waiting"]

A = TypeVar("A")

THE_END: Final = "at the end"
"""When a piece of work has done everything, and is not committed."""
_LOOKS_MAX: Final = 100_000
_PATIENCE: Final = 60.0
"""After so many seconds a test that does not go on is given up."""


class Stops:
    """Where a session stands, and where it shall stop next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted: str | None = None
        self._status: str | None = None
        self.works = 0
        """How many pieces of work were run, those included that were run again."""

    def at(self, point: str) -> None:
        """The session is here; it stays if this is where it shall stop."""
        with self._changed:
            if point != self._wanted:
                return
            self._wanted, self._status = None, point
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._status is None, _PATIENCE), f"nobody let it go on: {point}"

    def go(self, until: str | None = None) -> None:
        """Let the session go on."""
        with self._changed:
            self._wanted, self._status = until, None
            self._changed.notify_all()

    def wait(self, is_over: Callable[[], bool]) -> str | None:
        """Where it stands, or None if it is over."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._status is not None or is_over(), _PATIENCE), "it came nowhere"
            return self._status

    def look_again(self) -> None:
        """Have whoever waits see whether it is over."""
        with self._changed:
            self._changed.notify_all()


class _Watched:
    """A transaction whose calls can be stopped at: "before lock overlap_slots", "after gate"."""

    def __init__(self, tx: Transaction, stops: Stops) -> None:
        self._tx = tx
        self._stops = stops

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._tx, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            about = [argument.title for argument in arguments[:1] if isinstance(argument, Table)]
            point = " ".join([name, *about])
            self._stops.at(f"before {point}")
            answer = call(*arguments, **options)
            self._stops.at(f"after {point}")
            return answer

        return watched


class Stepped(Wrapped):
    """An engine whose work can be stopped between its statements."""

    def __init__(self, engine: Engine, stops: Stops) -> None:
        super().__init__(engine)
        self._stops = stops

    async def write(self, work: Work[A]) -> A:
        return await self.engine.write(self._watched(work))

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        return self.engine.transaction(self._watched(end), timeout=timeout)

    def _watched(self, work: Work[A]) -> Work[A]:
        def watched(tx: Transaction) -> A:
            self._stops.works += 1
            answer = work(cast("Transaction", _Watched(tx, self._stops)))
            tx.get(STORE_META, [(0,)])  # an answer: what was sent before it, unanswered, has been done
            self._stops.at(THE_END)
            return answer

        return watched


class Session(Generic[A]):
    """A call of a store, in a thread, with an engine of its own: another node."""

    def __init__(
        self, name: str, engine: Engine, act: Callable[[EngineStore], Awaitable[A]], watcher: Plain | None = None
    ) -> None:
        self.stops = Stops()
        self._name = name
        self._store = EngineStore(Stepped(engine, self.stops))
        self._act = act
        self._watcher = watcher
        self._future: Future[A] = Future()
        self._thread = threading.Thread(target=self._run, name=name)

    def until(self, point: str) -> None:
        """Go on until here."""
        self._go(point)
        assert self.stops.wait(self._future.done) == point, f"{self._name} did not come to {point!r}: {self._future}"

    def until_it_waits(self, connections: int = 1) -> None:
        """Go on until it waits for a lock that another has, on so many of its connections."""
        assert self._watcher is not None, "only a server can say who waits"
        self._go(None)
        until_waiting(self._watcher, self._name, connections, unless=self._future.done)

    def finish(self) -> A:
        """Go on to the end."""
        self._go(None)
        return self._future.result(_PATIENCE)

    def leave(self) -> None:
        """End the thread; what came of it was the test's to look at."""
        if self._thread.ident is not None:
            self.stops.go()
            self._thread.join(_PATIENCE)

    def _go(self, until: str | None) -> None:
        self.stops.go(until)
        if self._thread.ident is None:
            self._thread.start()

    def _run(self) -> None:
        try:
            self._future.set_result(asyncio.run(self._acted()))
        except BaseException as error:  # noqa: BLE001 - `finish` raises it
            self._future.set_exception(error)
        self.stops.look_again()

    async def _acted(self) -> A:
        engine = self._store._engine
        await engine.open()  # not the store: the books are there, and nothing but the act shall be stopped
        try:
            return await self._act(self._store)
        finally:
            await engine.close()


class Plain:
    """A connection with a name, and a thread for a statement that waits."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._connection = psycopg.connect(url, autocommit=True, application_name=name)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._asked: Future[list[Any]] | None = None

    def do(self, statement: str, *parameters: Any) -> list[Any]:
        """Run a statement, and return its rows."""
        cursor = self._connection.execute(statement.encode(), parameters or None)
        return [] if cursor.description is None else cursor.fetchall()

    def one(self, statement: str, *parameters: Any) -> Any:
        """The one value that a statement answers with."""
        ((value,),) = self.do(statement, *parameters)
        return value

    def ask(self, watcher: Plain, statement: str, *parameters: Any) -> None:
        """Run a statement that has to wait for another session; returns when it waits."""
        assert self._asked is None, "one statement at a time"
        self._asked = self._threads.submit(self.do, statement, *parameters)
        until_waiting(watcher, self.name, unless=self._asked.done)

    def answer(self) -> list[Any]:
        """What the statement that had to wait came to."""
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        return asked.result(_PATIENCE)

    def close(self) -> None:
        if self._asked is not None:
            self._connection.cancel()
            self._asked.exception(_PATIENCE)
        self._connection.close()
        self._threads.shutdown()


def until_waiting(watcher: Plain, name: str, connections: int = 1, *, unless: Callable[[], bool]) -> None:
    """Return when the session of this name waits for a lock."""
    for _ in range(_LOOKS_MAX):
        assert not unless(), f"{name} did not have to wait"
        if watcher.one(_WAITING, name) == connections:
            return
    raise AssertionError(f"{name} never came to wait for a lock")


_WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = %s AND wait_event_type = 'Lock'"
)
