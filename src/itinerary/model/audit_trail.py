"""The audit trail of an occurrence, whole: the lines that are kept, and those that its row says already.

A line is kept for every step of an occurrence's life but the plainest ones, which nearly all share:

    made as `prerun`, for no particular reason     the row says when and by whom
    started by the one who made it, as it was      the row says when; its first owner is the one who made it
    completed, from `running`, by its owner        the row says when that was written, and keeps its owner

A plain start begins with the first attempt of the first task, and that is not kept either as long as there is nothing
to say of it but that it was begun. Its row is written with whatever comes of it.

Whatever is not plain is kept, so what is missing can only have been plain: nothing else has to be remembered. Of an
occurrence with one task, which succeeds, three rows are left that would otherwise be seven: itself, its task and the
attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from itinerary.model.rows import AttemptRow, NodeNumber, OccurrenceRow, Ref, TransitionRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import Start, Step

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
# Members of enumerations take long to get at, and these are looked at for every occurrence.
_RUNS = TaskState.RUNNING
_PRERUN = OccurrenceState.PRERUN
_RUNNING = OccurrenceState.RUNNING
_COMPLETED = OccurrenceState.COMPLETED


def is_plainly_made(row: OccurrenceRow) -> bool:
    """Whether a new row says all that there is to say of its making."""
    return row.status is _PRERUN and row.reason is None


def is_plain_start(row: OccurrenceRow, owner: NodeNumber, request: Start) -> bool:
    """Whether a row that is as this one, and starts, will say all that there is to say of its start: it goes through
    `pending` to `running`, which the transition table has for everybody who is in `prerun`."""
    return (
        row.fence == _FIRST_FENCE
        and row.sequence == 0
        and row.status is _PRERUN
        and request.to is _RUNNING
        and row.created_by == owner
        and bool(request.attempts)
        and _is_first(request.attempts[0])
    )


def marked(request: Start) -> Start:
    """A start that says whether it is plain: found out ahead of the instant, so that it need not be looked at then."""
    is_plain = _begins_plainly(request)
    return request if request.is_plain is is_plain else replace(request, is_plain=is_plain)


def _begins_plainly(request: Start) -> bool:
    """Whether a start asks for nothing but what the row says that its asker claimed, once that has begun."""
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
    """How the row is of what a node has claimed, and nothing has happened to since: its start is plain."""
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
    """Those of the first attempts of a plain start that its row does not say."""
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
    """Whether a row that is as this one, and ends with these steps, will say all that there is to say of its end."""
    return (
        row.status is _RUNNING
        and len(steps) == 1
        and steps[0].to is _COMPLETED
        and steps[0].why is None
        and by is not None
        and row.owner == by
    )


def is_plain_life(row: OccurrenceRow) -> bool:
    """Whether a row of which no line is kept says the whole of a life: made, started and completed."""
    return row.status is _COMPLETED and row.started_at is not None and row.ended_at is not None


def _is_first(attempt: AttemptRow) -> bool:
    return attempt.place == 0 and attempt.number == 1


def _first_attempt(ref: Ref) -> AttemptRow:
    return AttemptRow(ref, 0, 1, _RUNS)


def _has_started_plainly(row: OccurrenceRow, kept: Sequence[TransitionRow]) -> bool:
    """Whether it has begun, and no line says how: it neither left `prerun` by one, nor was made to stand in line."""
    is_made_in_line = bool(kept) and kept[0].before is None and kept[0].after is OccurrenceState.QUEUED
    left_prerun = any(line.before is OccurrenceState.PRERUN for line in kept)
    return row.started_at is not None and not left_prerun and not is_made_in_line


def all_attempts(
    row: OccurrenceRow, trail: Sequence[TransitionRow], kept: Sequence[AttemptRow]
) -> tuple[AttemptRow, ...]:
    """All attempts, in order, from those that are kept, and the lines that are kept."""
    if not _has_started_plainly(row, trail) or any(map(_is_first, kept)):
        return tuple(kept)
    return (_first_attempt(row.ref), *kept)


def whole_trail(row: OccurrenceRow, kept: Sequence[TransitionRow]) -> tuple[TransitionRow, ...]:
    """All lines, in order."""
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
