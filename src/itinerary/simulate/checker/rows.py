"""What must be so of any store, whatever happened: trails, and the tables by which rows are found.

trail        each line leads legally from the one before it, and the last one to the state of the row
indexes      active, waiting and windows hold exactly the rows that they should; a job's history has each end once
held         who is in a slot runs or is about to; shares are held by those who say so
settled      when nothing is left to do: all is final, nothing is held, nobody has mail
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from itinerary.errors import IllegalTransition
from itinerary.model.rows import JobNumber, OccurrenceRow, Ref, TransitionRow
from itinerary.model.states import FINAL, OccurrenceState, advance
from itinerary.simulate.checker.snapshot import Snapshot
from itinerary.simulate.violations import Rule, Violations

__all__ = ["check_rows", "check_settled"]

_WITHDRAWN = (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)
_UNSTARTED = (OccurrenceState.PRERUN, OccurrenceState.PENDING)
_CHAPTER = 16
"""How many ends a chapter of a history has: written out, so that it is not read off what it checks."""


def check_rows(snapshot: Snapshot, violations: Violations) -> None:
    """What is so at any time."""
    keys: dict[object, Ref] = {}
    for row in snapshot.occurrences.values():
        known = keys.setdefault(row.key, row.ref)
        if known != row.ref:
            violations.add(Rule.ONE_ROW, f"{snapshot.named(row)} is there twice, also as occurrence {known}")
        _check_trail(snapshot, row, violations)
    _check_indexes(snapshot, violations)
    _check_histories(snapshot, violations)
    _check_held(snapshot, violations)


def check_settled(snapshot: Snapshot, violations: Violations) -> None:
    """What is so when everything has been done, and everybody has had the time to do it."""
    for row in snapshot.occurrences.values():
        if row.status not in FINAL:
            violations.add(Rule.SETTLED, f"{snapshot.named(row)} is still {row.status} (owner {row.owner})")
    for slot in snapshot.slots.values():
        if slot.ref is not None:
            violations.add(Rule.SETTLED, f"the slot of job {slot.job} is held by occurrence {slot.ref}")
    for share in snapshot.shares:
        violations.add(Rule.SETTLED, f"occurrence {share.ref} holds a share of limit {share.name}")
    present = {node.number for node in snapshot.nodes.values() if node.left_at is None}
    for mail in snapshot.mail:
        if mail.node in present:
            violations.add(Rule.SETTLED, f"node {mail.node} has unread mail about occurrence {mail.ref}")


# -- the audit trail -------------------------------------------------------------------------------------------------


def _check_trail(snapshot: Snapshot, row: OccurrenceRow, violations: Violations) -> None:
    state: OccurrenceState | None = None
    for line in snapshot.trail(row):
        if line.before is not state:
            message = f"a line from {line.before} to {line.after} follows {state}"
            violations.add(Rule.TRAIL, f"{snapshot.named(row)}: {message}", line.at)
        _check_line(snapshot, row, line, violations)
        state = line.after
    if state is not row.status:
        violations.add(Rule.TRAIL, f"{snapshot.named(row)} is {row.status}, and its trail ends with {state}")
    if (row.ended_at is None) != (row.status not in FINAL):
        violations.add(Rule.TRAIL, f"{snapshot.named(row)} is {row.status}, and ended at {row.ended_at}")
    if row.status is OccurrenceState.QUEUED and row.owner is not None:
        violations.add(Rule.TRAIL, f"{snapshot.named(row)} stands in line, and belongs to node {row.owner}")


def _check_line(snapshot: Snapshot, row: OccurrenceRow, line: TransitionRow, violations: Violations) -> None:
    try:
        advance(line.before, line.after, by_update=(line.before, line.after) == _WITHDRAWN)
    except IllegalTransition as error:
        violations.add(Rule.TRAIL, f"{snapshot.named(row)}: {error}", line.at)


# -- the tables by which rows are found ------------------------------------------------------------------------------


def _check_indexes(snapshot: Snapshot, violations: Violations) -> None:
    rows = snapshot.occurrences.values()
    active = ((row.job, row.ref, row.due_at) for row in rows if row.status not in FINAL)
    _compare("active", ((row.job, row.ref, row.due_at) for row in snapshot.active), active, violations)
    waiting = ((row.due_at, row.ref) for row in rows if _is_open(row))
    _compare("waiting", ((row.due_at, row.ref) for row in snapshot.waiting), waiting, violations)
    windows = ((row.window_end, row.ref) for row in rows if row.window_end is not None)
    _compare("windows", ((row.end, row.ref) for row in snapshot.windows), windows, violations)
    shares = ((name, row.ref) for row in rows for name in msgspec.json.decode(row.holds or "[]"))
    _compare("shares", ((row.name, row.ref) for row in snapshot.shares), shares, violations)


def _is_open(row: OccurrenceRow) -> bool:
    if row.started_at is not None or row.status not in _UNSTARTED:
        return False
    return row.owner is None or row.status is OccurrenceState.PENDING


def _compare(
    table: str, found: Iterable[tuple[object, ...]], wanted: Iterable[tuple[object, ...]], violations: Violations
) -> None:
    there, right = dict.fromkeys(found), dict.fromkeys(wanted)
    for row in there:
        if row not in right:
            violations.add(Rule.INDEXES, f"{table} has {row}, and no row is like that")
    for row in right:
        if row not in there:
            violations.add(Rule.INDEXES, f"{table} lacks {row}")


def _check_histories(snapshot: Snapshot, violations: Violations) -> None:
    listed: dict[tuple[JobNumber, int], Ref] = {}
    for chapter in snapshot.chapters:
        for place, ref in enumerate(_refs(chapter.refs), chapter.number * _CHAPTER):
            listed[chapter.job, place] = ref
    for slot in snapshot.slots.values():
        recent = _refs(slot.recent)
        for place, ref in enumerate(recent, slot.count - len(recent)):
            listed[slot.job, place] = ref
    for row in snapshot.occurrences.values():
        if (row.place is None) != (row.status not in FINAL):
            violations.add(
                Rule.INDEXES, f"{snapshot.named(row)} is {row.status}, with place {row.place} in its history"
            )
        elif row.place is not None and listed.get((row.job, row.place)) != row.ref:
            there = listed.get((row.job, row.place))
            violations.add(
                Rule.INDEXES, f"{snapshot.named(row)} is not at place {row.place} of its history, but {there}"
            )


def _refs(packed: bytes) -> list[Ref]:
    return [Ref(int.from_bytes(packed[at : at + 8], "little", signed=True)) for at in range(0, len(packed), 8)]


def _check_held(snapshot: Snapshot, violations: Violations) -> None:
    for slot in snapshot.slots.values():
        if slot.ref is None:
            continue
        row = snapshot.occurrences.get(slot.ref)
        if row is None or row.status in FINAL or row.status in (OccurrenceState.PRERUN, OccurrenceState.QUEUED):
            state = "gone" if row is None else row.status
            violations.add(
                Rule.INDEXES, f"the slot of job {slot.job} is held by occurrence {slot.ref}, which is {state}"
            )
        elif slot.fence != row.fence and row.started_at is None:
            message = f"the slot of job {slot.job} is held under fence {slot.fence}, and its occurrence has {row.fence}"
            violations.add(Rule.INDEXES, message)
    for row in snapshot.occurrences.values():
        slot = snapshot.slots[row.job]
        if row.status is OccurrenceState.QUEUED and (slot.ref is None or not slot.has_line):
            violations.add(Rule.INDEXES, f"{snapshot.named(row)} stands in line, and nobody will wake it")
