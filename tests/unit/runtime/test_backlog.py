"""A long backlog is released at a set pace, and what is due now is never delayed by it (R3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from itinerary.core.recovery import STRETCH_MIN
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

S = OccurrenceState
DOWN = 600.0
"""Seconds that nobody is there."""
UNTIL_THEN = every("10s", end="2026-03-28T12:09:00Z")
"""What is due of these later would be live too, and take up slots."""


class Backlog:
    """Jobs that are due each ten seconds and were not run for ten minutes; and one each second that must not wait."""

    def __init__(self, world: World, takes: float) -> None:
        self.world, self.takes = world, takes
        self.begun: Counter[int] = Counter()
        """Recovery runs, by the second in which they began."""
        self.most = self.running = 0
        self.late: dict[float, float] = {}
        """How late what is due now began, by its instant."""

    async def recovers(self, ctx: Any) -> None:
        if ctx.is_recovery:
            self.begun[int(self.world.loop.time())] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self.takes)
        self.running -= 1

    async def live(self, ctx: Any) -> None:
        instant = ctx.scheduled_at.timestamp() - EPOCH / SECOND
        self.late[instant] = self.world.loop.time() - instant

    async def register(self, jobs: int, overlap: Overlap) -> None:
        for number in range(jobs):
            await self.world.register(
                f"backlog_{number}", self.recovers, schedule=UNTIL_THEN, overrides=Overrides(overlap=overlap)
            )
        await self.world.sleep_until(DOWN - 1)
        await self.world.register("live", self.live, schedule=every("1s"), overrides=Overrides(overlap=Overlap.ALLOW))
        await self.world.sleep_until(DOWN + 1.5)


@pytest.mark.spec("R3", "a set pace")
@pytest.mark.spec("R3", "what is due now")
@pytest.mark.parametrize("takes", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.ALLOW])
def test_while_a_backlog_drains_at_its_pace_what_is_due_now_starts_on_time(overlap: Overlap, takes: float) -> None:
    async def story(world: World) -> None:
        backlog = Backlog(world, takes)
        await backlog.register(30, overlap)
        begins = world.loop.time()
        async with world.running(world.node(recovery_pace=20, max_concurrent_jobs=10)):
            await world.sleep_until(begins + 60.0)
        live = [late for instant, late in backlog.late.items() if instant > begins]
        assert len(live) == 60
        assert max(live) < 0.1, "nothing that is due now waits for the backlog"
        whole_seconds = [count for second, count in backlog.begun.items() if second > begins + 1]
        assert max(whole_seconds) <= 20 + 2, "a portion may fall into the next second"
        assert backlog.most <= 10
        if takes == 0.0:
            assert sum(backlog.begun.values()) > 900, "and it is not held up for nothing"

    played(story)


@pytest.mark.spec("R3", "bounded memory")
def test_a_node_knows_only_a_few_of_a_backlog_at_a_time() -> None:
    async def story(world: World) -> None:
        backlog = Backlog(world, 0.0)
        await backlog.register(2 * STRETCH_MIN // 60, Overlap.SKIP)
        node = world.node(recovery_pace=10)
        most = 0
        async with world.running(node):
            for _ in range(40):
                await asyncio.sleep(0.25)
                board = node.scheduler._board
                most = max(most, len(board.offers) + len(board.by_ref))
        rows = await world.rows("backlog_0")
        assert sum(row.status is S.QUEUED for row in rows) > 20, "the rest stands in line in the store"
        assert 0 < most < 300, most

    played(story)
