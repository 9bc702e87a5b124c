"""Pruning: history is bounded (D8, protocol rule 22).

A round runs in small steps, each in its own transaction, so that it never delays other work:

    along time      occurrences that ended long ago; failures are kept longer
    job by job      more occurrences than a job may keep, and empty history chunks
    node by node    old statistics, and nodes that left long ago

Only final rows below the watermark minus a margin are removed. Before the last run of a job is removed, the job keeps
its instant. The `history_floor` of the job is the instant below which a missing row means nothing.

There are many jobs, and nearly all need no work. A step skips up to a thousand jobs whose slot says that they have no
chunks. Of a job with chunks it reads one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from itinerary.model.occurrence import Kind
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.model.rows import HistoryChunkRow, JobNumber, OccurrenceRow, OverlapSlotRow, Ref, SweepRow
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.stores.ledger.claim import THE_ONE, triggers_of
from itinerary.stores.ledger.history import CHAPTER, refs_in
from itinerary.stores.tables import (
    ATTEMPTS,
    HISTORY_CHUNKS,
    IDEMPOTENCY_KEYS,
    JOBS,
    NODES,
    OCCURRENCES,
    OVERLAP_SLOTS,
    STATISTICS,
    SWEEP,
    TASKS,
    TRANSITIONS,
    WINDOWS,
)
from itinerary.stores.transaction import Transaction

__all__ = ["BATCH", "count_prunable", "prune"]

BATCH: Final = 1_000
"""The most rows that one step removes."""
_JOBS_AT_ONCE: Final = 50
"""The approximate number of jobs with history chunks in one step."""
_SLOTS_AT_ONCE: Final = 1_000
"""The most jobs that one step skips."""
_CHAPTERS_AT_ONCE: Final = BATCH // CHAPTER
_WENT_WRONG: Final = frozenset({OccurrenceState.FAILED, OccurrenceState.FAILED_STALE, OccurrenceState.ORPHANED})


def prune(tx: Transaction, rules: Retention, cursor: PruneCursor) -> Pruned:
    """Run one step of a round, and return the removed count and the cursor of the next step."""
    tx.gate()
    sweep = tx.get(SWEEP, [THE_ONE])[THE_ONE]
    if cursor.node >= 0:
        return _along_nodes(tx, rules, cursor)
    if cursor.job >= 0:
        return _along_jobs(tx, rules, cursor, sweep)
    return _along_time(tx, rules, cursor, sweep)


def _along_time(tx: Transaction, rules: Retention, cursor: PruneCursor, sweep: SweepRow) -> Pruned:
    now = tx.now()
    # The due instant is before the end, except for an occurrence cancelled ahead of time: that one stays until its
    # instant is old.
    end = min(sweep.watermark - rules.margin, now - min(rules.keep_for, rules.keep_failed_for))
    rows = tx.scan(OCCURRENCES, low=cursor.after, high=(end,), limit=BATCH, by_name=True)
    removed = _remove(tx, [row for row in rows if _is_old(row, rules, now, sweep)])
    if len(rows) < BATCH:
        return Pruned(removed, PruneCursor(job=0))
    last = rows[-1]  # read twice, which does no harm
    return Pruned(removed, PruneCursor((last.instant, last.job, last.kind, last.request)))


def _is_old(row: OccurrenceRow, rules: Retention, now: int, sweep: SweepRow) -> bool:
    kept_for = rules.keep_failed_for if row.status in _WENT_WRONG else rules.keep_for
    return _may_go(row, rules, sweep) and row.ended_at is not None and row.ended_at < now - kept_for


def _may_go(row: OccurrenceRow, rules: Retention, sweep: SweepRow) -> bool:
    last = row.instant if row.window_end is None else max(row.window_end, row.instant)
    return row.status in FINAL and last < sweep.watermark - rules.margin


def _remove(tx: Transaction, rows: Sequence[OccurrenceRow]) -> int:
    """Remove rows with all their dependent rows, and record on the jobs what must stay known."""
    rows = [row for row in tx.lock(OCCURRENCES, [(row.ref,) for row in rows]).values() if row.status in FINAL]
    if not rows:
        return 0
    _keep_marks(tx, rows)
    refs = [(row.ref,) for row in rows]
    tx.remove(TASKS, refs)
    tx.remove(ATTEMPTS, refs)
    tx.remove(TRANSITIONS, refs)
    tx.remove(WINDOWS, [(row.window_end, row.ref) for row in rows if row.window_end is not None])
    tx.remove(IDEMPOTENCY_KEYS, [(triggers_of(row.job), row.request) for row in rows if row.kind is Kind.TRIGGER])
    tx.remove(OCCURRENCES, refs)
    return len(rows)


def _keep_marks(tx: Transaction, rows: Sequence[OccurrenceRow]) -> None:
    """Record on each job how far its history is pruned, and its last run."""
    jobs = tx.lock(JOBS, {(row.job,) for row in rows})
    for row in rows:
        job = jobs[row.job,]
        last_run = job.last_run_at
        has_run = row.started_at is not None and row.kind is Kind.SCHEDULED
        if has_run and (last_run is None or last_run < row.instant):
            last_run = row.instant
        gone_up_to = max(row.instant + 1, row.window_end or 0)
        jobs[row.job,] = replace(job, history_floor=max(job.history_floor, gone_up_to), last_run_at=last_run)
    tx.save(JOBS, list(jobs.values()), ("history_floor", "last_run_at"))


def _along_jobs(tx: Transaction, rules: Retention, cursor: PruneCursor, sweep: SweepRow) -> Pruned:
    slots, next_job = _with_chapters(tx, cursor.job)
    removed, tidied, whole = 0, 0, _whole(tx, rules, slots)
    for slot in slots:
        if slot.job in whole:
            continue
        count, chapters, is_done = _shorten(tx, rules, slot, sweep)
        removed, tidied = removed + count, tidied + chapters
        if not is_done:
            return Pruned(removed, PruneCursor(job=slot.job), tidied)
        if removed >= BATCH:
            return Pruned(removed, PruneCursor(job=slot.job + 1), tidied)
    return Pruned(removed, PruneCursor(job=0, node=0) if next_job is None else PruneCursor(job=next_job), tidied)


def _with_chapters(tx: Transaction, job: int) -> tuple[list[OverlapSlotRow], int | None]:
    """Return some jobs with history chunks, starting at a job, and the job to continue with (None at the end).

    A job without chunks has its history in its slot, and nothing is removed from there.
    """
    found: list[OverlapSlotRow] = []
    for _ in range(_SLOTS_AT_ONCE // _JOBS_AT_ONCE):
        slots = tx.scan(OVERLAP_SLOTS, low=(job,), limit=_JOBS_AT_ONCE)
        found += [slot for slot in slots if slot.count >= CHAPTER]
        if len(slots) < _JOBS_AT_ONCE:
            return found, None
        job = slots[-1].job + 1
        if len(found) >= _JOBS_AT_ONCE:
            break
    return found, job


def _whole(tx: Transaction, rules: Retention, slots: Sequence[OverlapSlotRow]) -> set[JobNumber]:
    """Return the jobs that need no pruning: not too many occurrences, and the newest one of their first chunk exists.

    Nearly all jobs are like that. The check reads one row per job, not its whole history.
    """
    found: set[JobNumber] = set()
    newest: dict[Ref, HistoryChunkRow] = {}
    for slot in slots:
        if _excess(slot, rules):
            continue
        chapters = tx.scan(HISTORY_CHUNKS, (slot.job,), limit=1)
        if not chapters:
            found.add(slot.job)
        elif refs := refs_in(chapters[0].refs):
            newest[refs[-1]] = chapters[0]
    for row in tx.get(OCCURRENCES, [(ref,) for ref in newest]).values():
        if row.place is not None and row.place // CHAPTER == newest[row.ref].number:
            found.add(row.job)
    return found


def _excess(slot: OverlapSlotRow, rules: Retention) -> int:
    """Return the number of history chunks that a job has beyond its limit."""
    return max(slot.count - rules.keep_max, 0) // CHAPTER


def _shorten(tx: Transaction, rules: Retention, slot: OverlapSlotRow, sweep: SweepRow) -> tuple[int, int, bool]:
    """Remove surplus occurrences of a job, oldest first, and empty history chunks.

    Returns:
        The number of removed occurrences, the number of removed chunks, and True if the job is done.
    """
    excess = _excess(slot, rules)
    chapters = tx.scan(HISTORY_CHUNKS, (slot.job,), limit=_CHAPTERS_AT_ONCE)
    there = tx.get(OCCURRENCES, [(ref,) for chapter in chapters for ref in refs_in(chapter.refs)])
    by_chapter: dict[int, list[OccurrenceRow]] = {chapter.number: [] for chapter in chapters}
    for row in there.values():
        if row.place is not None and row.place // CHAPTER in by_chapter:  # else a later chunk lists it
            by_chapter[row.place // CHAPTER].append(row)
    surplus = [row for number, rows in by_chapter.items() if number < excess for row in rows]
    removed = _remove(tx, [row for row in surplus if _may_go(row, rules, sweep)])
    left = tx.get(OCCURRENCES, there) if removed else there
    empty = []
    for number, rows in by_chapter.items():
        if any((row.ref,) in left for row in rows):
            break
        empty.append((slot.job, number))
    if empty:
        tx.remove(HISTORY_CHUNKS, empty)
    is_done = len(empty) < len(chapters) or len(chapters) < _CHAPTERS_AT_ONCE
    return removed, len(empty), is_done


def _along_nodes(tx: Transaction, rules: Retention, cursor: PruneCursor) -> Pruned:
    """Remove statistics after `keep_for`, and nodes that left after `keep_failed_for`: until then names are needed."""
    now = tx.now()
    nodes = tx.scan(NODES, low=(cursor.node,), limit=1)
    if not nodes:
        return Pruned(0, None)
    node = nodes[0]
    old = tx.scan(STATISTICS, (node.number,), high=(now - rules.keep_for,), limit=BATCH)
    tx.remove(STATISTICS, [(row.node, row.at) for row in old])
    if len(old) == BATCH:
        return Pruned(len(old), PruneCursor(job=0, node=node.number))
    if node.left_at is not None and node.left_at < now - max(rules.keep_failed_for, rules.keep_for):
        tx.remove(STATISTICS, [(node.number,)])
        tx.remove(NODES, [(node.number,)])
    return Pruned(len(old), PruneCursor(job=0, node=node.number + 1))


# -- counting without removing ---------------------------------------------------------------------------------------


def count_prunable(tx: Transaction, rules: Retention, cursor: PruneCursor) -> Pruned:
    """Count the occurrences that one step of a round would remove. Reads only; the cursor is separate from `prune`."""
    sweep = tx.get(SWEEP, [THE_ONE])[THE_ONE]
    if cursor.job >= 0:
        return _count_along_jobs(tx, rules, cursor, sweep)
    end = (sweep.watermark - rules.margin,)
    rows = tx.scan(OCCURRENCES, low=cursor.after, high=end, limit=BATCH, by_name=True)
    fresh = [row for row in rows if (row.instant, row.job, row.kind, row.request) != cursor.after]
    count = sum(_is_old(row, rules, tx.now(), sweep) for row in fresh)
    if len(rows) < BATCH:
        return Pruned(count, PruneCursor(job=0))
    last = rows[-1]
    return Pruned(count, PruneCursor((last.instant, last.job, last.kind, last.request)))


def _count_along_jobs(tx: Transaction, rules: Retention, cursor: PruneCursor, sweep: SweepRow) -> Pruned:
    """Count surplus occurrences that their age does not remove already: a few chunks of one job at a time."""
    slots = tx.scan(OVERLAP_SLOTS, low=(cursor.job,), limit=1)
    if not slots:
        return Pruned(0, None)
    job, first = slots[0].job, int(cursor.after[0]) if cursor.after and slots[0].job == cursor.job else 0
    excess = _excess(slots[0], rules)
    chapters = tx.scan(HISTORY_CHUNKS, (job,), low=(first,), high=(excess,), limit=_CHAPTERS_AT_ONCE) if excess else []
    there = tx.get(OCCURRENCES, [(ref,) for chapter in chapters for ref in refs_in(chapter.refs)])
    numbers = {chapter.number for chapter in chapters}
    count = sum(
        row.place is not None
        and row.place // CHAPTER in numbers
        and _may_go(row, rules, sweep)
        and not _is_old(row, rules, tx.now(), sweep)
        for row in there.values()
    )
    if len(chapters) < _CHAPTERS_AT_ONCE:
        return Pruned(count, PruneCursor(job=job + 1))
    return Pruned(count, PruneCursor((chapters[-1].number + 1,), job=job))
