"""Shutdowns during an occurrence: when its node was shut down, and which node continued it (R9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from itinerary.explain.context import OccurrenceContext
from itinerary.model.reasons import BEFORE_THE_CALL, Reason, ReasonKind, read_reason
from itinerary.model.rows import TransitionRow
from itinerary.model.states import OccurrenceState

__all__ = ["RecordedInterruption", "interrupted_words", "interruptions_of", "is_before_the_call", "waits_for_a_node"]

_WORKING: Final = frozenset({OccurrenceState.RUNNING, OccurrenceState.CONTAINER_CREATING})
_TOLD_MAX: Final = 2


class RecordedInterruption(NamedTuple):
    """A line of the audit trail that records the shutdown of the node, and the line that continued the occurrence."""

    line: TransitionRow
    node: str
    continued: TransitionRow | None


def interruptions_of(trail: Sequence[TransitionRow]) -> list[RecordedInterruption]:
    """Return all shutdowns in an audit trail, in the order of time."""
    found = []
    for place, line in enumerate(trail):
        reason = _shutdown(line)
        if reason is not None:
            continued = next((later for later in trail[place + 1 :] if later.after in _WORKING), None)
            found.append(RecordedInterruption(line, reason.name or "", continued))
    return found


def _shutdown(line: TransitionRow) -> Reason | None:
    """Return the reason of a shutdown that did not end the occurrence; None if the line records no such shutdown."""
    reason = read_reason(line.why) if line.after is OccurrenceState.RETRYING else None
    return reason if reason is not None and reason.kind is ReasonKind.SHUTDOWN else None


def is_before_the_call(line: TransitionRow) -> bool:
    """True if the line says that the node was shut down before it had called the function."""
    return _shutdown(line) is not None and BEFORE_THE_CALL in (line.why or "")


def interrupted_words(found: OccurrenceContext) -> str:
    """Return the effects of shutdowns on an occurrence, in sentences; empty if there was none."""
    all_of_them = interruptions_of(found.detail.transitions)
    told = [_sentence(found, one) for one in all_of_them[-_TOLD_MAX:]]
    if len(all_of_them) > _TOLD_MAX:
        told.insert(0, f"Shutdowns interrupted it {len(all_of_them)} times.")
    return " ".join(told)


def _sentence(found: OccurrenceContext, one: RecordedInterruption) -> str:
    time, attendance = found.context.time, found.context.attendance
    how = f" {BEFORE_THE_CALL}" if is_before_the_call(one.line) else ""
    was = f"Node {one.node} was shut down at {time.brief(one.line.at)}{how}"
    if one.continued is None:
        return f"{was}."
    return f"{was}, and {attendance.name(one.continued.node)} ran it from {time.brief(one.continued.at)}."


def waits_for_a_node(found: OccurrenceContext) -> str | None:
    """Return why an occurrence that a shutdown gave back waits for a node; None if it waits for another reason."""
    trail = found.detail.transitions
    last = interruptions_of(trail)[-1:]
    if not last or last[0].line is not trail[-1]:
        return None
    at = found.context.time.brief(last[0].line.at)
    how = f" {BEFORE_THE_CALL}" if is_before_the_call(last[0].line) else ""
    return f"node {last[0].node} was shut down at {at}{how}, and no node has continued it yet"
