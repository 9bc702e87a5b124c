"""The facts that support an answer: the records of an occurrence, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from itinerary.errors import ItineraryError
from itinerary.explain.context import OccurrenceContext
from itinerary.explain.delays import ON_TIME_WITHIN, begin_of
from itinerary.explain.explanation import Fact
from itinerary.explain.formatting import STATUS_WORDS, spoken
from itinerary.model.retries import is_lost
from itinerary.model.rows import AttemptRow, TransitionRow
from itinerary.model.states import FINAL, TASK_FINAL, OccurrenceState, TaskState
from itinerary.schedules.durations import SECOND

__all__ = ["facts_of"]

_TAIL: Final = 5
"""The number of output lines that are shown for a failed attempt."""
_LINES_MAX: Final = 40
"""The maximum number of facts for one occurrence. An occurrence that waits for days has a line for each check."""
_FAILED: Final = frozenset({TaskState.FAILED, TaskState.TIMEOUT})


def facts_of(found: OccurrenceContext) -> tuple[Fact, ...]:
    """Return the recorded facts of an occurrence."""
    trail = list(_trail(found))
    ends = [trail.pop()] if trail and found.row.status in FINAL else []  # at equal times, the end follows its causes
    told = [*_due(found), *_nodes(found), *trail, *_attempts(found), *ends]
    timed = sorted(told, key=lambda one: one[0])
    facts = [found.context.fact(at, what) for at, what in timed]
    if len(facts) > _LINES_MAX:
        left_out = len(facts) - _LINES_MAX
        half = _LINES_MAX // 2
        facts = [*facts[:half], Fact(f"… {left_out} more …"), *facts[-half:]]
    return (*facts, *_output(found), *_again(found))


def _due(found: OccurrenceContext) -> Iterator[tuple[int, str]]:
    row, context = found.row, found.context
    by = f"version {row.version}"
    if row.kind.is_by_schedule:
        try:
            by = f"{by}: {context.timeline.schedule(row.job, row.version)}"
        except ItineraryError as error:
            by = f"{by}, which cannot be read: {error}"
        yield found.instant, f"due by {by}"
    if row.due_at - row.instant >= SECOND and row.kind.is_by_schedule:
        yield row.due_at, f"due with its jitter of {spoken(row.due_at - row.instant)}"
    if (window := row.window) is not None:
        upto = context.time.brief(window.end - SECOND)
        what = (
            f"one row stands for {window.count} instants up to {upto}"
            if window.count
            else "nobody can say what was due"
        )
        yield window.start, what


def _trail(found: OccurrenceContext) -> Iterator[tuple[int, str]]:
    shown: list[TransitionRow] = []
    for line in found.detail.transitions:
        passes_through = line.after is OccurrenceState.PENDING and line.why is None
        if not passes_through:  # a state on the way to the next line
            shown.append(line)
    for line in shown:
        why = "" if line.why is None else f": {found.in_words(line.why)}"
        node = found.context.attendance.row(line.node)
        where = "" if node is None else f", node {node.name}"
        yield line.at, f"{_state(line)}{where}{why}"


def _state(line: TransitionRow) -> str:
    if line.before is None and line.after is OccurrenceState.PRERUN:
        return "claimed" if line.node is not None and line.why is None else "created"
    return line.after.value.replace("_", " ")


def _attempts(found: OccurrenceContext) -> Iterator[tuple[int, str]]:
    names = {task.place: task.name for task in found.detail.tasks}
    begin = begin_of(found.detail)
    for attempt in found.detail.attempts:
        at = attempt.ended_at or attempt.started_at or (found.context.now if begin is None else begin.at)
        if attempt.status in _FAILED:
            yield at, f"{_attempt(attempt, names)} {STATUS_WORDS[attempt.status]}{_error(attempt)}"
        elif attempt.status not in TASK_FINAL and attempt.number > 1:
            yield at, f"{_attempt(attempt, names)} began"
        elif attempt.status is TaskState.CANCELLED:
            yield at, f"{_attempt(attempt, names)} {STATUS_WORDS[attempt.status]}{_error(attempt)}"


def _attempt(attempt: AttemptRow, names: dict[int, str]) -> str:
    task = names.get(attempt.place, f"number {attempt.place + 1}")
    lost = ""
    if is_lost(attempt):  # the reaper ends runs after their timeout; the node itself may be healthy
        lost = " (its end was never written)" if attempt.status is TaskState.TIMEOUT else " (lost with its node)"
    return f"task {task}, attempt {attempt.number}{lost}"


def _error(attempt: AttemptRow) -> str:
    lines = [line for line in (attempt.error or "").strip().splitlines() if line.strip()]
    return f": {lines[-1].strip()}" if lines else ""


def _nodes(found: OccurrenceContext) -> Iterator[tuple[int, str]]:
    """Yield which nodes left and joined, if the occurrence started late or did not run."""
    row, context = found.row, found.context
    begin = begin_of(found.detail)
    if begin is not None and begin.at - row.due_at < ON_TIME_WITHIN and row.status is not OccurrenceState.ORPHANED:
        return
    until = begin.at if begin is not None else (row.ended_at if row.status in FINAL else None) or context.now
    absence = context.attendance.absence(found.instant, max(until, found.instant + 1))
    if absence is not None:
        if absence.last is not None and absence.since is not None:
            how = "left" if absence.since == absence.last.left_at else "was last heard of"
            yield absence.since, f"node {absence.last.name} {how}"
        if absence.following is not None and absence.until is not None:
            yield absence.until, f"node {absence.following.name} joined"
    away = context.attendance.store_away(row.due_at, until)
    if away is not None:
        yield away.since, f"the store did not answer node {away.node.name} any more"
        yield away.until, f"the store answered node {away.node.name} again"
    jump = context.attendance.jump(row.due_at, until)
    if jump is not None:
        yield jump.at, jump.words(context.time)


def _output(found: OccurrenceContext) -> Iterator[Fact]:
    if found.row.status not in FINAL:
        return
    for attempt in reversed(found.detail.attempts):
        if attempt.status in _FAILED and attempt.output:
            lines = attempt.output.rstrip().splitlines()[-_TAIL:]
            yield Fact("the end of its output: " + " / ".join(line.strip() for line in lines if line.strip()))
            return


def _again(found: OccurrenceContext) -> Iterator[Fact]:
    for row in found.again:
        when = "" if row.ended_at is None else f" at {found.context.time.brief(row.ended_at)}"
        yield Fact(f"run again: {found.shown(row)} is {row.status}{when}")
