from __future__ import annotations

import asyncio

from tests.unit.runtime.world import World, played


def test_smoke() -> None:
    async def story(world: World) -> None:
        await world.register("tick", world.task(1.0))
        async with world.running(world.node()):
            await asyncio.sleep(200)
        print(world.began)
        for row in await world.rows("tick"):
            print(row.status, row.started_at and row.started_at - row.instant, row.reason)
        for line in world.log.lines:
            print(line)

    played(story)
