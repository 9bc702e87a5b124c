"""A pause passes instants over: each is skipped when it comes, never ahead of it, and never recovered (S11, S12)."""

from __future__ import annotations

import pytest

from itinerary.model.rows import EntryKind, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.operations.job_changes import StatusChanges
from itinerary.read.timeline_view import NodeView
from itinerary.runtime.node import Node
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played

S = OccurrenceState
MINUTE = 60 * SECOND


def changes(world: World, node: Node) -> StatusChanges:
    return StatusChanges(world.store, NodeView(world.store, node), "anna")


async def enter(world: World, kind: EntryKind, name: str, **values: object) -> None:
    """What somebody does who has no node."""
    entry = TimelineEntryRequest(job=name, kind=kind, request=f"{kind} {world.now()}", by="anna", **values)  # type: ignore[arg-type]  # as given
    (answer,) = await world.store.amend([entry])
    assert isinstance(answer, EntryAccepted)


def told(rows: list[OccurrenceRow]) -> list[tuple[int, OccurrenceState]]:
    return [((row.instant - EPOCH) // SECOND, row.status) for row in rows]


@pytest.mark.spec("S11", "each instant passed over is skipped")
def test_what_is_claimed_already_is_skipped_at_its_instant_and_not_before() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(55)
            await changes(world, node).pause("etl", "migration", None)
            await world.sleep_until(59.9)
            assert told(await world.rows("etl"))[-1] == (60, S.PRERUN), "it is not decided ahead of its instant"
            await world.sleep_until(60.5)
            (row,) = [row for row in await world.rows("etl") if row.instant == EPOCH + MINUTE]
            assert (row.status, row.started_at) == (S.SKIPPED, None)
            assert row.reason == "paused by anna since 2026-03-28T12:00:55Z: migration"
            await world.sleep_until(200)
            assert told(await world.due("etl")) == [
                (0, S.COMPLETED),
                (60, S.SKIPPED),
                (120, S.SKIPPED),
                (180, S.SKIPPED),
            ]
        assert world.began == ["etl 1"]

    played(story)


@pytest.mark.spec("S11", "each instant passed over is skipped")
def test_a_resume_before_the_instant_lets_it_run_on_time() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(52)
            await changes(world, node).pause("etl", None, None)
            await world.sleep_until(55)
            await changes(world, node).resume("etl", None)
            await world.sleep_until(62)
            row = (await world.due("etl"))[-1]
            assert (row.status, row.started_at) == (S.COMPLETED, EPOCH + MINUTE)
            trail = [str(line.after) for line in (await world.detail(row)).transitions]
            assert "cancelled" not in trail

    played(story)


@pytest.mark.spec("S12", "skip one named occurrence")
def test_one_named_instant_is_skipped_when_it_comes_with_the_reason() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(55)
            await changes(world, node).skip("etl", EPOCH + MINUTE, "holiday")
            await world.sleep_until(125)
            assert told(await world.due("etl")) == [(0, S.COMPLETED), (60, S.SKIPPED), (120, S.COMPLETED)]
            assert (await world.due("etl"))[1].reason == "skipped by anna: holiday"

    played(story)


@pytest.mark.spec("S11", "each instant passed over is skipped")
def test_a_node_that_has_no_free_slot_skips_what_is_paused_all_the_same() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        await world.register("long", world.task(takes=500))
        node = world.node(max_concurrent_jobs=1)
        async with world.running(node):
            await world.sleep_until(115)
            await changes(world, node).pause("etl", None, None)
            await world.sleep_until(121)
            assert (await world.due("etl"))[-1].status is S.SKIPPED

    played(story)


@pytest.mark.spec("S11", "each instant passed over is skipped")
def test_what_a_dead_node_had_claimed_of_a_paused_job_is_skipped_by_another() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.dying(world.node("a")):
            await world.sleep_until(55)  # it dies with its claim
        await enter(world, EntryKind.PAUSE, "etl", reason="migration")
        async with world.running(world.node("b")):
            await world.sleep_until(70)
            (row,) = [row for row in await world.rows("etl") if row.instant == EPOCH + MINUTE]
            assert (row.status, row.reason) == (S.SKIPPED, "paused by anna since 2026-03-28T12:00:55Z: migration")
        assert world.began == ["etl 1"]

    played(story)


@pytest.mark.spec("S11", "never recovered")
def test_what_was_paused_while_nobody_ran_is_skipped_and_the_rest_recovered() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("10m"))
        async with world.running(world.node("a")):
            await world.sleep_until(1)
        await world.sleep_until(3_600)
        await enter(world, EntryKind.PAUSE, "etl", reason="night")
        await world.sleep_until(7_200)
        await enter(world, EntryKind.RESUME, "etl")
        await world.sleep_until(10_900)
        async with world.running(world.node("b")):
            await world.sleep_until(10_980)
            statuses = dict(told(await world.due("etl")))
            assert [at for at, status in statuses.items() if status is S.SKIPPED] == list(range(3_600, 7_200, 600))
            assert {status for at, status in statuses.items() if not 3_600 <= at < 7_200} == {S.COMPLETED}
            assert len(statuses) == 19

    played(story)


@pytest.mark.spec("S11", "one row for a long pause")
def test_a_job_each_second_that_is_paused_for_an_hour_is_one_row_while_a_node_runs() -> None:
    async def story(world: World) -> None:
        await world.register("pulse", world.task(), schedule=every("1s"))
        node = world.node()
        async with world.running(node):
            await world.sleep_until(5.5)
            await changes(world, node).pause("pulse", "migration", None)
            await world.sleep_until(3_605.5)
            skipped = [row for row in await world.due("pulse") if row.status is S.SKIPPED]
            segments = [row for row in skipped if row.window is not None]
            assert len(segments) == 1
            window = segments[0].window
            assert window is not None
            assert window.count + len(skipped) - 1 >= 3_590
            assert len(skipped) <= 12, "those that were claimed already have rows of their own"

    played(story)
