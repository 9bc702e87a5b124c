"""Everything that a store holds, in a form that two stores can be compared by, and what must be true of it.

Numbers that a store gives out may differ between two (one of them leaves gaps), and so do times. An occurrence is
therefore named by its key, and of a time only whether there is one is kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

from msgspec.structs import asdict

from itinerary.model.rows import OccurrenceRow, Ref, TransitionRow
from itinerary.model.states import FINAL, OccurrenceState, advance
from itinerary.stores import tables
from itinerary.stores.engine import Engine
from itinerary.stores.ledger.history import CHAPTER, refs_in
from itinerary.stores.ledger.indexes import is_open
from itinerary.stores.tables import R, Table
from itinerary.stores.transaction import Transaction

__all__ = ["Dump", "dump", "without_times"]

TIMES: Final = frozenset(
    {
        "at",
        "beat_at",
        "created_at",
        "effective_from",
        "ended_at",
        "entered_at",
        "expires_at",
        "history_floor",
        "joined_at",
        "lease_until",
        "left_at",
        "plan_from",
        "plan_to",
        "registered_at",
        "started_at",
        "watermark",
    }
)
_NUMBERED: Final = {
    "ref": "occurrences",
    "job": "jobs",
    "config": "configs",
    "owner": "nodes",
    "node": "nodes",
    "holder": "nodes",
    "touched_by": "nodes",
    "created_by": "nodes",
}
"""Which columns hold a number that the store gave out, and of what."""
_NAMES: Final = {"jobs": "name", "configs": "digest", "nodes": "incarnation"}
_TRIGGERS: Final = re.compile(r"itinerary/triggers/(\d+)")
_ALL_OF_THEM: Final = 1_000_000


class Dump:
    """The rows of all tables."""

    def __init__(self, tx: Transaction) -> None:
        self.rows: dict[str, list[Any]] = {
            table.title: tx.scan(table, limit=_ALL_OF_THEM) for table in tables.ALL if table is not tables.NOTIFICATIONS
        }
        self.occurrences: dict[Ref, OccurrenceRow] = {row.ref: row for row in self.of(tables.OCCURRENCES)}

    def of(self, table: Table[R]) -> list[R]:
        return self.rows[table.title]

    def comparable(self) -> dict[str, list[str]]:
        """Every row as text, without what may differ."""
        return {title: sorted(self._shown(row) for row in rows) for title, rows in self.rows.items()}

    def _shown(self, row: Any) -> str:
        values = without_times(asdict(row))
        for name, value in values.items():
            if name in {"recent", "refs"}:
                values[name] = [self._key(ref) for ref in refs_in(value)]
            elif value is not None and name in _NUMBERED:
                values[name] = self._named(_NUMBERED[name], value)
            elif name == "stream" and (found := _TRIGGERS.fullmatch(value)):
                values[name] = f"triggers of {self._named('jobs', int(found[1]))}"
        if hasattr(row, "number") and not hasattr(row, "job") and not hasattr(row, "ref"):
            values["number"] = None
        values |= {name: _without_refs(values[name]) for name in ("reason", "why", "cancelled_by") if name in values}
        return f"{type(row).__name__} {values}"

    def _named(self, table: str, number: int) -> str:
        """What a number stands for."""
        if table == "occurrences":
            return self._key(Ref(number))
        found = [row for row in self.rows[table] if row.number == number]
        return "all" if not found else str(getattr(found[0], _NAMES[table]))

    def _key(self, ref: Ref) -> str:
        row = self.occurrences.get(ref)
        if row is None:
            return "pruned"
        return f"{self._named('jobs', row.job)} {row.kind} {row.instant} {row.request}"

    def check(self) -> None:
        """What must be true of a store at any time, whatever was asked of it."""
        active = {(row.job, row.ref) for row in self.of(tables.ACTIVE)}
        queued = OccurrenceState.QUEUED
        unended = [row for row in self.occurrences.values() if row.status not in FINAL]
        assert active == {(row.job, row.ref) for row in unended if row.status is not queued}
        in_line = {(row.job, row.rank, row.instant, row.ref) for row in self.of(tables.OVERLAP_QUEUE)}
        assert in_line == {
            (row.job, int(not row.is_recovery), row.instant, row.ref) for row in unended if row.status is queued
        }
        waiting = {(row.due_at, row.ref) for row in self.of(tables.WAITING)}
        assert waiting == {(row.due_at, row.ref) for row in self.occurrences.values() if is_open(row)}
        trails: defaultdict[Ref, list[TransitionRow]] = defaultdict(list)
        for line in self.of(tables.TRANSITIONS):
            trails[line.ref].append(line)
        for row in self.occurrences.values():
            _check_row(row, trails[row.ref])
        self._check_histories()
        self._check_slots()
        held = {(row.name, row.ref) for row in self.of(tables.SHARES)}
        said = {(name, row.ref) for row in self.occurrences.values() for name in _names(row.holds)}
        assert held == said

    def _check_histories(self) -> None:
        listed: dict[tuple[int, int], Ref] = {}
        for chapter in self.of(tables.HISTORY_CHUNKS):
            listed |= {(chapter.job, chapter.number * CHAPTER + n): ref for n, ref in enumerate(refs_in(chapter.refs))}
        for slot in self.of(tables.OVERLAP_SLOTS):
            recent = refs_in(slot.recent)
            assert len(recent) == slot.count % CHAPTER
            listed |= {(slot.job, slot.count - len(recent) + n): ref for n, ref in enumerate(recent)}
        for row in self.occurrences.values():
            assert (row.place is None) == (row.status not in FINAL)
            assert row.place is None or listed[row.job, row.place] == row.ref

    def _check_slots(self) -> None:
        for slot in self.of(tables.OVERLAP_SLOTS):
            queued = [
                row for row in self.occurrences.values() if row.job == slot.job and row.status is OccurrenceState.QUEUED
            ]
            assert not queued or (slot.has_queue and slot.ref is not None), "who stands in line waits for somebody"
            if slot.ref is not None:
                holder = self.occurrences[slot.ref]
                assert holder.status not in FINAL | {OccurrenceState.PRERUN, OccurrenceState.QUEUED}


def _check_row(row: OccurrenceRow, trail: list[TransitionRow]) -> None:
    if not trail or trail[0].before is not None:  # then the row itself says how it was made
        trail.insert(0, TransitionRow(row.ref, 0, 0, None, OccurrenceState.PRERUN, row.created_at, row.created_by))
    prerun, pending, running = OccurrenceState.PRERUN, OccurrenceState.PENDING, OccurrenceState.RUNNING
    is_plain = trail[0].after is prerun and not any(line.before is prerun for line in trail)
    if row.started_at is not None and is_plain:  # and how it was started
        at, by = row.started_at, row.created_by
        trail.insert(1, TransitionRow(row.ref, 1, 0, prerun, pending, at, by))
        trail.insert(2, TransitionRow(row.ref, 1, 1, pending, running, at, by))
    completed = OccurrenceState.COMPLETED
    if row.status is completed and not any(line.after is completed for line in trail):  # and how it ended
        trail.append(TransitionRow(row.ref, row.sequence, 0, running, completed, row.ended_at or 0, row.owner))
    assert [line.before for line in trail].count(None) == 1
    for line, following in zip(trail, [*trail[1:], None], strict=True):
        _check_line(line)
        assert line.after is (row.status if following is None else following.before)
    starts = [line for line in trail if line.before is OccurrenceState.PENDING and line.after not in FINAL]
    assert (row.started_at is None) or starts, "what has started was pending"
    assert (row.ended_at is not None) == (row.status in FINAL)
    if row.status is OccurrenceState.QUEUED:
        assert row.owner is None


def _check_line(line: TransitionRow) -> None:
    by_update = (line.before, line.after) == (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)
    assert advance(line.before, line.after, by_update=by_update) is line.after


def _without_refs(text: str | None) -> str | None:
    """A reason that names occurrences, without their numbers."""
    return None if text is None else re.sub(r"occurrence \d+", "occurrence", text)


def _names(holds: str | None) -> list[str]:
    return [] if holds is None else [name for name in holds.strip("[]").replace('"', "").split(",") if name]


def without_times(values: dict[str, Any]) -> dict[str, Any]:
    """The same, with each time replaced by whether there is one."""
    return {name: (value is not None) if name in TIMES else value for name, value in values.items()}


async def dump(engine: Engine) -> Dump:
    """All that an engine holds at one moment."""
    return await engine.read(Dump)
