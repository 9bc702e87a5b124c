"""The last run before an occurrence: the value of `ctx.last_run_at` where the overlap slot does not have it.

A slot keeps the latest started instant of its job. Nearly every start has a later instant, so the slot has its last
run. This module serves the others: a replay, a backfill, an instant that started after a later one, a run that was
taken over. No table has the occurrences of a job in the order of instants, so the search reads three:

    ACTIVE                  unended occurrences
    history                 ended ones, newest first. No run ends before its instant, so the search stops at runs that
                            ended before the best instant found
    names of occurrences    by instant, for all jobs; read if the walk through history gets long. A job with a long
                            history runs often, so its previous run is not far back

and the job itself, which keeps the last pruned run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobRow, OccurrenceRow, Ref
from itinerary.schedules.durations import SECOND
from itinerary.stores.ledger.history import pieces
from itinerary.stores.tables import ACTIVE, JOBS, OCCURRENCES, Values
from itinerary.stores.transaction import Transaction

__all__ = ["last_runs"]

_PAGE: Final = 1_000
_WALKED_MAX: Final = 2_000
"""Rows of history after which the search continues with the names of occurrences."""
_NAMES_MAX: Final = 100_000
"""Names after which the search returns to history, and reads it to the end."""
_SLACK: Final = 60 * SECOND
"""The largest difference between the order of history and the order of ends."""


def last_runs(tx: Transaction, refs: Collection[Ref]) -> dict[Ref, int | None]:
    """Return the last run before each of these occurrences. Pruned occurrences are left out."""
    rows = tx.get(OCCURRENCES, [(ref,) for ref in refs])
    jobs = tx.get(JOBS, {(row.job,) for row in rows.values()})
    return {row.ref: _Search(tx, row, jobs[row.job,]).found() for row in rows.values()}


class _Search:
    """The search for the last run before one occurrence."""

    def __init__(self, tx: Transaction, row: OccurrenceRow, job: JobRow) -> None:
        self._tx, self._row, self._job = tx, row, job
        self._until = tx.now() if row.started_at is None else row.started_at
        self._best: int | None = None

    def found(self) -> int | None:
        """Return the instant of the last run, or None if there is none."""
        pruned = self._job.last_run_at
        if pruned is not None and pruned < self._row.instant:
            self._best = pruned
        self._look_at_active()
        history = self._history()
        if not self._has_walked(history, _WALKED_MAX) and not self._has_named():
            self._has_walked(history, None)
        return self._best

    def _take(self, rows: Iterable[OccurrenceRow]) -> None:
        row, until = self._row, self._until
        for other in rows:
            if (
                other.kind is Kind.SCHEDULED
                and other.instant < row.instant
                and other.started_at is not None
                and other.started_at <= until
                and (self._best is None or self._best < other.instant)
            ):
                self._best = other.instant

    def _look_at_active(self) -> None:
        low: Values = ()
        while page := self._tx.scan(ACTIVE, (self._row.job,), low=low, limit=_PAGE):
            self._take(self._tx.get(OCCURRENCES, [(one.ref,) for one in page]).values())
            low = (page[-1].ref + 1,)

    def _history(self) -> Iterator[list[OccurrenceRow]]:
        for _, refs in pieces(self._tx, self._row.job, None):
            yield list(self._tx.get(OCCURRENCES, [(ref,) for ref in refs]).values())

    def _has_walked(self, history: Iterator[list[OccurrenceRow]], limit: int | None) -> bool:
        """Walk back through history. Returns False if the limit was reached before the end of the search."""
        walked = 0
        for rows in history:
            self._take(rows)
            walked += len(rows)
            ends = [row.ended_at for row in rows if row.ended_at is not None]
            if self._best is not None and ends and min(ends) + _SLACK < self._best:
                return True
            if limit is not None and walked >= limit:
                return False
        return True

    def _has_named(self) -> bool:
        """Search backwards from the instant, in windows of growing length.

        Returns:
            False if nothing was found, or if other jobs have too many occurrences.
        """
        floor = self._job.registered_at if self._best is None else self._best
        end, width, left = self._row.instant, SECOND, _NAMES_MAX
        while end > floor:
            start, best = max(end - width, floor), self._best
            low: Values = (start,)
            while names := self._tx.names(OCCURRENCES, low=low, high=(end,), limit=_PAGE):
                mine = [name for name in names if name[1] == self._row.job and name[2] == Kind.SCHEDULED]
                if mine:
                    self._take(self._tx.named(OCCURRENCES, mine).values())
                left -= len(names)
                if left <= 0:
                    return False
                if len(names) < _PAGE:
                    break
                low = names[-1]  # read twice, which does no harm
            if self._best != best:
                return True
            end, width = start, width * 2
        return self._best is not None
