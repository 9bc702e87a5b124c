"""A job's history, in order: which occurrences it had, as they ended.

    SLOTS      (job, …, count, recent)     the last few, and how many there ever were
    CHAPTERS   (job, number, refs)         sixteen at a time, full and closed

An index of five million occurrences by job would do the same, and be touched anywhere by each new row: measured, that
makes inserts two to eight times slower as history grows. Here the newest part stands on the job's slot, a small row
that is written with every end anyway, and a row that is found by job is made only with every sixteenth. So an
occurrence costs the same at five million rows as at a thousand, and page one of a job's history is its slot and one or
two chapters.

References to rows that were pruned are passed over. So is the first end of one that was withdrawn by an update, brought
back and ended again: a row knows its own place.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from sys import byteorder
from typing import Final

from msgspec.structs import replace

from itinerary.model.queries import History, Page
from itinerary.model.rows import ChapterRow, JobNumber, OccurrenceRow, Ref, SlotRow
from itinerary.stores.tables import CHAPTERS, OCCURRENCES, SLOTS
from itinerary.stores.transaction import Transaction

__all__ = ["CHAPTER", "append", "history", "lengthened", "pieces", "recent", "refs_in"]

CHAPTER: Final = 16
"""How many occurrences a chapter has. More: fewer random writes, and a larger slot to rewrite with each end."""
_REF_BYTES: Final = array("q").itemsize
_CHAPTER_BYTES: Final = CHAPTER * _REF_BYTES
_CHAPTERS_AT_ONCE: Final = 8


def refs_in(packed: bytes) -> list[Ref]:
    """The references in a slot or a chapter, oldest first."""
    return [Ref(number) for number in array("q", packed)]


def lengthened(slot: SlotRow, refs: Sequence[Ref]) -> tuple[SlotRow, list[ChapterRow]]:
    """A slot with more of its job's history, and the chapters that are full by that. The first has place `count`."""
    packed = slot.recent + (array("q", refs).tobytes() if len(refs) > 1 else refs[0].to_bytes(_REF_BYTES, byteorder))
    count = slot.count + len(refs)
    if len(packed) < _CHAPTER_BYTES:  # as mostly
        return replace(slot, count=count, recent=packed), []
    pieces = [packed[place : place + _CHAPTER_BYTES] for place in range(0, len(packed) + 1, _CHAPTER_BYTES)]
    *full, recent = pieces
    chapters = [ChapterRow(slot.job, number, refs) for number, refs in enumerate(full, slot.count // CHAPTER)]
    return replace(slot, count=count, recent=recent), chapters


def append(tx: Transaction, ended: Sequence[OccurrenceRow]) -> None:
    """Add occurrences that are final from the beginning to the histories of their jobs."""
    by_job: defaultdict[JobNumber, list[OccurrenceRow]] = defaultdict(list)
    for row in ended:
        by_job[row.job].append(row)
    slots = tx.lock(SLOTS, [(job,) for job in by_job])
    longer, closed, placed = [], [], []
    for job in sorted(by_job):
        slot = slots[job,]
        placed += [replace(row, place=place) for place, row in enumerate(by_job[job], slot.count)]
        slot, chapters = lengthened(slot, [row.ref for row in by_job[job]])
        longer.append(slot)
        closed += chapters
    tx.save(SLOTS, longer, ("count", "recent"))
    tx.save(OCCURRENCES, placed, ("place",))
    if closed:
        tx.insert(CHAPTERS, closed)


def history(tx: Transaction, query: History) -> Page:
    """Occurrences of a job that have ended, the last first, from before a place in its history on.

    A page may be shorter than `limit`, or empty, and still have a `next`: looking for a rare state through a long
    history is done in several calls.
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
    """The last `limit` of each of these jobs, the last first: as many reads for a thousand jobs as for one. With
    `ended_before`, the last of those that ended before that."""
    slots = {slot.job: slot for slot in tx.get(SLOTS, [(job,) for job in jobs]).values()}
    ends = {job: slot.count for job, slot in slots.items()}
    spare = 0
    if ended_before is not None:
        ends, spare = _ends_before(tx, slots, ended_before), CHAPTER
    numbers = {
        job: range(max(end - limit - spare, 0) // CHAPTER, min(-(-end // CHAPTER), slots[job].count // CHAPTER))
        for job, end in ends.items()
    }
    chapters = tx.get(CHAPTERS, [(job, number) for job, wanted in numbers.items() for number in wanted])
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


def _ends_before(tx: Transaction, slots: Mapping[JobNumber, SlotRow], instant: int) -> dict[JobNumber, int]:
    """Up to which place those of each job ended before an instant, to the next chapter: all are halved together."""
    low = dict.fromkeys(slots, 0)
    high = {job: -(-slot.count // CHAPTER) for job, slot in slots.items()}
    while open_jobs := [job for job in slots if low[job] < high[job]]:
        middle = {job: (low[job] + high[job]) // 2 for job in open_jobs}
        closed = [(job, number) for job, number in middle.items() if number < slots[job].count // CHAPTER]
        packed = {chapter.job: chapter.refs for chapter in tx.get(CHAPTERS, closed).values()}
        packed |= {job: slots[job].recent for job in open_jobs if middle[job] == slots[job].count // CHAPTER}
        firsts = {job: refs_in(refs)[0] for job, refs in packed.items()}
        rows = tx.get(OCCURRENCES, [(ref,) for ref in firsts.values()])
        for job in open_jobs:
            row = rows.get((firsts[job],)) if job in firsts else None
            ended_at = None if row is None else row.ended_at
            if ended_at is None or ended_at < instant:  # what has been forgotten is older than all that is left
                low[job] = middle[job] + 1
            else:
                high[job] = middle[job]
    return {job: min(low[job] * CHAPTER, slot.count) for job, slot in slots.items()}


def pieces(tx: Transaction, job: JobNumber, before: int | None) -> Iterator[tuple[int, list[Ref]]]:
    """The history from its new end on: (place of the first, references), piece by piece, older ones last."""
    slot = tx.get(SLOTS, [(job,)]).get((job,))
    if slot is None:
        return
    end = slot.count if before is None else min(before, slot.count)
    first = slot.count // CHAPTER * CHAPTER
    if end > first:
        yield first, refs_in(slot.recent)[: end - first]
    number = -(-min(end, first) // CHAPTER)
    while number > 0:
        chapters = tx.scan(CHAPTERS, (job,), high=(number,), limit=_CHAPTERS_AT_ONCE, newest_first=True)
        for chapter in chapters:
            place = chapter.number * CHAPTER
            yield place, refs_in(chapter.refs)[: max(end - place, 0)]
        if len(chapters) < _CHAPTERS_AT_ONCE:
            return
        number = chapters[-1].number
