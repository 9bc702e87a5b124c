"""A pause holds what has not started, and `resume` releases or skips it (S11)."""

from __future__ import annotations

import pytest

from itinerary.core.recovery.pause import HeldBacklog
from itinerary.errors import ConfigError
from itinerary.explain import Cause, RunResult, explain
from itinerary.model.overrides import OverrideLevel, read_overrides
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.run_requests import RunRequests
from itinerary.read.run_lookup import RunLookup
from itinerary.read.timeline_view import NodeView
from itinerary.runtime.node import Node
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import EPOCH, World, played

S = OccurrenceState
ALL = read_overrides({"recovery": "execute_all"}, OverrideLevel.JOB)


def changes(world: World, node: Node) -> StatusChanges:
    return StatusChanges(world.store, NodeView(world.store, node), "anna")


async def with_backlog(world: World) -> None:
    """A job that was down for ten minutes, each run of which takes 20 s: its backlog is of ten runs."""
    await world.register("etl", world.task(20), overrides=ALL)
    async with world.running(world.node("a")):
        await world.sleep_until(30)
    await world.sleep_until(630)


def begun(rows: list[OccurrenceRow]) -> list[OccurrenceRow]:
    return [row for row in rows if row.started_at is not None]


def held_of(rows: list[OccurrenceRow], since: int) -> list[OccurrenceRow]:
    return [row for row in rows if row.started_at is None and row.instant < since and row.status is not S.SKIPPED]


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_a_pause_holds_the_recovery_backlog_and_resume_releases_it() -> None:
    async def story(world: World) -> None:
        await with_backlog(world)
        node = world.node("b")
        async with world.running(node):
            await world.sleep_until(650)
            await changes(world, node).pause("etl", "migration", None)
            held = await changes(world, node).held("etl")
            before = len(begun(await world.rows("etl")))
            await world.sleep_until(1_200)
            rows = await world.rows("etl")
            assert len(begun(rows)) == before, "nothing of the backlog starts while the job is paused"
            assert len(held) == len(held_of(rows, EPOCH + 650 * SECOND)) == 9
            _, released = await changes(world, node).resume("etl", None)
            assert released == 9
            await world.sleep_until(1_500)
            rows = await world.rows("etl")
            assert held_of(rows, EPOCH + 650 * SECOND) == []
            assert {row.status for row in rows if row.instant < EPOCH + 650 * SECOND} == {S.COMPLETED}

    played(story)


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_resume_can_skip_what_the_pause_held() -> None:
    async def story(world: World) -> None:
        await with_backlog(world)
        node = world.node("b")
        async with world.running(node):
            await world.sleep_until(650)
            await changes(world, node).pause("etl", None, None)
            held = {row.ref for row in await changes(world, node).held("etl")}
            await world.sleep_until(700)
            _, skipped = await changes(world, node).resume("etl", "not needed", backlog=HeldBacklog.SKIP)
            assert skipped == len(held) == 9
            await world.sleep_until(1_000)
            rows = {row.ref: row for row in await world.rows("etl")}
            assert {rows[ref].status for ref in held} == {S.SKIPPED}
            assert {rows[ref].reason for ref in held} == {"skipped by anna: the backlog of a pause, not needed"}
            assert [row.status for row in rows.values() if row.instant == EPOCH + 960 * SECOND] == [S.COMPLETED]
            with pytest.raises(ConfigError, match="backlog: 'drop' is unknown; allowed: run, skip"):
                await changes(world, node).resume("etl", None, backlog="drop")

    played(story)


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_what_waits_for_a_limit_or_was_triggered_before_is_held_and_what_is_asked_for_since_runs() -> None:
    async def story(world: World) -> None:
        limited = read_overrides({"max_active": 1, "overlap": "allow"}, OverrideLevel.JOB)
        await world.register("etl", world.task(20), overrides=limited)
        node = world.node()
        async with world.running(node):
            await world.sleep_until(2)
            requests = RunRequests(world.store, NodeView(world.store, node), "anna", RunLookup())
            early = await requests.trigger("etl", "early", {}, None)
            await world.sleep_until(10)
            await changes(world, node).pause("etl", None, None)
            assert [row.ref for row in await changes(world, node).held("etl")] == [early.ref]
            await world.sleep_until(40)
            since = await requests.trigger("etl", "since", {}, None)
            await world.sleep_until(80)
            rows = {row.ref: row for row in await world.rows("etl")}
            assert (rows[early.ref].started_at, rows[since.ref].status) == (None, S.COMPLETED)
            await changes(world, node).resume("etl", None)
            await world.sleep_until(110)
            rows = {row.ref: row for row in await world.rows("etl")}
            assert rows[early.ref].status is S.COMPLETED

    played(story)


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_a_run_that_is_asked_for_while_its_job_is_paused_does_not_wait_for_the_held_backlog() -> None:
    async def story(world: World) -> None:
        await with_backlog(world)
        node = world.node("b")
        async with world.running(node):
            await world.sleep_until(650)
            await changes(world, node).pause("etl", None, None)
            await world.sleep_until(700)
            requests = RunRequests(world.store, NodeView(world.store, node), "anna", RunLookup())
            asked = await requests.trigger("etl", "now", {}, None)
            await world.sleep_until(740)
            rows = {row.ref: row for row in await world.rows("etl")}
            assert rows[asked.ref].status is S.COMPLETED
            assert len(await changes(world, node).held("etl")) == 9
            await changes(world, node).resume("etl", None)
            await world.sleep_until(1_100)
            rows = {row.ref: row for row in await world.rows("etl")}
            assert {row.status for row in rows.values() if row.instant < EPOCH + 650 * SECOND} == {S.COMPLETED}

    played(story)


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_a_pause_that_ends_by_itself_releases_what_it_held() -> None:
    async def story(world: World) -> None:
        await with_backlog(world)
        node = world.node("b")
        async with world.running(node):
            await world.sleep_until(650)
            await changes(world, node).pause("etl", None, EPOCH + 800 * SECOND)
            before = len(begun(await world.rows("etl")))
            await world.sleep_until(795)
            assert len(begun(await world.rows("etl"))) == before
            await world.sleep_until(1_100)
            assert held_of(await world.rows("etl"), EPOCH + 650 * SECOND) == []

    played(story)


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_what_is_held_stays_held_over_a_restart_and_explain_says_so() -> None:
    async def story(world: World) -> None:
        await with_backlog(world)
        node = world.node("b")
        async with world.running(node):
            await world.sleep_until(650)
            await changes(world, node).pause("etl", "migration", None)
        await world.sleep_until(900)
        async with world.running(world.node("c")):
            await world.sleep_until(1_000)
            held = held_of(await world.rows("etl"), EPOCH + 650 * SECOND)
            assert len(held) == 9
            found = await explain(EngineStore(world.engine.engine), "etl", Moment(held[0].instant // SECOND))
            assert (found.fate, found.cause) == (RunResult.WAITS, Cause.PAUSED)
            assert "and is held: the job is paused by anna since 12:10:50: migration" in found.verdict

    played(story)


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_a_node_is_not_behind_because_a_pause_holds_a_run() -> None:
    async def story(world: World) -> None:
        await world.register("long", world.task(40), schedule=every("1h", start="2026-03-28T12:00:00Z"))
        await world.register("etl", world.task(1), schedule=every("1h", start="2026-03-28T12:00:05Z"))
        node = world.node(max_concurrent_jobs=1)
        async with world.running(node):
            await world.sleep_until(10)
            await changes(world, node).pause("etl", "migration", None)
            await world.sleep_until(600)
            assert [row.started_at for row in await world.rows("etl") if row.instant < world.now()] == [None]
            assert node.behind is None
        assert not world.log.said("node.behind")

    played(story)
