"""The audit trail of an occurrence, whole: the lines that are kept, and those that its row says already.

A line is kept for every step of an occurrence's life but the plainest ones, which nearly all share:

    made as `prerun`, for no particular reason     the row says when and by whom
    started by the one who made it, as it was      the row says when; its first owner is the one who made it
    completed, from `running`, by its owner        the row says when that was written, and keeps its owner

Not keeping these saves four rows of a dozen that are written about an occurrence. Whatever is not plain is kept, so
what is missing can only have been plain: nothing else has to be remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from itinerary.model.rows import NodeNumber, OccurrenceRow, TransitionRow
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Step

__all__ = ["is_plain_end", "is_plain_start", "is_plainly_made", "whole_trail"]

_FIRST_FENCE = 1
_COMPLETED = OccurrenceState.COMPLETED


def is_plainly_made(row: OccurrenceRow) -> bool:
    """Whether a new row says all that there is to say of its making."""
    return row.status is OccurrenceState.PRERUN and row.reason is None


def is_plain_start(row: OccurrenceRow, owner: NodeNumber, to: OccurrenceState) -> bool:
    """Whether a row that is as this one, and starts, will say all that there is to say of its start: it goes through
    `pending` to `running`, which the transition table has for everybody who is in `prerun`."""
    return (
        row.fence == _FIRST_FENCE
        and row.sequence == 0
        and row.status is OccurrenceState.PRERUN
        and to is OccurrenceState.RUNNING
        and row.created_by == owner
    )


def is_plain_end(row: OccurrenceRow, steps: Sequence[Step], by: NodeNumber | None) -> bool:
    """Whether a row that is as this one, and ends with these steps, will say all that there is to say of its end."""
    return (
        row.status is OccurrenceState.RUNNING
        and len(steps) == 1
        and steps[0].to is OccurrenceState.COMPLETED
        and steps[0].why is None
        and by is not None
        and row.owner == by
    )


def whole_trail(row: OccurrenceRow, kept: Sequence[TransitionRow]) -> tuple[TransitionRow, ...]:
    """All lines, in order."""
    ref, by = row.ref, row.created_by
    unsaid: list[TransitionRow] = []
    if not kept or kept[0].before is not None:
        unsaid.append(TransitionRow(ref, 0, 0, None, OccurrenceState.PRERUN, row.created_at, by))
    is_made_in_line = bool(kept) and kept[0].before is None and kept[0].after is OccurrenceState.QUEUED
    left_prerun = any(line.before is OccurrenceState.PRERUN for line in kept)
    if row.started_at is not None and not left_prerun and not is_made_in_line:
        unsaid += [
            TransitionRow(ref, 1, 0, OccurrenceState.PRERUN, OccurrenceState.PENDING, row.started_at, by),
            TransitionRow(ref, 1, 1, OccurrenceState.PENDING, OccurrenceState.RUNNING, row.started_at, by),
        ]
    if row.ended_at is not None and row.status is _COMPLETED and not any(line.after is _COMPLETED for line in kept):
        running = OccurrenceState.RUNNING
        unsaid.append(TransitionRow(ref, row.sequence, 0, running, _COMPLETED, row.ended_at, row.owner))
    return tuple(sorted([*unsaid, *kept], key=lambda line: (line.sequence, line.line)))
