"""People, who cancel and trigger as they please. What they ask for is durable at once (PROTOCOL 25)."""

from __future__ import annotations

from random import Random

from itinerary.model.occurrence import Kind
from itinerary.model.rows import Key
from itinerary.model.states import FINAL
from itinerary.model.writes import Cancellation, Wanted
from itinerary.simulate.backend import Backend
from itinerary.simulate.dice import one_of
from itinerary.simulate.history import History
from itinerary.stores import ledger
from itinerary.stores.tables import JOBS, OCCURRENCES

__all__ = ["People"]


class People:
    """They stand beside the store: no network keeps them from it."""

    def __init__(self, backend: Backend, dice: Random, history: History) -> None:
        self._backend = backend
        self._dice = dice
        self._history = history
        self._triggers = 0

    def cancel(self) -> None:
        """Cancel some occurrence that is not over, if there is one."""
        rows = [row for row in self._backend.rows(OCCURRENCES).values() if row.status not in FINAL]
        if rows:
            ref = one_of(self._dice, rows).ref
            self._history.note("people", "cancel", f"occurrence {ref}")
            self._backend.commit(lambda tx: ledger.control(tx, None, [Cancellation(ref, "people: it was to be")]))

    def trigger(self, now: int) -> None:
        """Have some job run now."""
        job = one_of(self._dice, list(self._backend.rows(JOBS).values()))
        self._triggers += 1
        instant = now // 1_000_000 * 1_000_000
        wanted = Wanted(Key(instant, job.number, Kind.TRIGGER, f"request {self._triggers}"), job.version, instant)
        self._history.note("people", "trigger", job.name)
        self._backend.commit(lambda tx: ledger.claim(tx, None, None, [wanted]))
