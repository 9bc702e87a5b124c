"""`itinerary explain` on the command line: the sentence first, the facts under it, at any width (U3, U4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from itinerary import Itinerary, cron, every
from itinerary.cli.explain import in_lines
from itinerary.cli.main import app as command_line
from itinerary.explain import Explanation, explain
from itinerary.jobs.registration import register
from itinerary.schedules.instants import Moment
from itinerary.stores import open_store
from tests.unit.jobs.test_registration import LOG
from tests.unit.runtime.world import World, played

FAR = "2190-06-01T05:00"


async def work() -> None: ...


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with jobs in it, on which no node has ever run."""
    place = f"sqlite:///{tmp_path}/itinerary.db"
    app = Itinerary(store=place)
    app.job("etl", cron("0 5 * * *", tz="Europe/Berlin")).task(work)
    app.job("nightly report", every("1h")).task(work)

    async def declare() -> None:
        async with open_store(place) as store:
            await register(store, app._declared, by="anna", log=LOG)

    asyncio.run(declare())
    return place


def said(url: str, *words: str, columns: int = 80) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(command_line, ["explain", *words, "--store", url])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.spec("U4", "on the command line")
def test_a_time_without_an_offset_is_one_of_the_jobs_zone(url: str) -> None:
    code, output, _ = said(url, "etl", FAR)
    assert code == 0
    assert output.startswith("etl, due 2190-06-01 05:00:00 Europe/Berlin, is to come in ")
    assert said(url, "etl", "2190-06-01T03:00:00Z")[1].startswith("etl, due 2190-06-01 05:00:00 Europe/Berlin, is to")
    assert said(url, "etl", "2190-06-01T05:00:00Z")[1].startswith("etl at 2190-06-01 07:00:00 Europe/Berlin is not")


@pytest.mark.spec("U4", "on the command line")
def test_a_run_id_says_both_which_job_and_when(url: str) -> None:
    code, output, _ = said(url, "nightly report:6955596000")
    assert (code, output.startswith("nightly report, due 2190-05-31 14:00:00 UTC, is to come")) == (0, True), output
    for replay in ("replay-1", "99bc3236.replay-12"):
        assert said(url, f"nightly report:6955596000.{replay}") == (0, output, ""), "with the instant that it repeats"


@pytest.mark.spec("U3", "--json")
def test_for_programs_it_is_one_object_with_two_codes(url: str) -> None:
    code, output, _ = said(url, "etl", FAR, "--json")
    found: dict[str, Any] = msgspec.json.decode(output)
    assert code == 0
    assert (found["fate"], found["cause"], found["zone"]) == ("to_come", "future", "Europe/Berlin")
    assert (found["run"], found["instant"]) == ("etl:6955642800", "2190-06-01T03:00:00Z")
    assert set(found) == set(Explanation.__struct_fields__)


@pytest.mark.spec("U3", "exit codes")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("elt",), "itinerary: there is no job 'elt' in the store; did you mean 'etl'?"),
        (("backup",), "itinerary: there is no job 'backup' in the store; see how it is spelt, or which store is asked"),
        (("etl", "soon"), "itinerary: TIME soon: this is not a time; write 2026-03-01T05:00"),
        (("etl", "1492-01-01"), "itinerary: TIME 1492-01-01: lies outside the supported years 1900 to 2199"),
    ],
)
def test_what_cannot_be_explained_is_an_error_in_a_line(url: str, words: tuple[str, ...], error: str) -> None:
    code, output, errors = said(url, *words)
    assert (code, output) == (1, "")
    assert errors.startswith(error)
    assert len(errors.strip().splitlines()) == 1


def in_berlin(width: int) -> str:
    """What is shown of a run that was late on the night on which summer time began."""

    async def story(world: World) -> Explanation:
        await world.register("etl", world.task(0.2), schedule=cron("30 2 * * *", tz="Europe/Berlin"))
        async with world.running(world.node("a")):
            await world.sleep_until(30)
        await world.sleep_until(13 * 3_600 + 600)
        async with world.running(world.node("b")):
            await world.sleep_until(13 * 3_600 + 660)
        return await explain(world.store, "etl", Moment.of("2026-03-29T02:30", "TIME"))

    return "\n".join(in_lines(played(story), width))


@pytest.mark.spec("U3", "a terminal of 60 columns")
def test_at_sixty_columns_it_reads_well() -> None:
    shown = in_berlin(60)
    assert shown.splitlines() == [
        "The clock of Europe/Berlin never showed 2026-03-29 02:30:00:",
        "it goes on at 03:00:00. etl, due 2026-03-29 03:00:00",
        "Europe/Berlin, ran 10 min late: no node was there from",
        "2026-03-28 13:00:30 to 03:10:00, and it was recovered by",
        "execute_all. It began at 03:10:00 on node b and completed",
        "after 200 ms.",
        "",
        "2026-03-28 Europe/Berlin",
        "  13:00:30  12:00:30Z  node a left",
        "",
        "2026-03-29 Europe/Berlin",
        "  03:00:00  01:00:00Z  due by version 1: At 02:30,",
        "                       Europe/Berlin",
        "  03:10:00  01:10:00Z  node b joined",
        "  03:10:00  01:10:00Z  queued: recovered by execute_all:",
        "                       nobody was there at its instant",
        "  03:10:00  01:10:00Z  pending: its turn has come",
        "  03:10:00  01:10:00Z  running, node b",
        "  03:10:00  01:10:00Z  completed, node b",
        "",
        "Next: 2026-03-30 02:30:00 Europe/Berlin",
    ]
    assert max(map(len, shown.splitlines())) <= 60


@pytest.mark.spec("U3", "a terminal of 60 columns")
@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_at_any_width_nothing_is_cut(width: int) -> None:
    assert in_berlin(width).split() == in_berlin(1_000).split()


@pytest.mark.spec("U3", "a pipe")
def test_in_a_pipe_there_is_no_colour(url: str) -> None:
    assert "\x1b" not in said(url, "etl", FAR, columns=60)[1]
