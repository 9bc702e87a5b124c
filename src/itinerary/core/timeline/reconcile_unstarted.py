"""What becomes of occurrences that are claimed and have not started, when their job changes (R6, R7, D10).

Occurrences are claimed some seconds ahead of their instants. A change that takes an instant away must not leave its row
to be started, and this is decided in the transaction that makes the change: the store shows what has not started, with
the entries as they are made, and the timeline with these entries says for each what becomes of it.

    its job is removed              it is cancelled, for good
    its instant is expected         it stays, under the version that is in force then; if it was withdrawn, it is back
    its instant is not expected     it is withdrawn: cancelled, and a later version may bring it back

A pause and a named skip take nothing away. Their instants are expected, and are recorded as skipped when they come, by
whoever would have started them; a resume before that lets them run (protocol rule 3).

New zone data is a change of every job in that zone: whatever is claimed is judged by it, and an instant that the new
table does not have is withdrawn, as by an update.

What lies before the change, or is no work of the schedule, is left alone. So is a job of which nobody can say what it
expects: others may know.
"""

from __future__ import annotations

from collections.abc import Sequence

from itinerary.core.timeline.history import Active, Paused, Removed
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.rows import FOR_ALL, EntryKind, EntryRow, JobNumber, OccurrenceRow
from itinerary.model.states import FINAL
from itinerary.model.timeline import Judge, Verdict, VerdictKind
from itinerary.schedules.durations import SECOND

__all__ = ["judge_by"]


def judge_by(timeline: Timeline) -> Judge:
    """The judge of changes to these jobs, as they stood before the change."""

    def judge(shown: Sequence[OccurrenceRow], entries: Sequence[EntryRow]) -> list[Verdict]:
        known = [entry for entry in entries if entry.job in timeline.jobs or entry.job == FOR_ALL]
        after = timeline.extended(known)
        by_job: dict[JobNumber, list[OccurrenceRow]] = {}
        for row in shown:
            by_job.setdefault(row.job, []).append(row)
        of_zones = [entry for entry in known if entry.kind is EntryKind.ZONE]
        found: list[Verdict] = []
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
) -> list[Verdict]:
    """What becomes of one job's rows, by its own entries and all others that were made with them."""
    if entries[-1].kind is EntryKind.REMOVE:
        last = entries[-1]
        why = str(Removed(last.entered_by, last.effective_from, last.reason))
        return [Verdict(row.ref, VerdictKind.CANCEL, last.version, why) for row in rows if not row.is_withdrawn]
    return _by_what_is_expected(after, [job], _ahead(changes, rows), "")


def _by_zone_data(after: Timeline, of_zones: Sequence[EntryRow], rows: Sequence[OccurrenceRow]) -> list[Verdict]:
    """What becomes of the rows of all jobs. Many may be claimed, so they are judged at once."""
    ahead = _ahead(of_zones, rows)
    jobs = list(dict.fromkeys(row.job for row in ahead))
    return _by_what_is_expected(after, jobs, ahead, ", by the zone data in force then,")


def _ahead(entries: Sequence[EntryRow], rows: Sequence[OccurrenceRow]) -> list[OccurrenceRow]:
    """What these entries may change."""
    since = min(entry.effective_from for entry in entries)
    return [row for row in rows if row.kind.is_by_schedule and row.window_start is None and row.instant >= since]


def _by_what_is_expected(
    after: Timeline, jobs: Sequence[JobNumber], rows: Sequence[OccurrenceRow], how: str
) -> list[Verdict]:
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


def _verdict(after: Timeline, row: OccurrenceRow, version: int | None, how: str) -> Verdict | None:
    """`version` is the one that expects it, if any does; `how` is said of it."""
    if version is not None:
        if not row.is_withdrawn and (row.status in FINAL or row.version == version):
            return None
        kind = VerdictKind.RESTORE if row.is_withdrawn else VerdictKind.KEEP
        return Verdict(row.ref, kind, version, f"version {version}{how} has this instant")
    if row.status in FINAL:
        return None
    stretch = after.in_force(row.job, row.instant)
    if stretch is None:
        return None
    if isinstance(stretch.standing, Active | Paused):
        why = f"version {stretch.version}{how} does not have this instant"
    else:
        why = str(stretch.standing)
    return Verdict(row.ref, VerdictKind.WITHDRAW, stretch.version, why)
