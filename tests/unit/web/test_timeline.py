"""The timeline: what was and what is to come, few by themselves and many as bars; and how one moves along it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from itinerary import Itinerary, every
from tests.unit.web.dashboards import open_dashboard, run

LATER = "/timeline?at=2030-01-01T00:00:00Z"


def app_with(**jobs: str) -> Itinerary:
    app = Itinerary(store="memory:", name="here", shutdown_grace_period="1s")
    for name, interval in jobs.items():
        app.job(name, every(interval, start=datetime(2029, 1, 1, tzinfo=UTC))).task(_work)
    return app


def _work() -> None: ...


def lane(page: str, job: str) -> str:
    found = re.search(rf'aria-label="{job}: ([^"]*)"', page)
    assert found is not None, f"no lane of {job}"
    return found[1]


def key(page: str, name: str) -> str:
    link = next(one for one in re.findall(r"<a [^>]*>", page) if f'data-key="{name}"' in one)
    return re.search(r'href="([^"]*)"', link)[1].replace("&amp;", "&")  # type: ignore[index]  # it is a link


@pytest.mark.spec("U10")
def test_runs_are_drawn_with_links_and_what_is_to_come_is_hollow() -> None:
    async def story() -> None:
        app = app_with(hourly="1h")
        async with open_dashboard(app) as dashboard:
            last = await app["hourly"].trigger()
            await dashboard.node.wait(last)
            page = await dashboard.page("/timeline?span=1d")
            assert f'href="/runs/{last.ref}"' in page
            assert lane(page, "hourly") == "1 completed"
            assert 'class="now"' in page
            page = await dashboard.page(f"{LATER}&span=6h")
            assert lane(page, "hourly") == "6 to come"
            assert page.count('class="hollow"') == 6 + 1  # and one in the legend
            assert "The same as a table" in page

    run(story())


def test_many_are_bars_and_the_page_stays_light() -> None:
    async def story() -> None:
        async with open_dashboard(app_with(often="15s")) as dashboard:
            page = await dashboard.page(f"{LATER}&span=1d")
            assert lane(page, "often") == "5,760 to come"
            assert 'class="density-idle"' in page
            assert len(page) < 20_000

    run(story())


def test_what_is_due_too_often_for_a_long_window_is_not_foreseen_there_and_says_so() -> None:
    async def story() -> None:
        async with open_dashboard(app_with(hourly="1h", often="1s")) as dashboard:
            page = await dashboard.page(f"{LATER}&span=1w")
            assert lane(page, "often") == "nothing"
            assert "look at a shorter one" in page
            assert lane(page, "hourly") == "168 to come"
            page = await dashboard.page(f"{LATER}&span=6h")
            assert lane(page, "often") == "21,600 to come"
            assert "look at a shorter one" not in page

    run(story())


def test_a_window_can_be_moved_and_zoomed_by_links_that_keys_follow() -> None:
    async def story() -> None:
        async with open_dashboard(app_with(hourly="1h", other="2h")) as dashboard:
            page = await dashboard.page("/timeline?span=6h&at=2030-01-01T00:00:00Z&jobs=hour*")
            assert key(page, "earlier") == "/timeline?span=6h&at=2029-12-31T21%3A00%3A00Z&jobs=hour%2A"
            assert key(page, "later") == "/timeline?span=6h&at=2030-01-01T03%3A00%3A00Z&jobs=hour%2A"
            assert key(page, "closer") == "/timeline?span=1h&at=2030-01-01T02%3A30%3A00Z&jobs=hour%2A"
            assert key(page, "wider") == "/timeline?span=1d&at=2029-12-31T15%3A00%3A00Z&jobs=hour%2A"
            assert key(page, "today") == "/timeline?span=6h&jobs=hour%2A"
            assert lane(page, "hourly") == "6 to come"
            assert 'aria-label="other' not in page
            assert 'class="now"' not in page

    run(story())


def test_what_was_long_ago_is_found_in_the_window_that_is_asked_for() -> None:
    async def story() -> None:
        app = app_with(hourly="1h")
        async with open_dashboard(app) as dashboard:
            for _ in range(40):
                await dashboard.node.wait(await app["hourly"].trigger())
            here = await dashboard.page("/timeline?span=1h&jobs=hourly")
            assert "40 completed" in lane(here, "hourly")
            past = await dashboard.page("/timeline?span=1h&at=2020-01-01T00:00:00Z")
            assert lane(past, "hourly") == "nothing"

    run(story())


def test_a_paused_job_shows_what_will_be_skipped() -> None:
    async def story() -> None:
        app = app_with(hourly="1h")
        async with open_dashboard(app) as dashboard:
            await app["hourly"].pause()
            page = await dashboard.page(f"{LATER}&span=6h")
            assert lane(page, "hourly") == "6 to be skipped"

    run(story())


def test_jobs_beyond_a_page_are_on_the_next() -> None:
    async def story() -> None:
        app = app_with(**{f"job{number:02}": "1h" for number in range(45)})
        async with open_dashboard(app) as dashboard:
            page = await dashboard.page("/timeline")
            assert len(re.findall(r'class="gantt-name"', page)) == 40
            onward = re.search(r'href="([^"]*)" rel="next"', page)
            assert onward is not None
            assert len(re.findall(r'class="gantt-name"', await dashboard.page(onward[1].replace("&amp;", "&")))) == 5

    run(story())
