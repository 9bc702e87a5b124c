"""The syncer: flushed by size, by time, by both; in order, again and again until it is written, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from itinerary.core.loop.messages import WritesAnswered
from itinerary.errors import StoreError, UnwritableError
from itinerary.model.queries import StatisticsQuery
from itinerary.model.rows import NodeNumber, Ref, StatisticsRow
from itinerary.model.settings import Settings
from itinerary.model.writes import OwnerWrite, Refusal, Refused, Written
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.store_retry import StoreRetry
from itinerary.runtime.syncer import STATISTICS_MAX, Syncer
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import World, played

ME = NodeNumber(1)


def change(sequence: int, ref: int = 1) -> OwnerWrite:
    return OwnerWrite(Ref(ref), 1, sequence)


def changes(*sequences: int) -> list[OwnerWrite]:
    return [change(sequence) for sequence in sequences]


def row(at: int) -> StatisticsRow:
    return StatisticsRow(ME, at, 1, 1, 1, 0, 0, 0, 0)


class Book(EngineStore):
    """A store that remembers what came to be written, and when."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine)
        self._world = world
        self.batches: list[tuple[float, list[int]]] = []
        self.statistics: list[tuple[float, int]] = []
        self.broken = 0

    @property
    def written(self) -> list[int]:
        """All of it, in order."""
        return [sequence for _, sequences in self.batches for sequence in sequences]

    async def write(self, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> list[Written | Refused]:
        if self.broken in [change.sequence for change in changes]:
            raise UnwritableError("it cannot be written")
        answers = await super().write(owner, changes)
        self.batches.append((round(self._world.loop.time(), 3), [change.sequence for change in changes]))
        return answers

    async def note_statistics(self, rows: Sequence[StatisticsRow]) -> None:
        await super().note_statistics(rows)
        self.statistics.append((round(self._world.loop.time(), 3), len(rows)))


class Scene:
    """A syncer at work."""

    def __init__(self, world: World) -> None:
        self.store = Book(world)
        self.inbox = Inbox(100_000, SECOND, world.log)
        self.syncer = Syncer(self.store, ME, Settings(), self.inbox, world.log)

    async def answered(self) -> list[int]:
        """The sequences of what has been answered, in order."""
        found: list[int] = []
        for message in await self.inbox.receive(0):
            assert isinstance(message, WritesAnswered)
            assert [one.ref for one in message.changes] == [one.ref for one in message.answers]
            found += [one.sequence for one in message.changes]
        return found


@asynccontextmanager
async def syncing(world: World) -> AsyncIterator[Scene]:
    scene = Scene(world)
    task = asyncio.create_task(scene.syncer.run())
    await asyncio.sleep(0)
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait([task])


# -- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L7", "size")
def test_a_hundred_updates_are_written_at_once() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            for sequence in range(1, 100):
                scene.syncer.write(changes(sequence), is_urgent=False)
            await asyncio.sleep(0.5)
            assert scene.store.batches == []
            assert scene.syncer.unwritten_updates == 99
            scene.syncer.write(changes(100), is_urgent=False)
            await asyncio.sleep(0.1)
            assert scene.store.batches == [(0.5, list(range(1, 101)))]
            assert scene.syncer.unwritten_updates == 0
            await asyncio.sleep(5.0)
            assert len(scene.store.batches) == 1, "the time that they would have waited for has nothing left to do"

    played(story)


@pytest.mark.spec("L7", "time")
def test_an_update_waits_a_second_for_others_and_no_longer() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            await asyncio.sleep(0.25)
            scene.syncer.write(changes(1), is_urgent=False)
            await asyncio.sleep(0.5)
            scene.syncer.write(changes(2), is_urgent=False)
            await asyncio.sleep(1.0)
            scene.syncer.write(changes(3), is_urgent=False)
            await asyncio.sleep(2.0)
            assert scene.store.batches == [(1.25, [1, 2]), (2.75, [3])]

    played(story)


@pytest.mark.spec("L7", "size and time at once")
def test_when_enough_have_come_in_the_moment_in_which_time_is_up_they_are_written_once() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            scene.syncer.write(changes(1), is_urgent=False)
            world.loop.call_at(1.0, lambda: scene.syncer.write(changes(*range(2, 101)), is_urgent=False))
            await asyncio.sleep(3.0)
            assert scene.store.written == list(range(1, 101))
            assert {at for at, _ in scene.store.batches} == {1.0}
            assert await scene.answered() == list(range(1, 101))

    for seed in range(8):
        played(story, seed=seed)


@pytest.mark.spec("L7", "urgent")
def test_what_cannot_wait_takes_along_everything_that_was_there_before_it() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            scene.syncer.write(changes(1, 2), is_urgent=False)
            await asyncio.sleep(0.25)
            scene.syncer.write(changes(3), is_urgent=True)
            await asyncio.sleep(0.25)
            assert scene.store.batches == [(0.25, [1, 2, 3])]
            scene.syncer.write(changes(4), is_urgent=False)
            scene.syncer.write([], is_urgent=True)  # somebody waits for what is there to be written
            await asyncio.sleep(0.25)
            assert scene.store.batches[1:] == [(0.5, [4])]

    played(story)


@pytest.mark.spec("L7", "order")
def test_one_batch_is_on_its_way_at_a_time_so_everything_arrives_in_its_order() -> None:
    async def story(world: World) -> None:
        world.engine.takes = 3.0
        async with syncing(world) as scene:
            for sequence in range(1, 6):
                scene.syncer.write(changes(sequence), is_urgent=True)
                await asyncio.sleep(0.5)
            assert scene.syncer.unwritten_updates == 5, "what is on its way is not written yet"
            await asyncio.sleep(10.0)
            assert scene.store.batches == [(3.0, [1]), (6.0, [2, 3, 4, 5])]
            assert await scene.answered() == [1, 2, 3, 4, 5]

    played(story)


@pytest.mark.spec("L7", "size")
def test_ten_thousand_at_once_go_in_pieces_and_none_waits_for_time_to_pass() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            scene.syncer.write(changes(*range(1, 10_241)), is_urgent=False)
            await asyncio.sleep(0.1)
            assert [len(sequences) for _, sequences in scene.store.batches] == [1_024] * 10
            assert await scene.answered() == list(range(1, 10_241))

    played(story)


# -- whatever happens ------------------------------------------------------------------------------------------------


@pytest.mark.spec("L7", "never dropped")
def test_with_the_store_away_for_five_minutes_nothing_is_lost_and_everything_is_written_once() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            world.engine.is_down = True
            for sequence in range(1, 301):
                scene.syncer.write(changes(sequence), is_urgent=sequence % 7 == 0)
                await asyncio.sleep(1.0)
            assert scene.store.batches == []
            assert scene.syncer.unwritten_updates == 300
            world.engine.is_down = False
            await asyncio.sleep(6.0)
            assert scene.store.written == list(range(1, 301))
            assert await scene.answered() == list(range(1, 301))
            assert len(world.log.said("store.unavailable")) == 1
            assert len(world.log.said("store.answers_again")) == 1

    played(story)


@pytest.mark.spec("L7", "lost answers")
def test_a_batch_whose_answer_was_lost_is_written_again_and_answered_once() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            world.engine.answers_lost = 2
            scene.syncer.write(changes(1, 2), is_urgent=True)
            await asyncio.sleep(1.0)
            assert await scene.answered() == [1, 2]
            assert world.engine.writes == 3 + 1, "three tries, and one write that opened the store"

    played(story)


@pytest.mark.spec("L7", "one bad update")
def test_an_update_that_can_never_be_written_is_refused_and_takes_no_other_with_it() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            scene.store.broken = 5
            scene.syncer.write(changes(*range(1, 11)), is_urgent=True)
            await asyncio.sleep(1.0)
            (message,) = await scene.inbox.receive(0)
            assert isinstance(message, WritesAnswered)
            illegal = [
                (one.sequence, answer.by)
                for one, answer in zip(message.changes, message.answers, strict=True)
                if isinstance(answer, Refused) and answer.why is Refusal.ILLEGAL
            ]
            assert illegal == [(5, "it cannot be written")]

    played(story)


# -- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L7", "statistics")
def test_statistics_are_flushed_by_thirty_rows_or_thirty_seconds() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            for at in range(30):
                scene.syncer.keep(row(at))
            await asyncio.sleep(0.1)
            assert scene.store.statistics == [(0.0, 30)]
            scene.syncer.keep(row(30))
            await asyncio.sleep(29.0)
            scene.syncer.keep(row(31))
            assert scene.syncer.unwritten_statistics == 2
            await asyncio.sleep(2.0)
            assert scene.store.statistics == [(0.0, 30), (30.1, 2)]

    played(story)


@pytest.mark.spec("L7", "dropped statistics")
def test_statistics_beyond_their_bound_are_dropped_and_counted_and_that_is_said_once() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            world.engine.is_down = True
            for at in range(STATISTICS_MAX + 10):
                scene.syncer.keep(row(at))
                if at == 100:
                    await asyncio.sleep(0.1)  # some of them are on their way from now on
            assert scene.syncer.unwritten_statistics == STATISTICS_MAX
            assert scene.syncer.dropped_statistics == 10
            assert len(world.log.said("statistics.dropped")) == 1
            world.engine.is_down = False
            await asyncio.sleep(10.0)
            assert scene.syncer.unwritten_statistics == 0
            assert len(await scene.store.read(StatisticsQuery(ME))) == STATISTICS_MAX

    played(story)


@pytest.mark.spec("L7", "dropped statistics")
def test_statistics_that_can_never_be_stored_are_dropped_and_counted() -> None:
    async def story(world: World) -> None:
        async with syncing(world) as scene:
            world.engine.broken_by = StoreError("broken")
            for at in range(30):
                scene.syncer.keep(row(at))
            await asyncio.sleep(0.1)
            world.engine.broken_by = None
            assert scene.syncer.dropped_statistics == 30
            assert world.log.said("statistics.dropped") == [{"count": 30, "error": "broken"}]

    played(story)


@pytest.mark.spec("R9", "flush")
@pytest.mark.parametrize("way", ["there", "back"])
def test_what_is_left_of_statistics_is_stored_at_the_end_once_even_if_it_was_on_its_way(way: str) -> None:
    async def story(world: World) -> None:
        world.engine.takes, world.engine.answers_after = (2.0, 0.0) if way == "there" else (0.0, 2.0)
        async with syncing(world) as scene:
            for at in range(35):
                scene.syncer.keep(row(at))
                await asyncio.sleep(0)
            await asyncio.sleep(1.0)  # 30 are on their way, or stored, and that is not answered
        world.engine.takes = world.engine.answers_after = 0.0
        assert scene.syncer.unwritten_statistics == 35
        await scene.syncer.flush(StoreRetry("leaving", world.log))
        assert scene.syncer.unwritten_statistics == 0
        assert len(await scene.store.read(StatisticsQuery(ME))) == 35

    played(story)
