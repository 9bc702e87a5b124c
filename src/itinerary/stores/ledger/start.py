"""The start of an occurrence: the one write that must never happen twice (protocol rules 7 and 13 to 15).

In one transaction, for each request of a batch:

    can it still start?                   due by the store clock, not cancelled, not started, owned with this fence, or
                                          free to take: no owner, waiting for any node, or left unstarted too long.
                                          A claimed occurrence that is older than the grace period and that no sweep
                                          has decided is left to the sweep, and so to the recovery strategy of its job
                                          (protocol rule 17)
    is the overlap slot free, or its own? otherwise skip, queue or replace, by the overlap policy; but a merely late
                                          occurrence queues behind a run that got the slot only after its due time. If
                                          nothing proves that the run is alive, it waits (`overlap_owner`)
    do its limits have a share left?      otherwise it waits as `pending`, and keeps only a slot that was handed to it
    then it starts                        slot, shares, tasks, attempts, state and audit are written together

An occurrence that is already in the slot may start: the slot was handed to it in the queue. A batch is processed in key
order, so of two occurrences of one job the earlier gets the slot. After a short outage several instants of a job are
late together. The first one runs. The others overlapped nothing when they were due, so they run after it, in order.

The row of an overlap slot always exists. So a request that finds the slot taken can lock it and queue, and cannot miss
the end of the current run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from itinerary.model.audit_trail import is_plain_start, unsaid_attempts
from itinerary.model.policies import Overlap
from itinerary.model.reasons import (
    Reason,
    ReasonKind,
    lacks_share,
    overlaps,
    queues_for,
    read_reason,
    replaced_by,
    unsure_of,
    waits_for,
)
from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow, OverlapSlotRow, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import Limit, Refusal, Refused, Started, StartRequest, Step
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.ledger.indexes import is_for_the_sweep, is_open
from itinerary.stores.ledger.limits import held_shares, lacking_limit
from itinerary.stores.ledger.overlap_owner import OverlapOwners
from itinerary.stores.ledger.overlap_queue import LINE_MAX, stand_in_line
from itinerary.stores.ledger.unit_of_work import UnitOfWork, whose
from itinerary.stores.tables import ATTEMPTS, OCCURRENCES, OVERLAP_SLOTS, SWEEP
from itinerary.stores.transaction import Transaction

__all__ = ["start"]

_STEPS: Final = {state: Step(state) for state in OccurrenceState}
_PENDING: Final = _STEPS[OccurrenceState.PENDING]
# Ten thousand starts use these, and looking up an enum member takes as long as creating a small object.
_PRERUN: Final = OccurrenceState.PRERUN
_ATTEMPTS_MAX: Final = 10_000
_ENDED_BY_ITSELF: Final = FINAL - {OccurrenceState.ORPHANED}


def start(
    tx: Transaction,
    owner: NodeNumber,
    revision: int,
    starts: Sequence[StartRequest],
    takeover_after: int,
    configs: Mapping[str, int],
) -> list[Started | Refused]:
    """Start those requests that can start.

    Args:
        tx: The transaction.
        owner: The node that starts them.
        revision: The timeline revision of the node.
        starts: The requests.
        takeover_after: The time after the due time at which another node may take a claimed occurrence.
        configs: The numbers of configurations.

    Returns:
        The answers to all requests, in order.
    """
    tx.gate()
    if revision_of(tx) != revision:
        return _moved(tx, owner, starts)
    return _Starting(tx, owner, starts, takeover_after, configs).answers()


class _Starting:
    """A batch of starts. Each step answers some requests and passes the rest to the next step."""

    def __init__(
        self,
        tx: Transaction,
        owner: NodeNumber,
        starts: Sequence[StartRequest],
        takeover_after: int,
        configs: Mapping[str, int],
    ) -> None:
        self.tx, self.owner, self.takeover_after, self.configs = tx, owner, takeover_after, configs
        self.order = [request.ref for request in starts]
        self.starts = {request.ref: request for request in starts}
        self.shares = held_shares(tx, {limit.name for request in starts for limit in request.limits})
        self.pages = UnitOfWork(tx, [*self.starts, *_in_the_way(tx, starts)], owner)
        self.owners = OverlapOwners(self.pages)
        self.answer: dict[Ref, Started | Refused] = {}
        self.newest: dict[JobNumber, OccurrenceRow] = {}
        """The last occurrence of each job that would replace others."""
        self.lines: dict[JobNumber, list[OccurrenceRow]] = {}
        """The overlap queues as read, plus the occurrences that have joined since."""

    def answers(self) -> list[Started | Refused]:
        """Decide about each request, then write everything."""
        self._begin_each(self._ready())
        self.pages.save()
        return [self._as_it_came(self.answer[ref]) for ref in self.order]

    def _as_it_came(self, answer: Started | Refused) -> Started | Refused:
        """Return the final answer: another request of the batch may have replaced a waiting occurrence."""
        row = self.pages.rows.get(answer.ref)
        if isinstance(answer, Started) or row is None or row.status not in FINAL:
            return answer
        return self._hindered(row, self.starts[answer.ref]) or answer

    def _refuse(self, row: OccurrenceRow, why: Refusal, by: str) -> None:
        self.answer[row.ref] = Refused(row.ref, why, by)

    # -- can it still start? -----------------------------------------------------------------------------------------

    def _ready(self) -> list[OccurrenceRow]:
        """Return the rows that only limits and overlap slots can still block, in the order of their keys."""
        ready = []
        rows, owner, now = self.pages.rows, self.owner, self.pages.now
        for ref, request in self.starts.items():
            row = rows.get(ref)
            if row is None:
                self.answer[ref] = Refused(ref, Refusal.GONE)
            elif (
                not _is_as_claimed(row, request, owner, now)  # the rare case
                and (answer := self._hindered(row, request)) is not None
            ):
                self.answer[ref] = answer
            elif request.skip is not None:
                self._skip(row, request.skip)
            elif self._is_overdue(row, request):
                self._refuse(row, Refusal.OVERDUE, "the recovery strategy of its job decides")
            else:
                ready.append(row)
        return sorted(ready, key=OCCURRENCES.name_of)

    def _hindered(self, row: OccurrenceRow, request: StartRequest) -> Started | Refused | None:
        mine = row.owner == self.owner and request.fence in (None, row.fence)
        refusal: tuple[Refusal, str] | None = None
        if (begun := _begun(row, self.owner, request)) is not None:
            return begun
        if row.status is OccurrenceState.SKIPPED:
            refusal = Refusal.SKIPPED, row.reason or ""
        elif row.cancelled_by is not None and row.started_at is None:
            refusal = Refusal.CANCELLED, row.cancelled_by
        elif row.started_at is not None or row.status in FINAL:
            refusal = Refusal.LOST, whose(row)
        elif row.status is OccurrenceState.QUEUED and (request.fence is not None or _has_moved_on(row, request)):
            refusal = Refusal.QUEUED, row.reason or ""
        elif _has_moved_on(row, request):
            refusal = Refusal.LOST, whose(row)
        elif self.pages.now < row.due_at:
            refusal = Refusal.EARLY, str(row.due_at)
        elif not mine and (request.fence is not None or not self._is_free(row)):
            refusal = Refusal.LOST, whose(row)
        elif row.adjustments != request.adjustments:
            refusal = Refusal.ADJUSTED, row.overrides or ""
        return None if refusal is None else Refused(row.ref, *refusal)

    def _is_free(self, row: OccurrenceRow) -> bool:
        """True if any node may take it: no owner, waiting for a free node, or left unstarted too long by its owner."""
        return row.owner is None or is_open(row) or self.pages.now >= row.due_at + self.takeover_after

    def _is_overdue(self, row: OccurrenceRow, request: StartRequest) -> bool:
        """True if a sweep must decide first, because no node could reach the store."""
        if not 0 < request.late_until < self.pages.now:
            return False  # the common case
        return is_for_the_sweep(row, self.tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark)

    # -- is the overlap slot free, or its own, and do its limits have a share left? -----------------------------------

    def _begin_each(self, rows: Sequence[OccurrenceRow]) -> None:
        """Start each occurrence that gets everything it needs. The others get nothing."""
        pages, starts, begun = self.pages, self.starts, self.pages.rows
        slots = pages.slots(row.job for row in rows)
        self.newest = {row.job: row for row in rows if starts[row.ref].overlap.replaces}
        for ready in rows:
            row, request = begun[ready.ref], starts[ready.ref]
            if row.status in FINAL:
                self._refuse(row, Refusal.SKIPPED, row.reason or "")  # an earlier request of the batch has replaced it
                continue
            slot = None if request.overlap.is_parallel else slots[row.job]
            if slot is not None and not self._gets(row, slot, request):
                continue
            if request.limits and (lacking := lacking_limit(request.limits, self.shares)) is not None:
                self._wait(row, lacking)
                continue
            self._begin(row, request, needs_slot=slot is not None)

    def _wait(self, row: OccurrenceRow, limit: str) -> None:
        if row.status is OccurrenceState.PRERUN:
            step = Step(OccurrenceState.PENDING, why=lacks_share(limit))
            self.pages.turn(self._mine(row), (step,))
        self._refuse(row, Refusal.LIMITED, limit)

    def _mine(self, row: OccurrenceRow) -> OccurrenceRow:
        """Return the row as owned by this node. Taking it from another owner raises its fence."""
        return row if row.owner == self.owner else self.pages.take_over(row, owner=self.owner)

    def _gets(self, row: OccurrenceRow, slot: OverlapSlotRow, request: StartRequest) -> bool:
        """True if an occurrence may have the slot: free with an empty queue, already its own, or won by the policy."""
        if row.reason is not None and (why := self._overlapped(row, request)) is not None:
            self._skip(row, why)
            return False
        if slot.ref is None and not slot.has_queue:
            return True  # the common case
        return self._is_next(row, slot) or self._gets_after_all(row, request)

    def _line(self, slot: OverlapSlotRow) -> list[OccurrenceRow]:
        """Return the current overlap queue.

        Earlier requests of the batch may have joined it, left it, or got the slot.
        """
        if slot.job not in self.lines:
            self.lines[slot.job] = stand_in_line(self.tx, slot) if slot.has_queue else []
        line = [self.pages.rows.get(row.ref, row) for row in self.lines[slot.job]]
        line = [row for row in line if row.status is OccurrenceState.QUEUED]
        self.lines[slot.job] = line
        return line

    def _is_next(self, row: OccurrenceRow, slot: OverlapSlotRow) -> bool:
        """True if the occurrence is in the slot, or the slot is free and no occurrence is queued before it."""
        if slot.ref == row.ref:
            return True
        if slot.ref is not None:
            return False
        line = self._line(slot)
        if not line or row.key <= line[0].key:
            return True
        self.pages.hand_over(slot, line[0])  # this queue had not been woken
        return False

    def _gets_after_all(self, row: OccurrenceRow, request: StartRequest) -> bool:
        """Skip it, queue it, or let it replace others. Returns True if the slot is free for it afterwards."""
        slot = self.pages.slots((row.job,))[row.job]
        assert slot.ref is not None, "what does not get a slot finds somebody in it"
        in_the_way, holder = overlaps(slot.ref), self._holder(slot.ref)
        if request.passes_held and holder.started_at is None:
            self.pages.join_line(self.pages.take_over(self.pages.look_at(slot.ref)), "its job is paused")
            return True
        is_in_line, line = row.status is OccurrenceState.QUEUED, self._line(slot)
        others = [other for other in line if not other.is_recovery]
        is_late = self._is_late(row, request, holder)
        overlap = request.overlap
        is_silent = overlap.replaces and self.owners.is_silent(holder)
        if is_late or overlap.queues:
            line_max = LINE_MAX if is_late or request.max_queued is None else request.max_queued
            if not is_in_line and len(others) >= line_max:
                self._skip_for(row, holder, f"{in_the_way}, and {len(others)} stand in line already")
        elif len(others) < len(line) or holder.is_recovery:  # new instants queue behind recovery (R2)
            if overlap.replaces and not is_silent:
                self._replace_in_line(row, line)
        elif self._skips_or_replaces(row, overlap, holder, line, is_silent=is_silent):
            return True
        if row.ref not in self.answer:
            if not is_in_line:
                why = queues_for(slot.ref) if is_late else waits_for(slot.ref)
                line.append(self.pages.join_line(self._mine(row), why))
            self._refuse(row, Refusal.QUEUED, self.pages.rows[row.ref].reason or "")
        return False

    def _skips_or_replaces(
        self, row: OccurrenceRow, overlap: Overlap, holder: OccurrenceRow, line: list[OccurrenceRow], *, is_silent: bool
    ) -> bool:
        """Skip the occurrence, or let it replace the run in the slot. Returns True if the slot is then free."""
        match overlap:
            case Overlap.SKIP:
                self._skip_for(row, holder, overlaps(holder.ref))
            case Overlap.REPLACE if is_silent:  # no queued occurrence is skipped
                self.pages.ask_to_end(self.pages.look_at(holder.ref), replaced_by(row.ref))
            case Overlap.REPLACE:
                return self._replace(row, holder.ref, line)
            case Overlap.QUEUE | Overlap.ALLOW:
                raise AssertionError(f"{overlap}: it was queued before, or needs no slot")
            case _:
                assert_never(overlap)
        return False

    def _holder(self, ref: Ref) -> OccurrenceRow:
        """Return the occurrence in the slot."""
        return self.pages.rows.get(ref) or self.tx.get(OCCURRENCES, [(ref,)])[ref,]

    def _is_late(self, row: OccurrenceRow, request: StartRequest, holder: OccurrenceRow) -> bool:
        """True if it is merely late: the run in the slot got the slot only after this occurrence was due.

        The two did not overlap, so it is neither skipped for that run nor replaces it. The same holds for an occurrence
        that waits, or would have to wait, to learn whether that run is dead. Such an occurrence queues at once, so that
        a repeated request gets the same answer.
        """
        if self.pages.in_slot_since(holder) < row.due_at:
            return False
        if self.pages.now <= request.late_until or _awaited(row) is not None:
            return True
        return not request.overlap.replaces and self.owners.doubt(holder, row.due_at) is not None

    def _overlapped(self, row: OccurrenceRow, request: StartRequest) -> str | None:
        """Return the reason to skip it, if the run that it waited for ended normally after this one was due.

        Then both overlapped. The end of the last attempt counts, by the clock of its node. After a store outage, the
        end of the run may have been written much later.
        """
        awaited = _awaited(row)
        if awaited is None or awaited.ref is None or request.overlap.replaces:
            return None
        other = self.pages.rows.get(awaited.ref) or self.tx.get(OCCURRENCES, [(awaited.ref,)]).get((awaited.ref,))
        if other is None or other.status not in _ENDED_BY_ITSELF or other.ended_at is None:
            return None
        attempts = self.tx.scan(ATTEMPTS, (other.ref,), limit=_ATTEMPTS_MAX)
        if max((one.ended_at for one in attempts if one.ended_at is not None), default=other.ended_at) < row.due_at:
            return None
        return overlaps(other.ref) + (", and the queue was full" if request.overlap.queues else "")

    def _skip_for(self, row: OccurrenceRow, holder: OccurrenceRow, why: str) -> None:
        """Skip it for the run in the overlap slot. While that run may be dead, it waits or stays queued instead."""
        doubt = self.owners.doubt(holder, row.due_at)
        if doubt is None:
            self._skip(row, why)
        elif row.status is not OccurrenceState.QUEUED:
            self._wait_to_learn(row, holder, doubt)

    def _wait_to_learn(self, row: OccurrenceRow, holder: OccurrenceRow, why: str) -> None:
        """Let it wait until the holder's node is known to be alive or dead, and ask that node for a heartbeat."""
        reason = unsure_of(holder.ref, why)
        if row.status is OccurrenceState.PRERUN:
            self.pages.turn(self._mine(row), (Step(OccurrenceState.PENDING, why=reason),))
        elif row.reason != reason:
            self.pages.change(row, reason=reason)
        if self.owners.should_be_asked(holder):
            self.pages.write_to_owner(holder)
        self._refuse(row, Refusal.UNSURE, reason)

    def _replace_in_line(self, row: OccurrenceRow, line: Sequence[OccurrenceRow]) -> None:
        """Keep only the newest in the queue, behind recovery. Recovery is not asked to end, and stays queued."""
        if row.is_recovery:
            return
        rivals = [other for other in line if not other.is_recovery and other.ref != row.ref]
        newest = max((row, *rivals), key=lambda other: other.key)
        why = replaced_by(newest.ref)
        for other in rivals:
            if other.ref != newest.ref:
                self.pages.leave_line(other, why)
        if newest.ref != row.ref:
            self._skip(row, why)

    def _replace(self, row: OccurrenceRow, holder: Ref, line: Sequence[OccurrenceRow]) -> bool:
        """Keep only the newest in the queue, whatever the order of arrival, and ask the current run to end.

        The slot may belong to an occurrence that has not started yet. No node would handle a request to end it, so it
        is replaced like the queued ones, by the newest of the batch.

        Returns:
            True if the slot is then free for this occurrence. Queueing it would only hand it the slot at the same
            moment.
        """
        holds = self.pages.look_at(holder)
        has_begun = holds.started_at is not None
        rivals = [*line, row] if has_begun else [*line, self.newest[row.job], holds]
        newest = max(rivals, key=lambda other: other.key)
        why = replaced_by(newest.ref)
        for other in [other for other in line if other.ref not in (row.ref, newest.ref)]:
            self.pages.leave_line(other, why)
        if has_begun:
            self.pages.ask_to_end(holds, why)
        elif holds.status in FINAL:
            pass  # another request of the batch has replaced it
        elif newest.ref == row.ref or newest.ref not in (holder, *self.starts):
            self.pages.turn(self.pages.take_over(holds), (Step(OccurrenceState.CANCELLED, why=why),))
        if newest.ref != row.ref:
            self._skip(row, why)
        return newest.ref == row.ref and not has_begun

    def _skip(self, row: OccurrenceRow, why: str) -> None:
        steps = [Step(OccurrenceState.SKIPPED, why=why)]
        if row.status is OccurrenceState.PENDING:
            steps.insert(0, Step(OccurrenceState.QUEUED, why=why))  # as the transition table requires
        self.pages.turn(self._mine(row), steps)
        self._refuse(row, Refusal.SKIPPED, why)

    # -- then it starts ----------------------------------------------------------------------------------------------

    def _begin(self, row: OccurrenceRow, request: StartRequest, *, needs_slot: bool) -> None:
        pages, owner = self.pages, self.owner
        if row.owner != owner:
            row = self._mine(row)
        if needs_slot:
            pages.put_in(row)  # the slot is held with the fence of the start
        self.answer[row.ref] = Started(row.ref, row.fence, row.sequence + 1, pages.now, *pages.note_run(row))
        is_plain = is_plain_start(row, owner, request)
        attempts = unsaid_attempts(request.attempts) if is_plain else request.attempts
        if request.limits:
            row = self._hold(row, request.limits)
        values: dict[str, Any] = {"started_at": pages.now, "expires_at": pages.now + request.execution_timeout}
        if row.overrides is None:
            values["config"] = self.configs[request.config]
        else:
            values["own_config"] = request.config
        if row.reason is not None:
            values["reason"] = None
        if is_plain:
            pages.change(row, status=request.to, sequence=row.sequence + 1, **values)
        else:
            step = _STEPS[request.to]
            pages.turn(row, (step,) if row.status is OccurrenceState.PENDING else (_PENDING, step), **values)
        pages.begin(row.ref, request.tasks, attempts)

    def _hold(self, row: OccurrenceRow, limits: Sequence[Limit]) -> OccurrenceRow:
        for limit in limits:
            self.shares[limit.name] += 1
        return self.pages.hold(row, [limit.name for limit in limits])


def _is_as_claimed(row: OccurrenceRow, request: StartRequest, owner: NodeNumber, now: int) -> bool:
    """True if the occurrence is unchanged since its claim, and due."""
    return (
        row.owner == owner
        and row.fence == request.fence
        and row.status is _PRERUN
        and row.started_at is None
        and row.cancelled_by is None
        and now >= row.due_at
        and row.adjustments == request.adjustments
    )


def _awaited(row: OccurrenceRow) -> Reason | None:
    """Return the reason that names a possibly dead run, if the occurrence waits for one."""
    reason = None if row.status is not OccurrenceState.PENDING else read_reason(row.reason)
    return reason if reason is not None and reason.kind is ReasonKind.UNSURE else None


def _has_moved_on(row: OccurrenceRow, request: StartRequest) -> bool:
    return request.fence is None and request.seen not in (None, row.fence)


def _begun(row: OccurrenceRow, owner: NodeNumber, request: StartRequest) -> Started | None:
    """Return the start of an earlier request of the same node, whose answer was lost."""
    if row.started_at is None or row.status in FINAL or row.owner != owner or request.fence not in (None, row.fence):
        return None
    return Started(row.ref, row.fence, row.sequence, row.started_at, knows_last_run=False)


def _moved(tx: Transaction, owner: NodeNumber, starts: Sequence[StartRequest]) -> list[Started | Refused]:
    """Refuse all requests, because the timeline has changed. An occurrence that an earlier request started still runs.

    No such request can be in progress: it would hold the gate, and the timeline could not have changed.
    """
    rows = tx.get(OCCURRENCES, [(request.ref,) for request in starts])
    answers: list[Started | Refused] = []
    for request in starts:
        row = rows.get((request.ref,))
        begun = None if row is None else _begun(row, owner, request)
        answers.append(begun or Refused(request.ref, Refusal.MOVED))
    return answers


def _in_the_way(tx: Transaction, starts: Sequence[StartRequest]) -> list[Ref]:
    """Return the runs that may be replaced. Their rows must be locked before any slot (protocol rule 11)."""
    replacing = [(request.ref,) for request in starts if request.overlap.replaces or request.passes_held]
    if not replacing:
        return []
    slots = tx.get(OVERLAP_SLOTS, {(row.job,) for row in tx.get(OCCURRENCES, replacing).values()})
    return [slot.ref for slot in slots.values() if slot.ref is not None]
