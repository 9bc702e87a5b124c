"""What may be asked of a store, right and wrong, and sequences of it at random."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from itinerary.model.audit_trail import marked
from itinerary.model.events import NewEvent
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap
from itinerary.model.queries import ByKeyQuery, HistoryQuery, StoreStatusQuery
from itinerary.model.retention import PruneCursor, Retention
from itinerary.model.rows import AttemptRow, EntryRow, Key, OccurrenceRow, TaskRow
from itinerary.model.states import FINAL, TRANSITIONS, OccurrenceState, TaskState
from itinerary.model.sweeps import ClaimedRow, SweepStep
from itinerary.model.timeline import UnstartedDecision, VerdictKind
from itinerary.model.writes import (
    AdjustRequest,
    CancelRequest,
    ClaimRequest,
    Limit,
    OwnerWrite,
    StartRequest,
    Step,
    TakeoverWrite,
)
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.world import BASE, FAR, HOUR, INSTANTS, JOBS, NODES, World, version

__all__ = ["Operation", "fill", "operations", "repeatable"]

Operation = Callable[[World], Awaitable[Any]]


async def claim(
    world: World, *, node: int | None, items: Sequence[tuple[int, int, Kind, bool, str]], is_stale: bool
) -> Any:
    owner = None if node is None else world.nodes[node]
    wanted = []
    for job, instant, kind, is_due, status in items:
        key = Key(BASE + instant * SECOND, world.jobs[job], kind, "r" if kind is Kind.TRIGGER else "")
        state = OccurrenceState(status)
        window = Window(key.instant, key.instant + HOUR, 60) if state in FINAL else None
        wanted.append(ClaimRequest(key, 1, key.instant if is_due else FAR, state, window=window))
    answer = await world.store.claim(owner, await world.revision(is_stale=is_stale), wanted)
    if isinstance(answer, list):
        for one in sorted(answer, key=lambda one: one.key):
            if one.ref not in world.keys:
                world.keys[one.ref] = one.key
                world.refs.append(one.ref)
        answer = sorted(answer, key=lambda one: one.key)
    return answer


async def start(
    world: World,
    *,
    node: int | None,
    which: Sequence[int],
    takes: str,
    overlap: Overlap,
    limits: int,
    overdue: bool,
    late: bool,
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
        marked(
            StartRequest(
                row.ref,
                fence(row),
                row.adjustments,
                "{}",
                HOUR,
                overlap,
                max_queued=2,
                limits=tuple(Limit(f"limit {number}", 1) for number in range(limits)),
                attempts=(AttemptRow(row.ref, 0, 1, TaskState.RUNNING, (row.instant // SECOND) % 2 or None),),
                late_until=row.due_at + FAR if late else 0,
                job=row.job,
                instant=row.instant if row.kind is Kind.SCHEDULED else None,
            )
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
    change = OwnerWrite(
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


async def intervene(
    world: World, *, which: int, by: int, to: str | None, fence: int, keeps: bool, only: str, more: bool
) -> Any:
    row = await world.row(which)
    if row is None:
        return None
    state = None if to is None else OccurrenceState(to)
    owner = world.nodes[by] if keeps else None
    item = TakeoverWrite(
        row.ref,
        row.fence + fence,
        state,
        "it was silent",
        owner=owner,
        gives_back=keeps,
        by_way_of=_ways(row, state),
        is_unstarted=only == "unstarted",
        sequence={"as seen": row.sequence, "stale": row.sequence - 1}.get(only),
        expires_after=HOUR if more and row.started_at is not None else None,
    )
    return await world.store.intervene(world.nodes[by], [item])


def _ways(row: OccurrenceRow, to: OccurrenceState | None) -> tuple[OccurrenceState, ...]:
    """How the reaper goes about one that waits to be tried again."""
    if (row.status, to) == (OccurrenceState.RETRYING, OccurrenceState.FAILED_STALE):
        return OccurrenceState.PENDING, OccurrenceState.RUNNING
    return ()


async def ask(world: World, *, which: int, adjusts: bool) -> Any:
    row = await world.row(which)
    if row is None:
        return None
    request = AdjustRequest(row.ref, '{"priority":1}') if adjusts else CancelRequest(row.ref, "anna")
    return await world.store.control(None, [request])


async def update(world: World, *, job: int, repeats: bool, is_stale: bool, verdict: VerdictKind) -> Any:
    world.updates += not repeats

    def judge(rows: Sequence[OccurrenceRow], _: Sequence[EntryRow]) -> list[UnstartedDecision]:
        return [UnstartedDecision(row.ref, verdict, 1, "an update") for row in rows if row.instant % (2 * SECOND) == 0]

    made_from = world.versions[job] - is_stale
    entered = await world.store.amend([version(f"job {job}", f"update {world.updates}", made_from)], judge)
    world.versions[job] = max(world.versions[job], *(one.version for one in entered))
    return [type(one).__name__ for one in entered], [one.version for one in entered]


async def sweep(
    world: World,
    *,
    node: int,
    seizes: bool,
    is_last: bool,
    recovers: bool,
    claims: str,
    items: Sequence[tuple[int, int]],
) -> Any:
    by, now = world.nodes[node], (await world.store.read(StoreStatusQuery())).now
    seen = world.plan
    plan = await world.store.begin_sweep(by, now, seen.fence if seizes and seen is not None else None)
    world.plan = plan
    if plan is None:
        return None
    status = OccurrenceState.QUEUED if recovers else OccurrenceState.PRERUN
    wanted = tuple(
        ClaimRequest(Key(BASE + instant * SECOND, world.jobs[job], Kind.SCHEDULED), 1, BASE, status, recovers)
        for job, instant in items
    )
    there = await world.store.read(ByKeyQuery(tuple(one.key for one in wanted)))
    step = SweepStep(
        fence=plan.fence,
        step=plan.step + 1,
        cursor="here",
        wanted=wanted,
        claimed=tuple(ClaimedRow(there[one.key].ref, one) for one in wanted if claims == "become" and one.key in there),
        covered=tuple(sorted(row.ref for row in there.values())) if claims == "covered" else (),
        waiting=tuple(sorted(row.ref for row in there.values())) if claims == "wait" and recovers else (),
        is_last=is_last,
    )
    answer = await world.store.advance_sweep(by, await world.revision(is_stale=False), step)
    for key, row in sorted((await world.store.read(ByKeyQuery(tuple(one.key for one in wanted)))).items()):
        if row.ref not in world.keys:
            world.keys[row.ref] = key
            world.refs.append(row.ref)
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
    page = await world.store.read(HistoryQuery(world.jobs[job], limit=limit))
    return [(row.instant, row.kind, row.status, row.fence, row.sequence) for row in page.rows], page.next


async def fill(world: World) -> None:
    """Something to begin with: three occurrences of each job, all claimed by one node."""
    everything = [(job, instant, Kind.SCHEDULED, True, "prerun") for job in range(JOBS) for instant in range(3)]
    await claim(world, node=0, items=everything, is_stale=False)


# -- at random ---

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
    late=maybe,
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
        only=st.sampled_from(["", "", "unstarted", "as seen", "stale"]),
        more=maybe,
    ),
    _called(ask, which=number, adjusts=maybe),
    _called(update, job=job, repeats=rarely, is_stale=rarely, verdict=st.sampled_from(VerdictKind)),
    _called(
        sweep,
        node=node,
        seizes=maybe,
        is_last=maybe,
        recovers=maybe,
        claims=st.sampled_from(["", "become", "covered", "wait"]),
        items=st.lists(st.tuples(job, instant), max_size=3),
    ),
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
