"""Nobody was there from one moment to another: what recovery leaves behind, for every strategy (R1, R2).

Each case is played against an oracle that was written from the words of R1 alone. Then recovery is killed at each of
its steps, before the step is written and after it was written and nobody heard, and begun again by another node, ten
times over: what is left behind is the same.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from itinerary.core.recovery import sweep as sweeping
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.model import RecoveryPolicy
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.rows import NodeNumber, OccurrenceRow
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import Refusal
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.index_builder import IndexBuilder
from itinerary.runtime.sweeper import Sweeper
from itinerary.schedules import Schedule, cron, every
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import JOBS, OCCURRENCES
from tests.oracles.recovery import Told, expected_rows
from tests.unit.runtime.world import EPOCH, World, here, played

S = OccurrenceState
HOUR = 3_600
GRACE, TAKEOVER = 30, 2
"""Seconds: what is younger than the first simply runs late, and of the last two nothing is decided yet."""
LIVES = 10
"""How often recovery is begun again after it was killed."""


class Outage(NamedTuple):
    """A job that nobody was there for."""

    name: str
    schedule: Schedule
    every: int
    lasts: int
    strategy: str
    most: int | None = None
    age: str | None = None

    @property
    def overrides(self) -> Overrides:
        bounds: dict[str, Any] = {"max_occurrences": self.most, "max_duration": self.age}
        return Overrides(recovery=RecoveryPolicy(self.strategy, **bounds))

    def expected(self, now: int) -> list[Told]:
        """By the oracle; what is young runs late."""
        seconds = range(0, now, self.every)
        old = [second for second in seconds if second < now - GRACE]
        age = None if self.age is None else {"2h": 2 * HOUR, "10m": 600, "24h": 24 * HOUR}[self.age]
        rows = expected_rows(self.strategy, old, now, self.most, age)
        return [*rows, *(Told(second, True) for second in seconds if second >= now - GRACE)]


def outages() -> list[Outage]:
    hourly, each_second = cron("0 * * * *"), every("1s")
    bounds = [
        ("execute_all", None, None),
        ("execute_last", None, None),
        ("mark_as_missed", None, None),
        ("compressed", None, None),
        ("bounded_window", 3, None),
        ("bounded_window", None, "2h"),
        ("bounded_window", 1, "24h"),
        ("bounded_window", 0, None),
        ("bounded_window", None, None),
        ("bounded_window", None, "10m"),
    ]
    cases = []
    for strategy, most, age in bounds:
        said = "_".join([strategy, *(f"{bound}" for bound in (most, age) if bound is not None)])
        cases.append(Outage(f"hourly_{said}", hourly, HOUR, 30 * HOUR, strategy, most, age))
        cases.append(Outage(f"each_second_{said}", each_second, 1, 1_500, strategy, most, age))
    return cases


CASES = outages()


class Killed(Exception):
    """The process is gone."""


class Mortal(EngineStore):
    """A store as a process sees it that is killed at the n-th step of a sweep: before it, or when it is written."""

    def __init__(self, world: World, dies_at: int | None = None, *, is_written: bool = False) -> None:
        super().__init__(world.engine)
        self.left, self.is_written, self.steps = dies_at, is_written, 0

    async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        self.steps += 1
        if self.steps == self.left:
            if self.is_written:
                await super().advance_sweep(by, revision, step)
            raise Killed
        return await super().advance_sweep(by, revision, step)


class Life:
    """One start of a node, as far as its recovery."""

    def __init__(self, world: World, store: EngineStore, number: NodeNumber) -> None:
        clock = StoreClock(world.elapsed)
        clock.observe(world.now())
        settings = Settings(grace_period=GRACE * SECOND, takeover_after=TAKEOVER * SECOND)
        inbox, book = Inbox(1_000, SECOND, world.log), PlanCache(Timeline())
        self.builder = IndexBuilder(store, settings, clock, inbox, book, elsewhere=here, log=world.log)
        self.sweeper = Sweeper(store, number, settings, clock, self.builder, elsewhere=here, log=world.log)

    async def recover(self) -> None:
        await self.builder.read()
        await self.sweeper.sweep()


async def recovered(world: World, store: EngineStore, number: int) -> None:
    """Recovery by a node of its own; whoever was at it before is known to be dead."""
    node = await world.store.join(f"node {number}", "node", "{}")
    life = Life(world, store, node)
    life.sweeper.dead = frozenset(range(1, node))  # type: ignore[arg-type]  # the numbers of those before it
    await life.recover()


async def all_rows(world: World) -> dict[str, list[OccurrenceRow]]:
    """Every row, by job: more than a page of history has."""

    def read(tx: Any) -> tuple[Any, Any]:
        return tx.scan(JOBS, limit=1_000), tx.scan(OCCURRENCES, limit=1_000_000)

    jobs, rows = await world.engine.engine.read(read)
    names = {job.number: job.name for job in jobs}
    found: dict[str, list[OccurrenceRow]] = {name: [] for name in names.values()}
    for row in sorted(rows, key=lambda row: row.key):
        found[names[row.job]].append(row)
    return found


def told(row: OccurrenceRow) -> Told:
    """A row as the oracle tells it."""
    assert row.status in (S.PRERUN, S.PENDING, S.QUEUED, S.MISSED)
    window = row.window
    span = None if window is None else ((window.start - EPOCH) // SECOND, (window.end - EPOCH) // SECOND, window.count)
    return Told((row.instant - EPOCH) // SECOND, row.status is not S.MISSED, span)


async def down(world: World, cases: list[Outage], lasts: int) -> None:
    """Jobs are registered, and then nobody is there for so many seconds."""
    for case in cases:
        await world.register(case.name, world.task(), schedule=case.schedule, overrides=case.overrides)
    await world.sleep_until(lasts + TAKEOVER)


@pytest.mark.spec("R1", "every strategy")
@pytest.mark.spec("R2", "the recovery flag")
@pytest.mark.parametrize("lasts", [30 * HOUR, 1_500, 45, 20, 7 * HOUR + 1])
def test_after_an_outage_there_are_exactly_the_rows_that_the_oracle_says(lasts: int) -> None:
    cases = [case for case in CASES if case.every > 1 or lasts <= 1_500]

    async def story(world: World) -> None:
        await down(world, cases, lasts)
        await recovered(world, world.store, 1)
        rows = await all_rows(world)
        for case in cases:
            assert [told(row) for row in rows[case.name]] == case.expected(lasts), case
            old = [row for row in rows[case.name] if row.instant < EPOCH + (lasts - GRACE) * SECOND]
            assert all(row.is_recovery for row in old)
            assert not any(row.is_recovery for row in rows[case.name] if row not in old)

    played(story)


@pytest.mark.spec("R2", "crash in the middle")
@pytest.mark.parametrize("is_written", [False, True], ids=["before the step", "after it, unheard"])
@pytest.mark.parametrize("every_seconds", [HOUR, 1], ids=["hourly", "each second"])
def test_killed_at_each_step_and_begun_again_ten_times_over_recovery_leaves_the_same(
    every_seconds: int, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [case for case in CASES if case.every == every_seconds]
    lasts = cases[0].lasts
    step_max = 7 if every_seconds == HOUR else 450
    monkeypatch.setattr(sweeping.Sweep.steps, "__defaults__", (step_max,))

    async def straight_on(world: World) -> int:
        await down(world, cases, lasts)
        store = Mortal(world)
        await recovered(world, store, 1)
        return store.steps

    steps = played(straight_on)
    assert steps > 5

    async def story(world: World, first: int) -> None:
        await down(world, cases, lasts)
        for life in range(LIVES):
            dies_at = first if life == 0 else 1 + (first + life) % 3
            try:
                await recovered(world, Mortal(world, dies_at, is_written=is_written), life + 1)
            except Killed:
                await asyncio.sleep(0.1)
        await recovered(world, world.store, LIVES + 1)
        rows = await all_rows(world)
        for case in cases:
            found = [told(row) for row in rows[case.name] if row.instant < EPOCH + (lasts - GRACE) * SECOND]
            assert found == [one for one in case.expected(lasts) if one.at < lasts - GRACE], (first, case)

    for first in range(1, steps + 1):
        played(partial(story, first=first))


@pytest.mark.spec("R2", "lost answers")
def test_with_every_answer_lost_once_recovery_leaves_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in CASES if case.every == HOUR]
    monkeypatch.setattr(sweeping.Sweep.steps, "__defaults__", (7,))

    class Forgetful(EngineStore):
        """Each step is written, and its answer is heard only the second time."""

        def __init__(self, world: World) -> None:
            super().__init__(world.engine)
            self.world = world

        async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
            await super().advance_sweep(by, revision, step)
            return await super().advance_sweep(by, revision, step)

    async def story(world: World) -> None:
        await down(world, cases, 30 * HOUR)
        await recovered(world, Forgetful(world), 1)
        rows = await all_rows(world)
        for case in cases:
            assert [told(row) for row in rows[case.name]] == case.expected(30 * HOUR), case

    played(story)


# -- and what runs of it, in which order -----------------------------------------------------------------------------


class Spans:
    """When tasks ran, and what they were told."""

    def __init__(self, world: World, takes: float) -> None:
        self.world, self.takes = world, takes
        self.ran: list[tuple[int, float, float, bool]] = []
        self.windows: list[list[int]] = []

    async def work(self, ctx: Any) -> None:
        second, begun = round(ctx.scheduled_at.timestamp()) - EPOCH // SECOND, self.world.loop.time()
        self.windows.append([round(instant.timestamp()) - EPOCH // SECOND for instant in ctx.window])
        await asyncio.sleep(self.takes)
        self.ran.append((second, begun, self.world.loop.time(), ctx.is_recovery))


@pytest.mark.spec("R2", "one after another")
@pytest.mark.spec("R2", "live instants queue behind")
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
def test_recovery_runs_one_after_another_in_order_and_live_instants_come_behind(overlap: Overlap, nodes: int) -> None:
    async def story(world: World) -> None:
        spans = Spans(world, takes=25.0)
        await world.register("tick", spans.work, schedule=every("1m"), overrides=Overrides(overlap=overlap))
        await world.sleep_until(601.0)
        first, second = world.node("a"), world.node("b")
        async with world.running(first):
            if nodes == 2:
                async with world.running(second):
                    await world.sleep_until(1_100.0)
            else:
                await world.sleep_until(1_100.0)
        recovered_ones = [one for one in spans.ran if one[3]]
        assert [second for second, *_ in recovered_ones] == list(range(0, 541, 60))
        assert all(one[2] <= other[1] for one, other in pairwise(spans.ran)), "never two at once"
        rows = {(row.instant - EPOCH) // SECOND: row for row in await world.rows("tick")}
        live = [second for second, *_, is_recovery in spans.ran if not is_recovery]
        assert live == sorted(live)
        assert {rows[second].status for second in range(600, 850, 60)} <= {S.COMPLETED, S.SKIPPED}
        skipped = [second for second in range(600, 850, 60) if rows[second].status is S.SKIPPED]
        if overlap is Overlap.REPLACE:
            assert skipped == [600, 660, 720, 780], "of those who replace, the newest waits alone"
            assert live[0] == 840
        else:
            assert skipped == []
            assert live[:5] == [600, 660, 720, 780, 840]
        assert not any(row.cancelled_by for row in rows.values()), "recovery is not asked to end"

    played(story)


@pytest.mark.spec("R2", "allow")
def test_recovery_runs_of_a_job_that_allows_it_overlap() -> None:
    async def story(world: World) -> None:
        spans = Spans(world, takes=25.0)
        await world.register("tick", spans.work, schedule=every("1m"), overrides=Overrides(overlap=Overlap.ALLOW))
        await world.sleep_until(601.0)
        async with world.running(world.node()):
            await world.sleep_until(630.0)
        begun = [begun for _, begun, _, is_recovery in spans.ran if is_recovery]
        assert len(begun) == 10
        assert max(begun) - min(begun) < 2.0

    played(story)


@pytest.mark.spec("R5", "every task")
def test_a_compressed_run_is_told_its_window() -> None:
    async def story(world: World) -> None:
        spans = Spans(world, takes=0.0)
        overrides = Overrides(recovery=RecoveryPolicy("compressed"))
        await world.register("tick", spans.work, schedule=every("1m"), overrides=overrides)
        await world.sleep_until(601.0)
        async with world.running(world.node()):
            await world.sleep_until(610.0)
        assert spans.windows == [list(range(0, 541, 60)), [600]]

    played(story)
