"""Explain an occurrence that has not ended: it is running, or waits."""

from __future__ import annotations

from typing import Final

from itinerary.core.recovery.pause import held_row
from itinerary.errors import RecordError
from itinerary.explain.causes import Cause, RunResult
from itinerary.explain.context import ExplainContext, OccurrenceContext
from itinerary.explain.delays import (
    ON_TIME_WITHIN,
    Delay,
    begin_of,
    delay_of,
    in_the_way,
    limit_name,
    waited_for_condition,
)
from itinerary.explain.formatting import STATUS_WORDS, listed, spoken
from itinerary.explain.interruptions import interrupted_words, waits_for_a_node
from itinerary.explain.job_status import skip_words, standing_words
from itinerary.explain.node_presence import NodePresence
from itinerary.explain.verdict import Verdict
from itinerary.model.codec import from_json
from itinerary.model.config import FrozenConfig
from itinerary.model.ids import attempt_id, job_id, task_id, task_run_id
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.retries import costs_no_retry, retry_wait
from itinerary.model.rows import AttemptRow, OccurrenceRow, TaskRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["lateness", "nobody_takes_it", "unfinished"]

_S = OccurrenceState
_CONDITION: Final = frozenset({_S.CONDITION_PENDING, _S.CONDITION_RUNNING, _S.ACTION_PENDING, _S.ACTION_RUNNING})
_SHOWN_MAX: Final = 3


def unfinished(found: OccurrenceContext) -> Verdict:
    """Return what the occurrence does or waits for."""
    verdict = _begun(found) if found.row.started_at is not None else _unbegun(found)
    if found.row.cancelled_by is not None:
        asked = found.in_words(found.row.cancelled_by)
        verdict = verdict._replace(rest=f"{verdict.rest} It has been asked to end: {asked}.".strip())
    return verdict


def lateness(found: OccurrenceContext) -> str:
    """Return when the occurrence started and how late, in a sentence."""
    begin, time = begin_of(found.detail), found.context.time
    if begin is None:
        return ""
    late, where = begin.at - found.row.due_at, found.context.attendance.name(begin.node)
    began = f"It began on time, at {time.brief(begin.at)} on {where}."
    if late >= ON_TIME_WITHIN:
        began = f"It began {spoken(late)} late, at {time.brief(begin.at)} on {where}: {delay_of(found).because}."
    return f"{began} {interrupted_words(found)}".strip()


# -- the occurrence has started --------------------------------------------------------------------------------------


def _begun(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    if row.status in _CONDITION:
        what = f"it requires {waited_for_condition(found)}, which is not so yet"
        return Verdict(RunResult.WAITS, Cause.CONDITION, f"waits: {what}", "", None)
    if row.status is OccurrenceState.RETRYING and (shutdown := waits_for_a_node(found)) is not None:
        _, advice = nobody_takes_it(context, row.instant)
        return Verdict(RunResult.WAITS, Cause.SHUTDOWN, f"waits for a node: {shutdown}", "", advice)
    if row.status is OccurrenceState.RETRYING:
        return Verdict(
            RunResult.WAITS, Cause.RETRY, f"waits to be tried again: {_next_attempt(found)}", lateness(found), None
        )
    if row.status is OccurrenceState.PENDING:
        return Verdict(RunResult.WAITS, Cause.LIMIT, "waits for a share of its limits, to go on", lateness(found), None)
    begin = begin_of(found.detail)
    since = row.started_at or row.due_at if begin is None else begin.at
    expires = "" if row.expires_at is None else f", and it may take until {context.time.brief(row.expires_at)}"
    owner = context.attendance.row(row.owner)
    advice = None
    if row.owner is None:
        where = (
            "has begun, and no node has it: its node has left or was taken for dead, and no other has continued it yet"
        )
    elif owner is not None and not context.attendance.is_there(owner):
        seen = context.time.brief(context.attendance.last_seen(owner))
        where = f"has begun, and may still run: node {owner.name} has it, and was last heard of at {seen}"
    else:
        where = f"runs now: {context.attendance.name(row.owner)} runs it"
    headline = f"{where}, for {spoken(context.now - since)} so far{expires}"
    return Verdict(
        RunResult.RUNS,
        Cause.ON_TIME if _was_on_time(found) else delay_of(found).cause,
        headline,
        lateness(found),
        advice,
    )


def _was_on_time(found: OccurrenceContext) -> bool:
    begin = begin_of(found.detail)
    return begin is not None and begin.at - found.row.due_at < ON_TIME_WITHIN


def _next_attempt(found: OccurrenceContext) -> str:
    """Return the task, the number of the next attempt and its time."""
    waiting = [
        (task, tries)
        for task in found.detail.tasks
        if (tries := [attempt for attempt in found.detail.attempts if attempt.place == task.place])
        and tries[-1].ended_at is not None
    ]
    if not waiting:
        return "its last attempt was lost with its node"
    task, tries = waiting[-1]
    error = (tries[-1].error or "").strip().splitlines()
    became = STATUS_WORDS[tries[-1].status]
    because = f", since attempt {tries[-1].number} {became}" + (f": {error[-1]}" if error else "")
    try:
        config = from_json(FrozenConfig, found.detail.config or "")
    except RecordError:
        return f"task {task.name}{because}"
    uncounted = sum(costs_no_retry(attempt) for attempt in tries)
    most = config.of_task(task.name).retry.max_retries + 1 + uncounted
    when = found.context.time.brief(_retry_at(found, task, tries, config))
    return f"task {task.name}, attempt {len(tries) + 1} of {most}, at {when}{because}"


def _retry_at(found: OccurrenceContext, task: TaskRow, tries: list[AttemptRow], config: FrozenConfig) -> int:
    job, last = job_id(found.context.job.name), tries[-1]
    run = task_run_id(found.row.key.id(job), task_id(job, task.name))
    number = len(tries) - sum(costs_no_retry(attempt) for attempt in tries)
    return (last.ended_at or 0) + retry_wait(
        config.of_task(task.name).retry, max(number, 1), attempt_id(run, last.number)
    )


# -- the occurrence has not started ----------------------------------------------------------------------------------


def _unbegun(found: OccurrenceContext) -> Verdict:
    row, context = found.row, found.context
    if row.due_at > context.now:
        if (why := context.timeline.why_skipped(row.job, row.instant)) is not None and row.kind.is_by_schedule:
            cause = Cause.SKIPPED if why.startswith("skipped by ") else Cause.PAUSED
            words = skip_words(context, row.instant, why)
            return Verdict(RunResult.TO_COME, cause, f"is to come, and will be skipped: {words}")
        who = f", and {context.attendance.name(row.owner)} has claimed it" if row.owner is not None else ""
        wait = spoken(row.due_at - context.now)
        return Verdict(RunResult.TO_COME, Cause.FUTURE, f"is to come in {wait}{who}", "", None)
    if (pause := held_row(context.timeline, row, context.now)) is not None:
        since = spoken(context.now - row.due_at)
        headline = f"has been due for {since} and is held: {standing_words(pause, context).replace('was', 'is', 1)}"
        return Verdict(
            RunResult.WAITS, Cause.PAUSED, headline, "", f"to have it run: itinerary resume {context.job.name}"
        )
    waited = f"has been waiting for {spoken(context.now - row.due_at)}"
    reason = read_reason(row.reason) if row.status is OccurrenceState.PENDING else None
    if row.status is OccurrenceState.QUEUED:
        return Verdict(RunResult.WAITS, Cause.IN_LINE, f"{waited}: {_in_line(found)}")
    if reason is not None and reason.kind is ReasonKind.UNSURE:
        return Verdict(RunResult.WAITS, Cause.UNSURE, f"{waited}: it {found.in_words(row.reason or '')}")
    if reason is not None and reason.kind is ReasonKind.LIMIT:
        return Verdict(RunResult.WAITS, Cause.LIMIT, f"{waited}: {_held(found, reason.name or '')}")
    if reason is not None and reason.kind is ReasonKind.SLOT:
        what = f"node {reason.name} runs as many occurrences as it may (max_concurrent_jobs)"
        return Verdict(RunResult.WAITS, Cause.NO_SLOT, f"{waited} for a free slot: {what}")
    delay, advice = nobody_takes_it(context, row.instant)
    return Verdict(RunResult.WAITS, delay.cause, f"{waited}: {delay.because}", "", advice)


def _in_line(found: OccurrenceContext) -> str:
    """Return what the occurrence waits for in the queue, and its position."""
    behind = in_the_way(found)
    other = None if behind is None else found.others.get(behind)
    if other is not None and other.ended_at is None:
        words = f"{found.named(behind)} {_is_running(found, other)}"
    elif found.row.is_recovery:
        words = "what is recovered of its job runs one after another"
    else:
        words = "others of its job come before it"
    place = next((place for place, one in enumerate(found.line, 1) if one.ref == found.row.ref), None)
    return words if place is None else f"{words}, and it is number {place} of {len(found.line)} in line"


def _is_running(found: OccurrenceContext, other: OccurrenceRow) -> str:
    """Return what is known of a run that has not ended: it counts as running only if its node is not silent."""
    attendance = found.context.attendance
    node = attendance.row(other.owner)
    if node is None or not attendance.is_silent(node):
        return "is still running"
    last_seen = found.context.time.brief(attendance.last_seen(node))
    return f"has not ended, and node {node.name} was last heard of at {last_seen}"


def _held(found: OccurrenceContext, limit: str) -> str:
    holders = [found.shown(row) for row in found.holders.get(limit, ())]
    more = len(holders) - _SHOWN_MAX
    by = f" by {listed(holders[:_SHOWN_MAX] + ([f'{more} more'] if more > 0 else []))}" if holders else ""
    return f"{limit_name(limit)} is used up{by}"


def nobody_takes_it(context: ExplainContext, instant: int) -> tuple[Delay, str | None]:
    """Return why no node has started a due occurrence, and advice for the user."""
    attendance: NodePresence = context.attendance
    if not attendance.present:
        absence = attendance.absence(context.now - SECOND, context.now)
        words = "no node is there" if absence is None else absence.words(context.time)
        return Delay(
            Cause.NO_NODE, words
        ), "start a node: what was missed then goes through the job's recovery strategy"
    lacking = attendance.lacking(context.job.number)
    if len(lacking) == len(attendance.present):
        names = listed([node.name for node in lacking])
        what = f"no node that is there has the code of its job (node {names} lacks it)"
        return Delay(Cause.NO_CODE, what), "start a node with the code of this job, or remove the job"
    absence = attendance.absence(instant, instant + SECOND)
    before = "" if absence is None else f"{absence.words(context.time)}, and "
    silent = [
        f"node {node.name} was last heard of at {context.time.brief(attendance.last_seen(node))}"
        for node in attendance.present
        if attendance.is_silent(node)
    ]
    about = f"; {listed(silent)}" if silent and len(silent) == len(attendance.present) else ""
    return Delay(Cause.UNDECIDED, f"{before}no node has come to it yet{about}"), None
