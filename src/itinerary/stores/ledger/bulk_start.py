"""Plain starts in bulk: a thousand in three statements, without reading their rows.

A start is plain if nothing has changed since this node claimed the occurrence, the occurrence is due, its overlap slot
is free, and it has one task. Nearly all are. Then nothing must be decided, and the store handles the whole batch:

    start the rows that are unchanged since their claim, and due    checks fence, owner and clock
    lock the overlap slots of their jobs                            a slot has the last run of its job
    put the occurrences into the free slots                         the overlap policy is not needed
    revert the rows whose slot was not free

The remaining requests are unchanged and go to `start`, in a transaction of their own. Reasons: the row has changed, a
sweep must decide first, the slot is taken, the job is in the batch twice, or a later instant has started. `start` reads
and locks rows, and occurrences are locked before slots (protocol rule 11).

If the first answer to a request was lost, its row no longer looks claimed. So the repeated request goes to `start`,
which gives the same answer as the first time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from itinerary.model.audit_trail import as_claimed
from itinerary.model.rows import NodeNumber, OverlapSlotRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Started, StartRequest
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.tables import OCCURRENCES, OVERLAP_SLOTS, SWEEP
from itinerary.stores.transaction import ConditionalUpdate, Transaction

__all__ = ["begin", "plain_ones"]

_FREE: Final = {"ref": None, "has_queue": False}
_RUNNING: Final = OccurrenceState.RUNNING


def plain_ones(starts: Sequence[StartRequest]) -> list[StartRequest]:
    """Return the requests that can start this way, in the order of their rows.

    If a job has several requests in the batch, none of them is plain: the earliest one must get the overlap slot.
    """
    plain = [request for request in starts if request.is_plain and request.instant is not None]
    if len({request.job for request in starts}) < len(starts):
        times = Counter(request.job for request in starts)
        alone = None not in times  # a request without a job may belong to any of them
        plain = [request for request in plain if alone and times[request.job] == 1]
    plain.sort(key=_ref)
    return plain


def begin(
    tx: Transaction, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], configs: Mapping[str, int]
) -> list[Started]:
    """Start those plain requests that can start, each completely or not at all.

    Args:
        tx: The transaction.
        owner: The node that starts them.
        revision: The timeline revision of the node. With another revision, nothing starts.
        starts: Plain requests, in the order of their rows.
        configs: The numbers of configurations.

    Returns:
        The started occurrences.
    """
    tx.gate()
    if not starts or revision_of(tx) != revision:
        return []
    now = tx.now()
    if any(0 < request.late_until < now for request in starts):
        starts = _decided(tx, starts, now)
        if not starts:
            return []
    becomes, each = _begun(starts, now, configs)
    was = as_claimed(owner)
    keys = [(request.ref,) for request in starts]
    begun = tx.swap(OCCURRENCES, keys, ConditionalUpdate(was, becomes, up_to={"due_at": now}, each=each))
    if len(begun) < len(starts):
        refs = {ref for (ref,) in begun}
        starts = [request for request in starts if request.ref in refs]
    last_runs = _put_in(tx, starts)
    if len(last_runs) < len(starts):
        homeless = {(request.ref,) for request in starts if request.ref not in last_runs}
        _take_back(tx, homeless, was, [*becomes, *each])
        starts = [request for request in starts if request.ref in last_runs]
    return [Started(request.ref, 1, 1, now, last_runs[request.ref]) for request in starts]


def _decided(tx: Transaction, starts: Sequence[StartRequest], now: int) -> list[StartRequest]:
    """Return the requests that need no sweep: within the grace period, or already decided by a sweep."""
    watermark = tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark
    return [
        request
        for request in starts
        if not 0 < request.late_until < now or (request.instant is not None and request.instant < watermark)
    ]


def _begun(
    starts: Sequence[StartRequest], now: int, configs: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return the new values of the rows: those common to all, and those that differ."""
    becomes: dict[str, Any] = {"status": _RUNNING, "sequence": 1, "started_at": now}
    first = starts[0]
    if all(one.config == first.config and one.execution_timeout == first.execution_timeout for one in starts):
        return becomes | {"config": configs[first.config], "expires_at": now + first.execution_timeout}, {}
    return becomes, {
        "config": [configs[request.config] for request in starts],
        "expires_at": [now + request.execution_timeout for request in starts],
    }


def _put_in(tx: Transaction, starts: Sequence[StartRequest]) -> dict[Ref, int | None]:
    """Put these occurrences into their overlap slots. Returns the previous run of each that got its slot."""
    slots = tx.lock(OVERLAP_SLOTS, [(request.job,) for request in starts])
    fit = [request for request in starts if _fits(request, slots.get((request.job,)))]
    fit.sort(key=_job)
    needing = [request for request in fit if not request.overlap.is_parallel]
    if needing:
        becomes: dict[str, Any] = {"fence": 1}
        each: dict[str, list[Any]] = {"ref": [request.ref for request in needing]}
        instants = [request.instant for request in needing]
        if instants.count(instants[0]) == len(instants):  # many jobs at the same instant
            becomes["last_run_at"] = instants[0]
        else:
            each["last_run_at"] = instants
        got = tx.swap(
            OVERLAP_SLOTS, [(request.job,) for request in needing], ConditionalUpdate(_FREE, becomes, each=each)
        )
        assert len(got) == len(needing), "these slots are locked, and were free"
    if len(needing) < len(fit):
        ran = [replace(slots[one.job,], last_run_at=one.instant) for one in fit if one.overlap.is_parallel]
        tx.save(OVERLAP_SLOTS, ran, ("last_run_at",))
    return {request.ref: slots[request.job,].last_run_at for request in fit}


def _fits(request: StartRequest, slot: OverlapSlotRow | None) -> bool:
    """True if an occurrence may take the overlap slot of its job, and the slot knows the previous run."""
    if slot is None:
        return False  # the job does not exist
    if slot.last_run_at is None:
        if slot.count:
            return False  # the history must be searched for the last run
    elif request.instant is None or slot.last_run_at >= request.instant:
        return False
    return request.overlap.is_parallel or (slot.ref is None and not slot.has_queue)


def _take_back(tx: Transaction, homeless: set[tuple[Ref]], was: dict[str, Any], columns: Sequence[str]) -> None:
    """Restore these rows as they were before the start."""
    before = {name: was.get(name) for name in columns}
    back = tx.swap(OCCURRENCES, sorted(homeless), ConditionalUpdate({"status": _RUNNING, "sequence": 1}, before))
    assert len(back) == len(homeless), "they were changed a moment ago, and are locked"


def _ref(request: StartRequest) -> int:
    return request.ref


def _job(request: StartRequest) -> int:
    assert request.job is not None, "plain starts name their job"
    return request.job
