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
from collections.abc import Iterator, Sequence
from sys import byteorder
from typing import Final

from msgspec.structs import replace

from itinerary.model.queries import Page
from itinerary.model.rows import ChapterRow, JobNumber, OccurrenceRow, Ref, SlotRow
from itinerary.model.states import OccurrenceState
from itinerary.stores.tables import CHAPTERS, OCCURRENCES, SLOTS
from itinerary.stores.transaction import Transaction

__all__ = ["CHAPTER", "append", "history", "lengthened", "refs_in"]

CHAPTER: Final = 16
"""How many occurrences a chapter has. More: fewer random writes, and a larger slot to rewrite with each end."""
_REF_BYTES: Final = array("q").itemsize
_CHAPTER_BYTES: Final = CHAPTER * _REF_BYTES
_CHAPTERS_AT_ONCE: Final = 8
_LOOKED_AT_MAX: Final = 10_000
"""How many occurrences one call looks at, however few of them it is asked for."""


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


def history(
    tx: Transaction, job: JobNumber, before: int | None, limit: int, states: frozenset[OccurrenceState]
) -> Page:
    """Occurrences of a job that have ended, the last first, from before a place in its history on.

    A page may be shorter than `limit`, or empty, and still have a `next`: looking for a rare state through a long
    history is done in several calls.
    """
    rows: list[OccurrenceRow] = []
    looked_at = 0
    for first, refs in _pieces(tx, job, before):
        found = tx.get(OCCURRENCES, [(ref,) for ref in refs])
        for offset in range(len(refs) - 1, -1, -1):
            row = found.get((refs[offset],))
            if row is not None and row.place == first + offset and (not states or row.status in states):
                rows.append(row)
                if len(rows) == limit:
                    return Page(tuple(rows), first + offset if first + offset > 0 else None)
        looked_at += len(refs)
        if looked_at >= _LOOKED_AT_MAX and first > 0:
            return Page(tuple(rows), first)
    return Page(tuple(rows), None)


def _pieces(tx: Transaction, job: JobNumber, before: int | None) -> Iterator[tuple[int, list[Ref]]]:
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
