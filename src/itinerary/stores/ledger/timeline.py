"""Changes to the timeline, with the gate held exclusively (protocol rules 3, 4, R6, R7, D10).

During a change no node claims, starts or sweeps. The next one finds a new revision, and reads it before it continues.
So no sweep passes an uncommitted version, and no stale index claims an instant that an update removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from itinerary.model.rows import (
    FOR_ALL,
    EntryKind,
    EntryRow,
    JobNumber,
    JobRow,
    OccurrenceRow,
    OverlapSlotRow,
    StoreMetaRow,
)
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.timeline import (
    EntryAccepted,
    EntryRefusal,
    EntryRejected,
    TimelineEntryRequest,
    UnstartedDecision,
    UnstartedReconciler,
    VerdictKind,
)
from itinerary.model.writes import Step
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.ledger.overlap_queue import LINE_MAX
from itinerary.stores.ledger.unit_of_work import UnitOfWork, clean
from itinerary.stores.tables import ACTIVE, ENTRIES, JOBS, OCCURRENCES, OVERLAP_QUEUE, OVERLAP_SLOTS, STORE_META, SWEEP
from itinerary.stores.transaction import Transaction

__all__ = ["TIMELINE_TOPIC", "amend"]

TIMELINE_TOPIC = "timeline"
"""The topic that announces a new revision to nodes."""
_NOBODY = JobRow(JobNumber(0), "", 0, 0, 0)


def amend(
    tx: Transaction, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None
) -> list[EntryAccepted] | list[EntryRejected]:
    """Make all these entries under one revision, or none of them.

    Args:
        tx: The transaction.
        entries: The entries. A repeated entry keeps its first revision.
        judge: Decides about unstarted occurrences of the changed jobs; None leaves them unchanged.

    Returns:
        The accepted entries, or all rejections if any entry is rejected.
    """
    tx.gate(exclusive=True)
    now = tx.now()
    earliest = max(now, tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark)
    jobs = {name: row for (name,), row in tx.named(JOBS, {(entry.job,) for entry in entries if entry.job}).items()}
    known = _entered_before(tx, entries, jobs)
    fresh = [entry for entry in entries if (entry.job, entry.request) not in known]
    versions = {name: row.version for name, row in jobs.items()}
    revision = revision_of(tx)
    if denied := [denial for entry in fresh if (denial := _denied(entry, versions, earliest, revision)) is not None]:
        return denied
    if fresh:
        jobs.update(_created(tx, fresh, jobs, now))
        rows = _rows(fresh, jobs, revision + 1, earliest, now)
        tx.insert(ENTRIES, rows)
        tx.put(STORE_META, [StoreMetaRow(0, rows[0].revision)])
        tx.save(JOBS, _with_new_versions(rows, jobs), ("version",))
        known.update({(entry.job, entry.request): row for entry, row in zip(fresh, rows, strict=True)})
        tx.notify([TIMELINE_TOPIC])
        if judge is not None:
            _judge(tx, rows, judge)
    made = [known[entry.job, entry.request] for entry in entries]
    return [EntryAccepted(row.job, row.revision, row.version, row.effective_from) for row in made]


def _entered_before(
    tx: Transaction, entries: Sequence[TimelineEntryRequest], jobs: dict[str, JobRow]
) -> dict[tuple[str, str], EntryRow]:
    names = {
        (jobs.get(entry.job, _NOBODY).number, entry.request): entry for entry in entries if _may_exist(entry, jobs)
    }
    found = tx.named(ENTRIES, names)
    return {(names[name].job, row.request): row for name, row in found.items()}


def _may_exist(entry: TimelineEntryRequest, jobs: dict[str, JobRow]) -> bool:
    return not entry.job or entry.job in jobs


def _denied(
    entry: TimelineEntryRequest, versions: dict[str, int], earliest: int, revision: int
) -> EntryRejected | None:
    """Return the rejection of an entry, if any. Counts versions up, because one call may hold several of one job."""
    version = versions.get(entry.job, 0)
    why: EntryRefusal | None = None
    if entry.job and entry.kind is not EntryKind.VERSION and entry.job not in versions:
        why = EntryRefusal.UNKNOWN
    elif entry.kind is EntryKind.VERSION and entry.from_version != version:
        why = EntryRefusal.STALE
    elif entry.revision not in (None, revision):
        why = EntryRefusal.MOVED
    elif entry.effective_from is not None and entry.effective_from < earliest:
        why = EntryRefusal.EARLY
    if why is None and entry.kind is EntryKind.VERSION:
        versions[entry.job] = version + 1
    return None if why is None else EntryRejected(entry.job, why, version, earliest)


def _created(
    tx: Transaction, entries: Sequence[TimelineEntryRequest], jobs: dict[str, JobRow], now: int
) -> dict[str, JobRow]:
    """Create the jobs that are new, each with its overlap slot and an empty history."""
    names = {entry.job for entry in entries if entry.job and entry.job not in jobs}
    created = tx.add(JOBS, [JobRow(JobNumber(0), name, now, 0, now) for name in sorted(names)])
    if created:
        tx.insert(OVERLAP_SLOTS, [OverlapSlotRow(job.number) for job in created])
    return {job.name: job for job in created}


def _rows(
    entries: Sequence[TimelineEntryRequest], jobs: dict[str, JobRow], revision: int, earliest: int, now: int
) -> list[EntryRow]:
    versions = {name: row.version for name, row in jobs.items()}
    rows = []
    for line, entry in enumerate(entries):
        if entry.kind is EntryKind.VERSION:
            versions[entry.job] += 1
        rows.append(
            EntryRow(
                revision,
                line,
                jobs[entry.job].number if entry.job else FOR_ALL,
                entry.kind,
                entry.request,
                earliest if entry.effective_from is None else entry.effective_from,
                now,
                entry.by,
                versions.get(entry.job, 0),
                entry.subject,
                entry.body,
                clean(entry.reason),
            )
        )
    return rows


def _with_new_versions(rows: Sequence[EntryRow], jobs: dict[str, JobRow]) -> list[JobRow]:
    newest = {row.job: row.version for row in rows if row.kind is EntryKind.VERSION}
    return [replace(job, version=newest[job.number]) for job in jobs.values() if job.number in newest]


# -- unstarted occurrences -------------------------------------------------------------------------------------------


def _judge(tx: Transaction, entries: Sequence[EntryRow], judge: UnstartedReconciler) -> None:
    """Let the judge decide about the unstarted occurrences of these jobs, and apply its decisions."""
    jobs = {entry.job for entry in entries}
    refs = [row.ref for job in sorted(jobs - {FOR_ALL}) for row in tx.scan(ACTIVE, (job,), limit=LINE_MAX)]
    refs += [row.ref for job in sorted(jobs - {FOR_ALL}) for row in tx.scan(OVERLAP_QUEUE, (job,), limit=LINE_MAX)]
    earliest = min(entry.effective_from for entry in entries)
    ahead = tx.scan(OCCURRENCES, low=(earliest,), limit=LINE_MAX, by_name=True)
    refs += [row.ref for row in ahead if row.is_withdrawn and (row.job in jobs or 0 in jobs)]
    if 0 in jobs:
        refs += [row.ref for row in ahead if row.status not in FINAL]
    pages = UnitOfWork(tx, sorted(set(refs)), None)
    shown = [row for row in pages.rows.values() if row.started_at is None]
    for verdict in judge(shown, entries):
        _carry_out(pages, pages.rows[verdict.ref], verdict)
    pages.save()


def _carry_out(pages: UnitOfWork, row: OccurrenceRow, verdict: UnstartedDecision) -> None:
    match verdict.kind:
        case VerdictKind.KEEP:
            if row.status not in FINAL:
                pages.change(row, version=verdict.version)
        case VerdictKind.WITHDRAW | VerdictKind.CANCEL:
            if row.status not in FINAL:
                taken = pages.take_over(row)
                withdrawn = verdict.kind is VerdictKind.WITHDRAW
                step = Step(OccurrenceState.CANCELLED, why=verdict.why)
                pages.turn(taken, (step,), is_withdrawn=withdrawn, cancelled_by=clean(verdict.why))
        case VerdictKind.RESTORE:
            if row.is_withdrawn:
                taken = pages.take_over(row)
                step = Step(OccurrenceState.PRERUN, why=verdict.why)
                values: dict[str, Any] = {
                    "is_withdrawn": False,
                    "cancelled_by": None,
                    "ended_at": None,
                    "place": None,
                    "version": verdict.version,
                }
                pages.turn(taken, (step,), by_update=True, **values)
        case _:
            assert_never(verdict.kind)
