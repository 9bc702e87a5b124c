"""The sweeper: recovery at the start, one plan at a time, and a timeline that moves on in the middle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreError
from itinerary.model import RecoveryPolicy
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.queries import Answer, Query, StoreStatusQuery
from itinerary.model.rows import JobNumber, Key, NodeNumber
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import ClaimRequest, Refusal
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.index_builder import IndexBuilder
from itinerary.runtime.sweeper import Sweeper
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import EPOCH, World, here, played


class Scene:
    """A sweeper of one node."""

    def __init__(self, world: World, node: NodeNumber, store: EngineStore | None = None) -> None:
        self.world = world
        self.clock = StoreClock(world.elapsed)
        self.clock.observe(world.now())
        settings, inbox = Settings(), Inbox(1_000, SECOND, world.log)
        store = world.store if store is None else store
        self.builder = builder = IndexBuilder(
            store, settings, self.clock, inbox, PlanCache(Timeline()), elsewhere=here, log=world.log
        )
        self.sweeper = Sweeper(store, node, settings, self.clock, builder, elsewhere=here, log=world.log)


async def node(world: World, name: str) -> NodeNumber:
    return await world.store.join(name, name, "{}")


async def seconds(world: World, job: str, *states: OccurrenceState) -> list[int]:
    """The instants of a job's rows, in seconds since the beginning."""
    return [(row.instant - EPOCH) // SECOND for row in await world.rows(job) if not states or row.status in states]


@pytest.mark.spec("R1")
@pytest.mark.spec("L11", "recover")
def test_what_was_due_and_has_no_row_gets_one_up_to_a_moment_ago() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        me = await node(world, "me")
        await world.sleep_until(301.0)
        await Scene(world, me).sweeper.sweep()
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240], "of the last two seconds nothing is decided yet"
        assert {row.owner for row in await world.rows("tick")} == {None}
        status = await world.store.read(StoreStatusQuery())
        assert status.watermark == EPOCH + 299 * SECOND
        (line,) = world.log.said("sweep.made_rows")
        assert line["count"] == 5

    played(story)


@pytest.mark.spec("R2")
def test_sweeping_again_makes_nothing_twice() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(301.0)
        for _ in range(3):
            await scene.sweeper.sweep()
        await world.sleep_until(361.0)
        await scene.sweeper.sweep()
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240, 300]

    played(story)


@pytest.mark.spec("L11", "one job's failing recovery")
def test_of_a_job_that_nobody_can_enumerate_that_is_recorded_and_the_others_recover() -> None:
    async def story(world: World) -> None:
        await world.enter("nonsense", '{"schedule": {"cron": "61 * * * *"}}')
        await world.register("tick", world.task(), schedule=every("1m"))
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(301.0)
        await scene.sweeper.sweep()
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240]
        (row,) = await world.rows("nonsense")
        assert row.status is OccurrenceState.MISSED
        assert row.reason is not None
        assert "not decided" in row.reason

    played(story)


@pytest.mark.spec("R1", "strategies")
def test_each_job_recovers_by_its_own_strategy() -> None:
    async def story(world: World) -> None:
        missed = Overrides(recovery=RecoveryPolicy(strategy="mark_as_missed"))
        last = Overrides(recovery=RecoveryPolicy(strategy="execute_last"))
        await world.register("never", world.task(), overrides=missed)
        await world.register("last", world.task(), overrides=last)
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(301.0)
        await scene.sweeper.sweep()
        assert await seconds(world, "never", OccurrenceState.MISSED) == [0, 60, 120, 180, 240]
        for state in set(OccurrenceState) - {OccurrenceState.MISSED}:
            assert await seconds(world, "never", state) == []
        assert await seconds(world, "last", OccurrenceState.PENDING) == [240], "nobody is in its job's slot but itself"
        assert await seconds(world, "last", OccurrenceState.MISSED) == [0, 60, 120, 180]

    played(story)


class Moving(EngineStore):
    """A store whose timeline moves on just before the first step of a sweep."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine)
        self.world, self.refused, self.steps = world, 0, 0

    async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        if not self.steps:
            await self.world.register("another", self.world.task())
        self.steps += 1
        answer = await super().advance_sweep(by, revision, step)
        self.refused += answer is Refusal.MOVED
        return answer


@pytest.mark.spec("R2", "a timeline that moves on")
def test_when_the_timeline_moves_on_in_the_middle_the_plan_is_worked_off_by_the_new_one() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        store = Moving(world)
        scene = Scene(world, await node(world, "me"), store)
        await world.sleep_until(301.0)
        await scene.sweeper.sweep()
        assert store.refused == 1
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240]
        assert (await world.store.read(StoreStatusQuery())).watermark == EPOCH + 299 * SECOND

    played(story)


@pytest.mark.spec("R2", "a dead node's plan")
@pytest.mark.spec("L11", "recover")
def test_a_plan_is_left_to_its_owner_until_that_is_dead_and_then_finished_with_its_own_end_before_a_new_one() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        me, other = await node(world, "me"), await node(world, "other")
        await world.sleep_until(301.0)
        plan = await world.store.begin_sweep(other, EPOCH + 200 * SECOND)
        assert plan is not None
        scene = Scene(world, me)
        await scene.sweeper.sweep()
        assert await seconds(world, "tick") == [], "somebody else is at it"
        scene.sweeper.dead = frozenset({other})
        await scene.sweeper.sweep()
        swept = [(line["window_end"] - EPOCH, line["count"]) for line in world.log.said("sweep.made_rows")]
        assert swept == [(200 * SECOND, 4), (299 * SECOND, 1)]
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240]
        assert (await world.store.read(StoreStatusQuery())).watermark == EPOCH + 299 * SECOND

    played(story)


@pytest.mark.spec("R2", "a dead node's plan")
def test_who_lost_its_plan_stops() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        me, other = await node(world, "me"), await node(world, "other")
        await world.sleep_until(301.0)

        class Seized(EngineStore):
            async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> Any:
                await super().begin_sweep(other, EPOCH, seize=step.fence)
                return await super().advance_sweep(by, revision, step)

        scene = Scene(world, me, Seized(world.engine))
        await scene.builder.read()
        await scene.sweeper.sweep()
        assert await seconds(world, "tick") == []
        assert world.log.said("sweep.taken_over") == [{"why": "lost"}]

    played(story)


@pytest.mark.spec("N6", "the watermark")
def test_while_nobody_knows_what_time_it_is_nothing_is_decided() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(301.0)
        scene.clock.observe(world.now() + 3_600 * SECOND)
        assert scene.clock.is_in_doubt
        await scene.sweeper.sweep()
        assert await seconds(world, "tick") == []
        scene.clock.observe(world.now())
        await scene.sweeper.sweep()
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240]

    played(story)


@pytest.mark.spec("N6", "the watermark")
def test_the_watermark_never_passes_the_stores_time_whatever_the_node_believes() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(100.0)
        world.store_ahead = -60 * SECOND
        await scene.sweeper.sweep()
        assert (await world.store.read(StoreStatusQuery())).watermark == EPOCH + 40 * SECOND

    played(story)


@pytest.mark.spec("N5")
@pytest.mark.spec("R2", "lost answers")
def test_a_sweep_outlives_the_absence_of_its_store_and_the_loss_of_its_answers() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(301.0)
        world.engine.is_down = True
        sweep = asyncio.create_task(scene.sweeper.sweep())
        await asyncio.sleep(60.0)
        assert not sweep.done()
        world.engine.answers_lost = 2
        world.engine.is_down = False
        await sweep
        assert await seconds(world, "tick") == [0, 60, 120, 180, 240, 300, 360], "up to when the store was back"
        assert world.engine.answers_lost == 0

    played(story)


@pytest.mark.spec("R1", "while it runs")
def test_it_sweeps_again_every_few_seconds_and_a_failure_is_logged_and_tried_again() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"))
        scene = Scene(world, await node(world, "me"))
        task = asyncio.create_task(scene.sweeper.run())
        await world.sleep_until(31.0)
        assert await seconds(world, "tick") == [0, 10, 20]
        assert world.log.said("sweep.failed") == []
        world.engine.broken_by = StoreError("broken")
        await world.sleep_until(41.0)
        assert world.log.said("sweep.failed")[0]["error"] == "broken"
        world.engine.broken_by = None
        await world.sleep_until(61.0)
        assert await seconds(world, "tick") == [0, 10, 20, 30, 40, 50]
        task.cancel()
        await asyncio.wait([task])

    played(story)


class Counting(EngineStore):
    """A store that counts what it is asked for."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine)
        self.asked: list[str] = []

    async def read(self, query: Query[Answer]) -> Answer:
        self.asked.append(type(query).__name__)
        return await super().read(query)


@pytest.mark.spec("R1", "while it runs")
def test_a_live_sweep_reads_no_more_than_it_takes_to_see_that_nothing_is_missing() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        store = Counting(world)
        scene = Scene(world, await node(world, "me"), store)
        await scene.builder.read()

        async def swept_at(second: float) -> list[str]:
            await world.sleep_until(second)
            store.asked.clear()
            await scene.sweeper.sweep()
            return store.asked

        await swept_at(55.0)
        assert await swept_at(60.0) == [], "nothing was expected"
        assert await swept_at(65.0) == ["DecidedQuery", "PointersQuery"], "a row is missing, unless a window covers it"
        await swept_at(115.0)
        instant = EPOCH + 120 * SECOND
        other, revision = await node(world, "other"), scene.builder.timeline.revision
        await world.store.claim(other, revision, [ClaimRequest(Key(instant, JobNumber(1), Kind.SCHEDULED), 1, instant)])
        assert await swept_at(125.0) == ["DecidedQuery"], "what was expected has its row"
        assert await seconds(world, "tick") == [0, 60, 120]
        assert (await world.store.read(StoreStatusQuery())).watermark == EPOCH + 123 * SECOND

    played(story)


@pytest.mark.spec("R1", "while it runs")
def test_of_several_nodes_whoever_sees_that_nobody_has_swept_just_now_does_it() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"))
        scene = Scene(world, await node(world, "me"))
        scene.sweeper.is_shared = True
        task = asyncio.create_task(scene.sweeper.run())
        await world.sleep_until(31.0)
        assert await seconds(world, "tick") == [], "nobody has looked"
        status = await world.store.read(StoreStatusQuery())
        scene.sweeper.look(status.now, status.now - 3 * SECOND + 1)
        await asyncio.sleep(0.5)
        assert await seconds(world, "tick") == [], "somebody has swept less than a second before what may be decided"
        scene.sweeper.look(status.now, status.watermark)
        await asyncio.sleep(0.5)
        assert await seconds(world, "tick") == [0, 10, 20]
        scene.sweeper.is_shared = False
        await world.sleep_until(50.0)
        assert await seconds(world, "tick") == [0, 10, 20, 30, 40], "who is alone looks at the clock"
        task.cancel()
        await asyncio.wait([task])

    played(story)


@pytest.mark.spec("U8", "overload says so")
def test_a_sweep_that_takes_long_says_how_far_behind_the_node_is_and_since_when() -> None:
    async def story(world: World) -> None:
        everything = Overrides(recovery=RecoveryPolicy(strategy="execute_all"))
        await world.register("tick", world.task(), schedule=every("1s"), overrides=everything)
        scene = Scene(world, await node(world, "me"))
        await world.sleep_until(12_001.0)
        world.engine.takes = 8.0
        await scene.sweeper.sweep()
        lines = world.log.said("sweep.behind")
        assert len(lines) >= 2, "again and again, while it lasts"
        assert lines[0]["since"] == "2026-03-28T12:00:00Z"
        assert lines[0]["by_seconds"] > 12_000
        assert 0 < lines[0]["decided"] < lines[-1]["decided"] <= 12_000

    played(story)
