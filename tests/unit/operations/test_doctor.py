"""What a doctor finds: for each thing that can be wrong, a store in which it is, and the sentence (U3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import newer_entries
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.operations.doctor import CheckResult, Severity
from itinerary.operations.doctor.last_hour import failures, orphans, recent_runs
from itinerary.operations.doctor.store_checks import clock, files, schema, set_up
from itinerary.operations.doctor.workload_checks import jobs, nodes, overtime, undecided, waiting, zone_data
from itinerary.read.nodes import nodes_seen
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules import ZoneData, every, packaged_zone, packaged_zone_data
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import SchemaSeen
from tests.unit.runtime.world import World, played

pytestmark = pytest.mark.spec("U3", "doctor")


def wrong(found: Sequence[CheckResult]) -> list[str]:
    return [finding.words for finding in found if finding.level is Severity.WRONG]


def doubtful(found: Sequence[CheckResult]) -> list[str]:
    return [finding.words for finding in found if finding.level is Severity.DOUBTFUL]


async def seen(world: World, look: Callable[[StoreSnapshot], Awaitable[list[CheckResult]]]) -> list[CheckResult]:
    return await look(await StoreSnapshot.of(world.store))


# -- the place -------------------------------------------------------------------------------------------------------


def test_each_way_in_which_a_schema_is_not_ours_has_its_advice() -> None:
    older, newer = schema("memory:", SchemaSeen(1, 2, ("0002 more",))), schema("memory:", SchemaSeen(3, 2))
    assert wrong(older) == ["it has schema 1, and this program needs 2; nothing else was looked at"]
    assert "itinerary migrate" in str(older[0].advice)
    assert wrong(newer) == ["it has schema 3, and this program knows schemas up to 2"]
    assert wrong(schema("memory:", SchemaSeen(None, 2))) == ["there is no store at memory:"]
    assert not wrong(schema("memory:", SchemaSeen(2, 2)))


def test_a_warning_of_a_server_is_a_finding_with_its_advice() -> None:
    (finding,) = set_up(["fsync is off: a crash can destroy the database; set it to on"])
    assert finding == CheckResult(
        "set-up", Severity.WRONG, "fsync is off: a crash can destroy the database", "set it to on"
    )


def test_files_that_others_can_use_are_named(tmp_path: Path) -> None:
    mine, open_one = tmp_path / "mine", tmp_path / "open"
    for path in (mine, open_one):
        path.touch(0o600)
    assert not wrong(files([mine, tmp_path / "absent"]))
    open_one.chmod(0o640)
    assert wrong(files([mine, open_one])) == [
        f"{open_one} can be used by others than its owner: its permissions are 640"
    ]
    assert files([]) == []


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (90, "this machine's clock is 1m30s behind the store's"),
        (-90, "this machine's clock is 1m30s ahead of the store's"),
    ],
)
def test_clocks_that_are_apart_are_doubtful(ahead: int, words: str) -> None:
    async def story(world: World) -> None:
        here = world.now() * 1_000
        assert (await clock(world.store, lambda: here)).level is Severity.WELL
        world.store_ahead = ahead * SECOND
        finding = await clock(world.store, lambda: here)
        assert (finding.level, finding.words) == (Severity.DOUBTFUL, words)

    played(story)


# -- the work --------------------------------------------------------------------------------------------------------


def test_zone_data_that_is_older_than_the_stores_is_doubtful_and_a_table_that_lacks_is_wrong() -> None:
    async def story(world: World) -> None:
        data = packaged_zone_data()
        newer = ZoneData("2199z", lambda name: packaged_zone("Asia/Tokyo" if name == "Europe/Berlin" else name))
        await world.store.amend(newer_entries(Timeline().zones, newer, ["Europe/Berlin"], by="test", revision=None))
        await world.register("here", world.task(), schedule=every("1h", tz="Europe/Berlin"))
        ground = await StoreSnapshot.of(world.store)
        assert doubtful(zone_data(ground, data)) == [
            f"this machine has zone data {data.release}, and the store has newer tables of Europe/Berlin"
        ]
        assert not doubtful(zone_data(ground, newer))
        await world.register("there", world.task(), schedule=every("1h", tz="Europe/Paris"))
        (found,) = wrong(zone_data(await StoreSnapshot.of(world.store), newer))
        assert found.startswith("the store has no table of time zone 'Europe/Paris'")

    played(story)


def test_what_is_due_and_undecided_while_nobody_is_there_is_wrong() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node()):
            await world.sleep_until(90.5)
            assert not wrong(await seen(world, undecided))
        await world.sleep_until(600.5)
        (found,) = wrong(await seen(world, undecided))
        assert found.startswith("everything is decided up to 8m")
        assert found.endswith("etl:1774699320 has been due for 8m, and nothing is decided")

    played(story)


def test_no_node_a_silent_one_and_code_that_nobody_has_are_told() -> None:
    async def story(world: World) -> None:
        assert not wrong(await seen(world, nodes)), "there are no jobs"
        await world.register("etl", world.task())
        assert wrong(await seen(world, nodes)) == ["no node runs on this store, so no job runs"]
        async with world.dying(world.node("berlin-1", knows=lambda _: False)):
            await world.sleep_until(30.5)
            assert not wrong(await seen(world, nodes))
            assert wrong(await seen(world, jobs)) == ["no node that runs has the code of etl"]
        await world.sleep_until(90.5)
        assert wrong(await seen(world, nodes)) == [
            "no node runs on this store, so no job runs",
            "node berlin-1 (number 1) has not been heard of for 1m, and did not say that it left",
        ]
        async with world.running(world.node("berlin-2")):
            assert not wrong(await seen(world, nodes))
            assert len(doubtful(await seen(world, nodes))) == 1, "berlin-2 has not seen for long that it is dead"

    played(story)


def test_a_job_that_cannot_be_read_is_quarantined_and_named() -> None:
    async def story(world: World) -> None:
        await world.register("well", world.task())
        assert not wrong(await seen(world, jobs))
        await world.enter("odd", "{")
        (found,) = wrong(await seen(world, jobs))
        assert found.startswith("job odd is quarantined: ")

    played(story)


def test_what_waits_for_long_is_doubtful_with_how_many_of_whom() -> None:
    async def story(world: World) -> None:
        queue = Overrides(overlap=Overlap.QUEUE, execution_timeout="2h", task_timeout="2h")
        await world.register("slow", world.task(3_000.0), overrides=queue)
        async with world.running(world.node()):
            await world.sleep_until(300.5)
            assert not doubtful(await seen(world, waiting))
            await world.sleep_until(900.5)
            (found,) = doubtful(await seen(world, waiting))
            assert found == "15 occurrences are due and have not begun, the first for 14m: slow (15)"

    played(story)


@pytest.mark.spec("U3", "doctor looks at the last hour")
def test_a_run_that_no_node_starts_is_overdue_after_a_minute() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.dying(world.node()):
            await world.sleep_until(55.5)  # the instant of 60 is claimed
        await world.sleep_until(115.5)
        assert not doubtful(await seen(world, waiting))
        await world.sleep_until(150.5)
        (found,) = [one for one in await seen(world, waiting) if one.level is Severity.DOUBTFUL]
        assert found.words == "1 run is overdue, the first for 1m30s: etl"
        assert "`itinerary explain JOB` says what it waits for" in (found.advice or "")

    played(story)


def test_what_nobody_ends_is_wrong() -> None:
    async def story(world: World) -> None:
        await world.register("slow", world.task(3_000.0), overrides=Overrides(execution_timeout="1m"))
        async with world.dying(world.node()):
            await world.sleep_until(30.5)
        assert not wrong(await seen(world, overtime))
        await world.sleep_until(600.5)
        (found,) = wrong(await seen(world, overtime))
        assert found == "1 occurrence has run too long, and nobody has ended it: slow"

    played(story)


@pytest.mark.spec("U8", "overload says so")
def test_a_node_that_cannot_keep_up_is_wrong_with_how_far_since_when_and_for_lack_of_what() -> None:
    async def story(world: World) -> None:
        await world.register("quick", world.task(), schedule=every("5s"))
        await world.register("hog", world.task(100.0), schedule=every("1h"), overrides=Overrides(priority=9))
        async with world.running(world.node("a", max_concurrent_jobs=1)):
            await world.sleep_until(4.5)
            assert not wrong(await seen(world, nodes))
            await world.sleep_until(30.0)
            (found,) = [one for one in await seen(world, nodes) if one.level is Severity.WRONG]
            assert found.words.startswith("node a is ")
            assert "s behind since 2026-03-28T12:00:00Z: all of its slots are in use (bottleneck: slots)" in found.words
            assert found.advice == "raise max_concurrent_jobs, add a node, or shorten the tasks"
            await world.sleep_until(150.0)
            assert not wrong(await seen(world, nodes))

    played(story)


# -- the last hour ---------------------------------------------------------------------------------------------------


async def last_hour(world: World) -> list[CheckResult]:
    ground = await StoreSnapshot.of(world.store)
    runs = await recent_runs(ground)
    return [*failures(ground, runs), *orphans(ground, runs)]


@pytest.mark.spec("U3", "doctor looks at the last hour")
def test_a_failure_of_the_last_hour_is_wrong_until_the_job_succeeds_and_then_doubtful() -> None:
    async def story(world: World) -> None:
        is_broken = True

        async def work(_: object) -> None:
            if is_broken:
                raise ValueError("no")

        await world.register("etl", work)
        async with world.running(world.node()):
            await world.sleep_until(150.0)
            assert wrong(await last_hour(world)) == ["failed in the last hour, and has not succeeded since: etl (3)"]
            is_broken = False
            await world.sleep_until(200.0)
            found = await last_hour(world)
            assert (wrong(found), doubtful(found)) == (
                [],
                ["failed in the last hour, and has succeeded since: etl (3)"],
            )
            assert [finding.advice for finding in found if finding.level is Severity.DOUBTFUL] == [
                "`itinerary history etl` shows the runs that failed, and why"
            ]
            await world.sleep_until(4_000.0)
            found = await last_hour(world)
            assert (wrong(found), doubtful(found)) == ([], [])

    played(story)


@pytest.mark.spec("U3", "doctor looks at the last hour")
@pytest.mark.spec("N3", "a dead node is told apart from one that left")
def test_a_node_that_was_killed_has_died_and_one_that_ended_has_left() -> None:
    async def story(world: World) -> None:
        await world.register("slow", world.task(3_000.0), overrides=Overrides(task_timeout="1h"))
        async with world.running(world.node("b")):
            async with world.running(world.node("left")):
                await world.sleep_until(30.0)
            async with world.dying(world.node("killed")):
                await world.sleep_until(130.0)
            await world.sleep_until(300.0)
            everyone = await nodes_seen(world.store, world.now(), {}, limit=9, gone=True)
            states = {one.node: one.state.value for one in everyone}
            assert states == {"b": "running", "left": "left", "killed": "died"}
            shown = [one.node for one in await nodes_seen(world.store, world.now(), {}, limit=9)]
            assert shown == ["killed", "b"], "a node that died is listed for an hour"
            (found,) = doubtful(await seen(world, nodes))
            assert found.startswith("node killed (number 3) died, and was found dead 2m")

    played(story)


@pytest.mark.spec("U3", "doctor looks at the last hour")
def test_a_run_that_was_lost_with_its_node_is_wrong() -> None:
    async def story(world: World) -> None:
        await world.register("slow", world.task(300.0), schedule=every("24h", start="2026-03-28T12:00:10Z"))
        async with world.dying(world.node("killed")):
            await world.sleep_until(30.0)
        async with world.running(world.node("b")):
            await world.sleep_until(200.0)
            assert wrong(await last_hour(world)) == [
                "lost a run with its node in the last hour, and has not succeeded since: slow (1)"
            ]

    played(story)
