"""The checks of one occurrence: its trail is legal, and all other tables agree with its row.

    trail        each line is a legal step from the one before it, and the last one leads to the state of the row
    indexes      active, waiting, windows and the history of its job have it exactly where they should
    held         it holds a share of the limits that it lists; an occurrence in an overlap slot runs or is about to
    pointers     the reverse: no entry refers to a row that is missing or does not match

The rules are written out again here, and do not use the ledger code that they check.
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from itinerary.audit.findings import AuditFindings, Check
from itinerary.errors import IllegalTransition
from itinerary.model.audit_queries import Entry, Evidence
from itinerary.model.rows import (
    ActiveRow,
    JobNumber,
    OccurrenceRow,
    OverlapQueueRow,
    OverlapSlotRow,
    ShareRow,
    TransitionRow,
    WaitingRow,
    WindowRow,
)
from itinerary.model.states import FINAL, OccurrenceState, advance

__all__ = ["check_entry", "check_evidence", "is_sound"]

_WITHDRAWN: Final = (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)
_UNSTARTED: Final = (OccurrenceState.PRERUN, OccurrenceState.PENDING)
_NOT_ACTIVE: Final = FINAL | {OccurrenceState.QUEUED}
_WITHOUT_SLOT: Final = FINAL | {OccurrenceState.PRERUN, OccurrenceState.QUEUED}
_NOBODY: Final = JobNumber(0)


def is_sound(evidence: Evidence) -> bool:
    """True if a quick check is enough, as for nearly all occurrences. Every check below would pass.

    The occurrence has a plain life, has ended, holds nothing and has no window. The history of its job has it at its
    place.
    """
    row = evidence.row
    return (
        evidence.is_plain
        and row.place is not None
        and evidence.listed == row.ref
        and row.holds is None
        and row.window_end is None
        and evidence.slot is not None
    )


def check_evidence(evidence: Evidence, findings: AuditFindings) -> None:
    """Check everything about one occurrence that its evidence shows."""
    _check_trail(evidence, findings)
    _check_indexes(evidence, findings)
    _check_held(evidence, findings)


# -- the audit trail -------------------------------------------------------------------------------------------------


def _check_trail(evidence: Evidence, findings: AuditFindings) -> None:
    row, state = evidence.row, None
    for line in evidence.trail:
        if line.before is not state:
            message = f"has a trail in which a line from {line.before} to {line.after} follows {state or 'nothing'}"
            findings.add_row(Check.TRAIL, row, message)
        _check_line(row, line, findings)
        state = line.after
    if state is not row.status:
        findings.add_row(Check.TRAIL, row, f"is {row.status}, and its trail ends with {state}")
    if (row.ended_at is None) != (row.status not in FINAL):
        when = "has no end" if row.ended_at is None else f"ended at {row.ended_at}"
        findings.add_row(Check.TRAIL, row, f"is {row.status}, and {when}")
    if row.status is OccurrenceState.QUEUED and row.owner is not None:
        findings.add_row(Check.TRAIL, row, f"stands in line, and belongs to node {row.owner}")


def _check_line(row: OccurrenceRow, line: TransitionRow, findings: AuditFindings) -> None:
    try:
        advance(line.before, line.after, by_update=(line.before, line.after) == _WITHDRAWN)
    except IllegalTransition as error:
        findings.add_row(Check.TRAIL, row, f"has an illegal step in its trail: {error}")


# -- index tables ----------------------------------------------------------------------------------------------------


def _check_indexes(evidence: Evidence, findings: AuditFindings) -> None:
    row, is_final = evidence.row, evidence.row.status in FINAL
    is_queued = row.status is OccurrenceState.QUEUED
    if not is_final and not isinstance(evidence.active, OverlapQueueRow if is_queued else ActiveRow):
        which = "overlap_queue" if is_queued else "active"
        findings.add_row(Check.INDEXES, row, f"is {row.status}, and the table {which} lacks it")
    if _is_open(row) and evidence.waiting is None:
        findings.add_row(Check.INDEXES, row, f"is {row.status} for any node, and the table waiting lacks it")
    if row.window_end is not None and evidence.window is None:
        findings.add_row(Check.INDEXES, row, "answers for a window, and the table of windows lacks it")
    if (row.place is None) == is_final:
        findings.add_row(Check.INDEXES, row, f"is {row.status}, with place {row.place} in its job's history")
    elif row.place is not None and evidence.listed != row.ref:
        there = "nobody" if evidence.listed is None else f"occurrence {evidence.listed}"
        findings.add_row(Check.INDEXES, row, f"is not at place {row.place} of its job's history: {there} is")


def _is_open(row: OccurrenceRow) -> bool:
    """True if any node may start it (protocol rule 15)."""
    if row.started_at is not None or row.status not in _UNSTARTED:
        return False
    return row.owner is None or row.status is OccurrenceState.PENDING


# -- held slots and shares -------------------------------------------------------------------------------------------


def _check_held(evidence: Evidence, findings: AuditFindings) -> None:
    row, slot = evidence.row, evidence.slot
    names: list[str] = [] if row.holds is None else msgspec.json.decode(row.holds)
    if names and row.status in FINAL:
        findings.add_row(Check.HELD, row, f"is {row.status}, and holds a share of {', '.join(names)}")
    for name in names:
        if name not in evidence.shares:
            findings.add_row(Check.HELD, row, f"holds a share of limit {name}, and the limit does not know of it")
    if slot is None:
        findings.add_row(Check.INDEXES, row, "has a job without a slot")
    elif row.status is OccurrenceState.QUEUED and (slot.ref is None or not slot.has_queue):
        findings.add_row(Check.LINE, row, "stands in line, and nobody will wake it")


# -- pointer tables --------------------------------------------------------------------------------------------------


def check_entry(entry: Entry, row: OccurrenceRow | None, findings: AuditFindings) -> None:
    """Check a row of a pointer table against the occurrence that it refers to."""
    if row is None:
        job = entry.job if isinstance(entry, ActiveRow | OverlapQueueRow | OverlapSlotRow) else _NOBODY
        findings.add(Check.INDEXES, job, None, f"{_said(entry)} leads to occurrence {entry.ref}, which is not there")
        return
    match entry:
        case ActiveRow():
            is_right = row.status not in _NOT_ACTIVE and (row.job, row.due_at) == (entry.job, entry.due_at)
        case OverlapQueueRow():
            is_queued = row.status is OccurrenceState.QUEUED
            is_right = is_queued and (row.job, row.instant, row.is_recovery) == (
                entry.job,
                entry.instant,
                not entry.rank,
            )
        case WaitingRow():
            is_right = _is_open(row) and row.due_at == entry.due_at
        case WindowRow():
            is_right = row.window_end == entry.end
        case ShareRow():
            is_right = entry.name in msgspec.json.decode(row.holds or "[]")
        case OverlapSlotRow():
            _check_slot(entry, row, findings)
            return
        case _:
            assert_never(entry)
    if not is_right:
        findings.add_row(Check.INDEXES, row, f"is {row.status}, and {_said(entry)} leads to it")


def _check_slot(slot: OverlapSlotRow, row: OccurrenceRow, findings: AuditFindings) -> None:
    if row.job != slot.job:
        findings.add_row(Check.HELD, row, f"is in the slot of another job: {findings.name(slot.job)}")
    elif row.status in _WITHOUT_SLOT:
        findings.add_row(Check.HELD, row, f"is {row.status}, and is in its job's slot")
    elif slot.fence != row.fence and row.started_at is None:
        message = f"is in its job's slot under fence {slot.fence}, and has fence {row.fence}"
        findings.add_row(Check.HELD, row, message)


def _said(entry: Entry) -> str:
    match entry:
        case ActiveRow():
            return f"the table active (due {entry.due_at})"
        case OverlapQueueRow():
            return f"the table overlap_queue (instant {entry.instant})"
        case WaitingRow():
            return f"the table waiting (due {entry.due_at})"
        case WindowRow():
            return f"the table of windows (end {entry.end})"
        case ShareRow():
            return f"limit {entry.name}"
        case OverlapSlotRow():
            return "its slot"
        case _:
            assert_never(entry)
