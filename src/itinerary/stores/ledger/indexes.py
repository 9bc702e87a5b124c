"""The tables that find occurrences without reading all of them.

    ACTIVE          neither final nor in the overlap queue
    WAITING         any node may start it
    OVERLAP_QUEUE   in the overlap queue of its job

The ledger updates these tables with every change of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from itinerary.model.occurrence import Kind
from itinerary.model.rows import ActiveRow, OccurrenceRow, WaitingRow
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.stores.ledger.overlap_queue import line_row
from itinerary.stores.tables import ACTIVE, OVERLAP_QUEUE, WAITING
from itinerary.stores.transaction import Transaction

__all__ = ["is_claimed", "is_for_the_sweep", "is_open", "is_unstarted", "keep_indexes"]

_OPEN: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})
_NOT_ACTIVE: Final = FINAL | {OccurrenceState.QUEUED}


def is_for_the_sweep(row: OccurrenceRow, watermark: int) -> bool:
    """True if an occurrence is unchanged since its claim, and no sweep has decided its instant."""
    return row.instant >= watermark and is_claimed(row)


def is_claimed(row: OccurrenceRow) -> bool:
    """True if an occurrence was claimed for its instant, and has neither started nor been through recovery."""
    return row.status is OccurrenceState.PRERUN and row.kind is Kind.SCHEDULED and not row.is_recovery


def is_unstarted(row: OccurrenceRow) -> bool:
    """True if an occurrence has not started and is not in the overlap queue."""
    return row.started_at is None and row.status in _OPEN


def is_open(row: OccurrenceRow) -> bool:
    """True if any node may start an occurrence: no owner, or due and waiting for a free node (protocol rule 15)."""
    if not is_unstarted(row):
        return False
    return row.owner is None or row.status is OccurrenceState.PENDING


def keep_indexes(tx: Transaction, changed: Sequence[tuple[OccurrenceRow, OccurrenceRow]]) -> None:
    """Update the index tables after changes of rows, given as pairs of before and after."""
    _keep_lines(tx, changed)
    _keep_active(tx, changed)
    _keep_waiting(tx, [(before, row) for before, row in changed if before.started_at is None])


def _keep_active(tx: Transaction, changed: Sequence[tuple[OccurrenceRow, OccurrenceRow]]) -> None:
    ended, revived = [], []
    for before, row in changed:
        was_active, now_active = before.status not in _NOT_ACTIVE, row.status not in _NOT_ACTIVE
        if was_active and not now_active:
            ended.append((row.job, row.ref))
        elif now_active and not was_active:
            revived.append(ActiveRow(row.job, row.ref, row.due_at))
    if ended:
        tx.remove(ACTIVE, ended)
    if revived:
        tx.put(ACTIVE, revived)


def _keep_waiting(tx: Transaction, changed: Sequence[tuple[OccurrenceRow, OccurrenceRow]]) -> None:
    """Update WAITING for rows that had not started. A started row can never be in it."""
    opened, closed = [], []
    for before, row in changed:
        was_open, now_open = is_open(before), is_open(row)
        if was_open and not now_open:
            closed.append((row.due_at, row.ref))
        elif now_open and not was_open:
            opened.append(WaitingRow(row.due_at, row.ref))
    if closed:
        tx.remove(WAITING, closed)
    if opened:
        tx.put(WAITING, opened)


def _keep_lines(tx: Transaction, changed: Sequence[tuple[OccurrenceRow, OccurrenceRow]]) -> None:
    left, joined = [], []
    for before, row in changed:
        was_queued, is_queued = before.status is OccurrenceState.QUEUED, row.status is OccurrenceState.QUEUED
        if was_queued and not is_queued:
            left.append(line_row(before))
        if is_queued and not was_queued:
            joined.append(line_row(row))
    if left:
        tx.remove(OVERLAP_QUEUE, list(OVERLAP_QUEUE.keys_of(left)))
    if joined:
        tx.put(OVERLAP_QUEUE, joined)
