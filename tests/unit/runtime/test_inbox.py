"""The inbox: bounded, first come first served, and nothing lost silently."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from itinerary.core.loop.messages import Heartbeats, JobChanged, Message, StatisticsAsked
from itinerary.core.loop.replies import LoopStatistics
from itinerary.model.rows import Ref
from itinerary.runtime.inbox import Inbox, InboxStatistics
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played

NEWS = [JobChanged(number) for number in range(200)]


def numbers(messages: list[Message]) -> list[int]:
    return [message.revision for message in messages if isinstance(message, JobChanged)]


def new_inbox(world: World, size: int = 3) -> Inbox:
    return Inbox(size, 5 * SECOND, world.log)


@pytest.mark.spec("L5")
def test_who_finds_it_full_waits_and_what_they_sent_comes_in_the_order_in_which_they_came() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world)
        async with asyncio.TaskGroup() as group:
            for message in NEWS[:10]:
                group.create_task(inbox.send(message))
                await asyncio.sleep(0)
            assert len(inbox) == 3
            came: list[int] = []
            while len(came) < 10:
                came += numbers(await inbox.receive(1.0))
        assert came == list(range(10))
        assert inbox.statistics == InboxStatistics(sent=10, received=10, timeouts=0, depth=0, deepest=3)

    for seed in range(5):
        played(story, seed=seed)


@pytest.mark.spec("L5")
def test_who_comes_when_there_is_room_again_does_not_overtake_those_in_line() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world, size=1)
        await inbox.send(NEWS[0])
        first = asyncio.create_task(inbox.send(NEWS[1]))
        await asyncio.sleep(0)
        assert numbers(await inbox.receive(0)) == [0]
        second = asyncio.create_task(inbox.send(NEWS[2]))
        await asyncio.sleep(0)
        assert numbers(await inbox.receive(0)) == [1]
        assert numbers(await inbox.receive(0)) == [2]
        assert await first
        assert await second

    played(story)


@pytest.mark.spec("L5")
def test_a_send_that_waited_too_long_fails_and_is_logged_with_type_and_depth_and_counted() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world)
        for message in NEWS[:3]:
            await inbox.send(message)
        assert not await inbox.send(Heartbeats([Ref(1)]))
        assert world.loop.time() == 5.0
        (line,) = world.log.said("inbox.full")
        assert (line["message"], line["depth"], line["waited_seconds"]) == ("Heartbeats", 3, 5.0)
        assert inbox.statistics == InboxStatistics(sent=3, received=0, timeouts=1, depth=3, deepest=3)
        assert numbers(await inbox.receive(0)) == [0, 1, 2]
        assert await inbox.receive(0) == [], "what the sender was told has failed does not arrive after all"

    played(story)


@pytest.mark.spec("L5")
def test_those_who_have_given_up_do_not_keep_those_behind_them_waiting() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world)
        for message in NEWS[:3]:
            await inbox.send(message)
        async with asyncio.TaskGroup() as group:
            impatient = [group.create_task(inbox.send(message)) for message in NEWS[3:13]]
            await asyncio.sleep(4.0)
            patient = [group.create_task(inbox.send(message)) for message in NEWS[20:22]]
            await asyncio.sleep(2.0)
            assert numbers(await inbox.receive(0)) == [0, 1, 2]
            assert len(inbox) == 2, "room for the patient ones, at once"
        assert not any(task.result() for task in impatient)
        assert all(task.result() for task in patient)

    played(story)


@pytest.mark.spec("L5")
def test_what_must_arrive_keeps_its_place_and_each_wait_that_was_too_long_is_counted() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world)
        for message in NEWS[:3]:
            await inbox.send(message)
        delivery = asyncio.create_task(inbox.deliver(NEWS[3]))
        await asyncio.sleep(11.0)
        later = asyncio.create_task(inbox.send(NEWS[4]))
        await asyncio.sleep(0)
        assert numbers(await inbox.receive(0)) == [0, 1, 2]
        assert numbers(await inbox.receive(0)) == [3, 4]
        await delivery
        assert await later
        assert inbox.statistics.timeouts == 2
        assert [line["message"] for line in world.log.said("inbox.full")] == ["JobChanged"] * 2

    played(story)


@pytest.mark.spec("L5")
def test_a_sender_who_is_cancelled_in_line_sends_nothing() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world, size=1)
        await inbox.send(NEWS[0])
        sender = asyncio.create_task(inbox.deliver(NEWS[1]))
        await asyncio.sleep(1.0)
        sender.cancel()
        await asyncio.wait([sender])
        assert numbers(await inbox.receive(0)) == [0]
        assert len(inbox) == 0
        assert inbox.statistics.sent == 1

    played(story)


@pytest.mark.spec("L3")
def test_receiving_waits_for_a_message_but_not_for_longer_than_it_is_told() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world)
        assert await inbox.receive(1.5) == []
        assert world.loop.time() == 1.5
        world.loop.call_later(2.0, lambda: asyncio.ensure_future(inbox.send(NEWS[0])))
        assert numbers(await inbox.receive(60.0)) == [0]
        assert world.loop.time() == 3.5

    played(story)


@pytest.mark.spec("L3")
def test_a_loop_that_always_has_something_to_do_lets_others_run() -> None:
    async def story(world: World) -> None:
        inbox, turns = new_inbox(world), 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        neighbour = asyncio.create_task(other())
        for _ in range(10):
            await inbox.receive(0)
            await inbox.send(NEWS[0])
        assert turns >= 10
        neighbour.cancel()

    played(story)


@pytest.mark.spec("L5")
def test_when_nobody_receives_any_more_those_in_line_are_told_and_those_who_come_too() -> None:
    async def story(world: World) -> None:
        inbox = new_inbox(world, size=1)
        await inbox.send(NEWS[0])
        sender, delivery = asyncio.create_task(inbox.send(NEWS[1])), asyncio.create_task(inbox.deliver(NEWS[2]))
        await asyncio.sleep(0)
        inbox.close()
        assert not await sender
        await delivery
        assert not await inbox.send(NEWS[3])
        assert world.loop.time() == 0.0

    played(story)


@pytest.fixture
def without_collector() -> Iterator[None]:
    """A hundred thousand tasks at once are gone through by the collector again and again, and none is garbage."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.spec("L5", "a hundred thousand at once")
@pytest.mark.usefixtures("without_collector")
def test_a_hundred_thousand_messages_at_once_wait_their_turn_and_the_loop_keeps_its_pace() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(30.0)
            before = node.inbox.statistics
            sent = await asyncio.gather(*(node.inbox.send(Heartbeats([Ref(one)])) for one in range(100_000)))
            assert world.loop.time() == 30.0, "one iteration after the other, without a pause"
            found: LoopStatistics = await node.ask(StatisticsAsked)
            await world.sleep_until(70.0)
        after = node.inbox.statistics
        assert all(sent)
        assert after.sent - before.sent >= 100_000
        assert after.received == after.sent
        assert (after.timeouts, after.depth, after.deepest) == (0, 0, 10_000)
        assert found.iterations > 0
        assert [row.started_at for row in await world.rows("tick")] == [row.instant for row in await world.rows("tick")]

    played(story)


@pytest.mark.spec("L5", "a loop that stands still")
def test_messages_to_a_loop_that_stands_still_fail_visibly_and_what_must_arrive_does_later() -> None:
    async def story(world: World) -> None:
        inbox = Inbox(100, 5 * SECOND, world.log)
        async with asyncio.TaskGroup() as group:
            sends = [group.create_task(inbox.send(NEWS[number % 200])) for number in range(150)]
            await asyncio.sleep(0)
            deliveries = [group.create_task(inbox.deliver(NEWS[number])) for number in range(20)]
            await asyncio.sleep(6.0)
            assert sum(task.done() and not task.result() for task in sends) == 50
            assert not any(task.done() for task in deliveries)
            assert len(await inbox.receive(0)) == 100
            assert len(await inbox.receive(0)) == 20
        statistics = inbox.statistics
        assert (statistics.sent, statistics.received, statistics.timeouts) == (120, 120, 70)
        assert len(world.log.said("inbox.full")) == 70

    played(story)
