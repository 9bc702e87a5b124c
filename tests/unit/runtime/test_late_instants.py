"""A node is away for a moment: what was due meanwhile runs late, each instant once and in order (X6, R1)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from itinerary.model.overrides import Overrides
from itinerary.model.policies import OnShutdown, Overlap
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

S = OccurrenceState
BOUNDED = Overrides(overlap=Overlap.QUEUE, max_queued=1)
IN_THE_WAY = [Overrides(overlap=Overlap.SKIP), BOUNDED, Overrides(overlap=Overlap.REPLACE)]


class Diary:
    """Which instant ran when, in seconds."""

    def __init__(self, world: World, takes: float) -> None:
        self.world, self.takes = world, takes
        self.runs: list[tuple[int, float, float]] = []

    async def work(self, ctx: Any) -> None:
        instant, begun = round(ctx.scheduled_at.timestamp()) - EPOCH // SECOND, self.world.loop.time()
        await asyncio.sleep(self.takes)
        self.runs.append((instant, begun, self.world.loop.time()))


async def restarted(world: World, away: tuple[float, float], until: float, *, killed: bool) -> None:
    """A node is there, but for a while."""
    async with (world.dying if killed else world.running)(world.node("a")):
        await world.sleep_until(away[0])
    await world.sleep_until(away[1])
    async with world.running(world.node("a")):
        await world.sleep_until(until)


def at(row: OccurrenceRow) -> int:
    return (row.instant - EPOCH) // SECOND


@pytest.mark.spec("X6", "what is late together runs in order")
@pytest.mark.parametrize("killed", [False, True], ids=["shut down", "killed"])
@pytest.mark.parametrize("overrides", IN_THE_WAY, ids=["skip", "queue", "replace"])
def test_after_a_short_restart_every_late_instant_runs_once(overrides: Overrides, killed: bool) -> None:
    async def story(world: World) -> None:
        diary = Diary(world, takes=0.2)
        await world.register("tick", diary.work, schedule=every("2s"), overrides=overrides)
        await restarted(world, (20.5, 26.5), 40.5, killed=killed)
        ran = [instant for instant, *_ in diary.runs]
        # What a dead node had claimed others take over some seconds late, and what they claim themselves is on time.
        assert (sorted(ran) if killed else ran) == list(range(0, 41, 2))
        assert all(one[2] <= other[1] for one, other in pairwise(diary.runs)), "never two at once"
        assert [begun for instant, begun, _ in diary.runs if instant in (22, 24)] == [26.5, 26.7]
        rows = {at(row): row for row in await world.due("tick")}
        assert {row.status for row in rows.values()} == {S.COMPLETED}
        second = (await world.detail(rows[24])).transitions
        why = f"waits for occurrence {rows[22].ref}, which was not running yet when this one was due"
        assert why in [line.why for line in second]

    played(story)


@pytest.mark.spec("X6", "skip")
def test_only_what_was_due_while_another_ran_is_skipped() -> None:
    async def story(world: World) -> None:
        diary = Diary(world, takes=1.5)
        await world.register("tick", diary.work, schedule=every("2s"), overrides=Overrides(overlap=Overlap.SKIP))
        await restarted(world, (19.7, 26.5), 51.9, killed=False)
        rows = await world.due("tick")
        by_ref = {row.ref: row for row in rows}
        ran = [instant for instant, *_ in diary.runs]
        assert ran == sorted(ran)
        assert {20, 22, 24, 26} <= set(ran), "nobody was there when these were due"
        skipped = [row for row in rows if row.status is S.SKIPPED]
        assert skipped, "they take so long that what is due next finds one of them running"
        for row in skipped:
            reason = read_reason(row.reason)
            assert reason is not None
            assert reason.kind is ReasonKind.OVERLAPS
            other = by_ref[reason.ref]  # type: ignore[index]  # such a reason names an occurrence
            assert other.started_at is not None
            assert other.started_at < row.due_at <= (other.ended_at or row.due_at)
        assert {row.status for row in rows if at(row) >= 36} == {S.COMPLETED}, "and it is soon as it was before"

    played(story)


@pytest.mark.spec("X6", "replace")
def test_a_late_one_runs_until_the_next_is_due_and_is_replaced_then_and_not_before() -> None:
    async def story(world: World) -> None:
        diary = Diary(world, takes=30.0)
        overrides = Overrides(overlap=Overlap.REPLACE, on_shutdown=OnShutdown.CANCEL)
        await world.register("tick", diary.work, schedule=every("10s"), overrides=overrides)
        await restarted(world, (18.0, 32.0), 55.0, killed=False)
        rows = {at(row): row for row in await world.due("tick")}
        late, waiting, on_time = rows[20], rows[30], rows[40]
        assert (late.started_at or 0) < EPOCH + 34 * SECOND
        assert (late.status, late.reason) == (S.CANCELLED, f"replaced by occurrence {on_time.ref}")
        assert (late.ended_at or 0) >= on_time.due_at
        assert (waiting.status, waiting.reason) == (S.SKIPPED, f"replaced by occurrence {on_time.ref}")

    played(story)


@pytest.mark.spec("X6", "what is late together runs in order")
def test_what_a_node_without_a_free_slot_could_not_begin_in_time_runs_in_order() -> None:
    async def story(world: World) -> None:
        diary, busy = Diary(world, takes=0.2), Diary(world, takes=7.0)
        await world.register("busy", busy.work, schedule=every("1h"))
        await world.register("tick", diary.work, schedule=every("2s"), overrides=Overrides(overlap=Overlap.SKIP))
        async with world.running(world.node("a", max_concurrent_jobs=1)):
            await world.sleep_until(20.5)
        assert [instant for instant, *_ in diary.runs] == list(range(0, 21, 2))

    played(story)
