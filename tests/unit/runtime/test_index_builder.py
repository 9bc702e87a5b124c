"""The index builder: every so often, at once when something has changed, and in spite of what is broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from itinerary.core.loop.messages import IndexBuilt
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreUnavailable
from itinerary.model.definition import Definition
from itinerary.model.rows import EntryKind
from itinerary.model.settings import Settings
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.index_builder import IndexBuilder
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, here, played

MINUTE = 60 * SECOND


class Scene:
    """A builder at work."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        self.unknown: set[str] = set()
        """Functions that this node does not have."""
        self.clock = StoreClock(world.elapsed)
        self.clock.observe(world.now())
        self.inbox = Inbox(1_000, SECOND, world.log)
        self.builder = IndexBuilder(
            world.store,
            Settings(**settings),
            self.clock,
            self.inbox,
            PlanCache(Timeline(), knows=self._knows),
            elsewhere=here,
            log=world.log,
        )

    def _knows(self, definition: Definition) -> bool:
        return not any(task.definition["python"] in self.unknown for task in definition.tasks)

    async def built(self) -> list[IndexBuilt]:
        return [message for message in await self.inbox.receive(0) if isinstance(message, IndexBuilt)]

    async def last(self) -> IndexBuilt:
        return (await self.built())[-1]


@asynccontextmanager
async def building(world: World, **settings: Any) -> AsyncIterator[Scene]:
    scene = Scene(world, **settings)
    task = asyncio.create_task(scene.builder.run())
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait([task])


def due(message: IndexBuilt) -> list[tuple[str, int, int]]:
    """What is in an index: job, version, seconds since the beginning of the story."""
    runs = message.index.query(EPOCH - 10**12, EPOCH + 10**12)
    found = []
    for number, instant in zip(runs.numbers.tolist(), runs.instants.tolist(), strict=True):
        job, version = message.jobs[number]
        found.append((message.plans.timeline.jobs[job].name, version, (instant - EPOCH) // SECOND))
    return found


@pytest.mark.spec("I3", "window")
def test_it_covers_from_the_grace_period_before_now_to_the_look_ahead_after_it() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("10s"))
        scene = Scene(world)
        await world.sleep_until(60.0)
        await scene.builder.build("a test")
        seconds = [second for _, _, second in due(await scene.last())]
        assert seconds == list(range(30, 660, 10))
        (line,) = world.log.said("index.rebuilt")
        assert (line["window_start"], line["window_end"]) == (EPOCH + 30 * SECOND, EPOCH + 660 * SECOND)
        assert (line["why"], line["jobs"], line["runs"], line["revision"]) == ("a test", 1, 63, 1)
        assert line["took_microseconds"] == 0

    played(story)


@pytest.mark.spec("I3", "every rebuild interval")
def test_it_is_rebuilt_every_minute() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task())
        async with building(world):
            await world.sleep_until(601.0)
        assert len(world.log.said("index.rebuilt")) == 10
        assert {line["why"] for line in world.log.said("index.rebuilt")} == {"its time has come"}

    played(story)


@pytest.mark.spec("I3", "at once")
def test_it_is_rebuilt_at_once_when_that_is_wanted_and_the_interval_begins_anew() -> None:
    async def story(world: World) -> None:
        async with building(world) as scene:
            await world.sleep_until(20.0)
            await world.register("tick", world.task())
            scene.builder.rebuild("the timeline has changed")
            await asyncio.sleep(0.01)
            assert due(await scene.last())[0] == ("tick", 1, 60)
            await world.sleep_until(79.0)
            assert len(world.log.said("index.rebuilt")) == 1
            await world.sleep_until(81.0)
        assert [line["why"] for line in world.log.said("index.rebuilt")] == [
            "the timeline has changed",
            "its time has come",
        ]

    played(story)


@pytest.mark.spec("I3", "a job that does not parse")
def test_a_job_that_does_not_parse_is_logged_once_and_left_out() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task())
        await world.enter("nonsense", '{"schedule": {"cron": "61 * * * *"}}')
        async with building(world) as scene:
            await world.sleep_until(301.0)
            assert {job for job, _, _ in due(await scene.last())} == {"tick"}
        (line,) = world.log.said("job.quarantined")
        assert line["job"] == "nonsense"
        assert line["reason"]

    played(story)


@pytest.mark.spec("D9", "quarantined")
def test_a_job_whose_code_is_not_here_is_logged_once_and_taken_up_when_it_is_there_again() -> None:
    async def story(world: World) -> None:
        async def gone() -> None: ...

        await world.register("tick", world.task())
        await world.register("orphan", gone, schedule=every("5m"))
        async with building(world) as scene:
            scene.unknown.add("world:orphan.gone")
            await world.sleep_until(601.0)
        assert world.log.said("job.quarantined") == [
            {"job": "orphan", "reason": "the code of its version 1 is not on this node"}
        ]

    played(story)


@pytest.mark.spec("D9", "quarantined")
def test_a_job_whose_configuration_makes_no_sense_is_logged_and_left_alone() -> None:
    async def story(world: World) -> None:
        schedule = '{"schedule": {"every": "1m"}, "overrides": {"max_queued": 5}}'
        await world.enter("odd", schedule)
        async with building(world) as scene:
            scene.builder.rebuild("a test")
            await asyncio.sleep(1.0)
        (line,) = world.log.said("job.quarantined")
        assert line["job"] == "odd"
        assert "max_queued" in line["reason"]

    played(story)


@pytest.mark.spec("I3", "the store fails")
def test_if_jobs_cannot_be_read_the_old_index_stays_that_is_said_once_and_it_is_soon_tried_again() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task())
        async with building(world) as scene:
            await world.sleep_until(61.0)
            assert len(await scene.built()) == 1
            world.engine.is_down = True
            await world.sleep_until(300.0)
            assert await scene.built() == []
            errors = [line for line in world.log.lines if line.event == "index.not_rebuilt" and line.level == "error"]
            assert [line.fields["error"] for line in errors] == ["memory: is away"]
            world.engine.is_down = False
            await asyncio.sleep(5.0)
            assert len(await scene.built()) == 1, "within seconds, not at the next full minute"
            before = world.loop.time()
            await asyncio.sleep(50.0)
            assert await scene.built() == [], f"and at its pace again since {before}"

    played(story)


@pytest.mark.spec("I3", "the store fails")
def test_the_first_index_is_not_built_without_a_store() -> None:
    async def story(world: World) -> None:
        world.engine.is_down = True
        with pytest.raises(StoreUnavailable):
            await Scene(world).builder.build("the node starts")

    played(story)


@pytest.mark.spec("I3", "versions")
def test_a_version_that_takes_effect_within_the_window_has_its_instants_from_then_on() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        later = world.task()
        later.__name__ = "later"
        await world.register("tick", later, schedule=every("2m"), from_version=1, effective_from=EPOCH + 3 * MINUTE + 1)
        scene = Scene(world)
        await scene.builder.build("a test")
        assert due(await scene.last()) == [
            ("tick", 1, 0),
            ("tick", 1, 60),
            ("tick", 1, 120),
            ("tick", 1, 180),
            ("tick", 2, 240),
            ("tick", 2, 360),
            ("tick", 2, 480),
        ]

    played(story)


@pytest.mark.spec("I3", "versions")
def test_what_is_paused_is_not_in_it() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(), schedule=every("1m"))
        pause = TimelineEntryRequest(
            job="tick", kind=EntryKind.PAUSE, request="p", by="test", effective_from=EPOCH + 3 * MINUTE + 1
        )
        await world.store.amend([pause])
        scene = Scene(world)
        await scene.builder.build("a test")
        assert [second for _, _, second in due(await scene.last())] == [0, 60, 120, 180]

    played(story)


def test_reading_twice_at_the_same_time_reads_everything_once() -> None:
    async def story(world: World) -> None:
        for number in range(5):
            await world.register(f"job{number}", world.task())
        world.engine.takes = 0.5
        scene = Scene(world)
        first, second = await asyncio.gather(scene.builder.read(), scene.builder.read())
        assert len(first.jobs) == len(second.jobs) == 5
        assert scene.builder.timeline.revision == 5

    played(story)


@pytest.mark.spec("S9", "bounded")
def test_a_look_ahead_that_holds_more_than_can_be_enumerated_is_halved() -> None:
    async def story(world: World) -> None:
        for number in range(120):
            await world.register(f"job{number}", world.task(), schedule=every("1s"))
        day = 86_400 * SECOND
        scene = Scene(world, lookahead_window=day, index_rebuild_interval=day - 1)
        await scene.builder.build("a test")
        (line,) = world.log.said("index.rebuilt")
        assert line["window_end"] == EPOCH + day // 2
        assert len((await scene.last()).index) == 120 * 43_200
        assert scene.builder._usual == 6 * 3_600, "and rebuilt before it has come to its end"

    played(story)
