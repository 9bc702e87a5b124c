"""Faults to be put into the program, one at a time: each breaks one rule of the protocol, and must be caught.

A checker that is content proves nothing, unless it can be shown to complain. Each mutant is a context manager under
which the store, or the way to it, does something that the protocol forbids. They know nothing of the node: whatever
runs on such a store must not be able to hide it.

    no_unique_key         2, 6     a row is created although one with its name is there
    non_atomic_claim      6        what is missing is looked up first, and created in another transaction
    no_fence              9        writes are accepted whoever asks, under whatever fence
    slots_outside         7, 13    who is in a slot is looked up before the transaction that takes it
    slots_by_name         9        the end of any occurrence of a job frees the job's slot
    no_update_ids         8        a repeated write is made again
    ungated_launches      8        a launch is allowed before it is written
    late_ends             10       ends are written with a delay, as progress is
    line_not_woken        14       a slot is freed, and not handed to those who stand in line
    early_watermark       19       the watermark moves before the rows that it promises are there
    node_clock            7        what is due is decided by the clock of the one who asks
    shares_kept           13       what ends keeps its shares of limits
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec.structs import replace

from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow, SlotRow
from itinerary.model.states import FINAL, TaskState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import Change, Claimed, Refusal, Refused, Start, Started, Wanted, Written
from itinerary.simulate.backend import Backend
from itinerary.simulate.processes import PROCESS, Process
from itinerary.simulate.store import SimulatedStore
from itinerary.stores.ledger import claiming, starting, writing
from itinerary.stores.ledger.pages import Pages
from itinerary.stores.memory import MemoryTransaction
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OCCURRENCES, SLOTS, R, Table
from itinerary.stores.transaction import Transaction

__all__ = ["MUTANTS"]


@contextmanager
def _put(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Put something else in place of attributes, for a while."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


# -- claims ----------------------------------------------------------------------------------------------------------


def _add_anyway(tx: MemoryTransaction, table: Table[R], rows: Sequence[R]) -> list[R]:
    if table is not OCCURRENCES:
        return _ADD(tx, table, rows)  # type: ignore[no-any-return]  # what the original returns
    created = [tx._numbered(table, row) for row in sorted(rows, key=table.name_of)]
    for row in created:
        tx._keep(table, table.key_of(row), row)
    return created


_ADD: Final[Any] = MemoryTransaction.add


def no_unique_key() -> Any:
    return _put((MemoryTransaction, "add", _add_anyway))


def non_atomic_claim() -> Any:
    async def claim(
        self: EngineStore, owner: NodeNumber | None, revision: int | None, wanted: Sequence[Wanted]
    ) -> list[Claimed] | Refusal:
        names = [tuple(item.key) for item in wanted]
        known = await self._engine.read(lambda tx: tx.named(OCCURRENCES, names))
        missing = [item for item in wanted if tuple(item.key) not in known]

        def create(tx: Transaction) -> list[Claimed] | Refusal:
            with no_unique_key():
                created = claiming.create(tx, owner, missing)
            mine = [row for row in known.values() if row.owner == owner and row.sequence == 0]
            return [Claimed(row.ref, row.key, row.fence, row.adjustments) for row in (*created, *mine)]

        return await self._engine.write(create)

    return _put((EngineStore, "claim", claim))


# -- fences and updates ----------------------------------------------------------------------------------------------


def no_fence() -> Any:
    written: Any = writing._written
    hindered: Any = starting._Starting._hindered

    def write(pages: Pages, owner: NodeNumber, change: Change, shares: dict[str, int]) -> Written | Refused:
        row = pages.rows.get(change.ref)
        if row is not None:
            owner, change = row.owner or NodeNumber(0), replace(change, fence=row.fence)
            pages.rows[row.ref] = replace(row, owner=owner)
        return written(pages, owner, change, shares)  # type: ignore[no-any-return]  # as above

    def start(self: Any, row: OccurrenceRow, request: Start) -> Started | Refused | None:
        return hindered(self, row, replace(request, fence=None))  # type: ignore[no-any-return]  # as above

    return _put((writing, "_written", write), (starting._Starting, "_hindered", start))


def no_update_ids() -> Any:
    written: Any = writing._written

    def write(pages: Pages, owner: NodeNumber, change: Change, shares: dict[str, int]) -> Written | Refused:
        row = pages.rows.get(change.ref)
        if row is not None:
            change = replace(change, sequence=row.sequence + 1)
        return written(pages, owner, change, shares)  # type: ignore[no-any-return]  # as above

    return _put((writing, "_written", write))


# -- slots and limits ------------------------------------------------------------------------------------------------


def slots_outside() -> Any:
    start: Any = EngineStore.start

    async def looked_up(self: EngineStore, *args: Any) -> list[Started | Refused]:
        slots = await self._engine.read(lambda tx: {row.job: row for row in tx.scan(SLOTS, limit=1_000)})
        locked: Any = Pages.slots

        def old(pages: Pages, jobs: Any) -> dict[JobNumber, SlotRow]:
            found: dict[JobNumber, SlotRow] = locked(pages, jobs)
            for job, slot in slots.items():
                if job in found and job not in pages._changed_slots:
                    found[job] = replace(found[job], ref=slot.ref, fence=slot.fence)
            return found

        engine_write = self._engine.write

        async def write(work: Callable[[Transaction], Any]) -> Any:
            def with_old_slots(tx: Transaction) -> Any:
                with _put((Pages, "slots", old)):
                    return work(tx)

            return await engine_write(with_old_slots)

        self._engine.write = write  # type: ignore[method-assign]  # for this one call
        try:
            return await start(self, *args)  # type: ignore[no-any-return]  # as above
        finally:
            self._engine.write = engine_write  # type: ignore[method-assign]  # as it was

    return _put((EngineStore, "start", looked_up))


def slots_by_name() -> Any:
    def free(self: Pages) -> None:
        freed, self._freed = self._freed, {}
        slots = self.slots(sorted({self.rows[ref].job for ref in freed}))
        for ref in freed:
            slot = slots[self.rows[ref].job]
            line = self._line(slot) if slot.has_line else []
            if line:
                self.handed[ref] = line[0].ref
                self.hand_over(slot, line[0])
            else:
                self._set_slot(replace(slot, ref=None, fence=0, has_line=False))

    return _put((Pages, "_free_slots", free))


def line_not_woken() -> Any:
    def free(self: Pages) -> None:
        freed, self._freed = self._freed, {}
        slots = self.slots(sorted({self.rows[ref].job for ref in freed}))
        for ref in freed:
            slot = slots[self.rows[ref].job]
            if slot.ref == ref:
                self._set_slot(replace(slot, ref=None, fence=0))

    return _put((Pages, "_free_slots", free))


def shares_kept() -> Any:
    def keep(self: Pages, row: OccurrenceRow) -> OccurrenceRow:
        return row

    return _put((Pages, "give_back", keep))


# -- what is written when --------------------------------------------------------------------------------------------


def ungated_launches() -> Any:
    write: Any = SimulatedStore.write
    under_way: list[asyncio.Task[Any]] = []

    async def hasty(self: SimulatedStore, owner: NodeNumber, changes: Sequence[Change]) -> list[Written | Refused]:
        launches = any(attempt.status is TaskState.RUNNING for change in changes for attempt in change.attempts)
        if not launches:
            return await write(self, owner, changes)  # type: ignore[no-any-return]  # as above
        task = asyncio.ensure_future(write(self, owner, changes))
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        under_way.append(task)
        return [Written(change.ref) for change in changes]

    return _put((SimulatedStore, "write", hasty))


def late_ends() -> Any:
    write: Any = SimulatedStore.write

    async def tardy(self: SimulatedStore, owner: NodeNumber, changes: Sequence[Change]) -> list[Written | Refused]:
        if any(step.to in FINAL for change in changes for step in change.steps):
            await asyncio.sleep(1.0)
        return await write(self, owner, changes)  # type: ignore[no-any-return]  # as above

    return _put((SimulatedStore, "write", tardy))


def early_watermark() -> Any:
    advance: Any = EngineStore.advance_sweep

    async def hurried(self: EngineStore, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        answer = await advance(self, by, revision, replace(step, wanted=()))
        if not isinstance(answer, Refusal):
            await self._engine.write(lambda tx: claiming.create(tx, None, step.wanted))
        return answer  # type: ignore[no-any-return]  # as above

    return _put((EngineStore, "advance_sweep", hurried))


def node_clock() -> Any:
    """The nodes' clocks do not agree: each is ahead of the store by some minutes of its own."""
    commit: Any = Backend.commit

    def by_their_clock(
        self: Backend, work: Callable[[Transaction], Any], by: Process | None = None, request: object = None
    ) -> Any:
        if by is None and PROCESS.get() is None:
            return commit(self, work, by, request)

        def early(tx: Any) -> Any:
            tx._now += 60_000_000
            return work(tx)

        return commit(self, early, by, request)

    return _put((Backend, "commit", by_their_clock))


MUTANTS: Final[dict[str, Callable[[], Any]]] = {
    mutant.__name__: mutant
    for mutant in (
        no_unique_key,
        non_atomic_claim,
        no_fence,
        slots_outside,
        slots_by_name,
        no_update_ids,
        ungated_launches,
        late_ends,
        line_not_woken,
        early_watermark,
        node_clock,
        shares_kept,
    )
}
