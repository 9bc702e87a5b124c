"""Writes after the start of an occurrence: reports of its owner, takeovers, and requests of people.

Protocol rules 8 to 10, 17 and 25. The danger is delay: a node that was frozen for an hour sends its write now. So no
decision relies on the belief of the caller. Each row is compared, under its lock, with the caller's owner and fence. A
repeated write is recognised by its sequence number. Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar, assert_never

from msgspec.structs import replace

from itinerary.errors import IllegalTransition
from itinerary.model.audit_trail import all_attempts
from itinerary.model.reasons import called_by
from itinerary.model.rows import NodeNumber, OccurrenceRow
from itinerary.model.states import FINAL, TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import (
    AdjustRequest,
    CancelRequest,
    LastBeat,
    OwnerWrite,
    Refusal,
    Refused,
    SkipRequest,
    Step,
    TakeoverWrite,
    Written,
)
from itinerary.stores.ledger.indexes import is_open
from itinerary.stores.ledger.limits import held_shares, lacking_limit
from itinerary.stores.ledger.unit_of_work import UnitOfWork, whose
from itinerary.stores.tables import ATTEMPTS, NODES, OCCURRENCES, OVERLAP_SLOTS, TRANSITIONS
from itinerary.stores.transaction import Transaction

__all__ = ["control", "has_made", "intervene", "write", "write_once"]

_NOBODYS: Final = FINAL | {OccurrenceState.QUEUED}
_CALLED: Final = (OccurrenceState.QUEUED, OccurrenceState.PENDING)
ATTEMPTS_MAX: Final = 100_000
"""The most attempts of one occurrence that are read."""
LINES_MAX: Final = 100_000
"""The most lines of its audit trail that are read."""
_BEFORE_THE_START: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING}) | FINAL

Q = TypeVar("Q", TakeoverWrite, CancelRequest | AdjustRequest | SkipRequest)


def write(tx: Transaction, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> list[Written | Refused]:
    """Apply what the owner reports about its occurrences.

    Returns:
        An answer for each change, in order. A change is refused if owner or fence no longer match.
    """
    tx.gate()
    shares = held_shares(tx, {limit.name for change in changes for limit in change.takes})
    pages = UnitOfWork(tx, [change.ref for change in changes], owner)
    answers = [_written(pages, owner, change, shares) for change in changes]
    pages.save()
    if not pages.handed:
        return answers
    return [
        Written(answer.ref, pages.handed[answer.ref])
        if isinstance(answer, Written) and answer.ref in pages.handed
        else answer
        for answer in answers
    ]


def write_once(tx: Transaction, owner: NodeNumber, change: OwnerWrite) -> Written | Refused:
    """Apply a change that must be new: the end of a task's own transaction (protocol rule 24).

    Answering "already written" would be wrong here: this transaction holds rows of the task that are not written yet.
    """
    tx.gate()
    row = tx.lock(OCCURRENCES, [(change.ref,)]).get((change.ref,))
    if row is not None and (row.owner, row.fence) == (owner, change.fence) and change.sequence <= row.sequence:
        return Refused(row.ref, Refusal.LOST, f"write {change.sequence} has been made already")
    return write(tx, owner, [change])[0]


def has_made(tx: Transaction, change: OwnerWrite) -> bool:
    """True if exactly this change was written. Its attempts decide, because another change may have its number."""
    wanted = {(row.ref, row.place, row.number): row.status for row in change.attempts}
    assert wanted, "a change that is asked about names an attempt"
    found = tx.get(ATTEMPTS, wanted)
    return all(key in found and found[key].status is status for key, status in wanted.items())


def _written(pages: UnitOfWork, owner: NodeNumber, change: OwnerWrite, shares: dict[str, int]) -> Written | Refused:
    row = pages.rows.get(change.ref)
    if row is None:
        return Refused(change.ref, Refusal.GONE)
    if row.owner != owner or row.fence != change.fence:
        return Refused(row.ref, Refusal.LOST, whose(row))
    if change.sequence <= row.sequence and not _ends_after_all(pages, row, change):
        return _written_before(pages, row)
    if row.status in FINAL:
        return Refused(row.ref, Refusal.LOST, whose(row))
    if change.sequence > row.sequence + 1:
        return Refused(row.ref, Refusal.ILLEGAL, f"write {change.sequence} came before write {row.sequence + 1}")
    if change.takes and (lacking := lacking_limit(change.takes, shares)) is not None:
        return Refused(row.ref, Refusal.LIMITED, lacking)
    try:
        _check(row, change.steps, is_launch=bool(change.attempts or change.takes))
        row = pages.turn(row, change.steps)
    except IllegalTransition as error:
        return Refused(row.ref, Refusal.ILLEGAL, str(error))
    if change.gives_back:
        row = pages.give_back(row)
    if change.takes and row.status not in FINAL:
        for limit in change.takes:
            shares[limit.name] += 1
        pages.hold(row, [limit.name for limit in change.takes])
    pages.note(row.ref, change.tasks, change.attempts)
    return Written(row.ref)


def _ends_after_all(pages: UnitOfWork, row: OccurrenceRow, change: OwnerWrite) -> bool:
    """True if this change is an end with the number of a launch that the owner gave up.

    The launch was refused because a limit had no share, but an earlier request for it was written nevertheless.
    The end is valid, whatever its number. The attempt that the launch wrote never started, and is marked as cancelled.
    """
    if row.status in FINAL or not change.steps or change.steps[-1].to not in FINAL:
        return False
    said = {(attempt.place, attempt.number) for attempt in change.attempts}
    lines = pages.tx.scan(TRANSITIONS, (row.ref,), limit=LINES_MAX)
    unbegun = [
        replace(attempt, status=TaskState.CANCELLED, ended_at=pages.now, error="it was never begun")
        for attempt in all_attempts(row, lines, pages.tx.scan(ATTEMPTS, (row.ref,), limit=ATTEMPTS_MAX))
        if attempt.status not in TASK_FINAL and (attempt.place, attempt.number) not in said
    ]
    pages.note(row.ref, (), unbegun)
    return True


def _check(row: OccurrenceRow, steps: Sequence[Step], *, is_launch: bool) -> None:
    """Refuse changes that only a start may make: to take the overlap slot, or to queue for it."""
    for step in steps:
        if step.to is OccurrenceState.QUEUED:
            raise IllegalTransition(
                "an occurrence is queued by its start, which finds the slot taken, and by nothing else"
            )
    if row.started_at is not None:
        return
    begins = next((step.to for step in steps if step.to not in _BEFORE_THE_START), None)
    if begins is not None or is_launch:
        raise IllegalTransition(f"an occurrence that has not started cannot go to {begins or 'an attempt'}; start it")


def _written_before(pages: UnitOfWork, row: OccurrenceRow) -> Written:
    """Return the answer to a repeated write whose first answer was lost.

    The answer names the occurrence that got the slot by this end, if it still waits to start. An occurrence that got
    the slot in another way was not named in the first answer either.

    Nothing is locked: these slots come in no order, and their holders may be starting (protocol rule 11).
    """
    if row.status not in FINAL:
        return Written(row.ref)
    slot = pages.tx.get(OVERLAP_SLOTS, [(row.job,)])[row.job,]
    if slot.ref is None or slot.ref == row.ref:
        return Written(row.ref)
    successor = pages.rows.get(slot.ref) or pages.tx.get(OCCURRENCES, [(slot.ref,)]).get((slot.ref,))
    is_next = successor is not None and is_open(successor) and successor.reason == called_by(row.ref)
    return Written(row.ref, slot.ref if is_next else None)


def intervene(tx: Transaction, by: NodeNumber, interventions: Sequence[TakeoverWrite]) -> list[Written | Refused]:
    """Apply takeover writes of nodes that do not own the rows.

    Returns:
        An answer for each write, in order. A write succeeds once for each fence that the row was seen with.
    """
    alive = _alive(tx, {item.dead_since for item in interventions if item.dead_since is not None})

    def decide(pages: UnitOfWork, row: OccurrenceRow, item: TakeoverWrite) -> Written | Refused:
        return _intervened(pages, row, item, is_owner_alive=item.dead_since in alive)

    return _each(tx, by, interventions, decide)


def _alive(tx: Transaction, judged: Collection[LastBeat]) -> set[LastBeat | None]:
    """Return the outdated judgements: these nodes have sent a heartbeat since.

    Node rows are locked before occurrence rows, and a heartbeat locks only its own row and its mail. So a heartbeat is
    either seen here, or waits for this transaction and comes after the takeover.
    """
    if not judged:
        return set()
    tx.gate()
    rows = tx.lock(NODES, [(beat.node,) for beat in judged])
    return {beat for beat in judged if (beat.node,) in rows and rows[beat.node,].counter != beat.counter}


def _intervened(
    pages: UnitOfWork, row: OccurrenceRow, item: TakeoverWrite, *, is_owner_alive: bool
) -> Written | Refused:
    owner = None if (item.to or row.status) in _NOBODYS else item.owner
    stands = row.owner == owner if item.to is None else row.status is item.to
    if row.fence == item.fence + 1 and row.touched_by == pages.by and stands:
        return Written(row.ref)  # an earlier request, whose answer was lost
    if row.fence != item.fence or row.status in FINAL or _has_gone_on(row, item):
        return Refused(row.ref, Refusal.LOST, whose(row))
    if is_owner_alive:
        return Refused(row.ref, Refusal.ALIVE, whose(row))
    if (row.status, item.to) == _CALLED:
        return _called(pages, row)
    between = [Step(state) for state in item.by_way_of]
    steps = () if item.to is None else (*between, Step(item.to, why=item.why))
    try:
        _check(row, steps, is_launch=False)
        taken = pages.turn(pages.take_over(row, owner), steps)
    except IllegalTransition as error:
        pages.forget(row)
        return Refused(row.ref, Refusal.ILLEGAL, str(error))
    if item.gives_back:
        taken = pages.give_back(taken)
    if item.expires_after is not None:
        taken = pages.change(taken, expires_at=pages.now + item.expires_after)
    pages.note(row.ref, item.tasks, item.attempts)
    return Written(row.ref)


def _has_gone_on(row: OccurrenceRow, item: TakeoverWrite) -> bool:
    """True if the owner has changed the row since it was read, so the caller must read it again."""
    if item.is_unstarted and row.started_at is not None:
        return True
    return item.sequence is not None and item.sequence != row.sequence


def _called(pages: UnitOfWork, row: OccurrenceRow) -> Written | Refused:
    """Give it the slot, if it is first in the queue and the slot has no unended run (protocol rule 14).

    The run in the slot is not locked, because the slot is (protocol rule 11). A final row stays final, and an unended
    one refuses the request.
    """
    slot = pages.slots([row.job])[row.job]
    if slot.ref is not None:
        holder = pages.rows.get(slot.ref) or pages.tx.get(OCCURRENCES, [(slot.ref,)]).get((slot.ref,))
        if holder is not None and holder.status not in FINAL:
            return Refused(row.ref, Refusal.QUEUED, whose(holder))
    if not pages.is_called(slot, row):
        return Refused(row.ref, Refusal.QUEUED, "others stand in line before it")
    return Written(row.ref)


def control(
    tx: Transaction, by: NodeNumber | None, requests: Sequence[CancelRequest | AdjustRequest | SkipRequest]
) -> list[Written | Refused]:
    """Apply requests of people. A row with an owner is left for that node, which is notified."""
    return _each(tx, by, requests, _controlled)


def _controlled(
    pages: UnitOfWork, row: OccurrenceRow, request: CancelRequest | AdjustRequest | SkipRequest
) -> Written | Refused:
    match request:
        case CancelRequest():
            return _cancelled(pages, row, request)
        case AdjustRequest():
            return _adjusted(pages, row, request)
        case SkipRequest():
            return _passed_over(pages, row, request)
        case _:
            assert_never(request)


def _cancelled(pages: UnitOfWork, row: OccurrenceRow, request: CancelRequest) -> Written | Refused:
    """Cancel an unstarted occurrence at once, or leave a request on a started one."""
    if row.status in FINAL:
        cancelled = row.cancelled_by is not None and not row.is_withdrawn
        return Written(row.ref) if cancelled else Refused(row.ref, Refusal.LOST, whose(row))
    if row.cancelled_by is None:
        row = pages.ask_to_end(row, request.by)
        if row.started_at is None:
            pages.turn(pages.take_over(row), (Step(OccurrenceState.CANCELLED, why=request.by),))
    return Written(row.ref)


def _passed_over(pages: UnitOfWork, row: OccurrenceRow, request: SkipRequest) -> Written | Refused:
    """Skip an unstarted occurrence. The fence then refuses the writes of its old owner."""
    if row.status is OccurrenceState.SKIPPED and row.reason == request.why:
        return Written(row.ref)  # an earlier request, whose answer was lost
    if row.started_at is not None or row.status in FINAL:
        return Refused(row.ref, Refusal.LOST, whose(row))
    steps = [Step(OccurrenceState.SKIPPED, why=request.why)]
    if row.status is OccurrenceState.PENDING:
        steps.insert(0, Step(OccurrenceState.QUEUED, why=request.why))  # as the transition table requires
    pages.write_to_owner(row)
    pages.turn(pages.take_over(row), steps)
    return Written(row.ref)


def _adjusted(pages: UnitOfWork, row: OccurrenceRow, request: AdjustRequest) -> Written | Refused:
    """Set new overrides. A start with the old ones is refused once."""
    if row.started_at is not None or row.status in FINAL:
        return Refused(row.ref, Refusal.LOST, whose(row))
    if row.overrides == request.overrides:
        return Written(row.ref)
    if request.since not in (None, row.adjustments):
        return Refused(row.ref, Refusal.ADJUSTED)
    pages.write_to_owner(row)
    details = row.details if request.details is None else request.details
    pages.change(row, overrides=request.overrides, adjustments=row.adjustments + 1, details=details)
    return Written(row.ref)


def _each(
    tx: Transaction,
    by: NodeNumber | None,
    requests: Sequence[Q],
    decide: Callable[[UnitOfWork, OccurrenceRow, Q], Written | Refused],
) -> list[Written | Refused]:
    tx.gate()
    pages = UnitOfWork(tx, [request.ref for request in requests], by)
    answers: list[Written | Refused] = []
    for request in requests:
        row = pages.rows.get(request.ref)
        answers.append(Refused(request.ref, Refusal.GONE) if row is None else decide(pages, row, request))
    pages.save()
    return answers
