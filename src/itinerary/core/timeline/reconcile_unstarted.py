"""The effect of a job's change on occurrences that are claimed and have not started (R6, R7, D10).

Nodes claim occurrences some seconds before their instants. A change that removes an instant must not leave a row that
can start. So the transaction that makes the change also decides about such rows. The store passes the unstarted rows
and the new entries, and the timeline with these entries decides about each row.

    its job is removed              the row is cancelled, for good
    its instant is expected         the row stays, under the version in force then; a withdrawn row is restored
    its instant is not expected     the row is withdrawn: cancelled, and a later version may restore it

A pause and a named skip remove nothing. Their instants are still expected. The node that would start them records them
as skipped when they are due; a resume before that lets them run (protocol rule 3).

New zone data is a change of every job in that zone. All claimed rows are checked against it, and an instant that the
new table does not have is withdrawn, as by an update.

Rows before the change, and rows that no schedule made, are left alone. So are the rows of a job that this node cannot
enumerate: other nodes may be able to.
"""

from __future__ import annotations

from collections.abc import Sequence

from itinerary.core.timeline.history import JobActive, JobPaused, JobRemoved
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobNumber, OccurrenceRow
from itinerary.model.states import FINAL
from itinerary.model.timeline import UnstartedDecision, UnstartedReconciler, VerdictKind
from itinerary.schedules.durations import SECOND

__all__ = ["judge_by"]


def judge_by(timeline: Timeline) -> UnstartedReconciler:
    """Return the function that decides about unstarted rows when these jobs change.

    Args:
        timeline: The timeline before the change.
    """

    def judge(shown: Sequence[OccurrenceRow], entries: Sequence[EntryRow]) -> list[UnstartedDecision]:
        known = [entry for entry in entries if entry.job in timeline.jobs or entry.job == FOR_ALL]
        after = timeline.extended(known)
        by_job: dict[JobNumber, list[OccurrenceRow]] = {}
        for row in shown:
            by_job.setdefault(row.job, []).append(row)
        of_zones = [entry for entry in known if entry.kind is EntryKind.ZONE]
        found: list[UnstartedDecision] = []
        changed = dict.fromkeys(entry.job for entry in known if entry.job != FOR_ALL)
        for job in changed:
            of_job = [entry for entry in known if entry.job == job]
            found += _verdicts(after, job, of_job, [*of_job, *of_zones], by_job.get(job, []))
        if of_zones:
            others = [row for row in shown if row.job in timeline.jobs and row.job not in changed]
            found += _by_zone_data(after, of_zones, others)
        return found

    return judge


def _verdicts(
    after: Timeline,
    job: JobNumber,
    entries: Sequence[EntryRow],
    changes: Sequence[EntryRow],
    rows: Sequence[OccurrenceRow],
) -> list[UnstartedDecision]:
    """Decide about one job's rows, by its own entries and all others of the same change."""
    if entries[-1].kind is EntryKind.REMOVE:
        last = entries[-1]
        why = str(JobRemoved(last.entered_by, last.effective_from, last.reason))
        return [
            UnstartedDecision(row.ref, VerdictKind.CANCEL, last.version, why) for row in rows if not row.is_withdrawn
        ]
    return _by_what_is_expected(after, [job], _ahead(changes, rows), "")


def _by_zone_data(
    after: Timeline, of_zones: Sequence[EntryRow], rows: Sequence[OccurrenceRow]
) -> list[UnstartedDecision]:
    """Decide about the rows of all jobs at once, since many may be claimed."""
    ahead = _ahead(of_zones, rows)
    jobs = list(dict.fromkeys(row.job for row in ahead))
    return _by_what_is_expected(after, jobs, ahead, ", by the zone data in force then,")


def _ahead(entries: Sequence[EntryRow], rows: Sequence[OccurrenceRow]) -> list[OccurrenceRow]:
    """Return the rows that these entries may affect."""
    since = min(entry.effective_from for entry in entries)
    return [row for row in rows if row.kind.is_by_schedule and row.window_start is None and row.instant >= since]


def _by_what_is_expected(
    after: Timeline, jobs: Sequence[JobNumber], rows: Sequence[OccurrenceRow], how: str
) -> list[UnstartedDecision]:
    if not rows:
        return []
    instants = [row.instant for row in rows]
    expected = after.expected(min(instants), max(instants) + SECOND, jobs)
    unknown = {gap.job for gap in expected.gaps}
    versions = {(due.job, due.instant): due.version for due in expected}
    verdicts = (
        _verdict(after, row, versions.get((row.job, row.instant)), how) for row in rows if row.job not in unknown
    )
    return [verdict for verdict in verdicts if verdict is not None]


def _verdict(after: Timeline, row: OccurrenceRow, version: int | None, how: str) -> UnstartedDecision | None:
    """Decide about one row. `version` is the one that expects its instant, if any; `how` goes into the reason."""
    if version is not None:
        if not row.is_withdrawn and (row.status in FINAL or row.version == version):
            return None
        kind = VerdictKind.RESTORE if row.is_withdrawn else VerdictKind.KEEP
        return UnstartedDecision(row.ref, kind, version, f"version {version}{how} has this instant")
    if row.status in FINAL:
        return None
    segment = after.in_force(row.job, row.instant)
    if segment is None:
        return None
    if isinstance(segment.status, JobActive | JobPaused):
        why = f"version {segment.version}{how} does not have this instant"
    else:
        why = str(segment.status)
    return UnstartedDecision(row.ref, VerdictKind.WITHDRAW, segment.version, why)
