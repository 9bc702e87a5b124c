"""The history of a job: its ended occurrences, in the order in which they ended.

    OVERLAP_SLOTS    (job, …, count, recent)     the last few, and the total count
    HISTORY_CHUNKS   (job, number, refs)         chunks of sixteen, full and closed

An index over five million occurrences by job would do the same, but every new row would touch a random part of it.
Measured, that makes inserts two to eight times slower as history grows. Here the newest part is in the slot of the job,
a small row that every end writes anyway. Only every sixteenth end adds a row by job. So an occurrence costs the same at
five million rows as at a thousand. The first page of a history reads the slot and one or two chunks.

References to pruned rows are skipped. So is the first end of an occurrence that an update withdrew and restored, and
that ended again: a row knows its own position.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from sys import byteorder
from typing import Final

from msgspec.structs import replace

from itinerary.model.queries import HistoryQuery, Page
from itinerary.model.rows import HistoryChunkRow, JobNumber, OccurrenceRow, OverlapSlotRow, Ref
from itinerary.stores.tables import HISTORY_CHUNKS, OCCURRENCES, OVERLAP_SLOTS
from itinerary.stores.transaction import Transaction

__all__ = ["CHAPTER", "append", "history", "lengthened", "pieces", "recent", "refs_in"]

CHAPTER: Final = 16
"""The number of occurrences in a chunk. A larger one means fewer random writes, but a larger slot to rewrite."""
_REF_BYTES: Final = array("q").itemsize
_CHAPTER_BYTES: Final = CHAPTER * _REF_BYTES
_CHAPTERS_AT_ONCE: Final = 8


def refs_in(packed: bytes) -> list[Ref]:
    """Return the references in a slot or a chunk, oldest first."""
    return [Ref(number) for number in array("q", packed)]


def lengthened(slot: OverlapSlotRow, refs: Sequence[Ref]) -> tuple[OverlapSlotRow, list[HistoryChunkRow]]:
    """Return the slot with these references appended, and the chunks that are now full.

    The first gets place `count`.
    """
    packed = slot.recent + (array("q", refs).tobytes() if len(refs) > 1 else refs[0].to_bytes(_REF_BYTES, byteorder))
    count = slot.count + len(refs)
    if len(packed) < _CHAPTER_BYTES:  # the common case
        return replace(slot, count=count, recent=packed), []
    pieces = [packed[place : place + _CHAPTER_BYTES] for place in range(0, len(packed) + 1, _CHAPTER_BYTES)]
    *full, recent = pieces
    chapters = [HistoryChunkRow(slot.job, number, refs) for number, refs in enumerate(full, slot.count // CHAPTER)]
    return replace(slot, count=count, recent=recent), chapters


def append(tx: Transaction, ended: Sequence[OccurrenceRow]) -> None:
    """Append occurrences that are created in a final state to the histories of their jobs."""
    by_job: defaultdict[JobNumber, list[OccurrenceRow]] = defaultdict(list)
    for row in ended:
        by_job[row.job].append(row)
    slots = tx.lock(OVERLAP_SLOTS, [(job,) for job in by_job])
    longer, closed, placed = [], [], []
    for job in sorted(by_job):
        slot = slots[job,]
        placed += [replace(row, place=place) for place, row in enumerate(by_job[job], slot.count)]
        slot, chapters = lengthened(slot, [row.ref for row in by_job[job]])
        longer.append(slot)
        closed += chapters
    tx.save(OVERLAP_SLOTS, longer, ("count", "recent"))
    tx.save(OCCURRENCES, placed, ("place",))
    if closed:
        tx.insert(HISTORY_CHUNKS, closed)


def history(tx: Transaction, query: HistoryQuery) -> Page:
    """Return ended occurrences of a job, newest first, from before a position in its history.

    A page may be shorter than `limit`, or empty, and still have a `next`. A search for a rare state in a long history
    takes several calls.
    """
    rows: list[OccurrenceRow] = []
    looked_at = 0
    for first, refs in pieces(tx, query.job, query.before):
        found = tx.get(OCCURRENCES, [(ref,) for ref in refs])
        for offset in range(len(refs) - 1, -1, -1):
            row = found.get((refs[offset],))
            if row is not None and row.place == first + offset and (not query.states or row.status in query.states):
                rows.append(row)
                if len(rows) == query.limit:
                    return Page(tuple(rows), first + offset if first + offset > 0 else None)
        looked_at += len(refs)
        if looked_at >= query.looked_at_max and first > 0:
            return Page(tuple(rows), first)
    return Page(tuple(rows), None)


def recent(
    tx: Transaction, jobs: Collection[JobNumber], limit: int, ended_before: int | None = None
) -> dict[JobNumber, list[OccurrenceRow]]:
    """Return the last `limit` ended occurrences of each job, newest first.

    A thousand jobs take as many reads as one.

    Args:
        tx: The transaction.
        jobs: The jobs.
        limit: The most occurrences of each job.
        ended_before: Return only occurrences that ended before this time.
    """
    slots = {slot.job: slot for slot in tx.get(OVERLAP_SLOTS, [(job,) for job in jobs]).values()}
    ends = {job: slot.count for job, slot in slots.items()}
    spare = 0
    if ended_before is not None:
        ends, spare = _ends_before(tx, slots, ended_before), CHAPTER
    numbers = {
        job: range(max(end - limit - spare, 0) // CHAPTER, min(-(-end // CHAPTER), slots[job].count // CHAPTER))
        for job, end in ends.items()
    }
    chapters = tx.get(HISTORY_CHUNKS, [(job, number) for job, wanted in numbers.items() for number in wanted])
    places: list[tuple[JobNumber, int, Ref]] = []
    for job, slot in slots.items():
        pieces = [(number, chapters[job, number].refs) for number in numbers[job] if (job, number) in chapters]
        pieces.append((slot.count // CHAPTER, slot.recent))
        of_job = [
            (job, number * CHAPTER + offset, ref) for number, refs in pieces for offset, ref in enumerate(refs_in(refs))
        ]
        places += [one for one in reversed(of_job) if one[1] < ends[job]][: limit + spare]
    rows = tx.get(OCCURRENCES, [(ref,) for _, _, ref in places])
    found: defaultdict[JobNumber, list[OccurrenceRow]] = defaultdict(list)
    for job, place, ref in places:
        row = rows.get((ref,))
        if row is None or row.place != place or len(found[job]) == limit:
            continue
        if ended_before is None or row.ended_at is None or row.ended_at < ended_before:
            found[job].append(row)
    return {job: few for job, few in found.items() if few}


def _ends_before(tx: Transaction, slots: Mapping[JobNumber, OverlapSlotRow], instant: int) -> dict[JobNumber, int]:
    """Find how much of each history ended before an instant, rounded up to a chunk: one binary search for all jobs."""
    low = dict.fromkeys(slots, 0)
    high = {job: -(-slot.count // CHAPTER) for job, slot in slots.items()}
    while open_jobs := [job for job in slots if low[job] < high[job]]:
        middle = {job: (low[job] + high[job]) // 2 for job in open_jobs}
        closed = [(job, number) for job, number in middle.items() if number < slots[job].count // CHAPTER]
        packed = {chapter.job: chapter.refs for chapter in tx.get(HISTORY_CHUNKS, closed).values()}
        packed |= {job: slots[job].recent for job in open_jobs if middle[job] == slots[job].count // CHAPTER}
        firsts = {job: refs_in(refs)[0] for job, refs in packed.items()}
        rows = tx.get(OCCURRENCES, [(ref,) for ref in firsts.values()])
        for job in open_jobs:
            row = rows.get((firsts[job],)) if job in firsts else None
            ended_at = None if row is None else row.ended_at
            if ended_at is None or ended_at < instant:  # a pruned row is older than all that remain
                low[job] = middle[job] + 1
            else:
                high[job] = middle[job]
    return {job: min(low[job] * CHAPTER, slot.count) for job, slot in slots.items()}


def pieces(tx: Transaction, job: JobNumber, before: int | None) -> Iterator[tuple[int, list[Ref]]]:
    """Yield the history in pieces, newest first: the position of the first reference, and the references."""
    slot = tx.get(OVERLAP_SLOTS, [(job,)]).get((job,))
    if slot is None:
        return
    end = slot.count if before is None else min(before, slot.count)
    first = slot.count // CHAPTER * CHAPTER
    if end > first:
        yield first, refs_in(slot.recent)[: end - first]
    number = -(-min(end, first) // CHAPTER)
    while number > 0:
        chapters = tx.scan(HISTORY_CHUNKS, (job,), high=(number,), limit=_CHAPTERS_AT_ONCE, newest_first=True)
        for chapter in chapters:
            place = chapter.number * CHAPTER
            yield place, refs_in(chapter.refs)[: max(end - place, 0)]
        if len(chapters) < _CHAPTERS_AT_ONCE:
            return
        number = chapters[-1].number
