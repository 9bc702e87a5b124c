"""The rescuer: who is dead, by whose clock, and what becomes of their work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import ByRefQuery, DetailsQuery, NodesQuery, StoreStatusQuery
from itinerary.model.rows import AttemptRow, JobNumber, Key, NodeNumber, NodeRow, OccurrenceRow, Ref, TaskRow
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import (
    Claimed,
    ClaimRequest,
    Refusal,
    Refused,
    Started,
    StartRequest,
    TakeoverWrite,
    Written,
)
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.rescuer import Rescuer
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import T, Work
from tests.unit.runtime.world import EPOCH, World, played

ME, OTHER = NodeNumber(1), NodeNumber(2)


def node(number: NodeNumber, counter: int, left_at: int | None = None) -> NodeRow:
    return NodeRow(number, f"incarnation {number}", f"node {number}", "{}", 0, counter, 0, left_at)


def beat(*nodes: NodeRow) -> HeartbeatReply:
    return HeartbeatReply(0, 0, 0, nodes, ())


class Machine:
    """A node's own clock, which the test moves."""

    def __init__(self) -> None:
        self.seconds = 0

    def elapsed(self) -> int:
        return self.seconds * SECOND

    def now(self) -> int:
        raise AssertionError("who is dead is nothing that a store's clock decides")


class Observer:
    """A rescuer that hears of one other node."""

    def __init__(self, world: World) -> None:
        self.machine = Machine()
        self.rescuer = Rescuer(world.store, ME, Settings(), self.machine, world.log)

    def hears(self, at: int, counter: int, *, left_at: int | None = None, was_out_of_touch: bool = False) -> bool:
        """Whether the other one is dead, after an answer that shows its counter."""
        self.machine.seconds = at
        nodes = beat(node(ME, at), node(OTHER, counter, left_at))
        return OTHER in self.rescuer.handle(nodes, was_out_of_touch=was_out_of_touch)


# -- who is dead -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("N3", "dead by silence")
def test_a_node_is_dead_when_its_counter_has_stood_still_for_a_whole_timeout() -> None:
    async def story(world: World) -> None:
        observer = Observer(world)
        assert not observer.hears(0, 7)
        assert not observer.hears(5, 7)
        assert not observer.hears(10, 8)
        assert not observer.hears(15, 8)
        assert not observer.hears(20, 8)
        assert not observer.hears(24, 8)
        assert observer.hears(25, 8), "15 seconds since it last changed"

    played(story)


@pytest.mark.spec("N3", "dead by silence")
def test_one_that_is_heard_of_for_the_first_time_is_watched_from_then_on() -> None:
    async def story(world: World) -> None:
        observer = Observer(world)
        for at in range(1_000, 1_015, 5):
            assert not observer.hears(at, 99)
        assert observer.hears(1_015, 99)

    played(story)


@pytest.mark.spec("N5", "after an outage")
def test_who_was_out_of_touch_itself_begins_to_watch_anew() -> None:
    async def story(world: World) -> None:
        observer = Observer(world)
        assert not observer.hears(0, 7)
        assert not observer.hears(300, 7), "the store was away for all"
        assert not observer.hears(305, 7)
        assert not observer.hears(310, 7)
        assert observer.hears(315, 7)

    played(story)


@pytest.mark.spec("N5", "after an outage")
def test_one_failed_heartbeat_is_enough_to_begin_anew() -> None:
    async def story(world: World) -> None:
        observer = Observer(world)
        for at in (0, 5, 10):
            assert not observer.hears(at, 7)
        assert not observer.hears(15, 7, was_out_of_touch=True)
        assert not observer.hears(20, 7)
        assert not observer.hears(25, 7)
        assert observer.hears(30, 7)

    played(story)


@pytest.mark.spec("R9", "rescue is immediate")
def test_a_node_that_has_said_that_it_leaves_is_dead_at_once() -> None:
    async def story(world: World) -> None:
        observer = Observer(world)
        assert not observer.hears(0, 7)
        assert observer.hears(1, 8, left_at=EPOCH)

    played(story)


@pytest.mark.spec("N2", "a node that comes back")
def test_one_that_is_heard_of_again_lives_and_can_die_again() -> None:
    async def story(world: World) -> None:
        number = await world.store.join("me", "me", "{}")
        other = await world.store.join("other", "other", "{}")
        assert (number, other) == (ME, OTHER)
        for _ in range(7):
            await world.store.beat(other)
        observer = Observer(world)
        task = asyncio.create_task(observer.rescuer.run())
        assert [observer.hears(at, 7) for at in (0, 5, 10, 15)] == [False, False, False, True]
        await asyncio.sleep(1.0)
        assert observer.hears(20, 7), "it has been rescued, and is dead"
        await world.store.beat(other)
        assert not observer.hears(25, 8), "it was frozen"
        assert [observer.hears(at, 8) for at in (30, 35, 40)] == [False, False, True]
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])

    played(story)


# -- what becomes of their work --------------------------------------------------------------------------------------


class Scene:
    """A rescuer at work, another node, and a job."""

    def __init__(self, world: World, job: JobNumber, me: NodeNumber, other: NodeNumber) -> None:
        self.world, self.job, self.me, self.other = world, job, me, other
        self.clock = StoreClock(world.elapsed)
        self.rescuer = Rescuer(world.store, me, Settings(), self.clock, world.log)

    async def claimed(self, owner: NodeNumber | None, *seconds: int) -> list[Claimed]:
        instants = [EPOCH + second * SECOND for second in seconds]
        wanted = [ClaimRequest(Key(instant, self.job, Kind.SCHEDULED), 1, instant) for instant in instants]
        found = await self.world.store.claim(owner, None, wanted)
        assert isinstance(found, list)
        return found

    async def start(self, owner: NodeNumber, *claimed: Claimed) -> list[Started | Refused]:
        revision = (await self.world.store.read(StoreStatusQuery())).revision
        starts = [
            StartRequest(
                one.ref,
                one.fence,
                0,
                "{}",
                60 * SECOND,
                Overlap.ALLOW,
                tasks=(
                    TaskRow(one.ref, 0, "first", TaskState.RUNNING),
                    TaskRow(one.ref, 1, "second", TaskState.PENDING),
                ),
                attempts=(AttemptRow(one.ref, 0, 1, TaskState.RUNNING, EPOCH),),
            )
            for one in claimed
        ]
        return await self.world.store.start(owner, revision, starts, 2 * SECOND)

    async def row(self, ref: Ref) -> OccurrenceRow:
        return (await self.world.store.read(ByRefQuery((ref,))))[ref]

    async def watch(self, seconds: float) -> None:
        """Heartbeats of this node alone, for so long; the other one is silent."""
        until = self.world.loop.time() + seconds
        while self.world.loop.time() < until:
            self.rescuer.handle(await self.world.store.beat(self.me))
            await asyncio.sleep(1.0)


@asynccontextmanager
async def rescuing(world: World) -> AsyncIterator[Scene]:
    job = await world.register("tick", world.task())
    me, other = await world.store.join("me", "me", "{}"), await world.store.join("other", "other", "{}")
    scene = Scene(world, job, me, other)
    task = asyncio.create_task(scene.rescuer.run())
    await asyncio.sleep(0)
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.spec("N3", "release and orphan")
def test_what_a_dead_node_had_not_started_is_nobodys_and_what_it_ran_is_orphaned() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (running,), (unstarted,) = await scene.claimed(scene.other, 0), await scene.claimed(scene.other, 60)
            (mine,) = await scene.claimed(scene.me, 61)
            await scene.start(scene.other, running)
            await scene.watch(14.0)
            assert (await scene.row(running.ref)).status is OccurrenceState.RUNNING
            await scene.watch(5.0)
            row = await scene.row(running.ref)
            assert row.status is OccurrenceState.ORPHANED
            assert row.reason == (
                "node other is gone, and nobody knows how far it came; "
                "no on_complete hook was called: the definition of the job cannot be read"
            )
            assert row.ended_at is not None
            (detail,) = await world.store.read(DetailsQuery((running.ref,)))
            assert [task.status for task in detail.tasks] == [TaskState.FAILED, TaskState.SKIPPED]
            assert [attempt.status for attempt in detail.attempts] == [TaskState.FAILED]
            free = await scene.row(unstarted.ref)
            assert (free.status, free.owner, free.fence) == (OccurrenceState.PRERUN, None, unstarted.fence + 1)
            assert (await scene.row(mine.ref)).owner == scene.me
            assert world.log.said("node.rescued") == [
                {"node": "other", "released": 1, "going_on": 0, "adopted": 0, "rerun": 0, "orphaned": 1}
            ]
            gone = {node.number: node.left_at for node in await world.store.read(NodesQuery())}
            assert gone[scene.other] is not None
            assert gone[scene.me] is None

    played(story)


@pytest.mark.spec("R9", "rescue is immediate")
def test_what_a_node_leaves_behind_when_it_says_goodbye_is_taken_at_once() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (unstarted,) = await scene.claimed(scene.other, 60)
            await world.store.leave(scene.other)
            await scene.watch(1.0)
            assert (await scene.row(unstarted.ref)).owner is None

    played(story)


@pytest.mark.spec("N3", "release and orphan")
def test_who_left_long_ago_with_work_left_over_is_found_by_the_next_node_that_comes() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (running,), (unstarted,) = await scene.claimed(scene.other, 0), await scene.claimed(scene.other, 60)
            await scene.start(scene.other, running)
            await world.store.leave(scene.other)
            await asyncio.sleep(2 * 3_600.0)
            assert scene.other not in {node.number for node in (await world.store.beat(scene.me)).nodes}
            await scene.watch(2.0)
            assert (await scene.row(running.ref)).status is OccurrenceState.ORPHANED
            assert (await scene.row(unstarted.ref)).owner is None

    played(story)


@pytest.mark.spec("N2", "a node that comes back")
def test_what_was_taken_is_refused_to_the_node_that_comes_back() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (unstarted,) = await scene.claimed(scene.other, 0)
            await scene.watch(17.0)
            (answer,) = await scene.start(scene.other, unstarted)
            assert isinstance(answer, Refused)
            assert answer.why is Refusal.LOST

    played(story)


@pytest.mark.spec("N2", "a node that comes back")
def test_one_that_starts_something_in_the_moment_of_its_rescue_leaves_nothing_that_nobody_has() -> None:
    """Its row was seen unstarted, and has started when it is released: under the fence that it was seen with."""

    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (claimed,) = await scene.claimed(scene.other, 0)
            real, has_started = world.engine.read, False

            async def read(work: Work[T]) -> T:
                nonlocal has_started
                answer = await real(work)
                rows = answer if isinstance(answer, list) else []
                if not has_started and any(isinstance(row, OccurrenceRow) and row.owner == scene.other for row in rows):
                    has_started = True
                    (started,) = await scene.start(scene.other, claimed)
                    assert isinstance(started, Started)
                return answer

            world.engine.read = read  # type: ignore[method-assign]  # the engine, and a node that thaws at its worst
            await scene.watch(18.0)
            assert has_started
            row = await scene.row(claimed.ref)
            assert row.status is OccurrenceState.ORPHANED, f"{row.status}, and owner {row.owner}"

    played(story)


@pytest.mark.spec("N2", "an old judgement")
def test_a_node_that_thaws_after_it_was_judged_to_be_dead_and_before_its_rescue_keeps_its_work() -> None:
    """Seed 50337: the rescuer acted on the judgement of an older heartbeat without looking again."""

    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (running,), (unstarted,) = await scene.claimed(scene.other, 0), await scene.claimed(scene.other, 60)
            await scene.start(scene.other, running)
            real, has_thawed = world.engine.read, False

            async def read(work: Work[T]) -> T:
                nonlocal has_thawed
                answer = await real(work)
                rows = answer if isinstance(answer, list) else []
                if not has_thawed and any(isinstance(row, OccurrenceRow) and row.owner == scene.other for row in rows):
                    has_thawed = scene.other in scene.rescuer.handle(await world.store.beat(scene.me))
                    if has_thawed:
                        await world.store.beat(scene.other)
                return answer

            world.engine.read = read  # type: ignore[method-assign]  # the engine, and a node that thaws at its worst
            while not has_thawed:
                await scene.watch(1.0)
            await scene.watch(13.0)
            assert (await scene.row(running.ref)).status is OccurrenceState.RUNNING
            assert (await scene.row(unstarted.ref)).owner == scene.other
            assert [said["node"] for said in world.log.said("rescue.called_off")] == ["other"]
            assert world.log.said("node.rescued") == []
            await scene.watch(5.0)
            assert (await scene.row(running.ref)).status is OccurrenceState.ORPHANED, "it is silent for good"
            assert (await scene.row(unstarted.ref)).owner is None

    played(story)


@pytest.mark.spec("N2", "what another has taken up")
def test_what_another_has_rescued_and_a_third_taken_up_between_two_looks_is_left_to_that_one() -> None:
    """Seed 412 with four nodes: who is dead is looked at twice, and by the second look its work was a living node's."""

    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (claimed,) = await scene.claimed(scene.other, 0)
            await scene.start(scene.other, claimed)
            third = await world.store.join("third", "third", "{}")
            real, is_taken = world.engine.read, False

            async def read(work: Work[T]) -> T:
                nonlocal is_taken
                answer = await real(work)
                rows = answer if isinstance(answer, list) else []
                if not is_taken and any(isinstance(row, OccurrenceRow) and row.owner == scene.other for row in rows):
                    is_taken = True
                    taking = TakeoverWrite(claimed.ref, claimed.fence, None, "it goes on there", owner=third)
                    (taken,) = await world.store.intervene(third, [taking])
                    assert isinstance(taken, Written)
                return answer

            world.engine.read = read  # type: ignore[method-assign]  # the engine, and others who are quicker
            while not (await scene.row(claimed.ref)).fence > claimed.fence:
                await world.store.beat(third)
                await scene.watch(1.0)
            await scene.watch(2.0)
            row = await scene.row(claimed.ref)
            assert (row.status, row.owner, row.fence) == (OccurrenceState.RUNNING, third, claimed.fence + 1)

    played(story)


@pytest.mark.spec("N3", "release and orphan")
def test_twelve_thousand_are_taken_though_no_store_takes_so_many_at_once() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            for first in range(100, 12_100, 4_000):
                await scene.claimed(scene.other, *range(first, first + 4_000))
            await world.store.leave(scene.other)
            await scene.watch(2.0)
            (said,) = world.log.said("node.rescued")
            assert said == {"node": "other", "released": 12_000, "going_on": 0, "adopted": 0, "rerun": 0, "orphaned": 0}

    played(story)


@pytest.mark.spec("N5", "after an outage")
def test_a_rescue_that_the_store_interrupts_is_begun_again_by_a_later_heartbeat() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (unstarted,) = await scene.claimed(scene.other, 60)
            await world.store.leave(scene.other)
            scene.rescuer.handle(await world.store.beat(scene.me))
            world.engine.is_down = True
            await asyncio.sleep(60.0)
            assert world.log.said("rescue.failed")
            world.engine.is_down = False
            await scene.watch(2.0)
            assert (await scene.row(unstarted.ref)).owner is None

    played(story)


@pytest.mark.spec("N5", "after an outage")
def test_who_seemed_dead_before_an_outage_and_is_well_after_it_keeps_its_work() -> None:
    async def story(world: World) -> None:
        async with rescuing(world) as scene:
            (running,) = await scene.claimed(scene.other, 0)
            await scene.start(scene.other, running)
            for _ in range(15):
                scene.rescuer.handle(await world.store.beat(scene.me))
                await asyncio.sleep(1.0)
            beat = await world.store.beat(scene.me)
            world.engine.is_down = True
            assert scene.other in scene.rescuer.handle(beat)
            await asyncio.sleep(60.0)
            world.engine.is_down = False
            scene.rescuer.handle(await world.store.beat(scene.me), was_out_of_touch=True)
            await asyncio.sleep(1.0)
            await world.store.beat(scene.other)
            await scene.watch(10.0)
            assert (await scene.row(running.ref)).status is OccurrenceState.RUNNING

    played(story)
