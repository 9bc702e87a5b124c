"""What `jobs`, `show`, `history`, `upcoming` and `nodes` print, captured at 60 columns, at 120, and in a pipe (U3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from itinerary.cli.charts import drawn_timeline, parts_for
from itinerary.cli.job_page import print_job
from itinerary.cli.list import print_jobs, print_nodes, print_upcoming
from itinerary.cli.output import screen
from itinerary.cli.run_pages import print_history, print_run
from itinerary.model.queries import HistoryQuery
from itinerary.read.job_detail import job_detail
from itinerary.read.jobs import JobState, jobs_seen
from itinerary.read.nodes import nodes_seen
from itinerary.read.run_lookup import RunReference
from itinerary.read.runs import history_page, run_detail
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.upcoming import upcoming
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.cli.looks import Terminal, ground_of, lived, terminal
from tests.unit.runtime.world import World, played

__all__ = ["terminal"]

GOLDEN = Path(__file__).parent / "golden"
HOURS = 3_600 * SECOND


async def jobs(ground: StoreSnapshot) -> None:
    print_jobs(ground, await jobs_seen(ground))


async def few_jobs(ground: StoreSnapshot) -> None:
    print_jobs(ground, await jobs_seen(ground, pattern="f*", limit=1))


async def history(ground: StoreSnapshot) -> None:
    print_history(ground, await history_page(ground, ground.job("flaky"), limit=6))


async def show_job(ground: StoreSnapshot) -> None:
    print_job(ground, await job_detail(ground, ground.job("slow"), limit=3))


async def show_run(ground: StoreSnapshot) -> None:
    job = ground.job("flaky")
    page = await ground.store.read(HistoryQuery(job.number, limit=3))
    row = next(row for row in page.rows if row.status == "failed")
    print_run(ground, await run_detail(ground, RunReference(job.name, row.key, row.ref)))


async def next_hours(ground: StoreSnapshot) -> None:
    console = screen()
    print_upcoming(ground, upcoming(ground, 6 * HOURS, parts=parts_for(console), limit=2), console)


async def next_days(ground: StoreSnapshot) -> None:
    console = screen()
    found = upcoming(ground, 72 * HOURS, parts=parts_for(console), pattern="nightly*")
    print_upcoming(ground, found, console)


async def nodes(ground: StoreSnapshot) -> None:
    names = {number: row.name for number, row in ground.timeline.jobs.items()}
    print_nodes(ground, await nodes_seen(ground.store, ground.now, names, limit=5))


VIEWS: dict[str, Callable[[StoreSnapshot], Awaitable[None]]] = {
    view.__name__: view for view in (jobs, few_jobs, history, show_job, show_run, next_hours, next_days, nodes)
}


def printed(terminal: Terminal) -> dict[str, str]:
    """Every view at every width, by name."""
    found: dict[str, str] = {}

    async def story(world: World) -> None:
        async def look() -> None:
            ground = await ground_of(world)
            for columns in (60, 120, None):
                terminal.wide(columns)
                for name, view in VIEWS.items():
                    await view(ground)
                    found[f"{name} {columns or 'pipe'}"] = terminal.text

        await lived(world, look)

    played(story)
    return found


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
@pytest.mark.spec("S10", "where jobs are listed")
@pytest.mark.spec("X5", "the effective configuration is shown")
def test_every_view_reads_as_it_was_captured_at_60_columns_at_120_and_in_a_pipe(terminal: Terminal) -> None:
    found = printed(terminal)
    captured = {path.stem.replace("_at_", " "): path.read_text("utf-8") for path in GOLDEN.glob("*.txt")}
    assert sorted(found) == sorted(captured)
    for name, text in found.items():
        assert text == captured[name], name


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
@pytest.mark.spec("Q7", "output is text and never control")
def test_no_captured_line_is_too_wide_or_ends_in_spaces_or_has_control_characters() -> None:
    paths = sorted(GOLDEN.glob("*.txt"))
    assert len(paths) == 3 * len(VIEWS)
    for path in paths:
        width = path.stem.rpartition("_at_")[2]
        for line in path.read_text("utf-8").splitlines():
            assert width == "pipe" or len(line) <= int(width), (path.name, line)
            assert line == line.rstrip(), (path.name, line)
            assert line.isprintable(), (path.name, line)


@pytest.mark.spec("U3", "nodes")
@pytest.mark.spec("N6", "shown")
def test_a_node_is_shown_with_how_its_time_has_jumped_and_the_code_that_it_lacks(terminal: Terminal) -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = await world.store.join("one", "berlin-1", "{}")
        jumps = {"count": 3, "last": [{"at": world.now(), "by": 90 * SECOND, "why": "the machine was suspended"}]}
        about = {"host": "db-1", "process": 7, "version": "0.1", "lacks": [1], "clock_jumps": jumps}
        await world.store.beat(node, about=msgspec.json.encode(about).decode())
        await world.store.join("two", "berlin-2", "not JSON at all")
        await world.sleep_until(45.0)
        await nodes(await ground_of(world))

    terminal.wide(60)
    played(story)
    assert terminal.text == (
        "node      state   holds  running  heard\n"
        "berlin-2  silent      0        0  45 s ago\n"
        "    since 2026-03-28 12:00:00 UTC\n"
        "berlin-1  silent      0        0  45 s ago\n"
        "    since 2026-03-28 12:00:00 UTC; host db-1; clock jumps 3,\n"
        "    the last by 1 min 30 s: the machine was suspended; lacks\n"
        "    the code of etl\n"
        "a wider terminal, or --json, has more: process, version,\n"
        "heartbeats\n"
    )


@pytest.mark.spec("D9", "quarantined and reported")
def test_a_job_that_cannot_run_is_quarantined_with_the_reason_and_can_be_looked_at(terminal: Terminal) -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        await world.enter("odd", "{")
        async with world.running(world.node(knows=lambda _: False)):
            await world.sleep_until(30.5)
            found = await jobs_seen(await ground_of(world), states={JobState.QUARANTINED})
        assert [job.job for job in found.jobs] == ["etl", "odd"]
        assert found.jobs[0].why == "no node that runs has its code"
        assert found.jobs[1].why is not None
        ground = await ground_of(world)
        print_job(ground, await job_detail(ground, ground.job("odd")))
        print_history(ground, await history_page(ground, ground.job("odd"), limit=5))

    played(story)
    assert terminal.text.startswith("odd, version 1, quarantined\n")


@pytest.mark.spec("U3", "upcoming")
@pytest.mark.parametrize("hours", [1, 6, 24, 24 * 7, 24 * 30, 24 * 366])
@pytest.mark.parametrize("columns", [30, 60, 120])
def test_a_drawing_of_any_time_fits_its_width_and_loses_no_run(terminal: Terminal, hours: int, columns: int) -> None:
    async def story(world: World) -> None:
        await world.register("a_job_with_a_name_that_is_longer_than_a_third", world.task(), schedule=every("2h"))
        await world.register("etl", world.task(), schedule=every("5h"))
        ground = await ground_of(world)
        terminal.wide(columns)
        console = screen()
        found = upcoming(ground, hours * HOURS, parts=parts_for(console), limit=1)
        assert sum(sum(job.counts) for job in found.jobs) + sum(found.more_counts) == sum(
            len(ground.timeline.expected(ground.now, ground.now + hours * HOURS, [number]))
            for number in ground.timeline.jobs
        )
        for line in drawn_timeline(found, console):
            assert cell_len(line.plain) <= columns

    played(story)


@pytest.mark.spec("Q4", "output on a terminal")
def test_of_very_much_output_the_end_is_shown_and_what_is_left_out_is_said(terminal: Terminal) -> None:
    async def story(world: World) -> None:
        async def fails(ctx: object) -> None:
            raise ValueError("x" * 3_000 + "\n" + "line\n" * 500)

        await world.register("loud", fails)
        async with world.running(world.node()):
            await world.sleep_until(61.0)
            ground = await ground_of(world)
            (row,) = (await ground.store.read(HistoryQuery(ground.job("loud").number, limit=1))).rows
            print_run(ground, await run_detail(ground, RunReference("loud", row.key, row.ref)))

    played(story)
    shown = terminal.text.splitlines()
    assert len(shown) < 250
    assert any("the last 200 of 50" in line and "--json has all" in line for line in shown)


@pytest.mark.spec("U3", "jobs")
def test_what_a_page_of_jobs_costs_does_not_grow_with_the_jobs_that_it_leaves_out() -> None:
    async def reads_for(world: World, jobs: int) -> int:
        for number in range(jobs):
            await world.register(f"job_{number}", world.task())
        ground, before = await ground_of(world), world.engine.reads
        found = await jobs_seen(ground, limit=5)
        assert (len(found.jobs), found.more) == (5, jobs - 5)
        return world.engine.reads - before

    assert played(lambda world: reads_for(world, 10)) == played(lambda world: reads_for(world, 500))
