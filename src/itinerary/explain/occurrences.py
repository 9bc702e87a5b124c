"""Explain an occurrence that exists, from its state, its audit trail, its tasks and the state of the nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from itinerary.core.recovery.match import GAP
from itinerary.core.timeline.history import JobPaused, JobRemoved
from itinerary.errors import RecordError
from itinerary.explain.causes import Cause, RunResult
from itinerary.explain.context import ExplainContext, OccurrenceContext, RunOnNode
from itinerary.explain.delays import ON_TIME_WITHIN, begin_of, delay_of, nobody_there
from itinerary.explain.explanation import Explanation
from itinerary.explain.facts import facts_of
from itinerary.explain.formatting import spoken
from itinerary.explain.interruptions import interrupted_words
from itinerary.explain.job_status import standing_at, standing_words, version_words
from itinerary.explain.render import answer
from itinerary.explain.unfinished import lateness, unfinished
from itinerary.explain.verdict import Verdict
from itinerary.model.occurrence import Kind
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.rows import OccurrenceRow
from itinerary.model.run_request import read_asked
from itinerary.model.states import FINAL, OccurrenceState, TaskState
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["explained_occurrence"]

_S = OccurrenceState
_OPEN_TO_DOUBT: Final = frozenset(OccurrenceState) - (FINAL - {OccurrenceState.ORPHANED})
"""The states in which the node may have died earlier. In every other state, the run was alive until its end."""
_MICROSECONDS: Final = re.compile(r"since (\d+) \(microseconds\), \d+ s ago")
_MISSED: Final = "missed: "
_NOBODY: Final = re.compile(r"missed: (?:it was claimed, )?nobody was there at its instant,? and (.*)")
_REQUIREMENT: Final = ("requires ", "a requirement ")
_REAPER: Final = "the reaper: "
_OVER_ITS_TIME: Final = "over its execution timeout"


def explained_occurrence(found: OccurrenceContext) -> Explanation:
    """Explain the status of an occurrence."""
    row, context, window = found.row, found.context, found.row.window
    also = ""
    if window is not None and window.count and row.started_at is not None and found.instant == row.instant:
        also = f"It answers for {window.count} instants, the first of them due {context.time.brief(window.start)}."
    run, facts = context.run_id(row), facts_of(found)
    return answer(context, found.instant, _subject(found), _verdict(found), run=run, facts=facts, also=also)


def _subject(found: OccurrenceContext) -> str:
    row, name, when = found.row, found.context.job.name, found.context.time.full(found.instant)
    if row.request == GAP and row.kind.is_by_schedule:
        return f"{name} at {when}"
    if row.kind.is_by_schedule:
        return f"{name}, due {when},"
    return f"{name}, {_asked_for(row)} {when},"


def _asked_for(row: OccurrenceRow) -> str:
    try:
        asked = read_asked(row.details)
    except RecordError:
        asked = None
    by = "" if asked is None else f" by {asked.by}"
    match row.kind:
        case Kind.TRIGGER:
            return f"triggered{by} at"
        case Kind.REPLAY:
            return f"replayed{by} for"
        case _:
            return f"backfilled{by} for"


def _verdict(found: OccurrenceContext) -> Verdict:
    row = found.row
    if row.request == GAP and row.kind.is_by_schedule:
        return _quarantined(found)
    window = row.window
    is_inside = window is not None and found.instant != row.instant
    if is_inside and row.is_recovery and row.status is not OccurrenceState.MISSED:
        return _compressed(found)
    verdict = _BY_STATE.get(row.status, unfinished)(found)
    return verdict._replace(rest=_decided_late(found)) if row.status is OccurrenceState.SKIPPED else verdict


# -- the occurrence ran ----------------------------------------------------------------------------------------------


def _ran(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    begin = begin_of(found.detail)
    began_at = begin.at if begin is not None else row.started_at or row.due_at
    late = began_at - row.due_at
    where = context.attendance.name(row.owner if begin is None else begin.node)
    took = spoken((row.ended_at or began_at) - began_at)
    ended = f"completed after {took}"
    advice = None
    if row.status is OccurrenceState.COMPLETED_WITH_ERRORS:
        ended = f"completed with errors after {took}: {row.reason}"
        advice = _replay(found)
    if late < ON_TIME_WITHIN:
        at_once = "at once" if late < SECOND // 1_000 else f"{spoken(late)} later"
        rest = f"It began {at_once} on {where} and {ended}. {interrupted_words(found)}".strip()
        return Verdict(RunResult.RAN, Cause.ON_TIME, "ran on time", rest, advice)
    delay = delay_of(found)
    began = f"It began at {context.time.brief(began_at)} on {where} and {ended}. {interrupted_words(found)}".strip()
    return Verdict(RunResult.RAN_LATE, delay.cause, f"ran {spoken(late)} late: {delay.because}", began, advice)


def _compressed(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    window = row.window
    assert window is not None, "it lies in one"
    state = row.status.value.replace("_", " ")
    is_so = f"is {state}" if row.ended_at is None else f"ended as {state} at {context.time.brief(row.ended_at)}"
    nobody = nobody_there(found, found.instant, found.instant + SECOND)
    why = "no node began it in time" if nobody.cause is Cause.UNEXPLAINED else nobody.because
    headline = f"has no run of its own: {why}, and {found.shown(row)} answers for it (recovery is compressed)"
    rest = f"That run answers for {window.count} instants, and {is_so}."
    return Verdict(RunResult.DID_NOT_RUN, Cause.COMPRESSED, headline, rest)


# -- the occurrence did not succeed ----------------------------------------------------------------------------------


def _failed(found: OccurrenceContext) -> Verdict:
    row, reason = found.row, found.in_words(found.row.reason or "what is kept does not say why")
    blamed_for_time = any(
        task.status is TaskState.TIMEOUT for task in found.detail.tasks if f"task {task.name} " in reason
    )
    if reason.startswith(_REQUIREMENT) and begin_of(found.detail) is None:
        return Verdict(
            RunResult.DID_NOT_RUN, Cause.CONDITION, f"did not run and failed: {_unmet(reason)}", "", _replay(found)
        )
    if row.status is OccurrenceState.FAILED_STALE:
        headline = f"timed out and was given up: {_stripped(reason.removeprefix('over its time: '))}"
        return Verdict(
            RunResult.FAILED, Cause.TIMEOUT, headline, f"{lateness(found)} {_unwritten(found)}", _replay(found)
        )
    if reason.startswith(_OVER_ITS_TIME) or blamed_for_time:
        return Verdict(
            RunResult.FAILED, Cause.TIMEOUT, f"timed out: {_stripped(reason)}", lateness(found), _replay(found)
        )
    return Verdict(RunResult.FAILED, Cause.TASK, f"failed: {_stripped(reason)}", lateness(found), _replay(found))


def _unwritten(found: OccurrenceContext) -> str:
    """Return what is known of a run whose end was never written: its task may have ended during a store outage."""
    row, context, begin = found.row, found.context, begin_of(found.detail)
    words = "No end of it was written, so it is not known whether its work was done."
    node = context.attendance.row(None if begin is None else begin.node)
    if begin is None or node is None or row.ended_at is None:
        return words
    away = context.attendance.store_away(begin.at, row.ended_at, [node])
    return words if away is None else f"{words} Meanwhile {away.words(context.time)}."


def _orphaned(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    reason = row.reason or "its node is gone"
    if (seen := _MICROSECONDS.search(reason)) is not None:
        reason = reason.replace(seen[0], f"since {context.time.brief(int(seen[1]))}")
    begin = begin_of(found.detail)
    node = context.attendance.row(None if begin is None else begin.node)
    seen_at = ""
    if node is not None and row.ended_at is not None and context.attendance.was_heard_after(node, row.ended_at):
        reason = reason.replace(f"node {node.name} is gone", f"node {node.name} was silent, and taken for dead")
        seen_at = f" Node {node.name} had not died: it was heard of later, at {context.time.brief(node.beat_at)}."
    elif node is not None and not context.attendance.is_there(node):
        seen_at = f" Node {node.name} was last heard of at {context.time.brief(context.attendance.last_seen(node))}."
    return Verdict(
        RunResult.FAILED,
        Cause.ORPHANED,
        f"was given up as orphaned: {reason}",
        lateness(found) + seen_at,
        _replay(found),
    )


def _cancelled(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    reason = row.reason or row.cancelled_by or "what is kept does not say by whom"
    if row.started_at is None and row.kind.is_by_schedule and (withdrawn := _withdrawn(found, reason)) is not None:
        return withdrawn
    named = read_reason(row.cancelled_by) or read_reason(row.reason)
    ended = "" if row.ended_at is None else f" at {context.time.brief(row.ended_at)}"
    begin = begin_of(found.detail)
    when = (
        f"{ended}, before it began"
        if begin is None
        else f"{ended}, {spoken((row.ended_at or 0) - begin.at)} after it began"
    )
    if named is not None and named.kind is ReasonKind.REPLACED:
        fate = RunResult.DID_NOT_RUN if begin is None else RunResult.CANCELLED
        headline = f"was cancelled{when}: {found.named(named.ref)} took its place (overlap is replace)"
        return Verdict(fate, Cause.REPLACED, headline, lateness(found))
    if row.cancelled_by is not None:
        headline = f"was cancelled{when}, by {found.in_words(row.cancelled_by)}"
        cause = Cause.TIMEOUT if row.cancelled_by.startswith(_REAPER) else Cause.PERSON
        return Verdict(RunResult.CANCELLED, cause, headline, lateness(found), _replay(found))
    cause = Cause.SHUTDOWN if reason.endswith("was shut down") else Cause.UNEXPLAINED
    return Verdict(
        RunResult.CANCELLED, cause, f"was cancelled{when}: {found.in_words(reason)}", lateness(found), _replay(found)
    )


def _withdrawn(found: OccurrenceContext, reason: str) -> Verdict | None:
    """Return the verdict if a change of the job cancelled the occurrence before its start; else None."""
    context, row = found.context, found.row
    status = standing_at(context, row.instant)
    if status is not None and str(status) == reason:
        cause = Cause.REMOVED if isinstance(status, JobRemoved) else Cause.STOPPED
        return Verdict(RunResult.DID_NOT_RUN, cause, f"did not run: {standing_words(status, context)}")
    if not row.is_withdrawn:
        return None
    segment = context.timeline.in_force(row.job, row.instant)
    entered = "" if segment is None else f" (in force {version_words(context, segment.version)})"
    return Verdict(RunResult.DID_NOT_RUN, Cause.VERSION, f"did not run: {reason}{entered}")


# -- the decision was not to run the occurrence ----------------------------------------------------------------------


def _skipped(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    reason = row.reason or "what is kept does not say why"
    named = read_reason(reason)
    if named is not None and named.kind is ReasonKind.OVERLAPS:
        other = None if named.ref is None else found.others.get(named.ref)
        full = f", and{reason.split(', and', 1)[1]}" if ", and" in reason else ""
        headline = f"did not run: {found.named(named.ref)} {_was_running(found, other)}{full}"
        advice = 'to have it wait instead, set overlap = "queue"' if not full else None
        return Verdict(RunResult.DID_NOT_RUN, Cause.OVERLAPPED, headline, "", advice)
    if named is not None and named.kind is ReasonKind.REPLACED:
        headline = f"did not run: {found.named(named.ref)} took its place (overlap is replace)"
        return Verdict(RunResult.DID_NOT_RUN, Cause.REPLACED, headline)
    status = standing_at(context, found.instant)
    if isinstance(status, JobPaused) and str(status) == reason:
        now = standing_at(context, context.now)
        advice = f"to have it run again: itinerary resume {context.job.name}" if isinstance(now, JobPaused) else None
        return Verdict(
            RunResult.DID_NOT_RUN, Cause.PAUSED, f"did not run: {standing_words(status, context)}", "", advice
        )
    if reason.startswith("paused by "):
        return Verdict(RunResult.DID_NOT_RUN, Cause.PAUSED, f"did not run: the job was {reason}")
    if reason.startswith("skipped by "):
        return Verdict(RunResult.DID_NOT_RUN, Cause.SKIPPED, f"did not run: this one was {reason}")
    if reason.startswith(_REQUIREMENT):
        return Verdict(RunResult.DID_NOT_RUN, Cause.CONDITION, f"did not run: {_unmet(reason)}")
    return Verdict(RunResult.DID_NOT_RUN, Cause.UNEXPLAINED, f"did not run: {found.in_words(reason)}")


def _decided_late(found: OccurrenceContext) -> str:
    """Return when the decision not to run was made, if not at the due time."""
    row, context = found.row, found.context
    late = (row.ended_at or row.due_at) - row.due_at
    if late < ON_TIME_WITHIN or found.instant != row.instant:
        return ""
    delay = delay_of(found)
    if delay.cause is Cause.UNEXPLAINED:
        return ""  # a sweep normally decides some seconds later
    return f"That was decided {spoken(late)} late, at {context.time.brief(row.due_at + late)}: {delay.because}."


def _was_running(found: OccurrenceContext, other: OccurrenceRow | None) -> str:
    """Return what is known of the run that caused the skip. A run counts as running only if its node was seen since."""
    context, due_at = found.context, found.row.due_at
    if other is None:
        return "was still running"
    decided_at = found.row.ended_at or due_at
    if other.started_at is None or other.started_at > decided_at:
        began = "" if other.started_at is None else f"; it began at {context.time.brief(other.started_at)}"
        return f"had its turn and had not begun yet{began}"
    if other.started_at > due_at:
        late = spoken(decided_at - due_at)
        return f"was running when this one could start, {late} late{_ran_when(context, other)}"
    ran = found.ran.get(other.ref, RunOnNode(other.owner, None))
    if other.ended_at is not None and ran.until is not None and ran.until < due_at:
        ended, written = context.time.brief(ran.until), context.time.brief(other.ended_at)
        return f"was on record as running: it had ended at {ended}, and its node wrote that to the store at {written}"
    node = context.attendance.row(ran.node if other.status is OccurrenceState.ORPHANED else other.owner)
    if node is None or other.status not in _OPEN_TO_DOUBT or not context.attendance.is_silent(node):
        return f"was still running{_ran_when(context, other)}"
    seen = context.attendance.last_seen(node)
    if seen >= due_at:
        return f"was still running{_ran_when(context, other)}"
    begun = f", begun at {context.time.brief(other.started_at)},"
    given_up = "" if other.ended_at is None else f", and it was given up at {context.time.brief(other.ended_at)}"
    last = context.time.brief(seen)
    return f"was on record as running{begun} though node {node.name} was not heard of after {last}{given_up}"


def _ran_when(context: ExplainContext, other: OccurrenceRow | None) -> str:
    if other is None or other.started_at is None:
        return ""
    since = context.time.brief(other.started_at)
    return f", from {since} on" if other.ended_at is None else f", from {since} to {context.time.brief(other.ended_at)}"


def _missed(found: OccurrenceContext) -> Verdict:
    reason = found.row.reason or "what is kept does not say why"
    again = _replay(found) if found.instant == found.row.instant else _backfill(found)
    nobody = nobody_there(found, found.instant, found.instant + SECOND)
    said = _NOBODY.fullmatch(reason)
    if said is not None and nobody.cause is Cause.UNEXPLAINED:
        headline = f"was missed: no node began it in time, and {said[1]}"
        return Verdict(RunResult.DID_NOT_RUN, Cause.MISSED, headline, "", again)
    if said is None:
        return Verdict(RunResult.DID_NOT_RUN, Cause.MISSED, f"was missed: {reason.removeprefix(_MISSED)}", "", again)
    return Verdict(RunResult.DID_NOT_RUN, Cause.MISSED, f"was missed: {nobody.because}, and {said[1]}", "", again)


def _quarantined(found: OccurrenceContext) -> Verdict:
    window, context = found.row.window, found.context
    reason = (found.row.reason or "").removeprefix("not decided: ")
    until = "" if window is None else f", from {context.time.brief(window.start)} to {context.time.brief(window.end)}"
    headline = f"was not decided: the job was quarantined{until}, since nobody can say what it expected: {reason}"
    return Verdict(
        RunResult.UNKNOWN, Cause.QUARANTINED, headline, "", "correct the job; what it missed can be backfilled"
    )


_BY_STATE: Final[Mapping[OccurrenceState, Callable[[OccurrenceContext], Verdict]]] = MappingProxyType(
    {
        _S.COMPLETED: _ran,
        _S.COMPLETED_WITH_ERRORS: _ran,
        _S.FAILED: _failed,
        _S.FAILED_STALE: _failed,
        _S.CANCELLED: _cancelled,
        _S.ORPHANED: _orphaned,
        _S.SKIPPED: _skipped,
        _S.MISSED: _missed,
    }
)
"""Every other state is unfinished."""


# -- words -----------------------------------------------------------------------------------------------------------


def _unmet(reason: str) -> str:
    return f"it {reason}" if reason.startswith("requires ") else reason


def _stripped(reason: str) -> str:
    return reason.rstrip(". \n")


def _replay(found: OccurrenceContext) -> str:
    return f"to run it again: itinerary replay {found.context.run_id(found.row)}"


def _backfill(found: OccurrenceContext) -> str:
    start, end = shown_instant(found.instant), shown_instant(found.instant + SECOND)
    return f"to run it after all: itinerary backfill {found.context.job.name} --from {start} --to {end}"
