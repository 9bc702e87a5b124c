"""The rows that one transaction is about: locked, changed in memory, written at the end in one go.

`Pages` is where the ledger's decisions become rows. It keeps the invariants that hold whoever makes a change: a state
is only ever left as the transition table says, every step leaves a line in the audit trail, what ends gives back what
it held, a slot that is given back goes to the next in line, and the tables that serve as indexes follow.
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
    ChapterRow,
    JobNumber,
    MailRow,
    NodeNumber,
    OccurrenceRow,
    Ref,
    ShareRow,
    SlotRow,
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
    CHAPTERS,
    MAIL,
    OCCURRENCES,
    SHARES,
    SLOTS,
    TASKS,
    TRANSITIONS,
    Values,
)
from itinerary.stores.transaction import Transaction

__all__ = [
    "OUTPUT_MAX",
    "Pages",
    "clean",
    "mail_topic",
    "whose",
]

OUTPUT_MAX: Final = 1_000_000
"""The longest output of an attempt that is kept, in characters (Q4)."""

_COMPLETED: Final = OccurrenceState.COMPLETED
_WITHOUT_SLOT: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.QUEUED})
_ENDED: Final = frozenset({"status", "sequence", "ended_at", "place"})
_SLOT: Final = ("ref", "fence", "has_line", "last_run_at")
_SLOT_AND_HISTORY: Final = (*_SLOT, "count", "recent")


def whose(row: OccurrenceRow) -> str:
    """Who has a row, for those who have not."""
    return f"{row.status}, fence {row.fence}, owner {row.owner or 'nobody'}"


def mail_topic(node: NodeNumber) -> str:
    """What a node watches to hear that one of its occurrences has been cancelled or adjusted."""
    return f"mail/{node}"


def clean(text: str | None) -> str | None:
    """Text from outside, as every store can hold it (protocol rule 12)."""
    return None if text is None else clean_text(text)


class Pages:
    """Occurrences under lock, and what is to be written about them."""

    def __init__(self, tx: Transaction, refs: Collection[Ref], by: NodeNumber | None) -> None:
        self.tx = tx
        self.rows: dict[Ref, OccurrenceRow] = {}
        self.handed: dict[Ref, Ref] = {}
        """Whose slot went to whom."""
        self.by = by
        self._completed: list[OccurrenceRow] = []
        """What has ended plainly, as it was before."""
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
        self._slots: dict[JobNumber, SlotRow] = {}
        self._chapters: list[ChapterRow] = []
        self._changed_slots: set[JobNumber] = set()
        self._mail: list[MailRow] = []
        self.open(tx.lock(OCCURRENCES, [(ref,) for ref in refs]).values())
        self.now = tx.now()
        """When the gate was passed, before anything was waited for."""

    def open(self, rows: Iterable[OccurrenceRow]) -> None:
        """Take up rows that are locked, if they are not here already."""
        for row in rows:
            self.rows.setdefault(row.ref, row)

    def look_at(self, ref: Ref) -> OccurrenceRow:
        """A row, locked now if it was not."""
        if ref not in self.rows:
            self.open(self.tx.lock(OCCURRENCES, [(ref,)]).values())
        return self.rows[ref]

    # -- changing rows -----------------------------------------------------------------------------------------------

    def change(self, row: OccurrenceRow, **values: Any) -> OccurrenceRow:
        """Give a row new values."""
        return self._change(row, values)

    def _change(self, row: OccurrenceRow, values: dict[str, Any]) -> OccurrenceRow:
        self._before.setdefault(row.ref, row)
        self._columns.update(values)
        self.rows[row.ref] = row = replace(row, **values)
        return row

    def turn(
        self, row: OccurrenceRow, steps: Sequence[Step], *, by_update: bool = False, **values: Any
    ) -> OccurrenceRow:
        """Take a row through steps that the transition table allows, as its next write; what ends, ends here."""
        sequence, status = row.sequence + 1, row.status
        if is_plain_end(row, steps, self.by):
            if row.holds is None and not values and row.ref not in self._before:
                return self._end_plainly(row)  # nearly always
            status = steps[0].to  # the row says it
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
        """Take a row from its owner: nothing that the owner writes from now on is accepted (protocol rule 9)."""
        return self.change(row, owner=owner, fence=row.fence + 1, touched_by=self.by)

    def forget(self, row: OccurrenceRow) -> None:
        """Undo what was done to a row since it was this, which was not allowed after all."""
        self.rows[row.ref] = row
        if self._before.get(row.ref) is row:
            del self._before[row.ref]

    def begin(self, ref: Ref, tasks: Sequence[TaskRow], attempts: Sequence[AttemptRow]) -> None:
        """Write the first tasks and attempts of an occurrence: it starts once, so its attempts are new."""
        self._note(ref, tasks, attempts, self._first_attempts)

    def note(self, ref: Ref, tasks: Sequence[TaskRow], attempts: Sequence[AttemptRow]) -> None:
        """Write tasks and attempts of an occurrence, over those that are there."""
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
        """Leave a request to cancel on a row that somebody runs, and tell them."""
        if row.status in FINAL or row.cancelled_by is not None:
            return row
        self.write_to_owner(row)
        return self.change(row, cancelled_by=clean(who))

    def write_to_owner(self, row: OccurrenceRow) -> None:
        """Tell the owner to look at a row."""
        if row.owner is not None:
            self._mail.append(MailRow(row.owner, row.ref))

    # -- limits ------------------------------------------------------------------------------------------------------

    def hold(self, row: OccurrenceRow, names: Sequence[str]) -> OccurrenceRow:
        """Hold a share of each of these limits, which have one left."""
        if not names:
            return row
        self._shares += [ShareRow(name, row.ref) for name in names]
        held: list[str] = [] if row.holds is None else msgspec.json.decode(row.holds)
        return self.change(row, holds=msgspec.json.encode(list(dict.fromkeys([*held, *names]))).decode())

    def give_back(self, row: OccurrenceRow) -> OccurrenceRow:
        """Give back the shares that a row holds."""
        if row.holds is None:
            return row
        names: list[str] = msgspec.json.decode(row.holds)
        self._shares = [share for share in self._shares if share.ref != row.ref]
        self._returned += [(name, row.ref) for name in names]
        return self.change(row, holds=None)

    # -- slots -------------------------------------------------------------------------------------------------------

    def slots(self, jobs: Iterable[JobNumber]) -> dict[JobNumber, SlotRow]:
        """The slots of jobs, locked, as they are by now."""
        missing = {(job,) for job in jobs if job not in self._slots}
        if missing:
            for slot in self.tx.lock(SLOTS, missing).values():
                self._slots[slot.job] = slot
        return self._slots

    def put_in(self, row: OccurrenceRow) -> None:
        """Put an occurrence into its job's slot."""
        slot = self._slots[row.job]
        self._set_slot(replace(slot, ref=row.ref, fence=row.fence))

    def note_run(self, row: OccurrenceRow) -> tuple[int | None, bool]:
        """Note on its job's slot, which is locked, that an occurrence starts. Returns the last run before it, and
        whether that is known."""
        slot = self._slots[row.job]
        last_run_at = slot.last_run_at
        is_known = slot.count == 0 if last_run_at is None else last_run_at < row.instant
        if row.kind is Kind.SCHEDULED and (last_run_at is None or last_run_at < row.instant):
            self._set_slot(replace(slot, last_run_at=row.instant))
        return last_run_at if is_known else None, is_known

    def hand_over(self, slot: SlotRow, row: OccurrenceRow, why: str = "its turn has come") -> SlotRow:
        """Give a slot, in place, to one that stands in line; anybody may start it then (protocol rule 14)."""
        row = self.take_over(self.rows.setdefault(row.ref, row))
        row = self.turn(row, (Step(OccurrenceState.PENDING, why=why),))
        return self._set_slot(replace(slot, ref=row.ref, fence=row.fence))

    def in_slot_since(self, holder: OccurrenceRow) -> int:
        """Since when one has its job's slot: it began then, or has not begun and was handed it then."""
        if holder.started_at is not None:
            return holder.started_at
        lines = [line for line in self._log if line.ref == holder.ref]
        return (lines or self.tx.scan(TRANSITIONS, (holder.ref,), limit=1, newest_first=True))[-1].at

    def is_called(self, slot: SlotRow, row: OccurrenceRow) -> bool:
        """Give a slot, which is locked and has nobody in it who runs, to one in line, if that is the first."""
        is_first = self._line(slot)[0].ref == row.ref
        if is_first:
            self.hand_over(slot, row)
        return is_first

    def join_line(self, row: OccurrenceRow, why: str) -> OccurrenceRow:
        """Let an occurrence stand in line for its job's slot, which is locked; nobody owns it then."""
        slot = self._slots[row.job]
        if not slot.has_line:
            self.lengthen(slot)
        return self.turn(row, (Step(OccurrenceState.QUEUED, why=why),), owner=None)

    def lengthen(self, slot: SlotRow) -> SlotRow:
        """Note that somebody stands in line for a slot, which is locked."""
        return self._set_slot(replace(slot, has_line=True))

    def leave_line(self, row: OccurrenceRow, why: str) -> None:
        """Skip one that stands in line."""
        row = self.take_over(self.rows.setdefault(row.ref, row))
        self.turn(row, (Step(OccurrenceState.SKIPPED, why=why),))

    def _set_slot(self, slot: SlotRow) -> SlotRow:
        self._slots[slot.job] = slot
        self._changed_slots.add(slot.job)
        return slot

    def _write_history(self) -> None:
        """Add what has ended to the histories of its jobs, in the order of its ending."""
        by_job: defaultdict[JobNumber, list[Ref]] = defaultdict(list)
        for ref in self._ended:
            by_job[self.rows[ref].job].append(ref)
        slots = self._slots
        self._columns.add("place")
        for job, refs in by_job.items():
            for place, ref in enumerate(refs, slots[job].count):
                self.rows[ref] = replace(self.rows[ref], place=place)  # it is changed already: it has ended
            slots[job], chapters = lengthened(slots[job], refs)
            self._chapters += chapters
        self._changed_slots.update(by_job)

    def _free_slots(self) -> None:
        """Each slot that is given back goes to the oldest in line; with nobody in line it is free.

        What gives one back has ended, so all of these are locked already, for the history.
        """
        freed, self._freed = self._freed, {}
        for ref in freed:
            slot = self._slots[self.rows[ref].job]
            if slot.ref != ref:
                continue
            line = self._line(slot) if slot.has_line else []
            if line:
                self.handed[ref] = line[0].ref
                self.hand_over(slot, line[0], called_by(ref))
            else:
                self._set_slot(replace(slot, ref=None, fence=0, has_line=False))

    def _line(self, slot: SlotRow) -> list[OccurrenceRow]:
        """Who stands in line, as it is by now: rows that this transaction has changed count as changed."""
        self.open(stand_in_line(self.tx, slot))
        line = [row for row in self.rows.values() if row.job == slot.job and row.status is OccurrenceState.QUEUED]
        return sorted(line, key=lambda row: row.key)

    # -- and all of it, written --------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write it all."""
        tx = self.tx
        completed = self._let_go() if self._completed or self._ended else ()
        if self._changed_slots:
            columns = _SLOT_AND_HISTORY if self._ended or completed else _SLOT
            tx.save(SLOTS, [self._slots[job] for job in sorted(self._changed_slots)], columns)
        self._save_rows(completed)
        if self._chapters:
            tx.insert(CHAPTERS, self._chapters)
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
            tx.tell(sorted({mail_topic(mail.node) for mail in self._mail}))

    def _let_go(self) -> list[OccurrenceRow]:
        """Add what has ended to its jobs' histories, and free or hand on its slots. Returns what ended plainly."""
        # All slots at once: in two rounds they would not be locked in the order of their keys (protocol rule 11).
        self.slots({row.job for row in self._completed} | {self.rows[ref].job for ref in self._ended})
        completed = self._free_plainly()
        if self._ended:
            self._write_history()
        if self._freed:
            self._free_slots()
        return completed

    def _end_plainly(self, row: OccurrenceRow) -> OccurrenceRow:
        """An end that changes one row and one slot, if nobody stands in line for that, and nothing else."""
        self._completed.append(row)
        ended = replace(row, status=_COMPLETED, sequence=row.sequence + 1, ended_at=self.now)
        self.rows[row.ref] = ended
        return ended

    def _free_plainly(self) -> list[OccurrenceRow]:
        """Free the slots of what has ended plainly, and add it to its jobs' histories. Returns its rows; where somebody
        stands in line there is more to it, and it is left to those who hand on slots."""
        completed: list[OccurrenceRow] = []
        for before in self._completed:
            row, slot = self.rows[before.ref], self._slots[before.job]
            if slot.has_line:
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
