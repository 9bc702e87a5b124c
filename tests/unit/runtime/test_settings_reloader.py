"""Settings that are read again while a node runs: each that is called live takes effect, and the rest waits (U13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.core.loop.messages import Heartbeats, JobChanged, Message
from itinerary.errors import ConfigError
from itinerary.jobs.declaration import DeclarationContext
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.policies import Overlap, UpdatePolicy
from itinerary.model.queries import StatisticsQuery
from itinerary.model.settings import LIVE, ReloadResult, Settings, reread_settings
from itinerary.model.states import OccurrenceState
from itinerary.operations.job_updates import DefinitionChange
from itinerary.operations.node_client import NodeClient
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.node import Node
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played

LONG = 100_000.0
HOUR = 3600 * SECOND


class Changing:
    """A node whose settings somebody edits while it runs."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world, self.wanted = world, Settings(**settings)
        self.error: ConfigError | None = None
        self.needs_apply: tuple[str, ...] = ()
        self.node: Node = world.node(reread=self._reread, **settings)

    def _reread(self) -> ReloadResult:
        if self.error is not None:
            raise self.error
        return replace(reread_settings(self.node.settings, self.wanted), needs_apply=self.needs_apply)

    async def change(self, **settings: Any) -> None:
        """Edit them, and have them read again."""
        self.wanted = replace(self.wanted, **settings)
        await self.ask("settings.reread")

    async def ask(self, event: str) -> dict[str, Any]:
        """Have them read again; what is said of it."""
        before = len(self.world.log.said(event))
        self.node.reread()
        await self.world.until(lambda: len(self.world.log.said(event)) > before)
        return self.world.log.said(event)[-1]


@asynccontextmanager
async def changing(world: World, **settings: Any) -> AsyncIterator[Changing]:
    scene = Changing(world, **settings)
    async with world.running(scene.node):
        yield scene


# -- each live setting, and what changes with it -----------------------------------------------------------------------


async def pre_schedule_interval(world: World) -> None:
    await world.register("job", world.task())
    async with changing(world) as scene:
        await world.sleep_until(15.0)
        assert not [row for row in await world.rows("job") if row.due_at > world.now()], "it is 45 seconds away"
        await scene.change(pre_schedule_interval=50 * SECOND)
        await world.sleep_until(20.0)
        assert (await world.rows("job"))[-1].status is OccurrenceState.PRERUN


async def index_rebuild_interval(world: World) -> None:
    def by_time() -> int:
        return len([line for line in world.log.said("index.rebuilt") if line["why"] == "its time has come"])

    async with changing(world, index_rebuild_interval=300 * SECOND) as scene:
        await world.sleep_until(60.0)
        assert by_time() == 0
        await scene.change(index_rebuild_interval=10 * SECOND)
        await world.sleep_until(115.0)
        assert by_time() == 5


async def lookahead_window(world: World) -> None:
    async with changing(world) as scene:
        await scene.change(lookahead_window=1_200 * SECOND)
        await asyncio.sleep(1.0)
        line = world.log.said("index.rebuilt")[-1]
        assert line["window_end"] - line["window_start"] == (1_200 + 30) * SECOND


async def inbox_send_timeout(world: World) -> None:
    async with changing(world) as scene:
        await scene.change(inbox_send_timeout=2 * SECOND)
        assert scene.node.inbox._timeout == 2.0
    inbox = Inbox(1, 5 * SECOND, world.log)
    inbox.take_settings(scene.node.settings)
    assert await inbox.send(JobChanged(1))
    begun = world.loop.time()
    assert not await inbox.send(JobChanged(2))
    assert world.loop.time() - begun == pytest.approx(2.0)


async def max_missed_orchestrator_heartbeats(world: World) -> None:
    await world.register("job", world.task(LONG))
    async with changing(world, max_missed_orchestrator_heartbeats=1_000) as scene:
        deliver = scene.node.inbox.deliver

        async def deafly(message: Message) -> None:
            if not isinstance(message, Heartbeats):
                await deliver(message)

        scene.node.inbox.deliver = deafly  # type: ignore[method-assign] # nobody is heard
        await world.sleep_until(200.0)
        assert (await world.due("job"))[0].status is OccurrenceState.RUNNING
        await scene.change(max_missed_orchestrator_heartbeats=3)
        await world.sleep_until(210.0)
        assert (await world.due("job"))[0].status is OccurrenceState.ORPHANED


async def max_concurrent_jobs(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        await world.register(name, world.task(100.0), schedule=every("1h", start="2026-03-28T12:01:00Z"))
    async with changing(world, max_concurrent_jobs=1) as scene:
        await world.sleep_until(70.0)
        assert len(world.began) == 1
        await scene.change(max_concurrent_jobs=3)
        await world.sleep_until(71.0)
        assert len(world.began) == 3
        await scene.change(max_concurrent_jobs=1)
        await world.sleep_until(161.0)
        assert len(world.began) == 3, "the first has ended, and two still have the one slot"
        await world.sleep_until(172.0)
        assert len(world.began) == 4


async def recovery_pace(world: World) -> None:
    await world.register("job", world.task(), schedule=every("1s"), overrides=Overrides(overlap=Overlap.ALLOW))
    await world.sleep_until(2_000.0)
    async with changing(world, recovery_pace=1, max_concurrent_jobs=1_000) as scene:
        await asyncio.sleep(20.0)
        slowly = len(world.began)
        await scene.change(recovery_pace=200)
        await asyncio.sleep(5.0)
        assert slowly < 100
        assert len(world.began) > slowly + 800


async def shutdown_grace_period(world: World) -> None:
    async def stubborn(_: Any) -> None:
        world.began.append("stubborn")
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            await asyncio.sleep(LONG)

    await world.register("job", stubborn)
    scene = Changing(world, shutdown_grace_period=HOUR, kill_grace=HOUR)
    async with world.running(scene.node) as task:
        await world.until(lambda: bool(world.began), within=90.0)
        await scene.change(shutdown_grace_period=2 * SECOND)
        begun = world.loop.time()
        scene.node.shut_down()
        assert (await task).unfinished == 1
        assert 2.0 <= world.loop.time() - begun < 8.0


async def reaper_interval(world: World) -> None:
    looks = 0
    async with changing(world, reaper_interval=HOUR) as scene:
        await asyncio.sleep(1.0)
        look = scene.node._reaper.look

        async def counted() -> None:
            nonlocal looks
            looks += 1
            await look()

        scene.node._reaper.look = counted  # type: ignore[method-assign] # only counted
        await world.sleep_until(100.0)
        assert looks == 0
        await scene.change(reaper_interval=10 * SECOND)
        await world.sleep_until(155.0)
        assert looks == 6


async def max_buffered_updates(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.register(name, world.task(30.0))
    async with changing(world) as scene:
        await world.sleep_until(61.0)
        await scene.change(max_buffered_updates=1)
        world.engine.is_down = True
        await world.sleep_until(95.0)
        assert world.log.said("node.takes_no_work")[0]["max_buffered_updates"] == 1
        world.engine.is_down = False
        await world.sleep_until(110.0)
        assert world.log.said("node.takes_work_again")


async def _mark_is_written_with(world: World, **setting: int) -> None:
    """That one waits for a slot is written when enough has come together, or some time has passed."""
    schedule = every("1h", start="2026-03-28T12:01:00Z")
    await world.register("first", world.task(LONG), schedule=schedule, overrides=Overrides(priority=1))
    await world.register("second", world.task(LONG), schedule=schedule)
    slow = {"update_flush_threshold": 1_000, "update_flush_interval": HOUR}
    async with changing(world, max_concurrent_jobs=1, **slow) as scene:
        await world.sleep_until(90.0)
        assert (await world.due("second"))[0].status is OccurrenceState.PRERUN
        await scene.change(**setting)
        await asyncio.sleep(3.0)
        assert (await world.due("second"))[0].status is OccurrenceState.PENDING


async def update_flush_threshold(world: World) -> None:
    await _mark_is_written_with(world, update_flush_threshold=1)


async def update_flush_interval(world: World) -> None:
    await _mark_is_written_with(world, update_flush_interval=2 * SECOND)


async def _statistics_are_written_with(world: World, **setting: int) -> None:
    async with changing(world, stats_flush_threshold=10_000, stats_flush_interval=HOUR) as scene:
        number = scene.node.number
        assert number is not None
        await world.sleep_until(20.0)
        assert await world.store.read(StatisticsQuery(number)) == []
        await scene.change(**setting)
        await asyncio.sleep(5.0)
        assert len(await world.store.read(StatisticsQuery(number))) >= 20


async def stats_flush_threshold(world: World) -> None:
    await _statistics_are_written_with(world, stats_flush_threshold=5)


async def stats_flush_interval(world: World) -> None:
    await _statistics_are_written_with(world, stats_flush_interval=2 * SECOND)


async def update_policy(world: World) -> None:
    await world.register("job", world.task())
    async with changing(world) as scene:
        desk = NodeClient(world.store, scene.node, "anna", DeclarationContext(world.registry, NOTHING, {}))
        change = DefinitionChange(schedule=every("10m"))
        assert (await desk.updates.update("job", change, is_plan=True)).policy is UpdatePolicy.IMMEDIATE
        await scene.change(update_policy=UpdatePolicy.GRACEFUL)
        assert (await desk.updates.update("job", change, is_plan=True)).policy is UpdatePolicy.GRACEFUL


async def _the_next_round_of_forgetting_goes_by(world: World, **setting: int) -> None:
    async with changing(world) as scene:
        await scene.change(**setting)
        (name,) = setting
        assert getattr(scene.node._pruner.rules, name) == setting[name]


async def keep_for(world: World) -> None:
    await _the_next_round_of_forgetting_goes_by(world, keep_for=7 * 24 * HOUR)


async def keep_failed_for(world: World) -> None:
    await _the_next_round_of_forgetting_goes_by(world, keep_failed_for=8 * 24 * HOUR)


async def keep_max(world: World) -> None:
    await _the_next_round_of_forgetting_goes_by(world, keep_max=9)


STORIES: dict[str, Callable[[World], Awaitable[None]]] = {
    story.__name__: story
    for story in (
        pre_schedule_interval,
        index_rebuild_interval,
        lookahead_window,
        inbox_send_timeout,
        max_missed_orchestrator_heartbeats,
        max_concurrent_jobs,
        recovery_pace,
        shutdown_grace_period,
        reaper_interval,
        max_buffered_updates,
        update_flush_threshold,
        update_flush_interval,
        stats_flush_threshold,
        stats_flush_interval,
        update_policy,
        keep_for,
        keep_failed_for,
        keep_max,
    )
}


@pytest.mark.spec("U13", "live")
@pytest.mark.parametrize("setting", sorted(LIVE))
def test_a_live_setting_takes_effect_on_a_node_that_runs(setting: str) -> None:
    played(STORIES[setting])


# -- what is said ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("U13", "live")
def test_one_line_says_what_has_changed_from_what_to_what() -> None:
    async def story(world: World) -> None:
        async with changing(world) as scene:
            await scene.change(recovery_pace=5, index_rebuild_interval=30 * SECOND, update_policy=UpdatePolicy.GRACEFUL)
            assert world.log.said("settings.reread") == [
                {
                    "index_rebuild_interval": "1m -> 30s",
                    "recovery_pace": "100 -> 5",
                    "update_policy": "immediate -> graceful",
                }
            ]
            assert await scene.ask("settings.unchanged")

    played(story)


@pytest.mark.spec("U13", "a restart is needed")
def test_what_cannot_change_live_stays_as_it_was_and_is_named_until_the_restart() -> None:
    async def story(world: World) -> None:
        async with changing(world) as scene:
            scene.wanted = replace(scene.wanted, grace_period=HOUR, limits={"api": 5}, recovery_pace=7)
            for _ in range(2):
                line = await scene.ask("settings.need_restart")
                assert line["settings"] == "grace_period, limits"
            assert world.log.said("settings.reread") == [{"recovery_pace": "100 -> 7"}]
            assert scene.node.settings == Settings(recovery_pace=7)

    played(story)


@pytest.mark.spec("U13", "a restart is needed")
def test_what_is_part_of_the_jobs_is_named_with_the_command_that_stores_it() -> None:
    async def story(world: World) -> None:
        async with changing(world) as scene:
            scene.needs_apply = ("defaults",)
            line = await scene.ask("settings.need_apply")
            assert line["settings"] == "defaults"
            assert line["hint"].startswith("`itinerary apply` or the next start stores them")
            assert world.log.said("settings.need_restart") == world.log.said("settings.unchanged") == []

    played(story)


@pytest.mark.spec("U13", "a mistake")
def test_a_mistake_changes_nothing_and_is_told_with_its_place() -> None:
    async def story(world: World) -> None:
        await world.register("job", world.task(), schedule=every("1s"))
        async with changing(world) as scene:
            scene.error = ConfigError("itinerary.toml:3: recovery_pace: 0 is too small")
            line = await scene.ask("settings.not_reread")
            assert line["error"] == "itinerary.toml:3: recovery_pace: 0 is too small"
            assert scene.node.settings == Settings()
            await world.sleep_until(10.0)
            assert len(world.began) >= 9, "it goes on"
            scene.error = None
            await scene.change(recovery_pace=7)

    played(story)


@pytest.mark.spec("U13", "live")
def test_a_combination_that_will_make_work_late_is_warned_about() -> None:
    async def story(world: World) -> None:
        async with changing(world) as scene:
            await scene.change(pre_schedule_interval=SECOND // 2)
            (line,) = world.log.said("settings.questionable")
            assert "pre_schedule_interval (500ms)" in line["what"]

    played(story)
