"""Reads for an audit: occurrences with every row that must agree with them (see `model.audit_queries`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from itinerary.model.audit_queries import (
    Entry,
    Evidence,
    InspectedPage,
    InspectQuery,
    PointerPage,
    PointersQuery,
    PointerTable,
)
from itinerary.model.rows import JobNumber, OccurrenceRow, OverlapSlotRow, Ref, TransitionRow
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.stores.ledger.history import CHAPTER, refs_in
from itinerary.stores.ledger.overlap_queue import line_row
from itinerary.stores.tables import (
    ACTIVE,
    CONFIGS,
    HISTORY_CHUNKS,
    OCCURRENCES,
    OVERLAP_QUEUE,
    OVERLAP_SLOTS,
    SHARES,
    TRANSITIONS,
    WAITING,
    WINDOWS,
    Table,
)
from itinerary.stores.transaction import Transaction

__all__ = ["inspect", "pointers"]

_TABLES: Final[dict[PointerTable, Table[Any]]] = {
    PointerTable.ACTIVE: ACTIVE,
    PointerTable.OVERLAP_QUEUE: OVERLAP_QUEUE,
    PointerTable.WAITING: WAITING,
    PointerTable.WINDOWS: WINDOWS,
    PointerTable.SHARES: SHARES,
    PointerTable.OVERLAP_SLOTS: OVERLAP_SLOTS,
}
_LINES_AT_ONCE: Final = 10_000
_APART_MAX: Final = 8
"""The largest gap between occurrence numbers whose audit trails are read in one scan.

Occurrences that are created together have adjacent numbers.
"""


def inspect(tx: Transaction, query: InspectQuery) -> InspectedPage:
    """Return a page of occurrences, each with the rows that must agree with it."""
    low = (query.start,) if query.begin is None else tuple(query.begin)
    rows = tx.scan(OCCURRENCES, low=low, high=(query.end,), limit=query.limit, by_name=True)
    trails = _trails(tx, [row.ref for row in rows])
    configs = tx.get(CONFIGS, {(row.config,) for row in rows if row.config is not None})
    queued = [line_row(row) for row in rows if row.status is OccurrenceState.QUEUED]
    in_line = {place.ref: place for place in tx.get(OVERLAP_QUEUE, list(OVERLAP_QUEUE.keys_of(queued))).values()}
    going_on = [row for row in rows if row.status not in FINAL]
    active = {entry.ref: entry for entry in tx.get(ACTIVE, [(row.job, row.ref) for row in going_on]).values()}
    waiting = tx.get(WAITING, [(row.due_at, row.ref) for row in going_on])
    windows = tx.get(WINDOWS, [(row.window_end, row.ref) for row in rows if row.window_end is not None])
    shares = tx.get(SHARES, [(name, row.ref) for row in rows for name in _held(row)])
    slots = {slot.job: slot for slot in tx.get(OVERLAP_SLOTS, {(row.job,) for row in rows}).values()}
    histories = _Histories(tx, rows, slots)
    found = tuple(
        Evidence(
            row,
            row.own_config if row.config is None or (row.config,) not in configs else configs[row.config,].body,
            tuple(trails[row.ref]) if row.ref in trails else (),
            in_line.get(row.ref) or active.get(row.ref),
            waiting.get((row.due_at, row.ref)),
            windows.get((row.window_end, row.ref)),
            tuple(name for name in _held(row) if (name, row.ref) in shares) if row.holds is not None else (),
            histories.listed(row),
            slots.get(row.job),
        )
        for row in rows
    )
    return InspectedPage(tx.now(), found, rows[-1].key if len(rows) == query.limit else None)


def _held(row: OccurrenceRow) -> list[str]:
    names: list[str] = [] if row.holds is None else msgspec.json.decode(row.holds)
    return names


def _trails(tx: Transaction, refs: Sequence[Ref]) -> Mapping[Ref, list[TransitionRow]]:
    wanted = set(refs)
    trails: defaultdict[Ref, list[TransitionRow]] = defaultdict(list)
    for first, last in _runs(sorted(wanted)):
        low: tuple[int, ...] = (first,)
        while True:
            lines = tx.scan(TRANSITIONS, low=low, high=(last + 1,), limit=_LINES_AT_ONCE)
            is_last = len(lines) < _LINES_AT_ONCE
            for line in lines if is_last else lines[:-1]:
                if line.ref in wanted:
                    trails[line.ref].append(line)
            if is_last:
                break
            low = (lines[-1].ref, lines[-1].sequence, lines[-1].line)
    return trails


def _runs(refs: Sequence[Ref]) -> Iterator[tuple[Ref, Ref]]:
    """Yield ranges of numbers with only small gaps between the requested ones."""
    begin = 0
    for place in range(1, len(refs) + 1):
        if place == len(refs) or refs[place] - refs[place - 1] > _APART_MAX:
            yield refs[begin], refs[place - 1]
            begin = place


class _Histories:
    """The history chunks that should list some rows, each unpacked once."""

    def __init__(
        self, tx: Transaction, rows: Sequence[OccurrenceRow], slots: Mapping[JobNumber, OverlapSlotRow]
    ) -> None:
        wanted = {(row.job, row.place // CHAPTER) for row in rows if row.place is not None and row.place >= 0}
        self._chapters = {key: refs_in(chapter.refs) for key, chapter in tx.get(HISTORY_CHUNKS, wanted).items()}
        self._recent = {job: (slot.count, refs_in(slot.recent)) for job, slot in slots.items()}

    def listed(self, row: OccurrenceRow) -> Ref | None:
        """Return the occurrence that the history of the job lists at the position of this row."""
        if row.place is None or row.place < 0:
            return None
        number, place = divmod(row.place, CHAPTER)
        refs = self._chapters.get((row.job, number))
        if refs is None:
            if row.job not in self._recent:
                return None
            count, refs = self._recent[row.job]
            place = row.place - (count - len(refs))
        return refs[place] if 0 <= place < len(refs) else None


def pointers(tx: Transaction, query: PointersQuery) -> PointerPage:
    """Return a page of a table that refers to occurrences."""
    table = _TABLES[query.table]
    entries: list[Entry] = tx.scan(table, low=query.begin, limit=query.limit)
    leading = [entry for entry in entries if entry.ref is not None]
    rows = tx.get(OCCURRENCES, {(entry.ref,) for entry in leading})
    following = table.key_of(entries[-1]) if len(entries) == query.limit else None
    return PointerPage(tuple((entry, rows.get((entry.ref,))) for entry in leading), following)
