"""Plain starts: a thousand of them in two statements, and none of their rows is read.

Nearly every start is the same: this node claimed the occurrence, nothing has happened to it since, its time has come,
its job's slot is free, and it has one task. Then there is nothing to decide, and the store can do it for all of them:

    begin those whose rows are as they were claimed, and due      the fence, the owner and the clock are looked at here
    put them into their jobs' slots, where nobody is              the overlap policy is not needed
    take back those whose slot was not free

What is left over (something has happened to it, somebody is in its slot, another of its job is in the same batch) has
not been touched, and goes the long way, `starting`, in a transaction of its own: that one reads and locks rows, and
slots are locked after occurrences, not before (rule 11).

A repeated request whose first answer was lost finds that its row is no longer as it was claimed: so it is left over,
and `starting` answers as the first time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.model.policies import Overlap
from itinerary.model.rows import NodeNumber, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.trails import as_claimed
from itinerary.model.writes import Start, Started
from itinerary.stores.ledger.claiming import revision_of
from itinerary.stores.tables import OCCURRENCES, SLOTS
from itinerary.stores.transaction import Swap, Transaction

__all__ = ["begin", "plain_ones"]

_FREE: Final = {"ref": None, "has_line": False}
_ALLOW: Final = Overlap.ALLOW
_RUNNING: Final = OccurrenceState.RUNNING


def plain_ones(starts: Sequence[Start]) -> list[Start]:
    """Those that may be begun so, in the order of their rows. Of a job that has several in the batch none may: the
    earliest of them is to get the slot."""
    plain = [request for request in starts if request.is_plain]
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
    becomes, each = _begun(starts, now, configs)
    was = as_claimed(owner)
    keys = [(request.ref,) for request in starts]
    begun = tx.swap(OCCURRENCES, keys, Swap(was, becomes, up_to={"due_at": now}, each=each))
    if len(begun) < len(starts):
        refs = {ref for (ref,) in begun}
        starts = [request for request in starts if request.ref in refs]
    homeless = _put_in(tx, starts)
    if homeless:
        _take_back(tx, homeless, was, [*becomes, *each])
        starts = [request for request in starts if (request.ref,) not in homeless]
    return [Started(request.ref, 1, 1, now) for request in starts]


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


def _put_in(tx: Transaction, starts: Sequence[Start]) -> set[tuple[Ref]]:
    """Put these into their jobs' slots; returns those that could not be."""
    needing = [(request.job, request.ref) for request in starts if request.overlap is not _ALLOW]
    needing.sort()
    jobs = [(job,) for job, _ in needing]
    got = tx.swap(SLOTS, jobs, Swap(_FREE, {"fence": 1}, each={"ref": [ref for _, ref in needing]}))
    if len(got) == len(needing):
        return set()
    lucky = {job for (job,) in got}
    return {(ref,) for job, ref in needing if job not in lucky}


def _take_back(tx: Transaction, homeless: set[tuple[Ref]], was: dict[str, Any], columns: Sequence[str]) -> None:
    """Leave these rows as they were found."""
    before = {name: was.get(name) for name in columns}
    back = tx.swap(OCCURRENCES, sorted(homeless), Swap({"status": _RUNNING, "sequence": 1}, before))
    assert len(back) == len(homeless), "they were changed a moment ago, and are locked"


def _ref(request: Start) -> int:
    return request.ref
