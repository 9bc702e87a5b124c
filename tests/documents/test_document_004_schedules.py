"""Document 004, schedules and coordination: tickers, ids, the race of three nodes, keys (S3 to S11, D1 to D5, N1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid5

import pytest

from itinerary import ExecutionContext, Itinerary, cron, iso8601, once
from itinerary.model.ids import (
    ATTEMPT_NAMESPACE,
    OCCURRENCE_NAMESPACE,
    TASK_RUN_NAMESPACE,
    attempt_id,
    job_id,
    occurrence_id,
    run_id,
    task_id,
    task_run_id,
)
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import EntryKind, Key, NodeNumber, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import Claimed, ClaimRequest, Refusal
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.stores.lmdb import LmdbEngine
from itinerary.stores.lmdb.layout import HOME, PLACES
from itinerary.stores.urls import open_store
from tests.documents.clock import Clock
from tests.servers import PostgresServer, postgres_server
from tests.unit.runtime.test_reaper import loses_sight
from tests.unit.runtime.world import World, played

__all__ = ["postgres_server"]

NEW_YEAR_AT_FIVE = int(datetime(2023, 1, 1, 5, tzinfo=UTC).timestamp()) * SECOND
"""The instant of the race in the document."""


def on(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day, hour, minute


# -- tickers -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3")
def test_a_start_at_two_in_the_afternoon_first_fires_at_five_the_next_morning() -> None:
    """004, cron schedules: the start says when the schedule becomes active. The first match comes later."""
    daily = cron("0 5 * * *", tz="UTC", start="2026-01-01T14:00")
    assert daily.next_after(on(2025, 12, 1)) == on(2026, 1, 2, 5)
    assert list(daily.between(on(2026, 1, 1), on(2026, 1, 4))) == [on(2026, 1, 2, 5), on(2026, 1, 3, 5)]


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("text", "instants"),
    [
        ("R3/2026-01-01T09:00/P3W", [on(2026, 1, 1, 9), on(2026, 1, 22, 9), on(2026, 2, 12, 9)]),
        ("R3/2026-01-01T09:00/P1Y2M10D", [on(2026, 1, 1, 9), on(2027, 3, 11, 9), on(2028, 5, 21, 9)]),
    ],
)
def test_iso_intervals_of_the_document_fall_on_these_days(text: str, instants: list[datetime]) -> None:
    """004, ISO 8601 schedules: every three weeks, and one year, two months and ten days, three times.

    The document adds the interval to the last run. Our rule (S4) counts from the start, so an interval never drifts.
    """
    assert list(iso8601(text, tz="UTC").between(on(2026, 1, 1), on(2030, 1, 1))) == instants


@pytest.mark.spec("S5")
def test_a_single_instant_fires_once_and_then_the_job_is_finished(app: Itinerary, itinerary_clock: Clock) -> None:
    """004, one-time schedules: one run at the given moment, then no next run."""

    @app.job(once("2026-01-01T03:00"))
    async def migrate() -> None: ...

    run = itinerary_clock(app)
    run.advance(days=30)
    assert run.history("migrate").instants == [on(2026, 1, 1, 3)]
    assert app["migrate"].next_run() is None


@pytest.mark.spec("S11")
def test_a_paused_schedule_keeps_its_place_and_a_stopped_one_expects_nothing(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, the ticker's control methods: what passes in a pause is `skipped`, in a stop not recorded.

    After `resume` and `start` the next instant is that of the schedule, as if neither had been.
    """

    @app.job(cron("0 * * * *"))
    async def hourly() -> None: ...

    run = itinerary_clock(app)
    job = app["hourly"]
    assert (job.is_active, job.is_enabled, job.is_paused) == (True, True, False)
    run.pause("hourly")
    assert (job.is_active, job.is_enabled, job.is_paused, job.is_stopped) == (True, False, True, False)
    assert job.next_run() == on(2026, 1, 1, 1), "the instant that runs if the job is resumed before it"
    run.advance(hours=2, minutes=30)
    run.resume("hourly")
    assert job.next_run() == on(2026, 1, 1, 3)
    run.advance(hours=1)
    run.call(job.stop())
    assert (job.is_enabled, job.next_run()) == (False, None)
    run.advance(hours=2)
    run.call(job.start())
    run.advance(hours=1)
    assert run.history("hourly").statuses == ["skipped", "skipped", "completed", "completed"]
    assert run.history("hourly").instants[-1] == on(2026, 1, 1, 6), "four and five were never expected"


@pytest.mark.spec("S11", "is_running")
@pytest.mark.spec("X9")
def test_the_context_tells_times_and_whether_a_job_runs_is_asked_of_the_store(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """004, the execution context and `IsRunning`: scheduled, actual and last time; and the answer survives a crash.

    The node that crashed still has its run in the store. A flag in memory would be gone.
    """
    seen: list[ExecutionContext] = []

    @app.job(cron("0 * * * *"), execution_timeout="3h")
    async def hourly(ctx: ExecutionContext) -> None:
        seen.append(ctx)
        await asyncio.sleep(600 if ctx.scheduled_at.hour == 1 else 7_000)

    run = itinerary_clock(app)
    run.advance(hours=2, minutes=1)
    first, second = seen
    assert (first.scheduled_at, first.started_at, first.last_run_at) == (on(2026, 1, 1, 1), on(2026, 1, 1, 1), None)
    assert (second.scheduled_at, second.last_run_at) == (on(2026, 1, 1, 2), on(2026, 1, 1, 1))
    run.crash()
    run.start()
    assert run.call(app["hourly"].is_running()), "as long as no node has found out that the owner is dead"


# -- ids ---------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D1")
def test_every_id_is_a_uuid5_of_what_it_belongs_to() -> None:
    """004, deterministic ids: occurrence from job and instant, task run from occurrence and task, attempt from both.

    Our rule (D1): the ids of jobs and tasks come from their names, so they are the same on every node. In the document
    they contain the time of their creation. Attempts count from 1.
    """
    job = job_id("foo")
    occurrence = occurrence_id(job, NEW_YEAR_AT_FIVE)
    run = task_run_id(occurrence, task_id(job, "extract"))
    assert occurrence == uuid5(OCCURRENCE_NAMESPACE, f"{job}/scheduled/1672549200")
    assert run == uuid5(TASK_RUN_NAMESPACE, f"{occurrence}/{task_id(job, 'extract')}")
    assert attempt_id(run, 1) == uuid5(ATTEMPT_NAMESPACE, f"{run}/1")
    assert {one.version for one in (job, occurrence, run, attempt_id(run, 1))} == {5}
    assert run_id("foo", NEW_YEAR_AT_FIVE) == "foo:1672549200", "as people see it"
    assert occurrence != occurrence_id(job, NEW_YEAR_AT_FIVE + 86_400 * SECOND)
    assert occurrence != occurrence_id(job_id("bar"), NEW_YEAR_AT_FIVE)


# -- the race ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store that several nodes can share."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as address:
        yield address


async def claim(
    store: Store, name: str, revision: int, wanted: ClaimRequest
) -> tuple[NodeNumber, list[Claimed] | Refusal]:
    """Join as a node, and try to create the occurrence."""
    node = await store.join(f"incarnation of {name}", name, "{}")
    return node, await store.claim(node, revision, [wanted])


@pytest.mark.spec("N1")
@pytest.mark.spec("D5")
def test_of_three_nodes_that_race_for_five_in_the_morning_one_wins(url: str) -> None:
    """004, the race to create: nodes A, B and C compute the same id and write the same row, on a real shared store.

    One of them creates the row and owns it. The other two learn that they did not, which is no error. The document's
    instant is past; a store takes no claims for the past (the recovery decides there), so this is tomorrow's.
    """

    async def story() -> None:
        stores = [open_store(url) for _ in "ABC"]
        for store in stores:
            await store.open()
        try:
            await race(stores)
        finally:
            for store in stores:
                await store.close()

    async def race(stores: Sequence[Store]) -> None:
        entry = TimelineEntryRequest(
            job="foo", kind=EntryKind.VERSION, request="first", by="anna", from_version=0, body="{}"
        )
        (entered,) = await stores[0].amend([entry])
        assert isinstance(entered, EntryAccepted)
        tomorrow = cron("0 5 * * *", tz="UTC").next_after(datetime.now(UTC))
        assert tomorrow is not None
        instant = int(tomorrow.timestamp()) * SECOND
        wanted = ClaimRequest(Key(instant, entered.job, Kind.SCHEDULED), 1, instant)
        answers = await asyncio.gather(
            *(claim(store, name, entered.revision, wanted) for store, name in zip(stores, "ABC", strict=True))
        )
        won = [(node, answer) for node, answer in answers if answer]
        assert [answer for _, answer in answers].count([]) == 2
        ((winner, claimed),) = won
        assert isinstance(claimed, list)
        row = (await stores[2].read(ByRefQuery((claimed[0].ref,))))[claimed[0].ref]
        assert row.owner == winner
        assert row.key.id(job_id("foo")) == occurrence_id(job_id("foo"), instant)

    asyncio.run(story())


@pytest.mark.spec("N2")
def test_a_run_of_45_seconds_is_started_once_though_a_lease_would_last_30() -> None:
    """004, what is wrong with leases, case 2: 45 seconds of work, and another node that looks for work all the time."""

    async def story(world: World) -> None:
        await world.register("long", world.task(45.0), schedule=cron("0 13 * * *", tz="UTC"))
        async with world.running(world.node("a")), world.running(world.node("b")):
            await world.sleep_until(3_600 + 120)
        assert world.began == ["long 1"]
        (row,) = await world.rows("long")
        assert row.status is OccurrenceState.COMPLETED
        assert row.ended_at == row.instant + 45 * SECOND

    played(story)


@pytest.mark.spec("N2")
def test_a_node_that_crashes_after_its_work_blocks_no_later_run() -> None:
    """004, what is wrong with leases, case 4: the work took 5 seconds, and then the node crashed.

    The end of the run is what frees the job, and that is written. The next instant runs on another node, on time.
    """

    async def story(world: World) -> None:
        await world.register("short", world.task(5.0))
        async with world.dying(world.node("a")):
            await world.sleep_until(66.0)
        async with world.running(world.node("b")):
            await world.sleep_until(130.0)
        first, second = (await world.due("short"))[:2]
        assert (first.status, first.ended_at) == (OccurrenceState.COMPLETED, first.instant + 5 * SECOND)
        assert second.started_at == second.instant

    played(story)


@pytest.mark.spec("N4")
def test_the_reaper_fails_a_run_that_is_over_its_execution_timeout_and_frees_the_job() -> None:
    """004, the dead-man's-switch: the execution timeout is also the age at which a run is stale.

    The node here lives on but has lost sight of its run. Our rule (N4): the reaper waits for `kill_grace` as well.
    """
    timeout, kill_grace = 60, 10

    async def story(world: World) -> None:
        overrides = Overrides(execution_timeout="1m")
        await world.register("stuck", world.task(100_000.0), overrides=overrides)
        node = world.node("a")
        async with world.dying(node):
            await world.until(lambda: bool(world.began), within=90.0)
            await asyncio.sleep(1.0)
            loses_sight(node)
            async with world.running(world.node("b")):
                await world.sleep_until(300.0)
        stale, *later = [row for row in await world.due("stuck") if row.started_at is not None]
        assert stale.status is OccurrenceState.FAILED_STALE
        assert stale.ended_at is not None
        assert stale.started_at is not None
        assert stale.ended_at - stale.started_at >= (timeout + kill_grace) * SECOND
        assert later, "the job is free again"

    played(story)


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D4")
def test_a_key_value_store_has_the_hierarchy_of_the_document(tmp_path: Path) -> None:
    """004, the hierarchical key schema: job, occurrence, task run and attempt, each below the other, on real LMDB.

    Our rule (D4): keys hold the short numbers of rows in place of UUIDs, and a task's place in its job. The definition
    of a task is part of its job's.
    """

    async def keys(app: Itinerary) -> list[bytes]:
        async with app.running() as node:
            await node.wait(await app["foo"].trigger(key="once"))
        engine = LmdbEngine(tmp_path / "tree.lmdb")
        await engine.open()
        try:
            return await engine.read(lambda tx: list(tx._txn.cursor().iternext(values=False)))  # type: ignore[attr-defined]
        finally:
            await engine.close()

    app = Itinerary(store=f"lmdb:///{tmp_path / 'tree.lmdb'}", name="here")
    foo = app.job("foo", once("2199-01-01T00:00"))

    @foo.task
    async def extract() -> None: ...

    found = asyncio.run(keys(app))
    job, occurrence = PLACES["jobs"].path.key((1,)), HOME.key((1, Ref(1)))
    run = occurrence + PLACES["tasks"].path.key((0,))
    attempt = occurrence + PLACES["attempts"].path.key((0, 1))
    assert {job, occurrence, run, attempt} <= set(found)
    assert occurrence.startswith(job)
    assert run.startswith(occurrence)
    assert attempt.startswith(run)
    shape = [b"job/", b"/occurrence/", b"/task/", b"/run", b"/attempt/"]
    places = [attempt.index(word) for word in shape]
    assert places == sorted(places)
    assert sum(key.startswith(occurrence) for key in found) > 3, "all of it is one stretch of keys"
