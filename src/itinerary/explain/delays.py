"""The waits of an occurrence before its start, from its audit trail.

    due            created        left prerun     left the queue            tasks start
     │ no node had  │ claimed, not │ in the queue   │ for a limit, a slot    │
     │ claimed it   │ started      │                │                        │
     └──────────────┴──────────────┴────────────────┴────────────────────────┘

The longest kind of wait is the cause of the delay. The trail does not say why no node was present, or why a node did
not start an occurrence that it had claimed. For these waits, `node_presence` knows the state of the nodes at that time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from itinerary.core.loop.conditions_and_hooks import A_REQUIREMENT
from itinerary.explain.causes import Cause
from itinerary.explain.context import OccurrenceContext
from itinerary.explain.interruptions import is_before_the_call
from itinerary.explain.node_presence import overlap
from itinerary.model.queries import Detail
from itinerary.model.reasons import BEFORE_THE_CALL, ReasonKind, read_reason
from itinerary.model.rows import NodeNumber, NodeRow, Ref, TransitionRow
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = [
    "ON_TIME_WITHIN",
    "Delay",
    "begin_of",
    "delay_of",
    "in_the_way",
    "limit_name",
    "nobody_there",
    "waited_for_condition",
]

ON_TIME_WITHIN: Final = SECOND
"""The start lateness below which a start is on time."""

_S = OccurrenceState
_WORKING: Final = frozenset({_S.RUNNING, _S.CONTAINER_CREATING})
_CONDITION: Final = frozenset({_S.CONDITION_PENDING, _S.CONDITION_RUNNING, _S.ACTION_PENDING, _S.ACTION_RUNNING})
_RECOVERED: Final = "recovered by "
_REQUIRES: Final = "requires "
_UNMET: Final = ", which is not so"


class Delay(NamedTuple):
    """The reason for a late start or a wait: a cause and half a sentence."""

    cause: Cause
    because: str


class _Wait(NamedTuple):
    state: OccurrenceState | None
    """The state during the wait; None: the row did not exist yet."""
    start: int
    end: int
    why: str | None


def begin_of(detail: Detail) -> TransitionRow | None:
    """Return the line of the audit trail with which the tasks started; None if the tasks have not started.

    A start that a shutdown took back before the function was called does not count.
    """
    begin: TransitionRow | None = None
    for line in detail.transitions:
        if begin is None and line.after in _WORKING:
            begin = line
        elif is_before_the_call(line):
            begin = None
    return begin


def delay_of(found: OccurrenceContext) -> Delay:
    """Return why an occurrence started late, or why it has not started."""
    waits = _waits(found)
    totals: dict[Cause, int] = {}
    for wait in waits:
        cause = _kind(wait)
        totals[cause] = totals.get(cause, 0) + wait.end - wait.start
    longest = max(totals, key=lambda cause: totals[cause], default=Cause.UNEXPLAINED)
    of_it = [wait for wait in waits if _kind(wait) is longest]
    match longest:
        case Cause.IN_LINE:
            return Delay(longest, f"it stood in line for {_in_the_way(found, of_it)}")
        case Cause.UNSURE:
            return Delay(longest, f"{_unsure(found, of_it)}, which was open until {_until(found, of_it)}")
        case Cause.LIMIT:
            return Delay(longest, f"{limit_name(_named(of_it))} was used up until {_until(found, of_it)}")
        case Cause.NO_SLOT:
            return Delay(longest, f"node {_named(of_it)} had no free slot until {_until(found, of_it)}")
        case Cause.SHUTDOWN:
            what = f"node {_named(of_it)} was shut down {BEFORE_THE_CALL}"
            return Delay(longest, f"{what}, and no node ran it until {_until(found, of_it)}")
        case Cause.CONDITION:
            return Delay(longest, f"it waited for {waited_for_condition(found)} until {_until(found, of_it)}")
        case _ if not of_it:
            return Delay(Cause.UNEXPLAINED, "what is kept does not say why")
        case _:
            return _unbegun(found, of_it[0].start, of_it[-1].end)


# -- waits -----------------------------------------------------------------------------------------------------------


def _waits(found: OccurrenceContext) -> list[_Wait]:
    """Return the waits between the due time and the start, or until now."""
    row, trail = found.row, found.detail.transitions
    begin = begin_of(found.detail)
    end = begin.at if begin is not None else (row.ended_at or found.context.now)
    waits = [_Wait(None, row.due_at, min(row.created_at, end), None)]
    for place, line in enumerate(trail):
        if line is begin or line.after in FINAL:
            break
        until = trail[place + 1].at if place + 1 < len(trail) else end
        waits.append(_Wait(line.after, max(line.at, row.due_at), min(until, end), line.why))
    return [wait for wait in waits if wait.end > wait.start]


def _kind(wait: _Wait) -> Cause:
    reason = read_reason(wait.why)
    if wait.state is OccurrenceState.QUEUED:
        return Cause.IN_LINE
    if wait.state in _CONDITION:
        return Cause.CONDITION
    if reason is not None and reason.kind is ReasonKind.UNSURE:
        return Cause.UNSURE
    if reason is not None and reason.kind is ReasonKind.LIMIT:
        return Cause.LIMIT
    if reason is not None and reason.kind is ReasonKind.SLOT:
        return Cause.NO_SLOT
    if reason is not None and reason.kind is ReasonKind.SHUTDOWN:
        return Cause.SHUTDOWN
    return Cause.UNEXPLAINED  # no node was present or no node started the occurrence: the trail does not say why


def _named(waits: list[_Wait]) -> str:
    reason = read_reason(waits[0].why)
    return "" if reason is None or reason.name is None else reason.name


def _unsure(found: OccurrenceContext, waits: list[_Wait]) -> str:
    reason = read_reason(waits[0].why)
    return f"it waited to learn what became of {found.named(None if reason is None else reason.ref)}"


def _until(found: OccurrenceContext, waits: list[_Wait]) -> str:
    return found.context.time.brief(waits[-1].end)


def limit_name(limit: str) -> str:
    """Return a limit in words. A job's own limit has a name that the node generated."""
    return "max_active of the job" if limit.startswith("job/") else f"limit {limit}"


def in_the_way(found: OccurrenceContext) -> Ref | None:
    """Return the last occurrence that this one waited for in the queue or was called by; None if there is none."""
    for line in reversed(found.detail.transitions):
        reason = read_reason(line.why)
        if reason is not None and reason.kind in (ReasonKind.CALLED, ReasonKind.WAITS) and reason.ref is not None:
            return reason.ref
    return None


def _in_the_way(found: OccurrenceContext, waits: list[_Wait]) -> str:
    ref = in_the_way(found)
    if ref is None:
        return f"its job's slot until {_until(found, waits)}"
    other = found.others.get(ref)
    ended = (
        ""
        if other is None or other.ended_at is None
        else f", which ended at {found.context.time.brief(other.ended_at)}"
    )
    return f"{found.named(ref)}{ended}"


def waited_for_condition(found: OccurrenceContext) -> str:
    """Return the condition that the occurrence waited for."""
    for line in reversed(found.detail.transitions):
        if line.why is not None and line.why.startswith(_REQUIRES):
            return line.why.removeprefix(_REQUIRES).split(_UNMET)[0]
    return A_REQUIREMENT


# -- no node was present, or no node started the occurrence ----------------------------------------------------------


def _unbegun(found: OccurrenceContext, start: int, end: int) -> Delay:
    taken, nobody = _taken_over(found), nobody_there(found, start, end)
    if taken is not None and nobody.cause is not Cause.NO_NODE:
        return Delay(Cause.TAKEN_OVER, taken)
    return Delay(nobody.cause, nobody.because + _recovery(found))


def nobody_there(found: OccurrenceContext, start: int, end: int) -> Delay:
    """Return why no node started the occurrence in `[start, end)`.

    Returns:
        The cause that held for at least half of that time. Without such a cause, UNEXPLAINED and a text that says
        that the reason is not recorded.
    """
    time, attendance = found.context.time, found.context.attendance
    nodes = _responsible(found, start, end)
    absence = attendance.absence(start, end)
    away, jump = attendance.store_away(start, end, nodes), attendance.jump(start, end, nodes)
    known = [
        (cause, overlap(one.since, one.until, start, end), one.words(time))
        for cause, one in ((Cause.NO_NODE, absence), (Cause.STORE_AWAY, away), (Cause.CLOCK_JUMP, jump))
        if one is not None
    ]
    cause, lasted, words = max(known, key=lambda one: one[1], default=(Cause.UNEXPLAINED, 0, ""))
    if known and 2 * lasted >= end - start:
        return Delay(cause, words)
    meanwhile = f"; for some of that time {words}" if known else ""
    return Delay(Cause.UNEXPLAINED, f"{_whose(found)}, and what is kept does not say why{meanwhile}")


def _whose(found: OccurrenceContext) -> str:
    """Return which node had claimed the occurrence without starting it, in words."""
    row, attendance = found.row, found.context.attendance
    if not row.kind.is_by_schedule:
        return "no node took it up at once"
    if row.created_by is None:
        return "nobody had claimed it"
    if row.created_at - row.due_at >= ON_TIME_WITHIN:
        return f"{attendance.name(row.created_by)} claimed it only at {found.context.time.brief(row.created_at)}"
    return f"{attendance.name(row.created_by)} had claimed it and did not begin it at once"


def _responsible(found: OccurrenceContext, start: int, end: int) -> list[NodeRow]:
    """Return the node that had claimed the occurrence: its store outages and clock jumps may be the cause.

    Without a claim, these are all nodes that were present, but only if every one of them had such a problem.
    """
    attendance = found.context.attendance
    own = attendance.row(found.row.created_by)
    if own is not None:
        return [own]
    there = attendance.there_at(start)
    had_some = [
        node
        for node in there
        if attendance.store_away(start, end, [node]) is not None or attendance.jump(start, end, [node]) is not None
    ]
    return there if len(had_some) == len(there) else []


def _recovery(found: OccurrenceContext) -> str:
    """Return how the occurrence was recovered; empty if it was not."""
    first = found.detail.transitions[0].why if found.detail.transitions else None
    if first is not None and first.startswith(_RECOVERED):
        return f", and it was {first.split(':')[0]}"
    return ", and it was recovered" if found.row.is_recovery else ""


def _taken_over(found: OccurrenceContext) -> str | None:
    """Return which node had claimed the occurrence without starting it, and which node took over; else None."""
    begin, attendance = begin_of(found.detail), found.context.attendance
    first = found.row.created_by
    if begin is None or first is None or begin.node in (None, first):
        return None
    had, has = attendance.row(first), attendance.row(begin.node)
    who, by = attendance.name(first), attendance.name(begin.node)
    if had is not None and has is not None and had.name == has.name:
        who = f"an earlier start of {who}"
    words = f"{who} had claimed it and did not begin it, and {by} took it over" + _gone(found, first, begin.at)
    away = None if has is None else attendance.store_away(found.row.due_at, begin.at, [has])
    return words if away is None else f"{words}; {away.words(found.context.time)}"


def _gone(found: OccurrenceContext, number: NodeNumber, by: int) -> str:
    node = found.context.attendance.row(number)
    if node is None:
        return ""
    seen = found.context.attendance.last_seen(node)
    if seen >= by:
        return ""
    how = "left" if seen == node.left_at else "was last heard of"
    return f"; node {node.name} {how} at {found.context.time.brief(seen)}"
