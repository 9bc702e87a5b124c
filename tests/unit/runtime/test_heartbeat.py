"""The watcher: heartbeats, mail, the store's time, and work for anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from itinerary.core.loop.messages import ClockDoubted, ClockJumped, JobChanged, Message, RowsRead, WorkOffered
from itinerary.errors import SchemaError
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import NodesQuery, StoreStatusQuery
from itinerary.model.rows import JobNumber, Key, NodeNumber
from itinerary.model.settings import Settings
from itinerary.model.writes import AdjustRequest, CancelRequest, Claimed, ClaimRequest, Started, StartRequest
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.clock_jumps import ONLY_DOUBTED, WAS_SET
from itinerary.runtime.heartbeat import Calls, Heartbeat
from itinerary.runtime.inbox import Inbox
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import T, Work
from tests.unit.runtime.world import EPOCH, World, played

M = TypeVar("M", bound=Message)


class Scene:
    """A watcher at work, and all that it said."""

    def __init__(self, world: World, node: NodeNumber, job: JobNumber, **settings: Any) -> None:
        self.world, self.node, self.job = world, node, job
        self.node_ahead = 0
        self.clock = StoreClock(lambda: world.elapsed() + self.node_ahead)
        self.inbox = Inbox(100_000, SECOND, world.log)
        self.beats: list[tuple[HeartbeatReply, bool]] = []
        self.looks: list[tuple[int, int]] = []
        self.about = "{}"
        self.watcher = Heartbeat(
            world.store,
            node,
            Settings(**settings),
            self.clock,
            self.inbox,
            calls=Calls(self._handle, self._look, lambda: self.about),
            log=world.log,
        )

    async def _handle(self, beat: HeartbeatReply, was_out_of_touch: bool) -> None:
        self.beats.append((beat, was_out_of_touch))

    def _look(self, now: int, watermark: int) -> None:
        self.looks.append((now, watermark))

    async def heard(self, kind: type[M]) -> list[M]:
        return [message for message in await self.inbox.receive(0) if isinstance(message, kind)]

    async def claimed(self, owner: NodeNumber | None, *seconds: int) -> list[Claimed]:
        """Rows of somebody, due so many seconds after the beginning."""
        instants = [EPOCH + second * SECOND for second in seconds]
        wanted = [ClaimRequest(Key(instant, self.job, Kind.SCHEDULED), 1, instant) for instant in instants]
        found = await self.world.store.claim(owner, None, wanted)
        assert isinstance(found, list)
        return found

    async def start(self, owner: NodeNumber, *claimed: Claimed) -> None:
        revision = (await self.world.store.read(StoreStatusQuery())).revision
        starts = [StartRequest(one.ref, one.fence, 0, "{}", 60 * SECOND, Overlap.ALLOW) for one in claimed]
        for answer in await self.world.store.start(owner, revision, starts, 2 * SECOND):
            assert isinstance(answer, Started)


@asynccontextmanager
async def watching(world: World, **settings: Any) -> AsyncIterator[Scene]:
    job = await world.register("tick", world.task())
    node = await world.store.join("me", "me", "{}")
    scene = Scene(world, node, job, **settings)
    scene.clock.observe(world.now())
    task = asyncio.create_task(scene.watcher.run())
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait([task])


# -- heartbeats and mail ---------------------------------------------------------------------------------------------


@pytest.mark.spec("N1", "heartbeats")
def test_it_says_every_five_seconds_that_its_node_is_there() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await asyncio.sleep(1.0)
            first = len(scene.beats)
            await asyncio.sleep(50.0)
            assert len(scene.beats) - first == 10
            (row,) = await world.store.read(NodesQuery())
            assert row.counter == len(scene.beats)

    played(story)


def test_what_others_should_know_of_its_node_is_told_when_it_has_changed() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await asyncio.sleep(1.0)
            scene.about = '{"lacks":[7]}'
            await asyncio.sleep(6.0)
            (row,) = await world.store.read(NodesQuery())
            assert row.about == '{"lacks":[7]}'

    played(story)


@pytest.mark.spec("L12")
@pytest.mark.parametrize("request_of", [CancelRequest, AdjustRequest])
def test_a_request_through_the_store_is_heard_of_within_a_second(
    request_of: type[CancelRequest | AdjustRequest],
) -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            (claimed,) = await scene.claimed(scene.node, 60 if request_of is AdjustRequest else 0)
            if request_of is CancelRequest:
                await scene.start(scene.node, claimed)
            await world.sleep_until(11.3)
            await scene.inbox.receive(0)
            await world.store.control(None, [request_of(claimed.ref, "{}")])
            await asyncio.sleep(1.0)
            (message,) = await scene.heard(RowsRead)
            (row,) = message.rows
            assert row.ref == claimed.ref
            assert row.adjustments == 1 if request_of is AdjustRequest else row.cancelled_by == "{}"
            await asyncio.sleep(30.0)
            assert await scene.heard(RowsRead) == [], "mail is thrown away"

    played(story)


@pytest.mark.spec("L12")
def test_a_change_of_the_timeline_is_heard_of_within_a_second() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await world.sleep_until(11.3)
            await scene.inbox.receive(0)
            await world.register("another", world.task())
            await asyncio.sleep(1.0)
            assert await scene.heard(JobChanged) == [JobChanged(2)]
            await asyncio.sleep(30.0)
            assert await scene.heard(JobChanged) == []

    played(story)


class Meddler:
    """Somebody who makes a request just when mail has been thrown away, and before what it was about is read."""

    def __init__(self, scene: Scene, claimed: Claimed) -> None:
        self._scene, self._claimed = scene, claimed
        self._engine = scene.world.engine
        self._write = self._engine.write
        self.has_meddled = False

    async def write(self, work: Work[T]) -> T:
        answer = await self._write(work)
        if isinstance(answer, HeartbeatReply) and not answer.mail and not self.has_meddled and self._scene.beats:
            self.has_meddled = True
            await self._scene.world.store.control(None, [AdjustRequest(self._claimed.ref, '{"priority":7}')])
        return answer


@pytest.mark.spec("L12", "mail is thrown away first")
def test_a_request_that_comes_between_throwing_mail_away_and_reading_is_not_lost() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            (claimed,) = await scene.claimed(scene.node, 60)
            await asyncio.sleep(2.0)
            await world.store.control(None, [AdjustRequest(claimed.ref, '{"priority":3}')])
            meddler = Meddler(scene, claimed)
            world.engine.write = meddler.write  # type: ignore[method-assign]  # the engine, with somebody at the door
            await asyncio.sleep(1.0)
            last = [row for message in await scene.heard(RowsRead) for row in message.rows][-1]
            assert meddler.has_meddled
            assert (last.adjustments, last.overrides) == (2, '{"priority":7}')

    played(story)


@pytest.mark.spec("L12", "lost answers")
def test_mail_is_heard_of_though_answers_are_lost() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            (claimed,) = await scene.claimed(scene.node, 60)
            await asyncio.sleep(2.0)
            await world.store.control(None, [CancelRequest(claimed.ref, "anna")])
            (second,) = await scene.claimed(scene.node, 61)
            await world.store.control(None, [AdjustRequest(second.ref, "{}")])
            world.engine.answers_lost = 3
            await asyncio.sleep(3.0)
            read = {row.ref for message in await scene.heard(RowsRead) for row in message.rows}
            assert second.ref in read

    played(story)


@pytest.mark.spec("L12")
def test_rows_that_the_core_wants_to_see_are_read_at_once() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            (claimed,) = await scene.claimed(scene.node, 60)
            await world.sleep_until(1.3)
            await scene.inbox.receive(0)
            scene.watcher.look([claimed.ref])
            await asyncio.sleep(0.01)
            (message,) = await scene.heard(RowsRead)
            assert [row.ref for row in message.rows] == [claimed.ref]

    played(story)


@pytest.mark.spec("N5")
def test_it_outlives_the_absence_of_its_store_and_says_that_it_was_out_of_touch() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await asyncio.sleep(7.0)
            assert not any(was_out_of_touch for _, was_out_of_touch in scene.beats)
            before = len(scene.beats)
            world.engine.is_down = True
            await asyncio.sleep(60.0)
            assert len(scene.beats) == before
            world.engine.is_down = False
            await asyncio.sleep(10.0)
            assert [was_out_of_touch for _, was_out_of_touch in scene.beats[before:]][:2] == [True, False]
            assert world.log.said("watch.interrupted")
            await world.register("another", world.task())
            await asyncio.sleep(1.0)
            assert JobChanged(2) in await scene.heard(JobChanged), "it listens again"
            assert not scene.clock.is_in_doubt

    played(story)


@pytest.mark.spec("D7")
def test_a_store_that_can_no_longer_be_used_ends_it() -> None:
    async def story(world: World) -> None:
        scene = Scene(world, await world.store.join("me", "me", "{}"), JobNumber(1))
        scene.clock.observe(world.now())
        world.engine.broken_by = SchemaError("newer than this program")
        with pytest.raises(ExceptionGroup) as raised:
            await scene.watcher.run()
        assert raised.group_contains(SchemaError)

    played(story)


# -- the store's time ------------------------------------------------------------------------------------------------


@pytest.mark.spec("N6")
@pytest.mark.parametrize("by", [3_600 * SECOND, -3_600 * SECOND])
def test_when_the_stores_clock_is_set_that_is_doubted_then_believed_within_a_second(by: int) -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await world.sleep_until(30.5)
            await scene.inbox.receive(0)
            world.store_ahead = by
            await asyncio.sleep(1.0)
            messages = [one for one in await scene.inbox.receive(0) if isinstance(one, ClockDoubted | ClockJumped)]
            assert messages == [ClockDoubted(by), ClockJumped(by, WAS_SET)]
            assert scene.clock.now() == world.now()

    played(story)


@pytest.mark.spec("N6")
def test_when_the_nodes_own_clock_jumps_the_stores_time_is_found_again() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await world.sleep_until(30.5)
            await scene.inbox.receive(0)
            scene.node_ahead = 600 * SECOND
            await asyncio.sleep(1.5)
            messages = [one for one in await scene.inbox.receive(0) if isinstance(one, ClockDoubted | ClockJumped)]
            assert messages == [ClockDoubted(-600 * SECOND), ClockJumped(-600 * SECOND, WAS_SET)]
            assert scene.clock.now() == world.now()

    played(story)


@pytest.mark.spec("N6", "a false alarm")
def test_a_single_strange_answer_is_doubted_and_then_all_is_well() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await world.sleep_until(30.5)
            await scene.inbox.receive(0)
            await scene.watcher._set_clock(world.now() + 60 * SECOND, scene.clock.elapsed())
            await asyncio.sleep(1.0)
            messages = [one for one in await scene.inbox.receive(0) if isinstance(one, ClockDoubted | ClockJumped)]
            assert messages == [ClockDoubted(60 * SECOND), ClockJumped(0, ONLY_DOUBTED)]
            assert scene.clock.now() == world.now()

    played(story)


@pytest.mark.spec("N6", "slow answers")
def test_a_store_that_answers_slowly_does_not_seem_to_have_another_time() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            await asyncio.sleep(5.0)
            await scene.inbox.receive(0)
            world.engine.answers_after = 7.0
            await asyncio.sleep(120.0)
            messages = await scene.inbox.receive(0)
            assert not [message for message in messages if isinstance(message, ClockDoubted | ClockJumped)]
            assert scene.clock.now() == world.now()

    played(story)


# -- work for anybody ------------------------------------------------------------------------------------------------


@pytest.mark.spec("N3", "takeover")
def test_what_is_nobodys_is_offered_when_it_is_due_and_what_others_leave_lying_a_little_later() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            other = await world.store.join("other", "other", "{}")
            (nobodys,) = await scene.claimed(None, 10)
            (theirs,) = await scene.claimed(other, 11)
            (mine,) = await scene.claimed(scene.node, 12)
            await world.sleep_until(9.5)
            assert await scene.heard(WorkOffered) == []
            await world.sleep_until(11.2)
            assert {row.ref for message in await scene.heard(WorkOffered) for row in message.rows} == {nobodys.ref}
            await world.sleep_until(30.2)
            offered = {row.ref for message in await scene.heard(WorkOffered) for row in message.rows}
            assert offered == {nobodys.ref, theirs.ref, mine.ref}, "the loop knows which of its own it has"

    played(story)


@pytest.mark.spec("N3", "takeover")
def test_what_lies_unstarted_behind_a_thousand_long_runs_is_found() -> None:
    async def story(world: World) -> None:
        async with watching(world) as scene:
            other = await world.store.join("other", "other", "{}")
            running = await scene.claimed(other, *range(-1_000, 0))
            await scene.start(other, *running)
            (left,) = await scene.claimed(other, 1)
            await asyncio.sleep(0.5)
            await scene.inbox.receive(0)  # before they had started, they were offered too
            await world.sleep_until(5.0)
            assert {row.ref for message in await scene.heard(WorkOffered) for row in message.rows} == {left.ref}

    played(story)


@pytest.mark.spec("N5")
def test_while_the_store_is_away_no_work_is_offered_and_nothing_breaks() -> None:
    async def story(world: World) -> None:
        async with watching(world, grace_period=120 * SECOND) as scene:
            await scene.claimed(None, 10)
            world.engine.is_down = True
            await world.sleep_until(60.0)
            assert await scene.heard(WorkOffered) == []
            world.engine.is_down = False
            await asyncio.sleep(2.0)
            assert await scene.heard(WorkOffered)

    played(story)
