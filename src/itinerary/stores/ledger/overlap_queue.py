"""The overlap queue of a job: its `queued` occurrences, in the order of their keys (protocol rule 14).

A queue holds two kinds. A recovery backlog may have any length, and only its first occurrence is ever needed. Of the
others there are as many as the overlap policy allows. The table `overlap_queue` keeps both kinds apart, so that reading
one does not read the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from itinerary.model.rows import OccurrenceRow, OverlapQueueRow, OverlapSlotRow
from itinerary.model.states import OccurrenceState
from itinerary.stores.tables import OCCURRENCES, OVERLAP_QUEUE
from itinerary.stores.transaction import Transaction

__all__ = ["LINE_MAX", "line_row", "stand_in_line"]

LINE_MAX: Final = 100_000
"""The most occurrences of one job that are queued or waiting at a time, besides a recovery backlog."""

_RECOVERY: Final = 0
_OTHERS: Final = 1


def line_row(row: OccurrenceRow) -> OverlapQueueRow:
    """Return the queue entry of an occurrence."""
    return OverlapQueueRow(row.job, _RECOVERY if row.is_recovery else _OTHERS, row.instant, row.ref)


def stand_in_line(tx: Transaction, slot: OverlapSlotRow) -> list[OccurrenceRow]:
    """Lock and return the `queued` occurrences of the slot's job, in the order of their keys.

    The caller has locked the slot. Of a recovery backlog only the first comes: the backlog may be long, and every start
    and end reads this.

    Nothing else is locked: an occurrence that joins the queue has locked its own row, and waits for the slot
    (protocol rule 11). None is missed, because joining needs the slot. But an occurrence may have left the queue until
    its row is locked.
    """
    line: list[OccurrenceRow] = []
    entries = tx.scan(OVERLAP_QUEUE, (slot.job, _RECOVERY), limit=1)
    while entries and not (line := _queued(tx, entries)):
        entries = tx.scan(OVERLAP_QUEUE, (slot.job, _RECOVERY), low=(entries[0].instant, entries[0].ref + 1), limit=1)
    line += _queued(tx, tx.scan(OVERLAP_QUEUE, (slot.job, _OTHERS), limit=LINE_MAX))
    return sorted(line, key=lambda row: row.key)


def _queued(tx: Transaction, entries: Sequence[OverlapQueueRow]) -> list[OccurrenceRow]:
    rows = tx.lock(OCCURRENCES, [(entry.ref,) for entry in entries]).values() if entries else ()
    return [row for row in rows if row.status is OccurrenceState.QUEUED]
