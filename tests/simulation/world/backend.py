"""The database of a simulated world: the memory engine, with an observer of every commit.

The backend adds two things to the memory engine. A commit with a notification wakes its listeners at once, instead of
at the next of four polls a second: a day would have 345,600 polls. And a `Looking` receives each commit, with each row
before the change, so rules that always hold are checked at every commit (see `checker.commits`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from itinerary.stores.engine import T, Work
from itinerary.stores.memory import MemoryEngine, MemoryTransaction
from itinerary.stores.tables import Table, Values
from itinerary.testing.processes import Process
from tests.simulation.world.clock import SimulatedStoreClock

__all__ = ["Backend", "Commit", "Looking"]


class Commit:
    """A committed transaction: the process that requested it, and the changed rows."""

    def __init__(
        self, at: int, by: Process | None, request: object, before: dict[str, dict[Values, Any]], backend: Backend
    ) -> None:
        self.at = at
        self.by = by
        """The process that made the call. None: an operator, or the world itself."""
        self.request = request
        """The request to the store, if the caller has set it (see `store`)."""
        self._before = before
        self._backend = backend

    def changed(self, table: Table[Any]) -> list[tuple[Any, Any]]:
        """Return each changed row before the commit (None: a new row) and now."""
        touched = self._before.get(table.title)
        if touched is None:
            return []
        rows = self._backend.rows(table)
        return [(before, rows.get(key)) for key, before in touched.items()]


class Looking(Protocol):
    """An observer of every commit."""

    def see(self, commit: Commit) -> None:
        """Check a commit directly after it is made."""

    def handle(self, at: int, request: object, answer: object) -> None:
        """Check the answer to a request, also if the request changed no row."""


class Backend(MemoryEngine):
    """The only database of a world."""

    def __init__(self, clock: SimulatedStoreClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.witness: Looking | None = None
        self.listeners: dict[Callable[[], None], None] = {}
        """Callbacks for commits with a notification."""
        self.commits = 0

    def rows(self, table: Table[Any]) -> dict[Values, Any]:
        """Return all rows of a table by their keys. The caller must not change them."""
        return self._tables[table.title].rows

    def commit(self, work: Work[T], by: Process | None = None, request: object = None) -> T:
        """Run work and commit it at once. If the work raises, nothing changes.

        Args:
            work: The transaction.
            by: The process that made the call; None for an operator or the world.
            request: The request that the observer compares with the changed rows.
        """
        now = self._clock()
        tx = _Transaction(self._tables, now)
        try:
            answer = work(tx)
        except BaseException:
            tx.undo()
            raise
        before = tx.first_versions()
        if before:
            self.commits += 1
            if self.witness is not None:
                self.witness.see(Commit(now, by, request, before, self))
            if tx.has_told:
                for listener in list(self.listeners):
                    listener()
        if request is not None and self.witness is not None:
            self.witness.handle(now, request, answer)
        return answer

    async def write(self, work: Work[T]) -> T:
        return self.commit(work)


class _Transaction(MemoryTransaction):
    """A transaction that knows its changed rows."""

    has_told = False

    def notify(self, topics: Collection[str]) -> None:
        super().notify(topics)
        self.has_told = True

    def first_versions(self) -> dict[str, dict[Values, Any]]:
        """Return each changed row as it was before the transaction, by table and key."""
        found: dict[str, dict[Values, Any]] = {}
        for table, key, before in self._journal:
            found.setdefault(table.title, {}).setdefault(key, before)
        return found
