"""Faults to be put into the program, one at a time: each breaks one rule of the protocol, and must be caught.

A checker that is content proves nothing, unless it can be shown to complain. Each mutant is a context manager under
which the store, or the way to it, does something that the protocol forbids. They know nothing of the node: whatever
runs on such a store must not be able to hide it.

    no_unique_key         2, 6     a row is created although one with its name is there
    non_atomic_claim      6        what is missing is looked up first, and created in another transaction
    no_fence              9        writes are accepted whoever asks, under whatever fence
    unread_rows           7, 9     a plain start is made whatever has become of the row since it was claimed
    unread_slots          7, 13    and whoever is in the job's slot
    slots_outside         7, 13    who is in a slot is looked up before the transaction that takes it
    slots_by_name         9        the end of any occurrence of a job frees the job's slot
    no_update_ids         8        a repeated write is made again
    ungated_launches      8        a launch is allowed before it is written
    late_ends             10       ends are written with a delay, as progress is
    line_not_woken        14       a slot is freed, and not handed to those who stand in line
    early_watermark       19       the watermark moves before the rows that it promises are there
    node_clock            7        what is due is decided by the clock of the one who asks
    late_ones_skipped     14       what is late is skipped for one that began after it was due
    overdue_started       17       what was claimed before a long outage starts before a sweep has decided about it
    claimed_left_alone    17, 21   a sweep recovers what has no row, and leaves what was claimed before an outage
    dead_runs_trusted     13, 16   an instant is skipped for a run whatever is known of that run's node
    shares_kept           13       what ends keeps its shares of limits
    unjudged_zones        3        new zone data is entered, and what was claimed by the old one stays
    own_zone_data         5        every node computes with the zone data that is installed on its machine
    older_zone_data       5        a node enters the zone data that it has, newer or not
    no_gate               4        nobody compares the revision that it knows with the timeline's
    same_fence            9, 15    what is taken over keeps its fence
    no_plan               19       a sweep's plan is not stored: whoever sweeps has an end of its own
    wall_clock_death      16       a node is dead when its last heartbeat is long ago by the store's clock
    old_judgements        16       work is taken from a node that was heard of after it was judged to be dead
    append_by_holder      29       an append checks who holds the lease, and not under which fence
    lease_fence_kept      29       a lease that is taken over keeps its fence
    no_giving_way         18       a node that is cut off goes on with work that others run again
    shutdown_cancels      R9       a shutdown cancels what runs and what was never called, whatever its job says
    shutdown_reruns       R9       a shutdown gives back what runs, whatever its job says

The contract tests of the stores catch those about leases as well, on every store
(`tests/contracts/stores/test_lease_mutants.py`).

They are put in where the store is put together, and not inside it: around the ledger's functions as the store calls
them, around the transaction that those are given, and around the store itself. Only the last three and those about zone
data are faults of a node: no store can keep a node from running something, or from computing by what it has.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec.structs import replace

from itinerary.core.loop import lifecycle, shutdown
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.occurrence import OccurrenceRun
from itinerary.core.loop.scheduler import Scheduler
from itinerary.core.loop.state import SchedulerState
from itinerary.core.recovery.unstarted_claims import NONE_UNSTARTED, UnstartedClaims
from itinerary.core.timeline.zone_history import ZoneBook
from itinerary.model.events import Lease
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.rows import EntryKind, JobNumber, NodeNumber, OccurrenceRow, OverlapSlotRow, Ref
from itinerary.model.states import FINAL, OccurrenceState, TaskState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.timeline import TimelineEntryRequest, UnstartedReconciler
from itinerary.model.writes import Claimed, ClaimRequest, OwnerWrite, Refusal, Refused, StartRequest, Written
from itinerary.runtime import node, sweeper
from itinerary.runtime.rescuer import Rescuer
from itinerary.schedules import ZoneData
from itinerary.stores import ledger
from itinerary.stores.ledger import bulk_start as beginning
from itinerary.stores.ledger.claim import create as created
from itinerary.stores.ledger.claim import revision_of
from itinerary.stores.ledger.overlap_owner import OverlapOwners
from itinerary.stores.ledger.unit_of_work import UnitOfWork
from itinerary.stores.memory import MemoryTransaction
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import (
    OCCURRENCES,
    OVERLAP_QUEUE,
    OVERLAP_SLOTS,
    PARTITIONS,
    SHARES,
    SWEEP,
    R,
    Table,
    Values,
)
from itinerary.stores.transaction import ConditionalUpdate, Transaction
from itinerary.testing.processes import PROCESS, Process
from tests.simulation.world.backend import Backend
from tests.simulation.world.store import SimulatedStore

__all__ = ["LEASE_MUTANTS", "MUTANTS"]

starting: Final = sys.modules["itinerary.stores.ledger.start"]
"""The module: the package has a function of the same name."""

Answers = list[Written | Refused]
_WITHOUT_SLOT: Final = FINAL | {OccurrenceState.PRERUN, OccurrenceState.QUEUED}


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


class _Wrapped:
    """A transaction that differs from the real one in what is overridden."""

    def __init__(self, tx: Transaction) -> None:
        self._tx: Any = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


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
        self: EngineStore, owner: NodeNumber | None, revision: int | None, wanted: Sequence[ClaimRequest]
    ) -> list[Claimed] | Refusal:
        names = [tuple(item.key) for item in wanted]
        known = await self._engine.read(lambda tx: tx.named(OCCURRENCES, names))
        missing = [item for item in wanted if tuple(item.key) not in known]

        def create(tx: Transaction) -> list[Claimed] | Refusal:
            with no_unique_key():
                created = ledger.claim(tx, owner, revision, missing)
            if isinstance(created, Refusal):
                return created
            mine = [row for row in known.values() if row.owner == owner and row.sequence == 0]
            return [*created, *(Claimed(row.ref, row.key, row.fence, row.adjustments) for row in mine)]

        return await self._engine.write(create)

    return _put((EngineStore, "claim", claim))


# -- fences and updates ----------------------------------------------------------------------------------------------


def _row(tx: Transaction, ref: Ref) -> OccurrenceRow | None:
    return tx.get(OCCURRENCES, [(ref,)]).get((ref,))


def no_fence() -> Any:
    write: Any = ledger.write
    start: Any = ledger.start

    def accept(tx: Transaction, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> Answers:
        answers: Answers = []
        for change in changes:
            row = _row(tx, change.ref)
            if row is None:
                answers += write(tx, owner, [change])
            else:
                answers += write(tx, row.owner, [replace(change, fence=row.fence)])
        return answers

    def begin(tx: Transaction, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], *rest: Any) -> Any:
        return start(tx, owner, revision, [replace(request, fence=None) for request in starts], *rest)

    return _put((ledger, "write", accept), (ledger, "start", begin))


def no_update_ids() -> Any:
    write: Any = ledger.write

    def again(tx: Transaction, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> Answers:
        answers: Answers = []
        for change in changes:
            row = _row(tx, change.ref)
            answers += write(tx, owner, [change if row is None else replace(change, sequence=row.sequence + 1)])
        return answers

    return _put((ledger, "write", again))


def _without_looking(blind: Table[Any]) -> Any:
    """Rows of a table are changed as they should be, whatever they are."""
    swap: Any = MemoryTransaction.swap

    def blindly(
        tx: MemoryTransaction, table: Table[Any], keys: Sequence[Values], change: ConditionalUpdate
    ) -> Sequence[Values]:
        if table is blind:
            change = ConditionalUpdate({}, change.becomes, up_to=change.up_to, each=change.each)
        return swap(tx, table, keys, change)  # type: ignore[no-any-return]  # what the original returns

    return _put((MemoryTransaction, "swap", blindly))


def unread_rows() -> Any:
    return _without_looking(OCCURRENCES)


def unread_slots() -> Any:
    fits: Any = beginning._fits

    def fits_anyway(request: StartRequest, slot: OverlapSlotRow | None) -> bool:
        return fits(request, None if slot is None else replace(slot, ref=None, has_queue=False))  # type: ignore[no-any-return]  # what the original returns

    @contextmanager
    def mutant() -> Iterator[None]:
        with _without_looking(OVERLAP_SLOTS), _put((beginning, "_fits", fits_anyway)):
            yield

    return mutant()


# -- slots and limits ------------------------------------------------------------------------------------------------


class _OldSlots(_Wrapped):
    """A transaction in which slots are held by who held them some time ago."""

    def __init__(self, tx: Transaction, old: dict[JobNumber, OverlapSlotRow]) -> None:
        super().__init__(tx)
        self._old = old

    def lock(self, table: Table[Any], keys: Collection[Values]) -> dict[Values, Any]:
        rows: dict[Values, Any] = self._tx.lock(table, keys)
        if table is not OVERLAP_SLOTS:
            return rows
        return {
            key: replace(row, ref=self._old[row.job].ref, fence=self._old[row.job].fence) for key, row in rows.items()
        }


def slots_outside() -> Any:
    start: Any = EngineStore.start
    begin: Any = ledger.start
    looked_up: dict[tuple[NodeNumber, Ref], dict[JobNumber, OverlapSlotRow]] = {}

    async def look_first(
        self: EngineStore, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], *rest: Any
    ) -> Any:
        slots = await self._engine.read(lambda tx: {row.job: row for row in tx.scan(OVERLAP_SLOTS, limit=1_000)})
        looked_up.update({(owner, request.ref): slots for request in starts})
        return await start(self, owner, revision, starts, *rest)

    def with_old(tx: Transaction, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], *rest: Any) -> Any:
        old = _OldSlots(tx, looked_up[owner, starts[0].ref]) if starts else tx
        return begin(old, owner, revision, starts, *rest)

    return _put((EngineStore, "start", look_first), (ledger, "start", with_old))


class _Ends(_Wrapped):
    """A transaction that notes what ends in it, and who is in the slots of that."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._in_the_slot: dict[JobNumber, Ref | None] = {}

    def save(self, table: Table[Any], rows: Sequence[Any], columns: Collection[str]) -> None:
        if table is OCCURRENCES:
            before = self._tx.get(OCCURRENCES, [(row.ref,) for row in rows])
            for row in rows:
                if row.status in FINAL and before[row.ref,].status not in _WITHOUT_SLOT:
                    self._in_the_slot[row.job] = self._tx.get(OVERLAP_SLOTS, [(row.job,)])[row.job,].ref
        self._tx.save(table, rows, columns)

    def free(self) -> None:
        """Free the slots, if those who were in them still are: they have not ended themselves, then."""
        slots = self._tx.lock(OVERLAP_SLOTS, [(job,) for job in self._in_the_slot]).values()
        others = [slot for slot in slots if slot.ref is not None and slot.ref == self._in_the_slot[slot.job]]
        running = [
            slot for slot in others if self._tx.get(OCCURRENCES, [(slot.ref,)])[slot.ref,].started_at is not None
        ]
        self._tx.save(OVERLAP_SLOTS, [replace(slot, ref=None, fence=0) for slot in running], ("ref", "fence"))


def slots_by_name() -> Any:
    def freeing(name: str) -> tuple[Any, str, Any]:
        work: Any = getattr(ledger, name)

        def act(tx: Transaction, *args: Any) -> Any:
            ends = _Ends(tx)
            answers = work(ends, *args)
            ends.free()
            return answers

        return ledger, name, act

    return _put(*map(freeing, ("write", "intervene", "control", "start")))


class _NobodyInLine(_Wrapped):
    """A transaction in which nobody is found who stands in line."""

    def scan(self, table: Table[Any], *args: Any, **bounds: Any) -> list[Any]:
        return [] if table is OVERLAP_QUEUE else self._tx.scan(table, *args, **bounds)


def line_not_woken() -> Any:
    write: Any = ledger.write
    intervene: Any = ledger.intervene

    def ended(tx: Transaction, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> Answers:
        return write(_NobodyInLine(tx), owner, changes)  # type: ignore[no-any-return]  # what the original returns

    def taken(tx: Transaction, by: NodeNumber, items: Sequence[Any]) -> Answers:
        return intervene(_NobodyInLine(tx), by, items)  # type: ignore[no-any-return]  # what the original returns

    return _put((ledger, "write", ended), (ledger, "intervene", taken))


def late_ones_skipped() -> Any:
    start: Any = ledger.start

    def begin(tx: Transaction, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], *rest: Any) -> Any:
        return start(tx, owner, revision, [replace(request, late_until=0) for request in starts], *rest)

    return _put((ledger, "start", begin))


def overdue_started() -> Any:
    def never(*_: Any) -> bool:
        return False

    return _put((starting, "is_for_the_sweep", never))


def claimed_left_alone() -> Any:
    def none(*_: Any, **__: Any) -> UnstartedClaims:
        return NONE_UNSTARTED

    return _put((sweeper, "unstarted", none))


def shares_kept() -> Any:
    remove: Any = MemoryTransaction.remove

    def keep(tx: MemoryTransaction, table: Table[Any], prefixes: Iterable[Values]) -> None:
        if table is not SHARES:
            remove(tx, table, prefixes)

    return _put((MemoryTransaction, "remove", keep))


def unjudged_zones() -> Any:
    amend: Any = ledger.amend

    def amends(tx: Transaction, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None) -> Any:
        return amend(tx, entries, None if entries[0].kind is EntryKind.ZONE else judge)

    return _put((ledger, "amend", amends))


def own_zone_data() -> Any:
    table: Any = ZoneBook.table
    installed: dict[Process | None, ZoneData] = {}

    async def only_remembers(_store: object, _clock: object, _builder: object, data: ZoneData, **_: Any) -> None:
        installed[PROCESS.get()] = data

    def of_machine(self: ZoneBook, name: str, instant: int) -> Any:
        data = installed.get(PROCESS.get())
        return table(self, name, instant) if data is None else data.zone(name)

    return _put((node, "bring_zone_data", only_remembers), (ZoneBook, "table", of_machine))


def older_zone_data() -> Any:
    def always(self: ZoneData, release: str) -> bool:
        return True

    return _put((ZoneData, "is_newer_than", always))


def no_gate() -> Any:
    claim: Any = ledger.claim
    start: Any = ledger.start
    advance: Any = ledger.advance_sweep

    def claims(tx: Transaction, owner: NodeNumber | None, _revision: int | None, *rest: Any) -> Any:
        return claim(tx, owner, None, *rest)

    def starts(tx: Transaction, owner: NodeNumber, _revision: int, *rest: Any) -> Any:
        return start(tx, owner, revision_of(tx), *rest)

    def sweeps(tx: Transaction, by: NodeNumber, _revision: int, *rest: Any) -> Any:
        return advance(tx, by, revision_of(tx), *rest)

    return _put((ledger, "claim", claims), (ledger, "start", starts), (ledger, "advance_sweep", sweeps))


def same_fence() -> Any:
    def take_over(self: UnitOfWork, row: OccurrenceRow, owner: NodeNumber | None = None) -> OccurrenceRow:
        return self.change(row, owner=owner, touched_by=self.by)

    return _put((UnitOfWork, "take_over", take_over))


# -- what is written when --------------------------------------------------------------------------------------------


def ungated_launches() -> Any:
    write: Any = SimulatedStore.write
    under_way: list[asyncio.Task[Any]] = []

    async def hasty(self: SimulatedStore, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> Answers:
        launches = any(attempt.status is TaskState.RUNNING for change in changes for attempt in change.attempts)
        if not launches:
            return await write(self, owner, changes)  # type: ignore[no-any-return]  # what the original returns
        task = asyncio.ensure_future(write(self, owner, changes))
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        under_way.append(task)
        return [Written(change.ref) for change in changes]

    return _put((SimulatedStore, "write", hasty))


def late_ends() -> Any:
    write: Any = SimulatedStore.write

    async def tardy(self: SimulatedStore, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> Answers:
        if any(step.to in FINAL for change in changes for step in change.steps):
            await asyncio.sleep(1.0)
        return await write(self, owner, changes)  # type: ignore[no-any-return]  # what the original returns

    return _put((SimulatedStore, "write", tardy))


def early_watermark() -> Any:
    advance: Any = EngineStore.advance_sweep

    async def hurried(self: EngineStore, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        answer = await advance(self, by, revision, replace(step, wanted=()))
        if not isinstance(answer, Refusal):
            await self._engine.write(lambda tx: ledger.claim(tx, None, None, step.wanted))
        return answer  # type: ignore[no-any-return]  # what the original returns

    return _put((EngineStore, "advance_sweep", hurried))


def no_plan() -> Any:
    """Everybody has a plan of their own, from the watermark to what they take for the present."""

    def begin(tx: Transaction, by: NodeNumber, end: int, seize: int | None) -> SweepPlan | None:
        tx.gate()
        row = tx.get(SWEEP, [(0,)])[0,]
        end = min(end, tx.now())
        return None if end <= row.watermark else SweepPlan(row.watermark, end, "", 0, by, end)

    def advance(tx: Transaction, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        tx.gate()
        created(tx, None, step.wanted)
        row = tx.lock(SWEEP, [(0,)])[0,]
        if step.is_last:
            tx.save(SWEEP, [replace(row, watermark=max(row.watermark, step.fence))], ("watermark",))
            return None
        return SweepPlan(row.watermark, step.fence, step.cursor, step.step, by, step.fence)

    return _put((ledger, "begin_sweep", begin), (ledger, "advance_sweep", advance))


def wall_clock_death() -> Any:
    handle: Any = Rescuer.handle

    def impatient(self: Rescuer, beat: HeartbeatReply, **rest: Any) -> Any:
        silent = [row for row in beat.nodes if row.left_at is None and beat.now - row.beat_at >= self._timeout]
        self._dead.update({row.number: row for row in silent if row.number != self._node})
        return handle(self, beat, **rest)

    return _put((Rescuer, "handle", impatient))


def old_judgements() -> Any:
    intervene: Any = ledger.intervene

    def taken(tx: Transaction, by: NodeNumber, items: Sequence[Any]) -> Answers:
        return intervene(tx, by, [replace(item, dead_since=None) for item in items])  # type: ignore[no-any-return]  # as it is

    return _put((ledger, "intervene", taken))


def dead_runs_trusted() -> Any:
    def none(self: OverlapOwners, holder: OccurrenceRow, due_at: int) -> None:
        """Whatever a row says is believed."""

    return _put((OverlapOwners, "doubt", none))


def append_by_holder() -> Any:
    append: Any = ledger.append_events

    def appends(tx: Transaction, stream: str, partition: str, events: Sequence[Any], lease: Lease | None) -> Any:
        row = tx.get(PARTITIONS, [(stream, partition)]).get((stream, partition))
        if lease is not None and row is not None and row.holder == lease.holder:
            lease = replace(lease, fence=row.fence)
        return append(tx, stream, partition, events, lease)

    return _put((ledger, "append_events", appends))


class _SameFence(_Wrapped):
    """A transaction in which a lease that is taken keeps the fence that it had."""

    def save(self, table: Table[Any], rows: Sequence[Any], columns: Collection[str]) -> None:
        if table is PARTITIONS:
            before = self._tx.get(PARTITIONS, [(row.stream, row.partition) for row in rows])
            rows = [replace(row, fence=max(before[row.stream, row.partition].fence, 1)) for row in rows]
        self._tx.save(table, rows, columns)


def lease_fence_kept() -> Any:
    lease: Any = ledger.lease_partitions

    def leases(tx: Transaction, *args: Any) -> Any:
        given = lease(_SameFence(tx), *args)
        rows = tx.get(PARTITIONS, [(args[1], one.partition) for one in given])
        return [replace(one, fence=rows[args[1], one.partition].fence) for one in given]

    return _put((ledger, "lease_partitions", leases))


def node_clock() -> Any:
    """The nodes' clocks do not agree with the store's: each is ahead of it by a minute."""
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


def no_giving_way() -> Any:
    def goes_on(self: Scheduler, silent_for: int, now: int, out: CommandBatch) -> None:
        """It has not been heard for a while, and does not care."""

    return _put((Scheduler, "_give_way", goes_on))


def shutdown_cancels() -> Any:
    def cancels(scheduler: SchedulerState, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        lifecycle.close(run, scheduler.shutdown_closing(), now, out)

    return _put((shutdown, "_conclude", cancels))


def shutdown_reruns() -> Any:
    conclude: Any = shutdown._conclude

    def reruns(scheduler: SchedulerState, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        if run.interruption is not None:
            run.interruption.has_run = False
        conclude(scheduler, run, now, out)

    return _put((shutdown, "_conclude", reruns))


LEASE_MUTANTS: Final[dict[str, Callable[[], Any]]] = {
    mutant.__name__: mutant for mutant in (append_by_holder, lease_fence_kept)
}
"""Faults about records and their leases: see `tests/contracts/stores/test_lease_mutants.py`."""

MUTANTS: Final[dict[str, Callable[[], Any]]] = {
    mutant.__name__: mutant
    for mutant in (
        no_unique_key,
        non_atomic_claim,
        no_fence,
        unread_rows,
        unread_slots,
        slots_outside,
        slots_by_name,
        no_update_ids,
        ungated_launches,
        late_ends,
        line_not_woken,
        early_watermark,
        node_clock,
        late_ones_skipped,
        overdue_started,
        claimed_left_alone,
        dead_runs_trusted,
        shares_kept,
        unjudged_zones,
        own_zone_data,
        older_zone_data,
        no_gate,
        same_fence,
        no_plan,
        wall_clock_death,
        old_judgements,
        append_by_holder,
        lease_fence_kept,
        no_giving_way,
        shutdown_cancels,
        shutdown_reruns,
    )
}
