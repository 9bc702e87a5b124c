"""The sweep: one plan at a time, stored before its steps run (protocol rules 19 and 20).

Two nodes with two ideas of "now" would each decide which instant of a job was the last missed one, and both would run
it. So the node that begins the plan fixes its end in the store, never ahead of the store clock. Rows and cursor move in
one transaction, and the watermark moves with the last step.

A plan begins with the gate held exclusively. Earlier claims are committed before it, and the sweep reads them. Later
claims see the plan, and create nothing below its end. So an instant that the sweep found missing stays missing until it
is decided, and a window of instants has no row inside it.

Recovery runs are created in the overlap queue of their job, in order (R2). If the overlap slot is free, the first one
gets it at once, and each end hands the slot to the next. So nodes see one at a time, however long the backlog is.

Rows that were claimed before an outage and have not started are part of the backlog (protocol rule 17). The step turns
them into the decided state with a higher fence, so their owner can no longer start them. A row that a collapsed range
covers is removed, so that its instant has one row only. If one of these rows has changed since its claim (for example,
a user cancelled it), the decision is out of date. Then the whole step is refused. A rescuer that releases such a row
changes nothing that the decision depends on. Older rows of the same job that wait for other reasons join the queue with
the backlog.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow, SweepRow, WindowRow
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.sweeps import RangeExtension, SweepPlan, SweepStep
from itinerary.model.writes import ClaimRequest, Refusal, Step
from itinerary.stores.ledger.claim import THE_ONE, create, revision_of
from itinerary.stores.ledger.indexes import is_claimed, is_open, is_unstarted
from itinerary.stores.ledger.overlap_queue import stand_in_line
from itinerary.stores.ledger.unit_of_work import UnitOfWork
from itinerary.stores.tables import ACTIVE, NODES, OCCURRENCES, SWEEP, TRANSITIONS, WAITING, WINDOWS
from itinerary.stores.transaction import Transaction

__all__ = ["advance_sweep", "begin_sweep"]

_COLUMNS = ("watermark", "owner", "fence", "step", "plan_from", "plan_to", "cursor")


def begin_sweep(tx: Transaction, by: NodeNumber, end: int, seize: int | None) -> SweepPlan | None:
    """Begin a plan from the watermark to `end`, or return the current plan, which may have another owner.

    A plan whose owner has left is always taken over: an hour later other nodes no longer see that node, and would wait
    without end.

    Args:
        tx: The transaction.
        by: The node that sweeps.
        end: The end of a new plan.
        seize: The fence of a plan whose owner is dead, to take it over.

    Returns:
        The plan, or None if everything up to `end` is decided.
    """
    tx.gate(exclusive=True)
    row = tx.lock(SWEEP, [THE_ONE])[THE_ONE]
    if row.plan_to is None:
        end = min(end, tx.now())
        if end <= row.watermark:
            return None
        row = replace(row, owner=by, fence=row.fence + 1, step=0, cursor="", plan_from=row.watermark, plan_to=end)
        tx.save(SWEEP, [row], _COLUMNS)
    elif row.owner != by and (seize == row.fence or _has_left(tx, row.owner)):
        row = replace(row, owner=by, fence=row.fence + 1)
        tx.save(SWEEP, [row], _COLUMNS)
    return _plan(row)


def _has_left(tx: Transaction, owner: NodeNumber | None) -> bool:
    row = tx.get(NODES, [(owner,)]).get((owner,))
    return row is None or row.left_at is not None


def _plan(row: SweepRow) -> SweepPlan:
    assert row.plan_from is not None, "a plan has a beginning"
    assert row.plan_to is not None, "and an end"
    assert row.owner is not None, "and somebody who works it off"
    return SweepPlan(row.plan_from, row.plan_to, row.cursor, row.step, row.owner, row.fence)


def advance_sweep(tx: Transaction, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
    """Run one step of the plan.

    Returns:
        The plan after the step, None after the last step, or the reason for a refusal.
    """
    tx.gate()
    if revision_of(tx) != revision:
        return Refusal.MOVED
    row = tx.lock(SWEEP, [THE_ONE])[THE_ONE]
    if row.fence != step.fence or (row.owner != by and row.plan_to is not None):
        return Refusal.LOST
    if step.step <= row.step:
        return None if row.plan_to is None else _plan(row)  # an earlier request, whose answer was lost
    if row.plan_to is None or step.step != row.step + 1:
        return Refusal.ILLEGAL
    queues = _jobs_that_queue(step)
    if step.claimed or step.covered or step.waiting:
        recovering = _Recovering(tx, by, step)
        if not recovering.is_as_decided():
            return Refusal.MOVED
        recovering.write(queues)
    create(tx, None, step.wanted)
    _line_up(tx, queues)
    _extend(tx, step.extensions)
    row = replace(row, step=step.step, cursor=step.cursor)
    if step.is_last:
        assert row.plan_to is not None, "it was there a moment ago"
        row = replace(row, watermark=row.plan_to, plan_from=None, plan_to=None, cursor="")
    tx.save(SWEEP, [row], _COLUMNS)
    return None if step.is_last else _plan(row)


def _jobs_that_queue(step: SweepStep) -> list[JobNumber]:
    """Return the jobs whose recovery runs are queued."""
    wanted = (*step.wanted, *(item.becomes for item in step.claimed))
    return sorted({item.key.job for item in wanted if item.status is OccurrenceState.QUEUED})


class _Recovering:
    """The effect of a step on existing rows: those claimed before an outage, and older ones that wait."""

    def __init__(self, tx: Transaction, by: NodeNumber, step: SweepStep) -> None:
        self._tx, self._step = tx, step
        refs = [*(item.ref for item in step.claimed), *step.covered, *step.waiting]
        self._pages = UnitOfWork(tx, refs, by)

    def is_as_decided(self) -> bool:
        """True if the claimed rows are unchanged since their claim: not started, and not ended."""
        rows = self._pages.rows
        refs = (*(item.ref for item in self._step.claimed), *self._step.covered)
        return all(ref in rows and is_claimed(rows[ref]) for ref in refs)

    def write(self, queues: Sequence[JobNumber]) -> None:
        """Write the decisions to the claimed rows, queue the older ones, and remove the covered ones."""
        pages, windows = self._pages, []
        # Lock all slots now, in key order (protocol rule 11): rows that end need one too, for the history.
        slots = pages.slots({*queues, *(row.job for row in pages.rows.values())})
        for item in self._step.claimed:
            row = self._become(pages.take_over(pages.rows[item.ref]), item.becomes)
            if row.window_end is not None:
                windows.append(WindowRow(row.window_end, row.ref))
        for ref in self._step.waiting:
            waiting = pages.rows.get(ref)
            if waiting is not None and is_unstarted(waiting) and slots[waiting.job].ref != ref:
                pages.join_line(pages.take_over(waiting), "waits with the recovery backlog of its job")
        pages.save()
        if windows:
            self._tx.put(WINDOWS, windows)
        if self._step.covered:
            self._remove([pages.rows[ref] for ref in self._step.covered])

    def _become(self, row: OccurrenceRow, wanted: ClaimRequest) -> OccurrenceRow:
        pages, window = self._pages, wanted.window
        if wanted.status is not row.status:
            row = pages.turn(row, (Step(wanted.status, why=wanted.reason),))
        if window is not None:
            row = pages.change(row, window_start=window.start, window_end=window.end, window_count=window.count)
        return pages.change(row, is_recovery=True) if wanted.is_recovery else row

    def _remove(self, rows: Sequence[OccurrenceRow]) -> None:
        """Remove unstarted rows. Only their audit trail and index rows depend on them."""
        refs = [(row.ref,) for row in rows]
        self._tx.remove(ACTIVE, [(row.job, row.ref) for row in rows])
        self._tx.remove(WAITING, [(row.due_at, row.ref) for row in rows if is_open(row)])
        self._tx.remove(TRANSITIONS, refs)
        self._tx.remove(OCCURRENCES, refs)


def _line_up(tx: Transaction, jobs: Sequence[JobNumber]) -> None:
    """Make sure that queued recovery runs get the slot: from the current run, or now."""
    if not jobs:
        return
    pages = UnitOfWork(tx, (), None)
    for locked in list(pages.slots(jobs).values()):
        slot = locked if locked.has_queue else pages.lengthen(locked)
        if slot.ref is None and (line := stand_in_line(tx, slot)):
            pages.hand_over(slot, line[0])
    pages.save()


def _extend(tx: Transaction, extensions: Sequence[RangeExtension]) -> None:
    """Move the ends of collapsed ranges. A range that already reaches as far stays unchanged."""
    if not extensions:
        return
    pages = UnitOfWork(tx, [extension.ref for extension in extensions], None)
    left, reached = [], []
    for extension in extensions:
        row = pages.rows[extension.ref]
        assert row.window_end is not None, "only a row with a window is extended"
        assert row.status in FINAL, "only a stretch that was decided is extended"
        if extension.end > row.window_end:
            left.append((row.window_end, row.ref))
            reached.append(WindowRow(extension.end, row.ref))
            pages.change(row, window_end=extension.end, window_count=extension.count)
    pages.save()
    tx.remove(WINDOWS, left)
    tx.put(WINDOWS, reached)
