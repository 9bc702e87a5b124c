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

from itinerary.core.timeline.expected import Due, Gap
from itinerary.core.timeline.history import Active, Paused, Stretch
from itinerary.errors import ItineraryError
from itinerary.explain.causes import Cause, Fate
from itinerary.explain.context import Scene
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


def explained_due(scene: Scene, due: Due) -> Explanation:
    """Explain an instant that was expected and has no record."""
    return _answer(scene, due.instant, f"{scene.job.name}, due {scene.time.full(due.instant)},", _due(scene, due))


def _due(scene: Scene, due: Due) -> Verdict:
    if due.instant > scene.now:
        wait = spoken(due.instant - scene.now)
        if due.skipped is not None:
            cause = Cause.SKIPPED if due.skipped.startswith("skipped by ") else Cause.PAUSED
            why = skip_words(scene, due.instant, due.skipped)
            return Verdict(Fate.TO_COME, cause, f"is to come in {wait}, and will be skipped: {why}")
        return Verdict(Fate.TO_COME, Cause.FUTURE, f"is to come in {wait}, by version {due.version}")
    if due.instant < scene.job.history_floor:
        floor = scene.time.brief(scene.job.history_floor)
        return Verdict(Fate.UNKNOWN, Cause.PRUNED, f"is no longer on record: the history of the job begins at {floor}")
    if due.instant < scene.watermark:
        upto = scene.time.brief(scene.watermark)
        headline = f"is lost: the store has nothing about it, though everything up to {upto} is decided"
        return Verdict(
            Fate.UNKNOWN, Cause.LOST, headline, "This must never be.", "to see whether more is lost: itinerary audit"
        )
    delay, advice = nobody_takes_it(scene, due.instant)
    skipped = "" if due.skipped is None else f", and will be skipped ({skip_words(scene, due.instant, due.skipped)})"
    headline = f"has been due for {spoken(scene.now - due.instant)} and is not decided yet{skipped}: {delay.because}"
    return Verdict(Fate.WAITS, delay.cause, headline, "", advice)


def explained_gap(scene: Scene, instant: int, gap: Gap | str) -> Explanation:
    """Explain an instant at which the job's expected instants are unknown."""
    reason = gap if isinstance(gap, str) else f"version {gap.version}: {gap.reason}"
    headline = f"cannot be explained: the job is quarantined, since nobody can say what it expects: {reason}"
    verdict = Verdict(Fate.UNKNOWN, Cause.QUARANTINED, headline.rstrip("."), "", "correct the job")
    return _answer(scene, instant, f"{scene.job.name} at {scene.time.full(instant)}", verdict)


def explained_never(
    scene: Scene, around: Neighbours, why: Verdict | None, facts: tuple[Fact, ...], asked: int
) -> Explanation:
    """Explain an instant that was not due."""
    subject = f"{scene.job.name} at {scene.time.full(asked)}"
    if why is None:
        why = Verdict(Fate.NOT_DUE, Cause.SCHEDULE, f"{_tense(scene, asked)} not due{_schedule(scene, asked)}")
    rest = f"{why.rest} {_nearest(scene, around)}".strip()
    return _answer(scene, asked, subject, why._replace(rest=rest), facts)


def _schedule(scene: Scene, instant: int) -> str:
    stretch = scene.timeline.in_force(scene.job.number, instant)
    if stretch is None:
        return ": no version of the job was in force yet"
    try:
        return f': its schedule is "{stretch.schedule}"'
    except ItineraryError:
        return ""


def _nearest(scene: Scene, around: Neighbours) -> str:
    before, after = around
    if before is None and after is None:
        return "It has no other instant near that."
    if before is None or after is None:
        only = before if after is None else after
        assert only is not None, "one of them is there"
        return (
            f"The {'last instant before' if after is None else 'first instant after'} that is {scene.time.brief(only)}."
        )
    return f"The nearest instants are {scene.time.brief(before)} and {scene.time.brief(after)}."


def _answer(scene: Scene, instant: int, subject: str, verdict: Verdict, facts: tuple[Fact, ...] = ()) -> Explanation:
    run = run_id(scene.job.name, instant) if verdict.fate not in (Fate.NOT_DUE, Fate.UNKNOWN) else None
    entries = () if verdict.fate is Fate.TO_COME else _entries(scene, instant)
    return answer(scene, instant, subject, verdict, run=run, facts=(*facts, *entries))


def _entries(scene: Scene, instant: int) -> Iterator[Fact]:
    """Yield the entries of the job's timeline that had taken effect by then: the last of each kind."""
    newest: dict[EntryKind, EntryRow] = {}
    for entry in scene.timeline.entries(scene.job.number):
        if entry.effective_from <= instant and entry.kind is not EntryKind.SKIP:
            newest[entry.kind] = entry
    for entry in sorted(newest.values(), key=lambda entry: entry.effective_from):
        what = f"version {entry.version}" if entry.kind is EntryKind.VERSION else entry.kind.value
        why = f": {entry.reason}" if entry.reason else ""
        yield scene.fact(entry.effective_from, f"{what}, by {entry.entered_by}{why}")


# -- why the instant was not due -------------------------------------------------------------------------------------


def why_not_due(scene: Scene, asked: int) -> Verdict | None:
    """Return why an instant was not due.

    Returns:
        The condition under which the instant would have been due; None if there is no known one.

    Raises:
        ItineraryError: The definition in force at that time cannot be read.
    """
    second, job = asked // MICROSECONDS, scene.job.number
    if asked % MICROSECONDS:
        return None
    stretch = scene.timeline.in_force(job, asked)
    if stretch is not None:
        verdict = _under(scene, stretch, second)
        if verdict is not None:
            return verdict
    return _other_version(scene, stretch, second) or _other_reading(scene, stretch, second)


def never_shown(scene: Scene, reading: str, instant: int) -> Verdict:
    """Return the verdict for a local time that the clock of the job's zone skips on that day.

    Args:
        scene: The job and the time of the question.
        reading: The local time that the user typed.
        instant: The first instant after the skipped time.
    """
    shows = f"the clock of {scene.time.zone.name} does not show {reading}: it goes on at {scene.time.brief(instant)}"
    return Verdict(Fate.NOT_DUE, Cause.DST_GAP, f"{_tense(scene, instant)} not due: {shows}, and nothing is due then")


def _tense(scene: Scene, instant: int) -> str:
    return "is" if instant > scene.now else "was"


def _under(scene: Scene, stretch: Stretch, second: int) -> Verdict | None:
    """Return why the instant was not due by the version in force."""
    schedule, zones = stretch.schedule, _zones(scene, stretch.schedule, second)
    if not isinstance(stretch.standing, Active | Paused) and fires(schedule, second, zones):
        stopped = standing_words(stretch.standing, scene)
        cause = Cause.REMOVED if "removed" in stopped.split(" by ")[0] else Cause.STOPPED
        advice = None if cause is Cause.REMOVED else f'to have it go on: app["{scene.job.name}"].start()'
        if second * MICROSECONDS > scene.now:
            return Verdict(Fate.NOT_DUE, cause, f"is not due: {stopped.replace('was', 'is', 1)}", "", advice)
        return Verdict(Fate.DID_NOT_RUN, cause, f"did not run, and was not expected to: {stopped}", "", advice)
    if second * MICROSECONDS < stretch.first_at and fires(schedule, second, zones):
        return _handed_over(scene, stretch, second * MICROSECONDS)
    closed = closed_by(schedule, second, zones)
    if closed is not None:
        is_past = second * MICROSECONDS <= scene.now
        did = "did not run" if is_past else "will not run"
        headline = f"{did}: calendar {closed.calendar} is closed then ({closed.why})"
        moved = ""
        if closed.moved_to is not None:
            moved = f"It {'was' if is_past else 'is'} moved to {scene.time.brief(closed.moved_to * MICROSECONDS)}."
        return Verdict(Fate.DID_NOT_RUN if is_past else Fate.NOT_DUE, Cause.CALENDAR, headline, moved)
    if (outside := out_of_range(schedule, second, zones)) is not None:
        return Verdict(Fate.NOT_DUE, Cause.RANGE, f"{_tense(scene, second * MICROSECONDS)} not due: {outside}")
    return None


def _handed_over(scene: Scene, stretch: Stretch, instant: int) -> Verdict:
    """Return the verdict for an instant that a graceful update left out because the previous version had just run."""
    begins = scene.time.brief(stretch.first_at)
    headline = (
        f"{_tense(scene, instant)} not due: version {stretch.version} took over gracefully, and its instants begin at "
        f"{begins}"
    )
    rest = "The last run of the version before it was less than half an interval earlier."
    return Verdict(Fate.NOT_DUE, Cause.VERSION, headline, rest)


def _other_version(scene: Scene, stretch: Stretch | None, second: int) -> Verdict | None:
    """Return a verdict that names the newest other version with this instant; None if no version has it."""
    entries = scene.timeline.entries(scene.job.number)
    in_force = 0 if stretch is None else stretch.version
    for entry in reversed(entries):
        if entry.kind is not EntryKind.VERSION or entry.version == in_force:
            continue
        try:
            schedule = scene.timeline.schedule(scene.job.number, entry.version)
            has_it = fires(schedule, second, _zones(scene, schedule, second))
        except ItineraryError:
            continue
        if has_it:
            return _of_version(scene, entry, in_force, _tense(scene, second * MICROSECONDS))
    return None


def _of_version(scene: Scene, entry: EntryRow, in_force: int, tense: str) -> Verdict:
    other = f"version {entry.version} has it (in force {version_words(scene, entry.version)})"
    if not in_force:
        headline = f"{tense} not due: no version of the job was in force yet; {other}"
    else:
        headline = (
            f"{tense} not due: version {in_force} {tense} in force then ({version_words(scene, in_force)}); {other}"
        )
    return Verdict(Fate.NOT_DUE, Cause.VERSION, headline)


def _other_reading(scene: Scene, stretch: Stretch | None, second: int) -> Verdict | None:
    """Return a verdict that names the other instant at which the clock shows this time; None if there is none."""
    if stretch is None:
        return None
    zone = scene.time.zone
    both = instants_at(zone, AS_THE_CLOCK_SHOWS, zone.reading(Moment(second)))
    zones = _zones(scene, stretch.schedule, second)
    others = [other for other in both if other != second and fires(stretch.schedule, other, zones)]
    if len(both) < 2 or not others:
        return None
    times = listed([scene.time.brief(other * MICROSECONDS) for other in others])
    twice = f"the clock of {zone.name} shows this time twice that day"
    headline = f"{_tense(scene, second * MICROSECONDS)} not due: {twice}, and the schedule means the other one, {times}"
    return Verdict(Fate.NOT_DUE, Cause.DST_REPEAT, headline)


def _zones(scene: Scene, schedule: Schedule, second: int) -> ZoneSource:
    instant = second * MICROSECONDS
    return scene.timeline.zones.spans(schedule.zone_names(), instant, instant + 1)[0].zones
