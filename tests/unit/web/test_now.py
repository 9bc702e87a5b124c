"""The first page: what runs, waits, fails and is next, and one sentence about all of it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from itinerary import ExecutionContext, Itinerary, once
from itinerary.model.overload import Bottleneck, OverloadExtent
from itinerary.model.queries import ActiveQuery, NodesQuery, StatisticsQuery
from itinerary.model.rows import StatisticsRow
from itinerary.model.states import OccurrenceState
from itinerary.observe.overdue import OverdueInstant
from itinerary.stores import open_store
from itinerary.web.pages.templates import drawn
from tests.unit.web.dashboards import Dashboard, hourly, open_dashboard, run

HOSTILE = "<script>alert('x')</script>/../é"


def memory() -> Itinerary:
    return Itinerary(store="memory:", name="here", kill_grace="200ms", shutdown_grace_period="1s")


def text_of(page: str) -> str:
    return " ".join(page.split())


def test_an_empty_store_says_what_to_do_first() -> None:
    async def story() -> None:
        async with open_dashboard(memory()) as dashboard:
            page = await dashboard.page("/")
            assert "There is no job yet" in page
            assert "itinerary up app.py" in page

    run(story())


@pytest.mark.spec("U10")
def test_what_runs_is_shown_with_its_task_and_since_when_and_what_is_next() -> None:
    app, goes_on = memory(), asyncio.Event()
    app.job("later", hourly()).task(name="only")(lambda: None)
    etl = app.job("etl", hourly())

    @etl.task
    async def extract(ctx: ExecutionContext) -> None:
        started.set()
        await goes_on.wait()

    @etl.task
    async def load() -> None: ...

    started = asyncio.Event()

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            occurrence = await app["etl"].trigger()
            await started.wait()
            await dashboard.look_around()
            page = text_of(await dashboard.page("/"))
            assert "All is well." in page
            assert "2 jobs, 1 running, 0 waiting; next" in page
            assert f'href="/runs/{occurrence.ref}"' in page
            assert "task 1 of 2: extract" in page
            assert "too few runs to say what is usual" in page
            assert 'href="/jobs/later"' in page
            assert '<th scope="row">here</th>' in page
            goes_on.set()
            await dashboard.node.wait(occurrence)

    run(story())


def test_how_long_something_usually_takes_stands_beside_how_long_it_has_run() -> None:
    app, goes_on, runs = memory(), asyncio.Event(), list[int]()
    started = asyncio.Event()

    @app.job(hourly())
    async def etl() -> None:
        runs.append(1)
        if len(runs) == 5:
            started.set()
            await goes_on.wait()

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            for _ in range(4):
                await dashboard.node.wait(await app["etl"].trigger())
            last = await app["etl"].trigger()
            await started.wait()
            page = await dashboard.page("/")
            assert "usually" in page
            assert 'class="grows"' in page
            goes_on.set()
            await dashboard.node.wait(last)

    run(story())


@pytest.mark.spec("U10")
def test_a_job_whose_last_runs_failed_is_named_with_how_often_and_why() -> None:
    app, is_well = memory(), list[bool]()

    @app.job(hourly())
    async def fragile() -> None:
        if not is_well:
            raise ValueError("<b>no</b> luck")

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            for _ in range(3):
                await dashboard.node.wait(await app["fragile"].trigger())
            await dashboard.look_around()
            page = text_of(await dashboard.page("/"))
            assert "1 job fails" in page
            assert '<td class="number">3</td>' in page
            assert "&lt;b&gt;no&lt;/b&gt; luck" in page
            assert "<b>no" not in page
            is_well.append(True)
            await dashboard.node.wait(await app["fragile"].trigger())
            await dashboard.look_around()
            assert "All is well." in await dashboard.page("/")

    run(story())


def test_what_waits_says_for_what() -> None:
    app, goes_on, started = memory(), asyncio.Event(), asyncio.Event()

    @app.job(hourly(), overlap="queue")
    async def narrow() -> None:
        started.set()
        await goes_on.wait()

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            first = await app["narrow"].trigger()
            await started.wait()
            second = await app["narrow"].trigger()
            await _stands_in_line(dashboard)
            page = text_of(await dashboard.page("/"))
            assert "it stands in line for its job&#39;s turn, at place 1" in page
            goes_on.set()
            await dashboard.node.wait(first)
            await dashboard.node.wait(second)

    run(story())


async def _stands_in_line(dashboard: Dashboard) -> None:
    """Wait until somebody stands in line."""
    store = await dashboard.server.store()
    while all(  # noqa: ASYNC110 - another loop does it, and the store tells nobody
        row.status is not OccurrenceState.QUEUED for row in await store.read(ActiveQuery())
    ):
        await asyncio.sleep(0.01)  # what another loop does can only be looked at again


def test_what_is_due_and_undecided_is_late_and_says_why() -> None:
    app = memory()
    app.job("etl", hourly()).task(lambda: None, name="only")

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            await dashboard.look_around()
            (job,) = (await dashboard.server.snapshot()).timeline.jobs
            found = (OverdueInstant(job, 0, 0, None), OverdueInstant(job, 1, 1, OccurrenceState.PRERUN))
            dashboard.server.rounds.late = found  # as the round finds it: that takes a node which hangs for seconds
            page = text_of(await dashboard.page("/"))
            assert "2 are late" in page
            assert "nobody has taken it up" in page
            assert "somebody has claimed it, and not begun" in page

    run(story())


@pytest.mark.spec("Q2")
def test_names_that_are_script_are_escaped_wherever_they_stand() -> None:
    app = memory()
    app.job(HOSTILE, hourly()).task(name="main")(_fail)

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            await dashboard.node.wait(await app[HOSTILE].trigger())
            await dashboard.look_around()
            for address in ("/", "/jobs", "/jobs?name=script", "/timeline", "/timeline?span=1w", "/jobs?state=failing"):
                page = await dashboard.page(address)
                assert "alert(" in page
                assert "<script>alert" not in page
                assert not re.search(r'(href|action)="[^"]*\.\./', page)

    run(story())


def _fail() -> None:
    raise ValueError(HOSTILE)


def test_a_job_that_is_over_is_not_expected_any_more() -> None:
    app = memory()
    app.job("past", once("2020-01-01T00:00:00Z")).task(name="main")(lambda: None)

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            await dashboard.look_around()
            assert "nothing is due in the next weeks" in await dashboard.page("/")
            assert 'aria-current="true">finished' in text_of(await dashboard.page("/jobs?state=finished"))

    run(story())


@pytest.mark.spec("U8", "overload says so")
def test_the_headline_says_that_a_node_is_behind_and_what_helps() -> None:
    behind = OverloadExtent(1_800_000_000_000_000, 23_000_000, 40, Bottleneck.STORE)
    nothing = dict.fromkeys(("paused", "quarantined", "failing", "late", "silent", "died", "is_alone"), 0)
    node = SimpleNamespace(node="berlin-1", behind=behind)
    shown = {"jobs": 3, "running": 1, "waiting": 2, "following": None, "seen_percent": 100}
    page = text_of(drawn("now/headline.html", behind=[node], **nothing, **shown))
    assert "headline-bad" in page
    assert "1 node is behind" in page
    assert (
        "Node berlin-1 is 23 s behind since 2027-01-15T08:00:00Z: it waits for its store (bottleneck: store), "
        "and 40 due runs have not started: look at the disk" in page
    )
    assert "All is well" in text_of(drawn("now/headline.html", behind=[], **nothing, **shown))


@pytest.mark.spec("L10", "read")
def test_the_loop_of_each_node_is_summed_up_over_the_last_minute(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    app = Itinerary(store=url, name="here", kill_grace="200ms", shutdown_grace_period="1s")
    app.job("later", hourly()).task(name="only")(lambda: None)

    async def story() -> None:
        async with open_dashboard(app) as dashboard:
            await dashboard.look_around()
            snapshot = await dashboard.server.snapshot()
            (node,) = await snapshot.store.read(NodesQuery())
            stored = await snapshot.store.read(StatisticsQuery(node.number))
            rows = [StatisticsRow(node.number, snapshot.now - n, 1_000, 70_000, 80_000, 3, 50, n, 9) for n in (1, 2)]
            async with open_store(url) as store:
                await store.note_statistics(rows)
            page = text_of(await dashboard.page("/"))
            assert "Loop statistics" in page
            (cells,) = re.findall(r'<tr><th scope="row">here</th><td class="number">([\d,]+)</td>', page)
            assert int(cells.replace(",", "")) >= 2_000 + sum(row.iterations for row in stored)
            assert "No statistics of the last minute" not in page

    run(story())
