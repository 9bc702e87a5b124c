"""Explain an instant without an occurrence: future, undecided, pruned, or not due, and why.

To find why an instant was not due, each row asks under which other condition the instant would have been due:

    the job had not been stopped or removed             stopped, removed
    the calendar had not been closed                    calendar
    the schedule had begun, or had not ended            range
    another version had been in force                   version
    a graceful update had not delayed the version       version
    the clock had shown that time, or only once         dst_gap, dst_repeat
"""

from __future__ import annotations

from collections.abc import Iterator

from itinerary.core.timeline.expected import Due, UnknownRange
from itinerary.core.timeline.history import HistorySegment, JobActive, JobPaused
from itinerary.errors import ItineraryError
from itinerary.explain.causes import Cause, RunResult
from itinerary.explain.context import ExplainContext
from itinerary.explain.explanation import Explanation, Fact
from itinerary.explain.formatting import AS_THE_CLOCK_SHOWS, listed, spoken
from itinerary.explain.job_status import skip_words, standing_words, version_words
from itinerary.explain.render import answer
from itinerary.explain.schedules import closed_by, fires, out_of_range
from itinerary.explain.unfinished import nobody_takes_it
from itinerary.explain.verdict import Verdict
from itinerary.model.ids import run_id
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.schedules import Schedule, ZoneSource
from itinerary.schedules.instants import MICROSECONDS, Moment
from itinerary.schedules.wallclock import instants_at

__all__ = ["Neighbours", "explained_due", "explained_gap", "explained_never", "why_not_due"]

Neighbours = tuple[int | None, int | None]
"""The instants before and after an instant that was not due."""


def explained_due(context: ExplainContext, due: Due) -> Explanation:
    """Explain an instant that was expected and has no record."""
    return _answer(
        context, due.instant, f"{context.job.name}, due {context.time.full(due.instant)},", _due(context, due)
    )


def _due(context: ExplainContext, due: Due) -> Verdict:
    if due.instant > context.now:
        wait = spoken(due.instant - context.now)
        if due.skipped is not None:
            cause = Cause.SKIPPED if due.skipped.startswith("skipped by ") else Cause.PAUSED
            why = skip_words(context, due.instant, due.skipped)
            return Verdict(RunResult.TO_COME, cause, f"is to come in {wait}, and will be skipped: {why}")
        return Verdict(RunResult.TO_COME, Cause.FUTURE, f"is to come in {wait}, by version {due.version}")
    if due.instant < context.job.history_floor:
        floor = context.time.brief(context.job.history_floor)
        return Verdict(
            RunResult.UNKNOWN, Cause.PRUNED, f"is no longer on record: the history of the job begins at {floor}"
        )
    if due.instant < context.watermark:
        upto = context.time.brief(context.watermark)
        headline = f"is lost: the store has nothing about it, though everything up to {upto} is decided"
        return Verdict(
            RunResult.UNKNOWN,
            Cause.LOST,
            headline,
            "This must never be.",
            "to see whether more is lost: itinerary audit",
        )
    delay, advice = nobody_takes_it(context, due.instant)
    skipped = "" if due.skipped is None else f", and will be skipped ({skip_words(context, due.instant, due.skipped)})"
    headline = f"has been due for {spoken(context.now - due.instant)} and is not decided yet{skipped}: {delay.because}"
    return Verdict(RunResult.WAITS, delay.cause, headline, "", advice)


def explained_gap(context: ExplainContext, instant: int, gap: UnknownRange | str) -> Explanation:
    """Explain an instant at which the job's expected instants are unknown."""
    reason = gap if isinstance(gap, str) else f"version {gap.version}: {gap.reason}"
    headline = f"cannot be explained: the job is quarantined, since nobody can say what it expects: {reason}"
    verdict = Verdict(RunResult.UNKNOWN, Cause.QUARANTINED, headline.rstrip("."), "", "correct the job")
    return _answer(context, instant, f"{context.job.name} at {context.time.full(instant)}", verdict)


def explained_never(
    context: ExplainContext, around: Neighbours, why: Verdict | None, facts: tuple[Fact, ...], asked: int
) -> Explanation:
    """Explain an instant that was not due."""
    subject = f"{context.job.name} at {context.time.full(asked)}"
    if why is None:
        why = Verdict(RunResult.NOT_DUE, Cause.SCHEDULE, f"{_tense(context, asked)} not due{_schedule(context, asked)}")
    rest = f"{why.rest} {_nearest(context, around)}".strip()
    return _answer(context, asked, subject, why._replace(rest=rest), facts)


def _schedule(context: ExplainContext, instant: int) -> str:
    segment = context.timeline.in_force(context.job.number, instant)
    if segment is None:
        return ": no version of the job was in force yet"
    try:
        return f': its schedule is "{segment.schedule}"'
    except ItineraryError:
        return ""


def _nearest(context: ExplainContext, around: Neighbours) -> str:
    before, after = around
    if before is None and after is None:
        return "It has no other instant near that."
    if before is None or after is None:
        only = before if after is None else after
        assert only is not None, "one of them is there"
        which = "last instant before" if after is None else "first instant after"
        return f"The {which} that is {context.time.brief(only)}."
    return f"The nearest instants are {context.time.brief(before)} and {context.time.brief(after)}."


def _answer(
    context: ExplainContext, instant: int, subject: str, verdict: Verdict, facts: tuple[Fact, ...] = ()
) -> Explanation:
    run = run_id(context.job.name, instant) if verdict.fate not in (RunResult.NOT_DUE, RunResult.UNKNOWN) else None
    entries = () if verdict.fate is RunResult.TO_COME else _entries(context, instant)
    return answer(context, instant, subject, verdict, run=run, facts=(*facts, *entries))


def _entries(context: ExplainContext, instant: int) -> Iterator[Fact]:
    """Yield the entries of the job's timeline that had taken effect by then: the last of each kind."""
    newest: dict[EntryKind, EntryRow] = {}
    for entry in context.timeline.entries(context.job.number):
        if entry.effective_from <= instant and entry.kind is not EntryKind.SKIP:
            newest[entry.kind] = entry
    for entry in sorted(newest.values(), key=lambda entry: entry.effective_from):
        what = f"version {entry.version}" if entry.kind is EntryKind.VERSION else entry.kind.value
        why = f": {entry.reason}" if entry.reason else ""
        yield context.fact(entry.effective_from, f"{what}, by {entry.entered_by}{why}")


# -- why the instant was not due -------------------------------------------------------------------------------------


def why_not_due(context: ExplainContext, asked: int) -> Verdict | None:
    """Return why an instant was not due.

    Returns:
        The condition under which the instant would have been due; None if there is no known one.

    Raises:
        ItineraryError: The definition in force at that time cannot be read.
    """
    second, job = asked // MICROSECONDS, context.job.number
    if asked % MICROSECONDS:
        return None
    segment = context.timeline.in_force(job, asked)
    if segment is not None:
        verdict = _under(context, segment, second)
        if verdict is not None:
            return verdict
    return _other_version(context, segment, second) or _other_reading(context, segment, second)


def never_shown(context: ExplainContext, reading: str, instant: int) -> Verdict:
    """Return the verdict for a local time that the clock of the job's zone skips on that day.

    Args:
        scene: The job and the time of the question.
        reading: The local time that the user typed.
        instant: The first instant after the skipped time.
    """
    shows = (
        f"the clock of {context.time.zone.name} does not show {reading}: it goes on at {context.time.brief(instant)}"
    )
    return Verdict(
        RunResult.NOT_DUE, Cause.DST_GAP, f"{_tense(context, instant)} not due: {shows}, and nothing is due then"
    )


def _tense(context: ExplainContext, instant: int) -> str:
    return "is" if instant > context.now else "was"


def _under(context: ExplainContext, segment: HistorySegment, second: int) -> Verdict | None:
    """Return why the instant was not due by the version in force."""
    schedule, zones = segment.schedule, _zones(context, segment.schedule, second)
    if not isinstance(segment.status, JobActive | JobPaused) and fires(schedule, second, zones):
        stopped = standing_words(segment.status, context)
        cause = Cause.REMOVED if "removed" in stopped.split(" by ")[0] else Cause.STOPPED
        advice = None if cause is Cause.REMOVED else f'to have it go on: app["{context.job.name}"].start()'
        if second * MICROSECONDS > context.now:
            return Verdict(RunResult.NOT_DUE, cause, f"is not due: {stopped.replace('was', 'is', 1)}", "", advice)
        return Verdict(RunResult.DID_NOT_RUN, cause, f"did not run, and was not expected to: {stopped}", "", advice)
    if second * MICROSECONDS < segment.first_at and fires(schedule, second, zones):
        return _handed_over(context, segment, second * MICROSECONDS)
    closed = closed_by(schedule, second, zones)
    if closed is not None:
        is_past = second * MICROSECONDS <= context.now
        did = "did not run" if is_past else "will not run"
        headline = f"{did}: calendar {closed.calendar} is closed then ({closed.why})"
        moved = ""
        if closed.moved_to is not None:
            moved = f"It {'was' if is_past else 'is'} moved to {context.time.brief(closed.moved_to * MICROSECONDS)}."
        return Verdict(RunResult.DID_NOT_RUN if is_past else RunResult.NOT_DUE, Cause.CALENDAR, headline, moved)
    if (outside := out_of_range(schedule, second, zones)) is not None:
        return Verdict(RunResult.NOT_DUE, Cause.RANGE, f"{_tense(context, second * MICROSECONDS)} not due: {outside}")
    return None


def _handed_over(context: ExplainContext, segment: HistorySegment, instant: int) -> Verdict:
    """Return the verdict for an instant that a graceful update left out because the previous version had just run."""
    begins = context.time.brief(segment.first_at)
    headline = (
        f"{_tense(context, instant)} not due: version {segment.version} took over gracefully, and its instants "
        f"begin at {begins}"
    )
    rest = "The last run of the version before it was less than half an interval earlier."
    return Verdict(RunResult.NOT_DUE, Cause.VERSION, headline, rest)


def _other_version(context: ExplainContext, segment: HistorySegment | None, second: int) -> Verdict | None:
    """Return a verdict that names the newest other version with this instant; None if no version has it."""
    entries = context.timeline.entries(context.job.number)
    in_force = 0 if segment is None else segment.version
    for entry in reversed(entries):
        if entry.kind is not EntryKind.VERSION or entry.version == in_force:
            continue
        try:
            schedule = context.timeline.schedule(context.job.number, entry.version)
            has_it = fires(schedule, second, _zones(context, schedule, second))
        except ItineraryError:
            continue
        if has_it:
            return _of_version(context, entry, in_force, _tense(context, second * MICROSECONDS))
    return None


def _of_version(context: ExplainContext, entry: EntryRow, in_force: int, tense: str) -> Verdict:
    other = f"version {entry.version} has it (in force {version_words(context, entry.version)})"
    if not in_force:
        headline = f"{tense} not due: no version of the job was in force yet; {other}"
    else:
        headline = (
            f"{tense} not due: version {in_force} {tense} in force then ({version_words(context, in_force)}); {other}"
        )
    return Verdict(RunResult.NOT_DUE, Cause.VERSION, headline)


def _other_reading(context: ExplainContext, segment: HistorySegment | None, second: int) -> Verdict | None:
    """Return a verdict that names the other instant at which the clock shows this time; None if there is none."""
    if segment is None:
        return None
    zone = context.time.zone
    both = instants_at(zone, AS_THE_CLOCK_SHOWS, zone.reading(Moment(second)))
    zones = _zones(context, segment.schedule, second)
    others = [other for other in both if other != second and fires(segment.schedule, other, zones)]
    if len(both) < 2 or not others:
        return None
    times = listed([context.time.brief(other * MICROSECONDS) for other in others])
    twice = f"the clock of {zone.name} shows this time twice that day"
    headline = (
        f"{_tense(context, second * MICROSECONDS)} not due: {twice}, and the schedule means the other one, {times}"
    )
    return Verdict(RunResult.NOT_DUE, Cause.DST_REPEAT, headline)


def _zones(context: ExplainContext, schedule: Schedule, second: int) -> ZoneSource:
    instant = second * MICROSECONDS
    return context.timeline.zones.spans(schedule.zone_names(), instant, instant + 1)[0].zones
