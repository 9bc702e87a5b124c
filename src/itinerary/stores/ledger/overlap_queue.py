"""The line for a job's slot: the `queued` occurrences of a job, in the order of their keys (protocol rule 14).

Two kinds stand in it. A backlog of recovery may be of any length, and of it nobody ever needs more than the first; of
the others there are as many as the job's overlap policy lets queue. The table `lines` keeps them apart, so that neither
is read for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from itinerary.model.rows import LineRow, OccurrenceRow, SlotRow
from itinerary.model.states import OccurrenceState
from itinerary.stores.tables import LINES, OCCURRENCES
from itinerary.stores.transaction import Transaction

__all__ = ["LINE_MAX", "line_row", "stand_in_line"]

LINE_MAX: Final = 100_000
"""The most occurrences of one job that stand in line or wait at a time, besides a backlog of recovery."""

_RECOVERY: Final = 0
_OTHERS: Final = 1


def line_row(row: OccurrenceRow) -> LineRow:
    """Where a row stands in line."""
    return LineRow(row.job, _RECOVERY if row.is_recovery else _OTHERS, row.instant, row.ref)


def stand_in_line(tx: Transaction, slot: SlotRow) -> list[OccurrenceRow]:
    """The `queued` occurrences of a slot's job, locked, in the order of their keys; the slot is locked already. Of a
    backlog of recovery only the first comes: it may be of any length, and is looked at with every start and end.

    Nobody else is locked: who comes to stand in line has locked itself, and waits for the slot (protocol rule 11). And
    nobody is overlooked, since nobody joins the line without the slot. But one may have left it, unless it is locked.
    """
    line: list[OccurrenceRow] = []
    entries = tx.scan(LINES, (slot.job, _RECOVERY), limit=1)
    while entries and not (line := _queued(tx, entries)):
        entries = tx.scan(LINES, (slot.job, _RECOVERY), low=(entries[0].instant, entries[0].ref + 1), limit=1)
    line += _queued(tx, tx.scan(LINES, (slot.job, _OTHERS), limit=LINE_MAX))
    return sorted(line, key=lambda row: row.key)


def _queued(tx: Transaction, entries: Sequence[LineRow]) -> list[OccurrenceRow]:
    rows = tx.lock(OCCURRENCES, [(entry.ref,) for entry in entries]).values() if entries else ()
    return [row for row in rows if row.status is OccurrenceState.QUEUED]
