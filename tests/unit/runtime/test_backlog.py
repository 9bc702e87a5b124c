"""A long backlog is released at a set pace, and what is due now is never delayed by it (R3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from itinerary.audit import audit_window
from itinerary.core.recovery.strategies import STRETCH_MIN
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap, Recovery, RecoveryPolicy
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

S = OccurrenceState
DOWN = 600.0
"""Seconds that nobody is there."""
UNTIL_THEN = every("10s", end="2026-03-28T12:09:00Z")
"""What is due of these later would be live too, and take up slots."""

CLAIMED = (120, 122, 124, 126)
"""The instants of a job that were claimed when its node was killed, in seconds."""
AWAY = (119.0, 301.0)
"""From when to when no node is there: `CLAIMED` and all later instants become older than the grace period."""
FEW = every("2s", end="2026-03-28T12:02:40Z")
"""The last instant is second 160."""


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
                scheduler = node.scheduler._scheduler
                most = max(most, len(scheduler.offers) + len(scheduler.by_ref))
        rows = await world.rows("backlog_0")
        assert sum(row.status is S.QUEUED for row in rows) > 20, "the rest stands in line in the store"
        assert 0 < most < 300, most

    played(story)


class Claimed:
    """A job whose node was killed less than `pre_schedule_interval` before some of its instants."""

    def __init__(self, world: World, strategy: Recovery, overlap: Overlap = Overlap.SKIP, **bounds: Any) -> None:
        self.world = world
        self.overrides = Overrides(overlap=overlap, recovery=RecoveryPolicy(strategy, **bounds))
        self.ran: list[int] = []
        """The instants that ran since the outage, in the order of their starts."""
        self.windows: list[list[int]] = []
        """The instants that each of these runs answers for."""

    async def work(self, ctx: Any) -> None:
        if self.world.loop.time() < AWAY[1]:
            return
        assert ctx.is_recovery
        self.ran.append(round(ctx.scheduled_at.timestamp()) - EPOCH // SECOND)
        self.windows.append([round(instant.timestamp()) - EPOCH // SECOND for instant in ctx.window])
        await asyncio.sleep(0.5)

    async def killed(self) -> None:
        """Let the node claim ahead, and kill it; then nobody is there."""
        await self.world.register("tick", self.work, schedule=FEW, overrides=self.overrides)
        async with self.world.dying(self.world.node(pre_schedule_interval=8 * SECOND)):
            await self.world.sleep_until(AWAY[0])
        claimed = [row for row in await self.world.rows("tick") if row.status is S.PRERUN]
        assert tuple(at(row.instant) for row in claimed) == CLAIMED
        await self.world.sleep_until(AWAY[1])

    async def recovered(self) -> dict[int, OccurrenceRow]:
        """Start a node, which works off the backlog. The rows since the outage, by their instants."""
        async with self.world.running(self.world.node()):
            await self.world.sleep_until(400.0)
        return {at(row.instant): row for row in await self.world.rows("tick") if at(row.instant) >= CLAIMED[0]}


def at(instant: int) -> int:
    return (instant - EPOCH) // SECOND


INSTANTS = list(range(120, 161, 2))
"""All that no node was there for."""


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE, Overlap.ALLOW])
def test_what_was_claimed_before_an_outage_runs_in_order_with_what_has_no_row(overlap: Overlap) -> None:
    async def story(world: World) -> None:
        job = Claimed(world, Recovery.EXECUTE_ALL, overlap)
        await job.killed()
        rows = await job.recovered()
        assert job.ran == INSTANTS
        assert {(row.status, row.is_recovery) for row in rows.values()} == {(S.COMPLETED, True)}

    played(story)


@pytest.mark.spec("R1", "claimed before an outage")
def test_one_compressed_run_answers_for_what_was_claimed_before_an_outage_too() -> None:
    async def story(world: World) -> None:
        job = Claimed(world, Recovery.COMPRESSED)
        await job.killed()
        rows = await job.recovered()
        assert job.ran == [160]
        assert job.windows == [INSTANTS]
        assert list(rows) == [160], "each instant is decided once: the claimed rows are gone"
        assert (await audit_window(world.store, EPOCH, world.now())).is_clean

    played(story)


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize(
    ("strategy", "bounds", "ran"),
    [
        (Recovery.EXECUTE_LAST, {}, [160]),
        (Recovery.MARK_AS_MISSED, {}, []),
        (Recovery.BOUNDED_WINDOW, {"max_occurrences": 19}, INSTANTS[-19:]),
        (Recovery.BOUNDED_WINDOW, {"max_duration": "175s"}, INSTANTS[2:]),
    ],
)
def test_a_strategy_decides_over_claimed_instants_and_those_without_a_row_together(
    strategy: Recovery, bounds: dict[str, Any], ran: list[int]
) -> None:
    async def story(world: World) -> None:
        job = Claimed(world, strategy, **bounds)
        await job.killed()
        rows = await job.recovered()
        assert job.ran == ran
        missed = [instant for instant, row in rows.items() if row.status is S.MISSED]
        assert missed == [instant for instant in INSTANTS if instant not in ran]
        assert all(row.is_recovery for row in rows.values()), "the missed ones too"
        (reason,) = {rows[instant].reason for instant in missed}
        assert reason is not None
        assert reason.startswith("missed: nobody was there at its instant, and")

    played(story)
