"""The past instants that a backfill runs again, or for the first time (R4).

    missing    nothing ran: no row, or one that ended without a start (missed, skipped, cancelled)
    failed     something ran and nothing succeeded: failed, failed_stale, orphaned, completed_with_errors
    all        every instant

An instant may have several occurrences: the one by its schedule, replays, backfills. A backfill leaves active
occurrences alone, and does not repeat an occurrence that the same request key already made. So an interrupted backfill
can be repeated under its key, and resumes. Without a key it is a new request: only `missing` leaves out the runs of the
first one.

An expected instant with a row is replayed. An instant without a row of its own, because none was expected then or
because it lies inside a collapsed range, is backfilled (D1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from itinerary.core.timeline.history import JobRemoved, JobStopped
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ScheduleFaulty, WindowError
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.run_request import read_asked
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.schedules.instants import MICROSECONDS, window_seconds

__all__ = ["INSTANTS_MAX", "ChosenInstant", "InstantChoice", "chosen", "due_between"]

INSTANTS_MAX: Final = 100_000
"""The largest number of instants of one backfill."""
_FIRST_PART: Final = 3_600 * MICROSECONDS


class InstantChoice(StrEnum):
    """The choice of instants in a range."""

    MISSING = "missing"
    FAILED = "failed"
    ALL = "all"


class ChosenInstant(NamedTuple):
    """An instant that is to run."""

    instant: int
    version: int
    original: OccurrenceRow | None
    """The occurrence to replay; None if the instant has no row of its own."""
    is_asked: bool = False
    """True if the same request key already made a run of this instant."""


_WENT_WRONG: Final = frozenset(
    {
        OccurrenceState.FAILED,
        OccurrenceState.FAILED_STALE,
        OccurrenceState.ORPHANED,
        OccurrenceState.COMPLETED_WITH_ERRORS,
    }
)


def due_between(timeline: Timeline, job: JobNumber, start: int, end: int) -> dict[int, int]:
    """Return a job's instants in `[start, end)`, each with the version that it runs as.

    The version is the one in force at the instant. Where no version was in force, or nothing was expected, it is the
    newest one.

    Raises:
        ItineraryError: The instants cannot be enumerated, or there are too many.
    """
    found: dict[int, int] = {}
    since, length = start, _FIRST_PART
    while since < end:  # each part is as long as all parts before it, so that too high a count is noticed early
        expected = timeline.expected(since, min(since + length, end), [job])
        for gap in expected.gaps:
            raise ScheduleFaulty(f"job {timeline.jobs[job].name!r} cannot be enumerated: {gap.reason}")
        _check_count(len(found) + len(expected))
        found |= {due.instant: due.version for due in expected}
        since += length
        length = since - start
    newest = timeline.newest(job)
    if newest is not None:
        schedule = timeline.schedule(job, newest.version)
        names = schedule.zone_names()
        parts = _uncovered(timeline, job, start, end)
        for span in (span for low, high in parts for span in timeline.zones.spans(names, low, high)):
            first, last = window_seconds(span.start, span.end)
            second = schedule.next_second(first - 1, span.zones)
            while second is not None and second < last:
                found[second * MICROSECONDS] = newest.version
                _check_count(len(found))
                second = schedule.next_second(second, span.zones)
    return dict(sorted(found.items()))


def _check_count(count: int) -> None:
    if count > INSTANTS_MAX:
        raise WindowError(f"there are more than {INSTANTS_MAX} instants in that range; backfill a shorter one")


def _uncovered(timeline: Timeline, job: JobNumber, start: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of `[start, end)` in which nothing was expected of the job."""
    parts, at = [], start
    for segment in timeline.segments(job, start, end):
        if at < segment.start:
            parts.append((at, segment.start))
        if isinstance(segment.status, JobStopped | JobRemoved):
            parts.append((segment.start, segment.end))
        at = segment.end
    return [*parts, (at, end)] if at < end else parts


def chosen(
    due: Mapping[int, int], rows: Iterable[OccurrenceRow], which: InstantChoice, request: str | None = None
) -> list[ChosenInstant]:
    """Return the instants that a backfill runs, in order.

    Args:
        due: The job's instants, each with its version.
        rows: The job's rows in that time, including windows that reach into it.
        which: The choice of instants.
        request: The request key of the backfill.
    """
    at: dict[int, list[OccurrenceRow]] = {}
    windows = []
    for row in rows:
        if row.window is not None:
            windows.append(row)
        elif row.kind is not Kind.TRIGGER:
            at.setdefault(row.instant, []).append(row)
    found = []
    for instant, version in due.items():
        there = sorted(at.get(instant, ()), key=lambda row: row.ref)
        around = [row for row in windows if row.window is not None and row.window.start <= instant < row.window.end]
        is_asked = request is not None and any(_asked_by(row, request) for row in there)
        if is_asked or _is_wanted([*there, *around], which):
            original = next((row for row in there if row.kind is Kind.SCHEDULED), None)
            found.append(ChosenInstant(instant, version, original or (there[0] if there else None), is_asked))
    return found


def _is_wanted(rows: Sequence[OccurrenceRow], which: InstantChoice) -> bool:
    if any(row.status not in FINAL for row in rows):
        return False
    ran = [row for row in rows if row.started_at is not None]
    match which:
        case InstantChoice.MISSING:
            return not ran
        case InstantChoice.FAILED:
            return bool(ran) and all(row.status in _WENT_WRONG for row in ran)
        case InstantChoice.ALL:
            return True


def _asked_by(row: OccurrenceRow, request: str) -> bool:
    asked = read_asked(row.details)
    return asked is not None and asked.request == request
