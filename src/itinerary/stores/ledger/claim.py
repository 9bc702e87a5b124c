"""Claims: the race to create the row of an occurrence (protocol rules 2, 4 and 6).

The name of the row is (instant, job, kind, request), and the node that creates it wins. Creating and reading are two
calls, because an earlier request of the same node may be committing now. Its answer was lost, but its rows count too.

**The sweep decides everything below the end of its plan** (protocol rule 19). The sweep reads the existing rows there,
and decides about the rest, often in one row for a whole window of instants. A late claim, from a node that was frozen
or disconnected, would add a second row to that window, or bring back a pruned one. So no scheduled row is created below
the end of the plan, or below the watermark if there is no plan. The late node gets the same answer as any node that
lost the race. The rows that the sweep creates have no owner, and every node may start them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from itinerary.model.audit_trail import is_plainly_made
from itinerary.model.occurrence import Kind
from itinerary.model.rows import (
    ActiveRow,
    IdempotencyKeyRow,
    JobNumber,
    Key,
    NodeNumber,
    OccurrenceRow,
    Ref,
    StoreMetaRow,
    SweepRow,
    TransitionRow,
    WaitingRow,
    WindowRow,
)
from itinerary.model.states import FINAL, OccurrenceState, advance
from itinerary.model.writes import Claimed, ClaimRequest, Refusal
from itinerary.stores.ledger.history import append
from itinerary.stores.ledger.indexes import is_open
from itinerary.stores.ledger.overlap_queue import line_row
from itinerary.stores.ledger.unit_of_work import clean
from itinerary.stores.tables import (
    ACTIVE,
    IDEMPOTENCY_KEYS,
    JOBS,
    OCCURRENCES,
    OVERLAP_QUEUE,
    OVERLAP_SLOTS,
    STORE_META,
    SWEEP,
    TRANSITIONS,
    WAITING,
    WINDOWS,
)
from itinerary.stores.transaction import Transaction

__all__ = ["THE_ONE", "claim", "create", "is_prepared", "prepare", "revision_of", "triggers_of"]

THE_ONE = (0,)
"""The key of a table with one row."""
_NO_REF = Ref(0)


def is_prepared(tx: Transaction) -> bool:
    """True if the single-row tables have their rows."""
    return bool(tx.get(STORE_META, [THE_ONE]))


def prepare(tx: Transaction) -> None:
    """Write the rows of the single-row tables into a new store: everything is decided up to now."""
    if not is_prepared(tx):
        tx.gate(exclusive=True)
        tx.add(SWEEP, [SweepRow(0, tx.now())])
        tx.add(STORE_META, [StoreMetaRow(0)])


def revision_of(tx: Transaction) -> int:
    """Return the revision of the timeline. The caller has passed the gate."""
    return tx.get(STORE_META, [THE_ONE])[THE_ONE].revision


def claim(
    tx: Transaction, owner: NodeNumber | None, revision: int | None, wanted: Sequence[ClaimRequest]
) -> list[Claimed] | Refusal:
    """Create the requested rows that do not exist yet.

    Args:
        tx: The transaction.
        owner: The claiming node. None creates rows without an owner (triggers, replays).
        revision: The timeline revision of the caller; None if the request does not depend on the timeline.
        wanted: The rows to create.

    Returns:
        The rows that belong to `owner`, created now or by an earlier request. With `owner` None, all requested rows.
        Refusal.MOVED if the timeline has another revision.
    """
    tx.gate()
    if revision is not None and revision_of(tx) != revision:
        return Refusal.MOVED
    wanted = _as_first_asked(tx, wanted)
    created = create(tx, owner, _not_swept(tx, wanted))
    rows = created
    if len(created) < len(wanted):
        names = {tuple(item.key) for item in wanted}.difference(OCCURRENCES.names_of(created))
        found = tx.named(OCCURRENCES, names).values() if names else ()
        rows = created + [row for row in found if owner is None or (row.owner == owner and row.sequence == 0)]
    return [Claimed(row.ref, row.key, row.fence, row.adjustments) for row in rows]


def _as_first_asked(tx: Transaction, wanted: Sequence[ClaimRequest]) -> Sequence[ClaimRequest]:
    """Give each trigger the instant of the first request with its key (D1).

    Of two requests at the same time, one writes the cause. The other waits, and reads it.
    """
    asked = {_cause(item.key): item for item in wanted if item.key.kind is Kind.TRIGGER}
    if not asked:
        return wanted
    causes = [IdempotencyKeyRow(*cause, item.key.instant) for cause, item in sorted(asked.items())]
    made = {(row.stream, row.cause): row for row in tx.add(IDEMPOTENCY_KEYS, causes)}
    first = made | tx.get(IDEMPOTENCY_KEYS, asked.keys() - made.keys())
    return [
        replace(item, key=item.key._replace(instant=first[_cause(item.key)].sequence))
        if item.key.kind is Kind.TRIGGER
        else item
        for item in wanted
    ]


def _cause(key: Key) -> tuple[str, str]:
    return triggers_of(key.job), key.request


def triggers_of(job: JobNumber) -> str:
    """Return the stream for the causes of the triggers of a job. The stream has no events, only causes."""
    return f"itinerary/triggers/{job}"


def _not_swept(tx: Transaction, wanted: Sequence[ClaimRequest]) -> Sequence[ClaimRequest]:
    """Return the requests that no sweep has covered.

    A plan never ends ahead of the store clock. So a claim ahead of its instant, the normal case, needs no check. Before
    the first job was registered, nothing was expected, and no sweep has decided anything.
    """
    now = tx.now()
    if not any(item.key.instant < now and item.key.kind.is_by_schedule for item in wanted):
        return wanted
    sweep = tx.get(SWEEP, [THE_ONE])[THE_ONE]
    end = sweep.watermark if sweep.plan_to is None else sweep.plan_to
    start = min((job.registered_at for job in tx.scan(JOBS, limit=1)), default=end)
    return [item for item in wanted if not (item.key.kind.is_by_schedule and start <= item.key.instant < end)]


def create(tx: Transaction, owner: NodeNumber | None, wanted: Sequence[ClaimRequest]) -> list[OccurrenceRow]:
    """Create the rows that do not exist yet, with all rows that belong to a new occurrence.

    The caller has passed the gate.
    """
    now = tx.now()
    created = tx.add(OCCURRENCES, [_row(item, owner, now) for item in wanted])
    if not created:
        return created
    if lines := [_born(row) for row in created if not is_plainly_made(row)]:
        tx.insert(TRANSITIONS, lines)
    queued = OccurrenceState.QUEUED
    unended = [row for row in created if row.ended_at is None]
    if active := [ActiveRow(row.job, row.ref, row.due_at) for row in unended if row.status is not queued]:
        tx.insert(ACTIVE, active)
    if in_line := [line_row(row) for row in unended if row.status is queued]:
        tx.insert(OVERLAP_QUEUE, in_line)
    if owner is not None:
        tx.expect(OVERLAP_SLOTS, {(row.job,) for row in created})  # the start locks them soon, and then time is short
    if waiting := [WaitingRow(row.due_at, row.ref) for row in created if is_open(row)]:
        tx.insert(WAITING, waiting)
    if windows := [WindowRow(row.window_end, row.ref) for row in created if row.window_end is not None]:
        tx.insert(WINDOWS, windows)
    if ended := [row for row in created if row.ended_at is not None]:
        append(tx, ended)
    return created


def _born(row: OccurrenceRow) -> TransitionRow:
    """Return the first line of the audit trail of a row."""
    return TransitionRow(row.ref, 0, 0, None, row.status, row.created_at, row.created_by, row.reason)


def _row(item: ClaimRequest, owner: NodeNumber | None, now: int) -> OccurrenceRow:
    key, window = item.key, item.window
    assert key.kind is not Kind.RECOVERY, "recovery has the key of scheduled"
    is_final = advance(None, item.status) in FINAL
    return OccurrenceRow(
        _NO_REF,
        key.instant,
        key.job,
        key.kind,
        key.request,
        item.version,
        item.due_at,
        item.is_recovery,
        item.priority,
        now,
        owner,
        item.status,
        None if item.status is OccurrenceState.QUEUED else owner,
        1,
        ended_at=now if is_final else None,
        overrides=item.overrides,
        details=item.details,
        window_start=None if window is None else window.start,
        window_end=None if window is None else window.end,
        window_count=None if window is None else window.count,
        reason=clean(item.reason),
    )
