"""What becomes of occurrences that are claimed and have not started, when their job changes (R6, R7, D10).

Occurrences are claimed some seconds ahead of their instants. A change that takes an instant away must not leave its row
to be started, and this is decided in the transaction that makes the change: the store shows what has not started, with
the entries as they are made, and the timeline with these entries says for each what becomes of it.

    its job is removed              it is cancelled, for good
    its instant is expected         it stays, under the version that is in force then; if it was withdrawn, it is back
    its instant is not expected     it is withdrawn: cancelled, and a later version may bring it back

A pause and a named skip take nothing away. Their instants are expected, and are recorded as skipped when they come, by
whoever would have started them; a resume before that lets them run (PROTOCOL 3).

What lies before the change, or is no work of the schedule, is left alone. So is a job of which nobody can say what it
expects: others may know.
"""

from __future__ import annotations

from collections.abc import Sequence

from itinerary.core.stretches import Active, Paused, Removed
from itinerary.core.timeline import Timeline
from itinerary.model.rows import EntryKind, EntryRow, JobNumber, OccurrenceRow
from itinerary.model.states import FINAL
from itinerary.model.timeline import Judge, Verdict, VerdictKind
from itinerary.schedules.durations import SECOND

__all__ = ["judge_by"]


def judge_by(timeline: Timeline) -> Judge:
    """The judge of changes to these jobs, as they stood before the change."""

    def judge(shown: Sequence[OccurrenceRow], entries: Sequence[EntryRow]) -> list[Verdict]:
        known = [entry for entry in entries if entry.job in timeline.jobs]
        after = timeline.extended(known)
        by_job: dict[JobNumber, list[OccurrenceRow]] = {}
        for row in shown:
            by_job.setdefault(row.job, []).append(row)
        found: list[Verdict] = []
        for job in dict.fromkeys(entry.job for entry in known):
            of_job = [entry for entry in known if entry.job == job]
            found += _verdicts(after, job, of_job, by_job.get(job, []))
        return found

    return judge


def _verdicts(
    after: Timeline, job: JobNumber, entries: Sequence[EntryRow], rows: Sequence[OccurrenceRow]
) -> list[Verdict]:
    if entries[-1].kind is EntryKind.REMOVE:
        last = entries[-1]
        why = str(Removed(last.entered_by, last.effective_from, last.reason))
        return [Verdict(row.ref, VerdictKind.CANCEL, last.version, why) for row in rows if not row.is_withdrawn]
    since = min(entry.effective_from for entry in entries)
    ahead = [row for row in rows if row.kind.is_by_schedule and row.window_start is None and row.instant >= since]
    if not ahead:
        return []
    instants = [row.instant for row in ahead]
    expected = after.expected(min(instants), max(instants) + SECOND, [job])
    if expected.gaps:
        return []
    versions = {due.instant: due.version for due in expected}
    return [verdict for row in ahead if (verdict := _verdict(after, row, versions.get(row.instant))) is not None]


def _verdict(after: Timeline, row: OccurrenceRow, version: int | None) -> Verdict | None:
    """`version` is the one that expects it, if any does."""
    if version is not None:
        if not row.is_withdrawn and (row.status in FINAL or row.version == version):
            return None
        kind = VerdictKind.RESTORE if row.is_withdrawn else VerdictKind.KEEP
        return Verdict(row.ref, kind, version, f"version {version} has this instant")
    if row.status in FINAL:
        return None
    stretch = after.in_force(row.job, row.instant)
    if stretch is None:
        return None
    if isinstance(stretch.standing, Active | Paused):
        why = f"version {stretch.version} does not have this instant"
    else:
        why = str(stretch.standing)
    return Verdict(row.ref, VerdictKind.WITHDRAW, stretch.version, why)
