"""Each state in which a node can die, and what the table in `core.recovery.rescue` then does, on real nodes.

A node brings an occurrence into a state and is gone without a word. Another one starts at once, or two hours later,
when nobody has been there meanwhile; and what it makes of it is what the table says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import pytest

from itinerary.core.recovery.rescue import FATES, RescueOutcome
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.attempts import Assignment, PodMoved, Report
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.overrides import Overrides
from itinerary.model.policies import OnOrphan, Overlap, Recovery, RecoveryPolicy, Retry
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import FINAL, OccurrenceState, TaskState
from itinerary.schedules import Schedule, every
from tests.unit.runtime.world import World, played

LONG = 100_000.0
JOB = "job"


def once_at(seconds: int) -> Schedule:
    """Due so many seconds after the world began, and not again for a day."""
    return every("24h", start=f"2026-03-28T12:00:{seconds:02}Z")


class Says:
    """Something that answers differently as time goes by, and takes its time for the first answer."""

    def __init__(self, *answers: Any, takes: float = 0.0) -> None:
        self.answers, self.takes, self.asked = list(answers), takes, 0

    async def __call__(self, _: Any) -> Any:
        takes, self.takes = self.takes, 0.0
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        await asyncio.sleep(takes)
        return answer


class Pods(CoroutineExecutor):
    """An executor whose first attempt is a pod that never comes."""

    def begin(self, assignments: Sequence[Assignment]) -> None:
        first = [one for one in assignments if one.key.number == 1 and one.key.place >= 0]
        super().begin([one for one in assignments if one not in first])
        self.notify([PodMoved(one.key, OccurrenceState.CONTAINER_CREATING) for one in first])

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self.notify = report
        await super().open(report)


async def first_hangs(world: World, on_orphan: OnOrphan, **rest: Any) -> None:
    """A task whose first attempt takes for ever, and the others no time at all."""

    async def main(ctx: Any) -> None:
        world.began.append(f"{ctx.job} {ctx.attempt}")
        await asyncio.sleep(LONG if ctx.attempt == 1 else 0.0)

    overrides = rest.pop("overrides", Overrides(on_orphan=on_orphan))
    await world.register(JOB, main, schedule=once_at(10), overrides=overrides, **rest)


async def quick(world: World, on_orphan: OnOrphan, **rest: Any) -> None:
    await world.register(JOB, world.task(), schedule=once_at(10), overrides=Overrides(on_orphan=on_orphan), **rest)


async def prerun(world: World, on_orphan: OnOrphan) -> None:
    await quick(world, on_orphan)


async def pending(world: World, on_orphan: OnOrphan) -> None:
    await world.register("hog", world.task(LONG), schedule=once_at(5))
    await quick(world, on_orphan)


async def queued(world: World, on_orphan: OnOrphan) -> None:
    """The one before it hangs, and its node takes it along."""

    async def main(ctx: Any) -> None:
        world.began.append(f"{ctx.job} {ctx.attempt}")
        await asyncio.sleep(LONG if len(world.began) == 1 else 0.0)

    schedule = every("10s", start="2026-03-28T12:00:10Z", end="2026-03-28T12:00:20Z")
    await world.register(JOB, main, schedule=schedule, overrides=Overrides(on_orphan=on_orphan, overlap=Overlap.QUEUE))


def required(
    answers: tuple[Any, ...], takes: float = 0.0, on_unmet: Unmet = Unmet.WAIT
) -> Callable[[World, OnOrphan], Awaitable[None]]:
    async def prepare(world: World, on_orphan: OnOrphan) -> None:
        ready = world.registry.register(Says(*answers, takes=takes), "world:ready")
        act = world.registry.register(Says(None, takes=LONG), "world:act")
        requirement = Requirement(
            python=ready,
            on_unmet=on_unmet,
            every="100s",
            deadline="12h",
            action=act if on_unmet is Unmet.ACT else None,
        )
        await quick(world, on_orphan, requires=(requirement,))

    return prepare


async def creating(world: World, on_orphan: OnOrphan) -> None:
    await first_hangs(world, on_orphan)


async def terminating(world: World, on_orphan: OnOrphan) -> None:
    """Its first attempt is over its time, and does not listen."""

    async def main(ctx: Any) -> None:
        world.began.append(f"{ctx.job} {ctx.attempt}")
        if ctx.attempt > 1:
            return
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            await asyncio.sleep(8.0)

    overrides = Overrides(on_orphan=on_orphan, task_timeout="5s")
    await world.register(JOB, main, schedule=once_at(10), overrides=overrides)


async def retrying(world: World, on_orphan: OnOrphan) -> None:
    async def main(ctx: Any) -> None:
        world.began.append(f"{ctx.job} {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("the first time")

    overrides = Overrides(on_orphan=on_orphan, retry=Retry(1, "100s"))
    await world.register(JOB, main, schedule=once_at(10), overrides=overrides)


def hooked(hook: str) -> Callable[[World, OnOrphan], Awaitable[None]]:
    """A hook hangs on the first node, before the first task or after the last."""

    async def prepare(world: World, on_orphan: OnOrphan) -> None:
        hangs = Says(None, takes=LONG)

        async def told(what: Any) -> None:
            world.began.append(f"told {hangs.asked + 1} {getattr(what, 'outcome', '')}")
            await hangs(what)

        name = world.registry.register(told, "world:hook")
        await quick(world, on_orphan, **{hook: (name,)})

    return prepare


class Case(NamedTuple):
    state: OccurrenceState
    prepare: Callable[[World, OnOrphan], Awaitable[None]]
    leave: str
    rerun: str
    """What it comes to with either, and how many attempts there were of it."""
    in_flight: bool = False


S = OccurrenceState
UNBEGUN = {S.PRERUN, S.CONDITION_PENDING, S.CONDITION_RUNNING, S.ACTION_RUNNING, S.CONTAINER_CREATING}
"""In these no task has said anything."""
CASES = {
    "prerun": Case(S.PRERUN, prerun, "completed 1", "completed 1"),
    "pending": Case(S.PENDING, pending, "completed 1", "completed 1"),
    "queued": Case(S.QUEUED, queued, "completed 1", "completed 1"),
    "condition_pending": Case(S.CONDITION_PENDING, required((False, True)), "completed 1", "completed 1"),
    "condition_running": Case(S.CONDITION_RUNNING, required((True,), LONG), "completed 1", "completed 1"),
    "action_running": Case(
        S.ACTION_RUNNING, required((False, True), on_unmet=Unmet.ACT), "orphaned 0", "completed 1", in_flight=True
    ),
    "container_creating": Case(S.CONTAINER_CREATING, creating, "orphaned 1", "completed 2", in_flight=True),
    "running": Case(S.RUNNING, first_hangs, "orphaned 1", "completed 2", in_flight=True),
    "terminating": Case(S.TERMINATING, terminating, "orphaned 1", "completed 2", in_flight=True),
    "retrying": Case(S.RETRYING, retrying, "completed 2", "completed 2"),
    "telling of its start": Case(S.RUNNING, hooked("on_start"), "completed 1", "completed 1"),
    "telling of its end": Case(S.RUNNING, hooked("on_complete"), "completed 1", "completed 1"),
}


@pytest.mark.spec("N3", "every state")
@pytest.mark.parametrize("on_orphan", list(OnOrphan))
@pytest.mark.parametrize("away_for", [0.5, 7_200.0], ids=["another node at once", "nobody for two hours"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_becomes_of_each_state_when_its_node_dies(case: Case, away_for: float, on_orphan: OnOrphan) -> None:
    async def story(world: World) -> None:
        await case.prepare(world, on_orphan)
        executor = Pods(world.registry, loop=world.loop) if case.state is S.CONTAINER_CREATING else None
        async with world.dying(world.node("a", executor, max_concurrent_jobs=1 if case.state is S.PENDING else 50)):
            await world.until(lambda: is_in(world, case.state))
            await world.until(lambda: bool(world.began) or case.state in UNBEGUN)
            await asyncio.sleep(1.0)
        await asyncio.sleep(away_for)
        found = await last(world)
        async with world.running(world.node("b")):
            await world.until(lambda: is_over(world), within=600.0)
        row = await last(world)
        attempts = (await world.detail(row)).attempts
        assert f"{row.status} {len(attempts)}" == (case.leave if on_orphan is OnOrphan.LEAVE else case.rerun), row
        assert row.fence > found.fence, "it has changed hands"
        fate = FATES[case.state][on_orphan if case.in_flight else None]
        if fate is RescueOutcome.RERUN and case.state is not S.ACTION_RUNNING:
            assert attempts[0].status is TaskState.FAILED
            assert attempts[0].error == "node a is gone"
        assert len(world.began) == len(set(world.began)) or case.state is S.QUEUED, "no attempt began twice"

    played(story)


def test_every_state_that_is_not_final_is_in_the_table_and_is_tried_here() -> None:
    assert FATES.keys() == set(OccurrenceState) - FINAL
    tried = {case.state for case in CASES.values()} | {S.ACTION_PENDING}  # which no write ends in
    assert tried == FATES.keys()


async def is_in(world: World, state: OccurrenceState) -> bool:
    rows = await world.rows(JOB)
    return bool(rows) and rows[-1].status is state


async def is_over(world: World) -> bool:
    return (await last(world)).status in FINAL


async def last(world: World) -> OccurrenceRow:
    due = [row for row in await world.rows(JOB) if row.instant < world.now() + 60_000_000]
    return due[-1]


# -- what was claimed before everybody was gone ----------------------------------------------------------------------


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (Recovery.EXECUTE_ALL, "ccccc"),
        (Recovery.EXECUTE_LAST, "mmmmc"),
        (Recovery.MARK_AS_MISSED, "mmmmm"),
        (Recovery.BOUNDED_WINDOW, "mmccc"),
    ],
)
def test_what_was_claimed_just_before_a_total_outage_goes_through_the_recovery_strategy(
    strategy: Recovery, wanted: str
) -> None:
    """Five instants: three were claimed, and two of them nobody was there to claim."""

    async def story(world: World) -> None:
        bound = {"max_occurrences": 3} if strategy is Recovery.BOUNDED_WINDOW else {}
        await world.register(
            JOB,
            world.task(),
            schedule=every("3s", start="2026-03-28T12:00:13Z", end="2026-03-28T12:00:25Z"),
            overrides=Overrides(recovery=RecoveryPolicy(strategy, **bound)),
        )
        async with world.dying(world.node("a")):
            await world.sleep_until(10.5)
        claimed = await world.rows(JOB)
        assert [row.status for row in claimed] == [S.PRERUN] * len(claimed)
        assert 1 <= len(claimed) < 5
        await world.sleep_until(7_200.0)
        async with world.running(world.node("b")):
            await world.sleep_until(7_300.0)
        rows = await world.rows(JOB)
        assert "".join(str(row.status)[0] for row in rows) == wanted
        assert all(row.is_recovery for row in rows if row.status is S.COMPLETED)

    played(story)
