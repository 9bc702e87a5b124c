"""What a doctor finds: for each thing that can be wrong, a store in which it is, and the sentence (U3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from itinerary.app.doctoring import Finding, Level
from itinerary.app.doctoring.place import clock, files, schema, set_up
from itinerary.app.doctoring.work import jobs, nodes, overtime, undecided, waiting, zone_data
from itinerary.app.looking.ground import Ground
from itinerary.core.timeline import Timeline
from itinerary.core.zoning import newer_entries
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.schedules import ZoneData, every, packaged_zone, packaged_zone_data
from itinerary.schedules.durations import SECOND
from itinerary.stores.base import SchemaSeen
from tests.unit.runtime.world import World, played

pytestmark = pytest.mark.spec("U3", "doctor")


def wrong(found: Sequence[Finding]) -> list[str]:
    return [finding.words for finding in found if finding.level is Level.WRONG]


def doubtful(found: Sequence[Finding]) -> list[str]:
    return [finding.words for finding in found if finding.level is Level.DOUBTFUL]


async def seen(world: World, look: Callable[[Ground], Awaitable[list[Finding]]]) -> list[Finding]:
    return await look(await Ground.of(world.store))


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
    assert finding == Finding("set-up", Level.WRONG, "fsync is off: a crash can destroy the database", "set it to on")


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
        assert (await clock(world.store, lambda: here)).level is Level.WELL
        world.store_ahead = ahead * SECOND
        finding = await clock(world.store, lambda: here)
        assert (finding.level, finding.words) == (Level.DOUBTFUL, words)

    played(story)


# -- the work --------------------------------------------------------------------------------------------------------


def test_zone_data_that_is_older_than_the_stores_is_doubtful_and_a_table_that_lacks_is_wrong() -> None:
    async def story(world: World) -> None:
        data = packaged_zone_data()
        newer = ZoneData("2199z", lambda name: packaged_zone("Asia/Tokyo" if name == "Europe/Berlin" else name))
        await world.store.amend(newer_entries(Timeline().zones, newer, ["Europe/Berlin"], by="test", revision=None))
        await world.register("here", world.task(), schedule=every("1h", tz="Europe/Berlin"))
        ground = await Ground.of(world.store)
        assert doubtful(zone_data(ground, data)) == [
            f"this machine has zone data {data.release}, and the store has newer tables of Europe/Berlin"
        ]
        assert not doubtful(zone_data(ground, newer))
        await world.register("there", world.task(), schedule=every("1h", tz="Europe/Paris"))
        (found,) = wrong(zone_data(await Ground.of(world.store), newer))
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
