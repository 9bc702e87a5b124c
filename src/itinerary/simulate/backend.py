"""The database of a simulated world: the memory engine, with somebody who watches every commit.

What it adds to the reference is two things. Whoever waits for news is woken by the commit that tells of it, instead of
looking four times a second: a day has 345,600 quarters of a second. And each commit is shown to a `Witness`, with what
each row was before it: what must be so at every moment is checked at every moment (see `witness`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from itinerary.simulate.clock import StoreClock
from itinerary.simulate.processes import Process
from itinerary.stores.engine import T, Work
from itinerary.stores.memory import MemoryEngine, MemoryTransaction
from itinerary.stores.tables import Table, Values

__all__ = ["Backend", "Commit", "Looking"]


class Commit:
    """One transaction that has been committed: who asked for it, and what it changed."""

    def __init__(
        self, at: int, by: Process | None, request: object, before: dict[str, dict[Values, Any]], backend: Backend
    ) -> None:
        self.at = at
        self.by = by
        """None: a person, or the world itself."""
        self.request = request
        """What the store was asked for, if the one who asked has said so (see `store`)."""
        self._before = before
        self._backend = backend

    def changed(self, table: Table[Any]) -> list[tuple[Any, Any]]:
        """Each row that it touched, as it was before (None: it was not there) and as it is now."""
        touched = self._before.get(table.title)
        if touched is None:
            return []
        rows = self._backend.rows(table)
        return [(before, rows.get(key)) for key, before in touched.items()]


class Looking(Protocol):
    """Who is shown each commit."""

    def see(self, commit: Commit) -> None:
        """Look at what was committed just now."""

    def hear(self, at: int, request: object, answer: object) -> None:
        """Hear what was answered to a request, whether it has changed anything or not."""


class Backend(MemoryEngine):
    """The one database of a world."""

    def __init__(self, clock: StoreClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.witness: Looking | None = None
        self.listeners: dict[Callable[[], None], None] = {}
        """Called when there is news."""
        self.commits = 0

    def rows(self, table: Table[Any]) -> dict[Values, Any]:
        """All rows of a table by their keys, to be looked at."""
        return self._tables[table.title].rows

    def commit(self, work: Work[T], by: Process | None = None, request: object = None) -> T:
        """Run work at once. It is committed when this returns; if this raises, nothing has happened."""
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
            self.witness.hear(now, request, answer)
        return answer

    async def write(self, work: Work[T]) -> T:
        return self.commit(work)


class _Transaction(MemoryTransaction):
    """A transaction that can say what it changed."""

    has_told = False

    def tell(self, topics: Collection[str]) -> None:
        super().tell(topics)
        self.has_told = True

    def first_versions(self) -> dict[str, dict[Values, Any]]:
        """Each row that was touched as it was before the transaction, by table and key."""
        found: dict[str, dict[Values, Any]] = {}
        for table, key, before in self._journal:
            found.setdefault(table.title, {}).setdefault(key, before)
        return found
