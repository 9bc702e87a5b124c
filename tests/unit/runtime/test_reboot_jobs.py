"""What wants to run at each start of a node (S1): it does, once for each, on that node."""

from __future__ import annotations

import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.rows import EntryKind
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.runtime.reboot_jobs import boot_runs
from itinerary.schedules import cron
from tests.unit.runtime.world import World, played


@pytest.mark.spec("S1", "reboot")
def test_at_reboot_a_job_runs_once_for_each_start_of_a_node_on_that_node() -> None:
    async def story(world: World) -> None:
        await world.register("greet", world.task(0.1), schedule=cron("@reboot"))
        for name in ("first", "second"):
            node = world.node(name)
            async with world.running(node):
                await world.sleep_until(world.loop.time() + 90.0)
            last = (await world.rows("greet"))[-1]
            assert (last.status, last.owner, last.kind) == (OccurrenceState.COMPLETED, node.number, Kind.TRIGGER)
        assert world.began == ["greet 1", "greet 1"]

    played(story)


@pytest.mark.spec("S1", "reboot")
def test_more_boot_runs_than_slots_all_run_one_after_the_other() -> None:
    async def story(world: World) -> None:
        for number in range(5):
            await world.register(f"greet{number}", world.task(1.0), schedule=cron("@reboot"))
        async with world.running(world.node(max_concurrent_jobs=1)):
            await world.sleep_until(world.loop.time() + 90.0)
        assert sorted(world.began) == [f"greet{number} 1" for number in range(5)]

    played(story)


@pytest.mark.spec("S1", "reboot")
def test_what_is_paused_does_not_run_at_a_start() -> None:
    async def story(world: World) -> None:
        await world.register("asleep", world.task(0.1), schedule=cron("@reboot"))
        await world.register("awake", world.task(0.1), schedule=cron("@reboot"))
        await world.store.amend([TimelineEntryRequest(job="asleep", kind=EntryKind.PAUSE, request="now", by="anna")])
        async with world.running(world.node()):
            await world.sleep_until(world.loop.time() + 30.0)
        assert world.began == ["awake 1"]
        assert await world.rows("asleep") == []

    played(story)


@pytest.mark.spec("S1", "reboot")
def test_a_start_whose_answer_was_lost_makes_no_second_run() -> None:
    async def story(world: World) -> None:
        await world.register("greet", world.task(0.1), schedule=cron("@reboot"))
        node = world.node()
        async with world.running(node):
            now, number = node.clock.now(), await world.store.join("another", "another", "{}")
            first = await boot_runs(world.store, number, "another", node.builder.timeline, now)
            again = await boot_runs(world.store, number, "another", node.builder.timeline, now)
        assert first == again
        assert first is not None
        assert len(first) == 1

    played(story)
