"""A call of a record scheduler that takes longer than a heartbeat is logged while it still waits (N5)."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.model.settings import Settings
from itinerary.schedules.durations import SECOND
from tests.unit.records.office import Office
from tests.unit.runtime.world import World, played

HEARTBEAT = Settings().node_heartbeat_interval / SECOND


@pytest.mark.spec("N5", "silent")
@pytest.mark.parametrize(
    ("takes", "lines"), [(HEARTBEAT * 2, [("records folio", "read seats", HEARTBEAT)]), (HEARTBEAT / 2, [])]
)
def test_a_slow_call_of_a_record_scheduler_is_logged_while_it_waits_and_a_quick_one_is_not(
    takes: float, lines: list[tuple[str, str, float]]
) -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        world.engine.takes = takes
        async with office.running(worker, is_killed=True):
            await asyncio.sleep(HEARTBEAT + 1.0)
            said = world.log.said("store.slow")
            assert [(line["component"], line["what"], line["seconds"]) for line in said] == lines
            world.engine.takes = 0.0

    played(story)
