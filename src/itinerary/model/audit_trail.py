"""The complete audit trail of an occurrence: the stored lines, and those that its row implies.

Every step in the life of an occurrence is stored as a line, except the three plain steps that nearly all share:

    created as `prerun`, without a reason          the row has the time and the creator
    started by its creator, unchanged              the row has the time; the first owner is the creator
    completed, from `running`, by its owner        the row has the time of that write, and keeps its owner

A plain start includes the first attempt of the first task. That attempt is not stored either while only its start is
known. Its row is written together with its outcome.

Every step that is not plain is stored, so a missing line was plain. An occurrence with one task that succeeds needs
three rows instead of seven: the occurrence, its task and the attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from itinerary.model.rows import AttemptRow, NodeNumber, OccurrenceRow, Ref, TransitionRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import StartRequest, Step

__all__ = [
    "all_attempts",
    "as_claimed",
    "is_plain_end",
    "is_plain_life",
    "is_plain_start",
    "is_plainly_made",
    "marked",
    "unsaid_attempts",
    "whole_trail",
]

_FIRST_FENCE = 1
# Access to enum members is slow, and these are used for every occurrence.
_RUNS = TaskState.RUNNING
_PRERUN = OccurrenceState.PRERUN
_RUNNING = OccurrenceState.RUNNING
_COMPLETED = OccurrenceState.COMPLETED


def is_plainly_made(row: OccurrenceRow) -> bool:
    """True if a new row implies the line of its creation."""
    return row.status is _PRERUN and row.reason is None


def is_plain_start(row: OccurrenceRow, owner: NodeNumber, request: StartRequest) -> bool:
    """True if this row will imply the lines of its start.

    The start goes through `pending` to `running`. The transition table allows that from `prerun`.
    """
    return (
        row.fence == _FIRST_FENCE
        and row.sequence == 0
        and row.status is _PRERUN
        and request.to is _RUNNING
        and row.created_by == owner
        and bool(request.attempts)
        and _is_first(request.attempts[0])
    )


def marked(request: StartRequest) -> StartRequest:
    """Return the start with `is_plain` set.

    The caller computes this before the instant, so that nothing has to be checked when the occurrence is due.
    """
    is_plain = _begins_plainly(request)
    return request if request.is_plain is is_plain else replace(request, is_plain=is_plain)


def _begins_plainly(request: StartRequest) -> bool:
    """True if a start asks for nothing beyond what the row of a claimed occurrence implies."""
    return (
        request.fence == _FIRST_FENCE
        and request.job is not None
        and request.instant is not None
        and request.adjustments == 0
        and request.to is _RUNNING
        and request.skip is None
        and not request.limits
        and not request.tasks
        and bool(request.attempts)
        and _is_first(request.attempts[0])
        and not unsaid_attempts(request.attempts)
    )


def as_claimed(owner: NodeNumber) -> dict[str, Any]:
    """Return the fields of a row that a node has claimed and that is unchanged since.

    The start of such a row is plain.
    """
    return {
        "owner": owner,
        "created_by": owner,
        "fence": _FIRST_FENCE,
        "sequence": 0,
        "status": _PRERUN,
        "adjustments": 0,
        "started_at": None,
        "cancelled_by": None,
        "overrides": None,
        "reason": None,
    }


def unsaid_attempts(attempts: tuple[AttemptRow, ...]) -> tuple[AttemptRow, ...]:
    """Return the first attempts of a plain start that its row does not imply."""
    first = attempts[0]
    is_said = (
        first.status is _RUNS
        and first.started_at is None
        and first.ended_at is None
        and first.error is None
        and first.output is None
    )
    return attempts[1:] if is_said else attempts


def is_plain_end(row: OccurrenceRow, steps: Sequence[Step], by: NodeNumber | None) -> bool:
    """True if this row will imply the line of its end, given these steps."""
    return (
        row.status is _RUNNING
        and len(steps) == 1
        and steps[0].to is _COMPLETED
        and steps[0].why is None
        and by is not None
        and row.owner == by
    )


def is_plain_life(row: OccurrenceRow) -> bool:
    """True if a row without stored lines implies its whole life: created, started and completed."""
    return row.status is _COMPLETED and row.started_at is not None and row.ended_at is not None


def _is_first(attempt: AttemptRow) -> bool:
    return attempt.place == 0 and attempt.number == 1


def _first_attempt(ref: Ref) -> AttemptRow:
    return AttemptRow(ref, 0, 1, _RUNS)


def _has_started_plainly(row: OccurrenceRow, kept: Sequence[TransitionRow]) -> bool:
    """True if it has started and no stored line says how: none leaves `prerun`, and it was not created as `queued`."""
    is_made_in_line = bool(kept) and kept[0].before is None and kept[0].after is OccurrenceState.QUEUED
    left_prerun = any(line.before is OccurrenceState.PRERUN for line in kept)
    return row.started_at is not None and not left_prerun and not is_made_in_line


def all_attempts(
    row: OccurrenceRow, trail: Sequence[TransitionRow], kept: Sequence[AttemptRow]
) -> tuple[AttemptRow, ...]:
    """Return all attempts in order: the stored ones, and the first one if the row implies it."""
    if not _has_started_plainly(row, trail) or any(map(_is_first, kept)):
        return tuple(kept)
    return (_first_attempt(row.ref), *kept)


def whole_trail(row: OccurrenceRow, kept: Sequence[TransitionRow]) -> tuple[TransitionRow, ...]:
    """Return all lines in order: the stored ones and those that the row implies."""
    ref, by = row.ref, row.created_by
    unsaid: list[TransitionRow] = []
    if not kept or kept[0].before is not None:
        unsaid.append(TransitionRow(ref, 0, 0, None, OccurrenceState.PRERUN, row.created_at, by))
    if row.started_at is not None and _has_started_plainly(row, kept):
        unsaid += [
            TransitionRow(ref, 1, 0, OccurrenceState.PRERUN, OccurrenceState.PENDING, row.started_at, by),
            TransitionRow(ref, 1, 1, OccurrenceState.PENDING, OccurrenceState.RUNNING, row.started_at, by),
        ]
    if row.ended_at is not None and row.status is _COMPLETED and not any(line.after is _COMPLETED for line in kept):
        running = OccurrenceState.RUNNING
        unsaid.append(TransitionRow(ref, row.sequence, 0, running, _COMPLETED, row.ended_at, row.owner))
    return tuple(sorted([*unsaid, *kept], key=lambda line: (line.sequence, line.line)))
