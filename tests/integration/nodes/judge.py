"""The judge of a storm: each row of the store, and what `explain` says of it, against what the tasks wrote down.

    the store says            the tasks must have written
    completed                 a begin and an end of its last attempt
    orphaned                  nothing, or a begin; its node was in trouble before the row ended
    skipped for a run         that run was on record as running, or had been called, at the skipped instant; later than
                              the grace period, when the skip was decided (X6). `explain` says which of these, and
                              whether its task had ended already
    anything else final       nothing of the kind happens in a storm: it is untrue
    not final                 nothing, and it was not due long before the nodes were asked to end: else it is stuck

`explain` is asked about each occurrence that did not complete, and about some of those that ran late. A cause that it
names must be a trouble that there was: no node, a store that did not answer, a node that was stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from itinerary.explain import Cause, Explanation, explain_occurrence
from itinerary.model.queries import CreatedQuery, DetailsQuery, JobsQuery, NodesQuery, StoreStatusQuery
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import read_timeline
from tests.integration.nodes.evidence import Begun, Try

__all__ = ["Judgement", "Trouble", "judge"]

_S = OccurrenceState
_LATE: Final = 2 * SECOND
_LATE_ASKED_MAX: Final = 300
"""So many late ones are explained, spread over all of them."""
_NOTICED: Final = 0.5
"""Seconds in which a node notices that a task has ended, on a busy machine."""
_AFTERMATH: Final = 60.0
"""Seconds after a trouble in which its consequences may still be decided."""
_OF_PROCESS: Final = frozenset({"kill", "freeze", "terminate", "silence"})
_OF_STORE: Final = frozenset(
    {"cut", "drop", "stall", "half_open", "delay", "commit", "silence", "backends", "restart", "freeze"}
)
"""Troubles in which the store does not answer a node, or answers late; a frozen node does not hear the answer."""


class Trouble(NamedTuple):
    """A trouble of one node, or of all."""

    kind: str
    node: str | None
    start: float
    end: float


class Judgement(NamedTuple):
    """What the store says that is not so."""

    states: Counter[str]
    untrue: list[str]
    """Sentences that name the row."""
    causes: Counter[str]
    """What `explain` named, and how often."""
    doubled: list[Try]
    """Attempts that began more than once."""
    unknown: list[Begun]
    """Attempts that began and have no row."""


class _Judge:
    def __init__(
        self,
        names: Mapping[JobNumber, str],
        nodes: Mapping[NodeNumber, str],
        begun: Sequence[Begun],
        ends: Mapping[Try, float],
        troubles: Sequence[Trouble],
        rows: Mapping[Ref, OccurrenceRow],
        called_at: Mapping[Ref, float],
        *,
        calm_at: float,
        late_for: float,
    ) -> None:
        self._names, self._nodes, self._ends, self._troubles = names, nodes, ends, troubles
        self._called_at, self._calm_at, self._late_for = called_at, calm_at, late_for
        self.begun: dict[tuple[str, int], list[Begun]] = {}
        for one in begun:
            self.begun.setdefault((one.job, one.instant), []).append(one)
        self._rows = rows
        self.untrue: list[str] = []

    def look(self, row: OccurrenceRow) -> None:
        """Compare one row with what the tasks wrote."""
        tries = self._tries(row)
        if row.status not in FINAL:
            if row.due_at / SECOND < self._calm_at:
                self._complain(row, f"is {row.status.value} although the nodes had time to end it")
        elif row.status is _S.COMPLETED:
            if not any(one.which in self._ends for one in tries):
                self._complain(row, "is completed, and no attempt wrote that it ended")
        elif row.status is _S.ORPHANED:
            ended_at = (row.ended_at or 0) / SECOND
            began_at = (row.started_at or row.due_at) / SECOND
            named = [name for name in self._nodes.values() if f"node {name} " in (row.reason or "")]
            whose = [(one.node, one.at) for one in tries] or [(name, began_at) for name in named]
            if not any(self._was_in_trouble(node, at, ended_at) for node, at in whose):
                self._complain(row, f"is orphaned, and its node was in no trouble: {row.reason}")
        elif row.status is _S.SKIPPED:
            self._look_at_skip(row)
        else:
            self._complain(row, f"is {row.status.value}: {row.reason}")

    def _look_at_skip(self, row: OccurrenceRow) -> None:
        named = read_reason(row.reason or "")
        if named is None or named.kind is not ReasonKind.OVERLAPS or named.ref is None or named.ref not in self._rows:
            self._complain(row, f"is skipped: {row.reason}")
            return
        other = self._rows[named.ref]
        decided_at, due_at = (row.ended_at or 0) / SECOND, row.due_at / SECOND
        got_slot_at = self._called_at.get(other.ref, (other.started_at or row.ended_at or 0) / SECOND)
        late_by = decided_at - due_at
        if got_slot_at > due_at and late_by <= self._late_for:
            self._complain(
                row, f"is skipped {late_by:.3f} s late for {self._shown(other)}, which got the slot after it"
            )
        if other.ended_at is None or other.ended_at >= row.due_at:
            return  # it was on record as running: `listen` sees to it that no more than that is said
        ran = [f"{one.node} {one.at:.3f} to {self._ends.get(one.which, 0):.3f}" for one in self._tries(other)]
        known = f"decided {decided_at:.3f}, the other is {other.status.value}, {other.started_at} to {other.ended_at}"
        self._complain(row, f"is skipped for {self._shown(other)}, which ran {ran}; {known}")

    def listen(self, row: OccurrenceRow, said: Explanation) -> None:
        """Compare what `explain` says of a row with the troubles that there were."""
        due_at, end = row.due_at / SECOND, (row.started_at or row.ended_at or row.due_at) / SECOND
        if said.cause is Cause.NO_NODE and not self._was_alone(due_at, end):
            self._complain(row, f"explain: {said.verdict} But a node was up.")
        elif said.cause is Cause.STORE_AWAY and not self._has(_OF_STORE, due_at, end):
            self._complain(row, f"explain: {said.verdict} But every node could reach the store.")
        elif said.cause is Cause.ORPHANED and row.status is not _S.ORPHANED:
            self._complain(row, f"explain: {said.verdict} But it is {row.status.value}.")
        elif said.cause is Cause.OVERLAPPED and (claim := self._claim(row)) not in said.verdict:
            self._complain(row, f"explain: {said.verdict} But it {claim}.")
        elif " died" in said.verdict.replace("had not died", "") and not self._has(
            frozenset({"kill"}), due_at, (row.ended_at or 0) / SECOND
        ):
            self._complain(row, f"explain: {said.verdict} But no node was killed.")

    def _claim(self, row: OccurrenceRow) -> str:
        """What `explain` must say of the run that one was skipped for, by what its task wrote down."""
        other = self._other(row)
        if other is None:
            return "overlaps"
        if other.started_at is None or other.started_at > (row.ended_at or 0):
            return "had not begun yet"
        if other.started_at > row.due_at:
            return "was running when this one could start"
        ends = [self._ends.get(one.which) for one in self._tries(other)]
        had_ended = bool(ends) and all(end is not None and end < row.due_at / SECOND - _NOTICED for end in ends)
        return "was on record as running" if had_ended else "running"

    def _other(self, row: OccurrenceRow) -> OccurrenceRow | None:
        named = read_reason(row.reason or "")
        return None if named is None or named.ref is None else self._rows.get(named.ref)

    def _tries(self, row: OccurrenceRow) -> list[Begun]:
        return self.begun.get((self._names[row.job], row.instant), [])

    def _was_in_trouble(self, node: str, start: float, end: float) -> bool:
        return any(
            trouble.node in (None, node) and trouble.start <= end and trouble.end + _AFTERMATH >= start
            for trouble in self._troubles
        )

    def _has(self, kinds: frozenset[str], start: float, end: float) -> bool:
        return any(
            trouble.kind in kinds and trouble.start <= end and trouble.end + _AFTERMATH >= start
            for trouble in self._troubles
        )

    def _was_alone(self, start: float, end: float) -> bool:
        """True if each node was in some trouble at one moment of this time."""
        names = set(self._nodes.values())
        troubled = {
            trouble.node for trouble in self._troubles if trouble.start <= end and trouble.end + _AFTERMATH >= start
        }
        return None in troubled or names <= troubled

    def _complain(self, row: OccurrenceRow, what: str) -> None:
        self.untrue.append(f"{self._shown(row)} {what}")

    def _shown(self, row: OccurrenceRow) -> str:
        return f"{self._names[row.job]}:{row.instant // SECOND}"


async def judge(
    store: Store,
    begun: Sequence[Begun],
    ends: Mapping[Try, float],
    troubles: Sequence[Trouble],
    *,
    calm_at: float,
    late_for: float,
) -> Judgement:
    """Compare everything that a store says with what the tasks wrote.

    What was due before `calm_at` must have ended: the nodes had the time for it. Within `late_for` an instant is merely
    late.
    """
    timeline, status = await read_timeline(store.read), await store.read(StoreStatusQuery())
    names = {job.number: job.name for job in await store.read(JobsQuery(limit=1_000_000))}
    nodes = {node.number: node.name for node in await store.read(NodesQuery())}
    rows = await _all_rows(store)
    court = _Judge(
        names, nodes, begun, ends, troubles, rows, await _called_at(store, rows), calm_at=calm_at, late_for=late_for
    )
    for row in rows.values():
        court.look(row)
    causes: Counter[str] = Counter()
    for row in _to_explain(rows.values()):
        said = await explain_occurrence(store, timeline, status, row)
        causes[said.cause.value] += 1
        court.listen(row, said)
    decided = {(names[row.job], row.instant) for row in rows.values()}
    counted = Counter(one.which for one in begun)
    return Judgement(
        states=Counter(row.status.value for row in rows.values()),
        untrue=court.untrue,
        causes=causes,
        doubled=[which for which, count in counted.items() if count > 1],
        unknown=[one for one in begun if (one.job, one.instant) not in decided],
    )


def _to_explain(rows: Iterable[OccurrenceRow]) -> Iterable[OccurrenceRow]:
    late = list[OccurrenceRow]()
    for row in rows:
        if row.status in FINAL and row.status is not _S.COMPLETED:
            yield row
        elif row.status is _S.COMPLETED and (row.started_at or 0) - row.due_at > _LATE:
            late.append(row)
    yield from late[:: max(1, len(late) // _LATE_ASKED_MAX)]


async def _called_at(store: Store, rows: Mapping[Ref, OccurrenceRow]) -> dict[Ref, float]:
    """When the runs that others were skipped for were handed the slot, of those that queued for it."""
    reasons = [read_reason(row.reason or "") for row in rows.values() if row.status is _S.SKIPPED]
    refs = sorted({reason.ref for reason in reasons if reason is not None and reason.ref is not None})
    called: dict[Ref, float] = {}
    for detail in await store.read(DetailsQuery(tuple(refs))) if refs else ():
        turns = [line.at / SECOND for line in detail.transitions if (line.why or "").startswith("its turn has come")]
        if turns:
            called[detail.row.ref] = turns[-1]
    return called


async def _all_rows(store: Store) -> dict[Ref, OccurrenceRow]:
    rows: dict[Ref, OccurrenceRow] = {}
    after = Ref(0)
    while page := await store.read(CreatedQuery(after)):
        rows |= {row.ref: row for row in page}
        after = max(rows)
    return rows
