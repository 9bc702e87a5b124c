"""Plain starts: a thousand of them in three statements, and none of their rows is read.

Nearly every start is the same: this node claimed the occurrence, nothing has happened to it since, its time has come,
its job's slot is free, and it has one task. Then there is nothing to decide, and the store can do it for all of them:

    begin those whose rows are as they were claimed, and due      the fence, the owner and the clock are looked at here
    lock their jobs' slots                                        each has the last run of its job
    put them into these, where nobody is                          the overlap policy is not needed
    take back those whose slot was not free

What is left over (something has happened to it, a sweep must decide about it first, somebody is in its slot, another of
its job is in the same batch, a later instant of its job has started) has not been touched, and goes the long way,
`starting`, in a transaction of its own: that one reads and locks rows, and slots are locked after occurrences, not
before (protocol rule 11).

A repeated request whose first answer was lost finds that its row is no longer as it was claimed: so it is left over,
and `starting` answers as the first time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from itinerary.model.audit_trail import as_claimed
from itinerary.model.rows import NodeNumber, Ref, SlotRow
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Start, Started
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.tables import OCCURRENCES, SLOTS, SWEEP
from itinerary.stores.transaction import Swap, Transaction

__all__ = ["begin", "plain_ones"]

_FREE: Final = {"ref": None, "has_line": False}
_RUNNING: Final = OccurrenceState.RUNNING


def plain_ones(starts: Sequence[Start]) -> list[Start]:
    """Those that may be begun so, in the order of their rows. Of a job that has several in the batch none may: the
    earliest of them is to get the slot."""
    plain = [request for request in starts if request.is_plain and request.instant is not None]
    if len({request.job for request in starts}) < len(starts):
        times = Counter(request.job for request in starts)
        alone = None not in times  # else nobody knows whose they are
        plain = [request for request in plain if alone and times[request.job] == 1]
    plain.sort(key=_ref)
    return plain


def begin(
    tx: Transaction, owner: NodeNumber, revision: int, starts: Sequence[Start], configs: Mapping[str, int]
) -> list[Started]:
    """Begin those of these plain starts that can be, each or nothing of it. `configs`: numbers of configurations."""
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
    begun = tx.swap(OCCURRENCES, keys, Swap(was, becomes, up_to={"due_at": now}, each=each))
    if len(begun) < len(starts):
        refs = {ref for (ref,) in begun}
        starts = [request for request in starts if request.ref in refs]
    last_runs = _put_in(tx, starts)
    if len(last_runs) < len(starts):
        homeless = {(request.ref,) for request in starts if request.ref not in last_runs}
        _take_back(tx, homeless, was, [*becomes, *each])
        starts = [request for request in starts if request.ref in last_runs]
    return [Started(request.ref, 1, 1, now, last_runs[request.ref]) for request in starts]


def _decided(tx: Transaction, starts: Sequence[Start], now: int) -> list[Start]:
    """Return those that need no decision of a sweep: they are within the grace period, or a sweep has passed them."""
    watermark = tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark
    return [
        request
        for request in starts
        if not 0 < request.late_until < now or (request.instant is not None and request.instant < watermark)
    ]


def _begun(
    starts: Sequence[Start], now: int, configs: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """What their rows say from now on: the same for all, and what is different for each."""
    becomes: dict[str, Any] = {"status": _RUNNING, "sequence": 1, "started_at": now}
    first = starts[0]
    if all(one.config == first.config and one.execution_timeout == first.execution_timeout for one in starts):
        return becomes | {"config": configs[first.config], "expires_at": now + first.execution_timeout}, {}
    return becomes, {
        "config": [configs[request.config] for request in starts],
        "expires_at": [now + request.execution_timeout for request in starts],
    }


def _put_in(tx: Transaction, starts: Sequence[Start]) -> dict[Ref, int | None]:
    """Put these into their jobs' slots. Returns the last run before each of those that could be put in."""
    slots = tx.lock(SLOTS, [(request.job,) for request in starts])
    fit = [request for request in starts if _fits(request, slots.get((request.job,)))]
    fit.sort(key=_job)
    needing = [request for request in fit if not request.overlap.is_parallel]
    if needing:
        becomes: dict[str, Any] = {"fence": 1}
        each: dict[str, list[Any]] = {"ref": [request.ref for request in needing]}
        instants = [request.instant for request in needing]
        if instants.count(instants[0]) == len(instants):  # a herd
            becomes["last_run_at"] = instants[0]
        else:
            each["last_run_at"] = instants
        got = tx.swap(SLOTS, [(request.job,) for request in needing], Swap(_FREE, becomes, each=each))
        assert len(got) == len(needing), "these slots are locked, and were free"
    if len(needing) < len(fit):
        ran = [replace(slots[one.job,], last_run_at=one.instant) for one in fit if one.overlap.is_parallel]
        tx.save(SLOTS, ran, ("last_run_at",))
    return {request.ref: slots[request.job,].last_run_at for request in fit}


def _fits(request: Start, slot: SlotRow | None) -> bool:
    """True if an occurrence may have the slot of its job, and the slot says what the last run before it was."""
    if slot is None:
        return False  # the request names a job that does not exist
    if slot.last_run_at is None:
        if slot.count:
            return False  # there is history, and it has to be looked at
    elif request.instant is None or slot.last_run_at >= request.instant:
        return False
    return request.overlap.is_parallel or (slot.ref is None and not slot.has_line)


def _take_back(tx: Transaction, homeless: set[tuple[Ref]], was: dict[str, Any], columns: Sequence[str]) -> None:
    """Leave these rows as they were found."""
    before = {name: was.get(name) for name in columns}
    back = tx.swap(OCCURRENCES, sorted(homeless), Swap({"status": _RUNNING, "sequence": 1}, before))
    assert len(back) == len(homeless), "they were changed a moment ago, and are locked"


def _ref(request: Start) -> int:
    return request.ref


def _job(request: Start) -> int:
    assert request.job is not None, "plain starts name their job"
    return request.job
