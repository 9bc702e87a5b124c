"""The rows of one transaction: locked, changed in memory, and written together at the end.

`UnitOfWork` turns the decisions of the ledger into rows, and keeps the invariants of every change. A state changes only
as the transition table allows. Each step adds a line to the audit trail. An ended occurrence releases its shares and
its overlap slot. A released slot goes to the next in the queue. The index tables follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from itinerary.model.audit_trail import is_plain_end
from itinerary.model.occurrence import Kind
from itinerary.model.reasons import called_by
from itinerary.model.rows import (
    AttemptRow,
    HistoryChunkRow,
    JobNumber,
    MailRow,
    NodeNumber,
    OccurrenceRow,
    OverlapSlotRow,
    Ref,
    ShareRow,
    TaskRow,
    TransitionRow,
)
from itinerary.model.states import FINAL, OccurrenceState, advance
from itinerary.model.text import clean_text
from itinerary.model.writes import Step
from itinerary.stores.ledger.history import lengthened
from itinerary.stores.ledger.indexes import keep_indexes
from itinerary.stores.ledger.overlap_queue import stand_in_line
from itinerary.stores.tables import (
    ACTIVE,
    ATTEMPTS,
    HISTORY_CHUNKS,
    MAIL,
    OCCURRENCES,
    OVERLAP_SLOTS,
    SHARES,
    TASKS,
    TRANSITIONS,
    Values,
)
from itinerary.stores.transaction import Transaction

__all__ = [
    "OUTPUT_MAX",
    "UnitOfWork",
    "clean",
    "mail_topic",
    "whose",
]

OUTPUT_MAX: Final = 1_000_000
"""The longest stored output of an attempt, in characters (Q4)."""

_COMPLETED: Final = OccurrenceState.COMPLETED
_WITHOUT_SLOT: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.QUEUED})
_ENDED: Final = frozenset({"status", "sequence", "ended_at", "place"})
_SLOT: Final = ("ref", "fence", "has_queue", "last_run_at")
_SLOT_AND_HISTORY: Final = (*_SLOT, "count", "recent")


def whose(row: OccurrenceRow) -> str:
    """Describe the owner of a row, for a caller that does not own it."""
    return f"{row.status}, fence {row.fence}, owner {row.owner or 'nobody'}"


def mail_topic(node: NodeNumber) -> str:
    """Return the topic that tells a node that one of its occurrences was cancelled or adjusted."""
    return f"mail/{node}"


def clean(text: str | None) -> str | None:
    """Return external text in a form that every store can hold (protocol rule 12)."""
    return None if text is None else clean_text(text)


class UnitOfWork:
    """Locked occurrences, and the pending writes about them."""

    def __init__(self, tx: Transaction, refs: Collection[Ref], by: NodeNumber | None) -> None:
        self.tx = tx
        self.rows: dict[Ref, OccurrenceRow] = {}
        self.handed: dict[Ref, Ref] = {}
        """The occurrence that released a slot, and the one that got it."""
        self.by = by
        self._completed: list[OccurrenceRow] = []
        """Rows of plain ends, as they were before."""
        self._before: dict[Ref, OccurrenceRow] = {}
        self._columns: set[str] = set()
        self._tasks: list[TaskRow] = []
        self._attempts: list[AttemptRow] = []
        self._first_attempts: list[AttemptRow] = []
        self._log: list[TransitionRow] = []
        self._shares: list[ShareRow] = []
        self._returned: list[Values] = []
        self._freed: dict[Ref, None] = {}
        self._ended: dict[Ref, None] = {}
        self._slots: dict[JobNumber, OverlapSlotRow] = {}
        self._chapters: list[HistoryChunkRow] = []
        self._changed_slots: set[JobNumber] = set()
        self._mail: list[MailRow] = []
        self.open(tx.lock(OCCURRENCES, [(ref,) for ref in refs]).values())
        self.now = tx.now()
        """The time at the gate, before this transaction waited for any lock."""

    def open(self, rows: Iterable[OccurrenceRow]) -> None:
        """Add locked rows, unless they are here already."""
        for row in rows:
            self.rows.setdefault(row.ref, row)

    def look_at(self, ref: Ref) -> OccurrenceRow:
        """Return a row, and lock it if necessary."""
        if ref not in self.rows:
            self.open(self.tx.lock(OCCURRENCES, [(ref,)]).values())
        return self.rows[ref]

    # -- changing rows -----------------------------------------------------------------------------------------------

    def change(self, row: OccurrenceRow, **values: Any) -> OccurrenceRow:
        """Set new values of a row."""
        return self._change(row, values)

    def _change(self, row: OccurrenceRow, values: dict[str, Any]) -> OccurrenceRow:
        self._before.setdefault(row.ref, row)
        self._columns.update(values)
        self.rows[row.ref] = row = replace(row, **values)
        return row

    def turn(
        self, row: OccurrenceRow, steps: Sequence[Step], *, by_update: bool = False, **values: Any
    ) -> OccurrenceRow:
        """Take a row through steps that the transition table allows, as its next write.

        A final step releases its holdings.
        """
        sequence, status = row.sequence + 1, row.status
        if is_plain_end(row, steps, self.by):
            if row.holds is None and not values and row.ref not in self._before:
                return self._end_plainly(row)  # the common case
            status = steps[0].to  # the row itself records it
        else:
            lines = []
            for line, step in enumerate(steps):
                before, status = status, advance(status, step.to, by_update=by_update)
                why = clean(step.why) if step.why is not None else None
                at = self.now if step.at is None else step.at
                lines.append(TransitionRow(row.ref, sequence, line, before, status, at, self.by, why))
                if why is not None:
                    values["reason"] = why
            self._log += lines
        if status in FINAL:
            values["ended_at"] = self.now
            self._ended[row.ref] = None
            if row.status not in _WITHOUT_SLOT:
                self._freed[row.ref] = None
            if row.holds is not None:
                row = self.give_back(row)
        values["status"] = status
        values["sequence"] = sequence
        return self._change(row, values)

    def take_over(self, row: OccurrenceRow, owner: NodeNumber | None = None) -> OccurrenceRow:
        """Take a row from its owner. Later writes of that owner are refused (protocol rule 9)."""
        return self.change(row, owner=owner, fence=row.fence + 1, touched_by=self.by)

    def forget(self, row: OccurrenceRow) -> None:
        """Undo the changes since this version of a row, because they were not allowed."""
        self.rows[row.ref] = row
        if self._before.get(row.ref) is row:
            del self._before[row.ref]

    def begin(self, ref: Ref, tasks: Sequence[TaskRow], attempts: Sequence[AttemptRow]) -> None:
        """Write the first tasks and attempts of an occurrence. An occurrence starts once, so its attempts are new."""
        self._note(ref, tasks, attempts, self._first_attempts)

    def note(self, ref: Ref, tasks: Sequence[TaskRow], attempts: Sequence[AttemptRow]) -> None:
        """Write tasks and attempts of an occurrence, and overwrite existing ones."""
        self._note(ref, tasks, attempts, self._attempts)

    def _note(
        self, ref: Ref, tasks: Sequence[TaskRow], attempts: Sequence[AttemptRow], noted: list[AttemptRow]
    ) -> None:
        for task in tasks:
            assert task.ref == ref, "a write is about one occurrence"
            self._tasks.append(_clean_task(task))
        for attempt in attempts:
            assert attempt.ref == ref, "a write is about one occurrence"
            noted.append(_clean_attempt(attempt))

    def ask_to_end(self, row: OccurrenceRow, who: str) -> OccurrenceRow:
        """Leave a request to cancel on an unended row, and notify its owner."""
        if row.status in FINAL or row.cancelled_by is not None:
            return row
        self.write_to_owner(row)
        return self.change(row, cancelled_by=clean(who))

    def write_to_owner(self, row: OccurrenceRow) -> None:
        """Notify the owner to read a row again."""
        if row.owner is not None:
            self._mail.append(MailRow(row.owner, row.ref))

    # -- limits ------------------------------------------------------------------------------------------------------

    def hold(self, row: OccurrenceRow, names: Sequence[str]) -> OccurrenceRow:
        """Take a share of each of these limits. The caller has checked that a share is free."""
        if not names:
            return row
        self._shares += [ShareRow(name, row.ref) for name in names]
        held: list[str] = [] if row.holds is None else msgspec.json.decode(row.holds)
        return self.change(row, holds=msgspec.json.encode(list(dict.fromkeys([*held, *names]))).decode())

    def give_back(self, row: OccurrenceRow) -> OccurrenceRow:
        """Release the shares that a row holds."""
        if row.holds is None:
            return row
        names: list[str] = msgspec.json.decode(row.holds)
        self._shares = [share for share in self._shares if share.ref != row.ref]
        self._returned += [(name, row.ref) for name in names]
        return self.change(row, holds=None)

    # -- overlap slots -----------------------------------------------------------------------------------------------

    def slots(self, jobs: Iterable[JobNumber]) -> dict[JobNumber, OverlapSlotRow]:
        """Lock and return the overlap slots of these jobs, as changed in this transaction."""
        missing = {(job,) for job in jobs if job not in self._slots}
        if missing:
            for slot in self.tx.lock(OVERLAP_SLOTS, missing).values():
                self._slots[slot.job] = slot
        return self._slots

    def put_in(self, row: OccurrenceRow) -> None:
        """Put an occurrence into its overlap slot."""
        slot = self._slots[row.job]
        self._set_slot(replace(slot, ref=row.ref, fence=row.fence))

    def note_run(self, row: OccurrenceRow) -> tuple[int | None, bool]:
        """Record the start of an occurrence on its locked slot.

        Returns:
            The last run before it, and True if that is known.
        """
        slot = self._slots[row.job]
        last_run_at = slot.last_run_at
        is_known = slot.count == 0 if last_run_at is None else last_run_at < row.instant
        if row.kind is Kind.SCHEDULED and (last_run_at is None or last_run_at < row.instant):
            self._set_slot(replace(slot, last_run_at=row.instant))
        return last_run_at if is_known else None, is_known

    def hand_over(self, slot: OverlapSlotRow, row: OccurrenceRow, why: str = "its turn has come") -> OverlapSlotRow:
        """Give a slot to a queued occurrence. Any node may then start it (protocol rule 14)."""
        row = self.take_over(self.rows.setdefault(row.ref, row))
        row = self.turn(row, (Step(OccurrenceState.PENDING, why=why),))
        return self._set_slot(replace(slot, ref=row.ref, fence=row.fence))

    def in_slot_since(self, holder: OccurrenceRow) -> int:
        """Return the time since when an occurrence has the slot: its start, or the handover if it has not started."""
        if holder.started_at is not None:
            return holder.started_at
        lines = [line for line in self._log if line.ref == holder.ref]
        return (lines or self.tx.scan(TRANSITIONS, (holder.ref,), limit=1, newest_first=True))[-1].at

    def is_called(self, slot: OverlapSlotRow, row: OccurrenceRow) -> bool:
        """Give a locked slot without a running occurrence to a queued one, if it is the first.

        Returns True if it is.
        """
        is_first = self._line(slot)[0].ref == row.ref
        if is_first:
            self.hand_over(slot, row)
        return is_first

    def join_line(self, row: OccurrenceRow, why: str) -> OccurrenceRow:
        """Add an occurrence to the overlap queue of its job, whose slot is locked. The occurrence then has no owner."""
        slot = self._slots[row.job]
        if not slot.has_queue:
            self.lengthen(slot)
        return self.turn(row, (Step(OccurrenceState.QUEUED, why=why),), owner=None)

    def lengthen(self, slot: OverlapSlotRow) -> OverlapSlotRow:
        """Record on a locked slot that its queue is not empty."""
        return self._set_slot(replace(slot, has_queue=True))

    def leave_line(self, row: OccurrenceRow, why: str) -> None:
        """Skip a queued occurrence."""
        row = self.take_over(self.rows.setdefault(row.ref, row))
        self.turn(row, (Step(OccurrenceState.SKIPPED, why=why),))

    def _set_slot(self, slot: OverlapSlotRow) -> OverlapSlotRow:
        self._slots[slot.job] = slot
        self._changed_slots.add(slot.job)
        return slot

    def _write_history(self) -> None:
        """Append the ended occurrences to the histories of their jobs, in the order in which they ended."""
        by_job: defaultdict[JobNumber, list[Ref]] = defaultdict(list)
        for ref in self._ended:
            by_job[self.rows[ref].job].append(ref)
        slots = self._slots
        self._columns.add("place")
        for job, refs in by_job.items():
            for place, ref in enumerate(refs, slots[job].count):
                self.rows[ref] = replace(self.rows[ref], place=place)  # already a changed row, because it has ended
            slots[job], chapters = lengthened(slots[job], refs)
            self._chapters += chapters
        self._changed_slots.update(by_job)

    def _free_slots(self) -> None:
        """Hand each released slot to the oldest in its queue, or free it if the queue is empty.

        An occurrence that releases a slot has ended, so all these slots are locked already, for the history.
        """
        freed, self._freed = self._freed, {}
        for ref in freed:
            slot = self._slots[self.rows[ref].job]
            if slot.ref != ref:
                continue
            line = self._line(slot) if slot.has_queue else []
            if line:
                self.handed[ref] = line[0].ref
                self.hand_over(slot, line[0], called_by(ref))
            else:
                self._set_slot(replace(slot, ref=None, fence=0, has_queue=False))

    def _line(self, slot: OverlapSlotRow) -> list[OccurrenceRow]:
        """Return the current queue, including the changes of this transaction."""
        self.open(stand_in_line(self.tx, slot))
        line = [row for row in self.rows.values() if row.job == slot.job and row.status is OccurrenceState.QUEUED]
        return sorted(line, key=lambda row: row.key)

    # -- writing everything ------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write all pending changes."""
        tx = self.tx
        completed = self._let_go() if self._completed or self._ended else ()
        if self._changed_slots:
            columns = _SLOT_AND_HISTORY if self._ended or completed else _SLOT
            tx.save(OVERLAP_SLOTS, [self._slots[job] for job in sorted(self._changed_slots)], columns)
        self._save_rows(completed)
        if self._chapters:
            tx.insert(HISTORY_CHUNKS, self._chapters)
        if self._tasks:
            tx.put(TASKS, self._tasks)
        if self._first_attempts:
            tx.insert(ATTEMPTS, self._first_attempts)
        if self._attempts:
            tx.put(ATTEMPTS, self._attempts)
        if self._returned:
            tx.remove(SHARES, self._returned)
        if self._shares:
            tx.put(SHARES, self._shares)
        if self._log:
            tx.insert(TRANSITIONS, self._log)
        if self._mail:
            tx.put(MAIL, self._mail)
            tx.notify(sorted({mail_topic(mail.node) for mail in self._mail}))

    def _let_go(self) -> list[OccurrenceRow]:
        """Append ended occurrences to the histories, and release their slots. Returns the rows of plain ends."""
        # Lock all slots at once: two rounds would break the lock order (protocol rule 11).
        self.slots({row.job for row in self._completed} | {self.rows[ref].job for ref in self._ended})
        completed = self._free_plainly()
        if self._ended:
            self._write_history()
        if self._freed:
            self._free_slots()
        return completed

    def _end_plainly(self, row: OccurrenceRow) -> OccurrenceRow:
        """Record an end that changes one row and one slot only, unless the queue of the slot has entries."""
        self._completed.append(row)
        ended = replace(row, status=_COMPLETED, sequence=row.sequence + 1, ended_at=self.now)
        self.rows[row.ref] = ended
        return ended

    def _free_plainly(self) -> list[OccurrenceRow]:
        """Release the slots of plain ends, and append them to the histories.

        Returns:
            Their rows. If a queue is not empty, the end goes to `_free_slots` instead.
        """
        completed: list[OccurrenceRow] = []
        for before in self._completed:
            row, slot = self.rows[before.ref], self._slots[before.job]
            if slot.has_queue:
                self._ended[row.ref] = self._freed[row.ref] = None
                self._change(before, {"status": row.status, "sequence": row.sequence, "ended_at": row.ended_at})
                continue
            self.rows[row.ref] = row = replace(row, place=slot.count)
            completed.append(row)
            slot, chapters = lengthened(slot, (row.ref,))
            self._chapters += chapters
            self._set_slot(replace(slot, ref=None, fence=0) if slot.ref == row.ref else slot)
        return completed

    def _save_rows(self, completed: Sequence[OccurrenceRow]) -> None:
        if completed:
            self.tx.save(OCCURRENCES, completed, _ENDED)
            self.tx.remove(ACTIVE, [(row.job, row.ref) for row in completed])
        if self._before:
            self.tx.save(OCCURRENCES, [self.rows[ref] for ref in sorted(self._before)], self._columns)
            keep_indexes(self.tx, [(before, self.rows[ref]) for ref, before in self._before.items()])


def _clean_task(row: TaskRow) -> TaskRow:
    if row.reason is None and row.cancelled_by is None:
        return row
    return replace(row, reason=clean(row.reason), cancelled_by=clean(row.cancelled_by))


def _clean_attempt(row: AttemptRow) -> AttemptRow:
    if row.error is None and row.output is None:
        return row
    output = None if row.output is None else clean_text(row.output, OUTPUT_MAX)
    return replace(row, error=clean(row.error), output=output)
