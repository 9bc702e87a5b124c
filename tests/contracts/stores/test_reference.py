"""Any sequence of operations gives the same answers on a store and on the memory reference, and leaves the same rows.

Hypothesis makes the sequences: claims, starts, writes, interventions, requests of people, updates, sweeps, events and
forgetting, right and wrong, once and repeated. Both stores are asked the same, each by its own numbers; then all that
they hold is compared, and checked against what must be true of any store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.model.events import NewEvent
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap
from itinerary.model.queries import ByRef, History, Standing
from itinerary.model.retention import PruneCursor, Retention
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, OccurrenceRow, Ref, TaskRow
from itinerary.model.states import FINAL, TRANSITIONS, OccurrenceState, TaskState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.timeline import NewEntry, Verdict, VerdictKind
from itinerary.model.writes import Adjustment, Cancellation, Change, Intervention, Limit, Start, Step, Wanted
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.base import Engine, T, Work
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ALL
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.dump import dump, without_times

NODES, JOBS, INSTANTS = 3, 3, 6
BASE = 1_700_000_000 * SECOND
HOUR = 3600 * SECOND
FAR = 7_000_000_000 * SECOND


class World:
    """One store, and the numbers that it has given out, so that an operation can be told without them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = EngineStore(engine)
        self.nodes: list[NodeNumber] = []
        self.jobs: list[JobNumber] = []
        self.refs: list[Ref] = []
        self.keys: dict[Ref, Key] = {}
        self.leases: list[Any] = []
        self.cursor: PruneCursor | None = PruneCursor()
        self.plan: SweepPlan | None = None
        self.updates = 0
        self.versions = [1] * JOBS

    async def begin(self) -> None:
        """Leave nothing in the store that is open: one database serves many sequences."""
        await self.engine.write(_emptied)
        await self.engine.write(ledger.prepare)
        self.nodes = [await self.store.join(f"incarnation {number}", "node", "{}") for number in range(NODES)]
        entered = await self.store.amend([_version(f"job {number}", "first", 0) for number in range(JOBS)])
        self.jobs = [one.job for one in entered if not isinstance(one.job, str)]
        everything = [(job, instant, Kind.SCHEDULED, True, "prerun") for job in range(JOBS) for instant in range(3)]
        await claim(self, node=0, items=everything, is_stale=False)

    async def row(self, number: int, fits: Callable[[OccurrenceRow], bool] = lambda _: True) -> OccurrenceRow | None:
        """One of the occurrences that there have been: if possible one that fits."""
        rows = list((await self.store.read(ByRef(tuple(self.refs)))).values())
        some = [row for row in rows if number % 5 and fits(row)] or rows
        return some[number % len(some)] if some else None

    async def revision(self, *, is_stale: bool) -> int:
        return (await self.store.read(Standing())).revision - is_stale

    def shown(self, answer: Any) -> Any:
        """An answer as both stores must give it: by keys in place of numbers, and without times."""
        match answer:
            case list() | tuple():
                return [self.shown(one) for one in answer]
            case msgspec.Struct():
                values = without_times(msgspec.structs.asdict(answer))
                for name in ("ref", "next"):
                    if values.get(name) is not None:
                        values[name] = self.refs.index(values[name])
                values.pop("by", None)  # it names numbers
                if "key" in values:
                    values["key"] = values["key"]._replace(job=self.jobs.index(values["key"].job))
                return type(answer).__name__, {name: self.shown(value) for name, value in values.items()}
            case _:
                return answer


Operation = Callable[[World], Awaitable[Any]]


def _emptied(tx: Transaction) -> None:
    for table in ALL:
        tx.remove(table, [()])


def _version(job: str, request: str, from_version: int) -> NewEntry:
    return NewEntry(job=job, kind=EntryKind.VERSION, request=request, by="anna", from_version=from_version, body="{}")


# -- what may be asked -----------------------------------------------------------------------------------------------


async def claim(
    world: World, *, node: int | None, items: Sequence[tuple[int, int, Kind, bool, str]], is_stale: bool
) -> Any:
    owner = None if node is None else world.nodes[node]
    wanted = []
    for job, instant, kind, is_due, status in items:
        key = Key(BASE + instant * SECOND, world.jobs[job], kind, "r" if kind is Kind.TRIGGER else "")
        state = OccurrenceState(status)
        window = Window(key.instant, key.instant + HOUR, 60) if state in FINAL else None
        wanted.append(Wanted(key, 1, key.instant if is_due else FAR, state, window=window))
    answer = await world.store.claim(owner, await world.revision(is_stale=is_stale), wanted)
    if isinstance(answer, list):
        for one in sorted(answer, key=lambda one: one.key):
            if one.ref not in world.keys:
                world.keys[one.ref] = one.key
                world.refs.append(one.ref)
        answer = sorted(answer, key=lambda one: one.key)
    return answer


async def start(
    world: World, *, node: int | None, which: Sequence[int], takes: str, overlap: Overlap, limits: int, overdue: bool
) -> Any:
    rows = [row for number in which if (row := await world.row(number, _is_unstarted)) is not None]
    if not rows:
        return None
    by = (rows[0].owner or world.nodes[0]) if node is None else world.nodes[node]
    fences: dict[str, Callable[[OccurrenceRow], int | None]] = {
        "right": lambda row: row.fence if row.owner == by else None,
        "any": lambda _: None,
        "stale": lambda row: row.fence - 1,
    }
    fence = fences[takes]
    starts = [
        Start(
            row.ref,
            fence(row),
            row.adjustments,
            "{}",
            HOUR,
            overlap,
            max_queued=2,
            limits=tuple(Limit(f"limit {number}", 1) for number in range(limits)),
            attempts=(AttemptRow(row.ref, 0, 1, TaskState.RUNNING, 1),),
        )
        for row in {row.ref: row for row in rows}.values()
    ]
    revision = await world.revision(is_stale=False)
    return await world.store.start(by, revision, starts, 0 if overdue else FAR)


async def write(
    world: World,
    *,
    which: int,
    by: int | None,
    to: str | int | None,
    fence: int,
    sequence: int,
    gives_back: bool,
    takes: bool,
) -> Any:
    row = await world.row(which, _is_running)
    if row is None:
        return None
    launch = AttemptRow(row.ref, 0, 2, TaskState.RUNNING, 1, error="none\0")
    change = Change(
        row.ref,
        row.fence + fence,
        row.sequence + 1 + sequence,
        steps=_steps(row, to),
        tasks=(TaskRow(row.ref, 0, "main", TaskState.RUNNING),),
        attempts=(launch,) if row.started_at is not None or which == 1 else (),
        takes=(Limit("limit 0", 1),) if takes and row.holds is None else (),
        gives_back=gives_back,
    )
    owner = (row.owner or world.nodes[0]) if by is None else world.nodes[by]
    return await world.store.write(owner, [change])


def _is_running(row: OccurrenceRow) -> bool:
    return row.started_at is not None and row.status not in FINAL


def _is_unstarted(row: OccurrenceRow) -> bool:
    return row.started_at is None and row.status not in FINAL


def _steps(row: OccurrenceRow, to: str | int | None) -> tuple[Step, ...]:
    """A step to a state, or one of those that the table allows."""
    if isinstance(to, int):
        allowed = sorted(TRANSITIONS[row.status])
        to = allowed[to % len(allowed)] if allowed else None
    return () if to is None else (Step(OccurrenceState(to), why="so it was"),)


async def intervene(world: World, *, which: int, by: int, to: str | None, fence: int, keeps: bool) -> Any:
    row = await world.row(which)
    if row is None:
        return None
    state = None if to is None else OccurrenceState(to)
    owner = world.nodes[by] if keeps else None
    item = Intervention(row.ref, row.fence + fence, state, "it was silent", owner=owner, gives_back=keeps)
    return await world.store.intervene(world.nodes[by], [item])


async def ask(world: World, *, which: int, adjusts: bool) -> Any:
    row = await world.row(which)
    if row is None:
        return None
    request = Adjustment(row.ref, '{"priority":1}') if adjusts else Cancellation(row.ref, "anna")
    return await world.store.control(None, [request])


async def update(world: World, *, job: int, repeats: bool, is_stale: bool, verdict: VerdictKind) -> Any:
    world.updates += not repeats

    def judge(rows: Sequence[OccurrenceRow]) -> list[Verdict]:
        return [Verdict(row.ref, verdict, 1, "an update") for row in rows if row.instant % (2 * SECOND) == 0]

    version = world.versions[job] - is_stale
    entered = await world.store.amend([_version(f"job {job}", f"update {world.updates}", version)], judge)
    world.versions[job] = max(world.versions[job], *(one.version for one in entered))
    return [type(one).__name__ for one in entered], [one.version for one in entered]


async def sweep(world: World, *, node: int, seizes: bool, is_last: bool, items: Sequence[tuple[int, int]]) -> Any:
    by, now = world.nodes[node], (await world.store.read(Standing())).now
    seen = world.plan
    plan = await world.store.begin_sweep(by, now, seen.fence if seizes and seen is not None else None)
    world.plan = plan
    if plan is None:
        return None
    wanted = tuple(
        Wanted(Key(BASE + instant * SECOND, world.jobs[job], Kind.SCHEDULED), 1, BASE) for job, instant in items
    )
    step = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="here", wanted=wanted, is_last=is_last)
    answer = await world.store.advance_sweep(by, await world.revision(is_stale=False), step)
    return (world.nodes.index(plan.owner), plan.fence, plan.step), answer if answer is None or isinstance(
        answer, str
    ) else answer.step


async def append(world: World, *, causes: Sequence[int], partition: int, leased: int | None) -> Any:
    lease = world.leases[leased % len(world.leases)] if leased is not None and world.leases else None
    events = [NewEvent(kind="Made", record=f"{cause}", cause=f"cause {cause}") for cause in causes]
    return await world.store.append("stream", f"part {partition}", events, lease)


async def lease(world: World, *, node: int, partitions: Sequence[int], lease_for: int) -> Any:
    names = {f"part {number}" for number in partitions}
    got = await world.store.lease(world.nodes[node], "stream", names, lease_for)
    world.leases += sorted(got, key=lambda one: one.partition)
    return [(one.partition, one.fence) for one in sorted(got, key=lambda one: one.partition)]


async def forget(world: World, *, keep_max: int) -> Any:
    rules = Retention(keep_for=0, keep_failed_for=0, keep_max=keep_max, margin=0)
    step = await world.store.prune(rules, world.cursor or PruneCursor())
    world.cursor = step.next
    return step.removed


async def look(world: World, *, job: int, limit: int) -> Any:
    page = await world.store.read(History(world.jobs[job], limit=limit))
    return [(row.instant, row.kind, row.status, row.fence, row.sequence) for row in page.rows], page.next


# -- at random -------------------------------------------------------------------------------------------------------

number = st.integers(0, 30)
node = st.integers(0, NODES - 1)
job = st.integers(0, JOBS - 1)
instant = st.integers(0, INSTANTS - 1)
maybe = st.booleans()
rarely = st.sampled_from([False] * 7 + [True])


def _called(operation: Callable[..., Awaitable[Any]], **values: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
    return st.fixed_dictionaries(values).map(lambda given: partial(operation, **given))


kinds = st.sampled_from([Kind.SCHEDULED] * 4 + [Kind.TRIGGER, Kind.BACKFILL])
created_as = st.sampled_from(["prerun"] * 6 + ["skipped", "missed"])
ended_as = [
    None, "pending", "running", "retrying", "terminating", "completed", "completed", "completed_with_errors", "failed",
    "cancelled", "skipped", "missed", "condition_pending", "condition_running", "failed_stale",
]  # fmt: skip
claims = _called(
    claim,
    node=st.one_of(st.none(), node),
    items=st.lists(st.tuples(job, instant, kinds, st.sampled_from([True] * 5 + [False]), created_as), max_size=5),
    is_stale=rarely,
)
starts = _called(
    start,
    node=st.one_of(st.none(), st.none(), node),
    which=st.lists(number, min_size=1, max_size=4),
    takes=st.sampled_from(["right"] * 6 + ["any", "stale"]),
    overlap=st.sampled_from([*Overlap, Overlap.QUEUE]),
    limits=st.sampled_from([0] * 5 + [1, 2]),
    overdue=maybe,
)
writes = _called(
    write,
    which=number,
    by=st.one_of(st.none(), st.none(), st.none(), node),
    to=st.one_of(number, number, st.sampled_from(ended_as)),
    fence=st.sampled_from([0] * 9 + [-1, 1]),
    sequence=st.sampled_from([0] * 9 + [-1, 1]),
    gives_back=rarely,
    takes=rarely,
)
repeatable = st.one_of(
    claims,
    claims,
    starts,
    starts,
    starts,
    starts,
    writes,
    writes,
    writes,
    writes,
    _called(
        intervene,
        which=number,
        by=node,
        to=st.sampled_from([None, None, "orphaned", "failed_stale", "retrying", "failed", "pending", "missed"]),
        fence=st.sampled_from([0] * 6 + [-1, 1]),
        keeps=maybe,
    ),
    _called(ask, which=number, adjusts=maybe),
    _called(update, job=job, repeats=rarely, is_stale=rarely, verdict=st.sampled_from(VerdictKind)),
    _called(sweep, node=node, seizes=maybe, is_last=maybe, items=st.lists(st.tuples(job, instant), max_size=3)),
    _called(
        append,
        causes=st.lists(st.integers(0, 8), max_size=4),
        partition=st.integers(0, 2),
        leased=st.one_of(st.none(), number),
    ),
    _called(lease, node=node, partitions=st.lists(st.integers(0, 2), max_size=3), lease_for=st.sampled_from([0, HOUR])),
    _called(look, job=job, limit=st.integers(1, 20)),
)
operations = repeatable | _called(forget, keep_max=st.sampled_from([0, 100]))
"""Forgetting is not repeatable: the second time there is less to forget."""


@pytest.mark.spec("D4")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=st.lists(operations, min_size=10, max_size=60))
def test_a_store_answers_like_the_memory_reference(store: Opened, asked: Sequence[Operation]) -> None:
    store.runner.run(_compared(store.engine, asked))


class Forgetful(Engine):
    """An engine whose every first answer is lost after the commit, so that all work is done twice (DESIGN 2)."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def url(self) -> str:
        return self.engine.url

    async def open(self) -> None:
        await self.engine.open()

    async def close(self) -> None:
        await self.engine.close()

    async def write(self, work: Work[T]) -> T:
        await self.engine.write(work)
        return await self.engine.write(work)

    async def read(self, work: Work[T]) -> T:
        return await self.engine.read(work)


@pytest.mark.spec("N2", "lost replies")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=st.lists(repeatable, min_size=10, max_size=60))
def test_a_write_whose_answer_was_lost_is_answered_as_the_first_time_and_nothing_happens_twice(
    store: Opened, asked: Sequence[Operation]
) -> None:
    store.runner.run(_compared(Forgetful(store.engine), asked))


async def _compared(engine: Engine, asked: Sequence[Operation]) -> None:
    ours, reference = World(engine), World(MemoryEngine())
    await ours.begin()
    await reference.begin()
    for operation in asked:
        told, expected = await operation(ours), await operation(reference)
        assert ours.shown(told) == reference.shown(expected), operation
    left, wanted = await dump(ours.engine), await dump(reference.engine)
    wanted.check()
    left.check()
    assert left.comparable() == wanted.comparable()
