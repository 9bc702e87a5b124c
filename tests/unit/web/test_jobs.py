"""The list of jobs: by name, in pages, by how they stand; and the book that it is read from."""

from __future__ import annotations

import re

import pytest

from itinerary import Itinerary, every
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.rows import EntryKind, EntryRow, JobNumber, JobRow
from itinerary.read.jobs import JobState
from itinerary.schedules.durations import SECOND
from itinerary.web.job_index import JobIndex
from tests.unit.web.dashboards import hourly, open_dashboard, run

NOW = 1_800_000_000 * SECOND


def app_with(*names: str) -> Itinerary:
    app = Itinerary(store="memory:", name="here", shutdown_grace_period="1s")
    for name in names:
        app.job(name, hourly()).task(_work)
    return app


def _work() -> None: ...


def listed(page: str) -> list[str]:
    return re.findall(r'role="rowheader"><a href="[^"]*">([^<]*)</a>', page)


@pytest.mark.spec("U10")
def test_jobs_are_listed_by_name_fifty_on_a_page_and_the_pages_lead_on() -> None:
    names = [f"job {number:03}" for number in range(120)]

    async def story() -> None:
        async with open_dashboard(app_with(*names)) as dashboard:
            found, address = list[str](), "/jobs"
            while address:
                page = await dashboard.page(address)
                assert len(listed(page)) <= 50
                found += listed(page)
                onward = re.search(r'href="([^"]*)" rel="next"', page)
                address = "" if onward is None else onward[1].replace("&amp;", "&")
            assert found == names

    run(story())


def test_jobs_are_found_by_a_part_of_their_name_or_by_a_pattern() -> None:
    async def story() -> None:
        async with open_dashboard(app_with("etl lisbon", "etl porto", "Daily ETL", "backup")) as dashboard:
            assert listed(await dashboard.page("/jobs?name=etl")) == ["Daily ETL", "etl lisbon", "etl porto"]
            assert listed(await dashboard.page("/jobs?name=etl*")) == ["etl lisbon", "etl porto"]
            assert "No job fits." in await dashboard.page("/jobs?name=nothing")
            assert "No job fits." in await dashboard.page("/jobs?name=%5B")

    run(story())


@pytest.mark.spec("U10")
def test_jobs_are_counted_by_how_they_stand_and_can_be_chosen_by_it() -> None:
    async def story() -> None:
        app = app_with("a", "b", "c", "gone")
        async with open_dashboard(app) as dashboard:
            await app["b"].pause(reason="<i>tests</i>")
            await app["c"].stop()
            await app["gone"].remove()
            await dashboard.look_around()
            page = await dashboard.page("/jobs")
            assert listed(page) == ["a", "b", "c"]
            assert dict(re.findall(r">(\w+) <span class=\"count\">([\d,]+)</span>", page)) == {
                "all": "3",
                "active": "1",
                "paused": "1",
                "stopped": "1",
                "removed": "1",
            }
            assert "&lt;i&gt;tests&lt;/i&gt;" in page
            assert listed(await dashboard.page("/jobs?state=paused")) == ["b"]
            assert listed(await dashboard.page("/jobs?state=removed")) == ["gone"]
            assert listed(await dashboard.page("/jobs?state=failing")) == []
            await app["b"].resume()
            assert listed(await dashboard.page("/jobs?state=active")) == ["a", "b"]

    run(story())


def test_a_job_is_shown_with_its_last_outcomes_its_schedule_in_words_and_when_it_is_next() -> None:
    async def story() -> None:
        app = app_with("etl")
        async with open_dashboard(app) as dashboard:
            assert "never ran" in await dashboard.page("/jobs")
            await dashboard.node.wait(await app["etl"].trigger())
            last = await app["etl"].trigger()
            await dashboard.node.wait(last)
            page = await dashboard.page("/jobs")
            assert 'aria-label="last 2: 2 completed"' in page
            assert f'href="/runs/{last.ref}"' in page
            assert str(hourly()) in page
            following = app["etl"].next_run()
            assert following is not None
            assert following.strftime("%Y-%m-%dT%H:%M:%SZ") in page
            await app["etl"].pause()
            page = await dashboard.page("/jobs")
            assert following.strftime("%Y-%m-%dT%H:%M:%SZ") in page, "the next instant of a paused job"
            page = await dashboard.page("/jobs/etl")
            assert "The job is paused: an instant during the pause is skipped." in page

    run(story())


@pytest.mark.parametrize(
    "address", ["/jobs?state=happy", f"/jobs?name={'x' * 501}", "/timeline?span=2d", "/timeline?at=noon"]
)
def test_what_nobody_can_mean_is_refused_with_what_is_allowed(address: str) -> None:
    async def story() -> None:
        async with open_dashboard(app_with("a")) as dashboard:
            answer = await dashboard.get(address)
            assert answer.status_code == 400

    run(story())


# -- the book --------------------------------------------------------------------------------------------------------


def version(revision: int, job: int, kind: EntryKind = EntryKind.VERSION, **more: object) -> EntryRow:
    body = to_json(Definition(schedule=every("1h").to_json(), tasks=())).decode() if kind is EntryKind.VERSION else None
    return EntryRow(
        revision,
        0,
        JobNumber(job),
        kind,
        str(revision),
        int(str(more.get("at", NOW - SECOND))),
        NOW,
        "me",
        1,
        body=body,
    )


def job(number: int) -> JobRow:
    return JobRow(JobNumber(number), f"job {number}", NOW, 1, NOW)


def test_a_book_that_goes_on_from_another_says_what_a_new_one_says() -> None:
    first = Timeline.of([version(1, 1), version(2, 2), version(3, 3, at=NOW + 10 * SECOND)], [job(1), job(2), job(3)])
    before = JobIndex(first, NOW)
    assert before.counts == {JobState.ACTIVE: 2, JobState.LATER: 1}
    later = first.extended([version(4, 2, EntryKind.PAUSE), version(5, 1, EntryKind.REMOVE)])
    assert not before.is_true(later, NOW)
    assert JobIndex(later, NOW, before).counts == JobIndex(later, NOW).counts
    after = JobIndex(later, NOW + 20 * SECOND, before)
    assert after.counts == JobIndex(later, NOW + 20 * SECOND).counts
    assert after.counts == {JobState.REMOVED: 1, JobState.PAUSED: 1, JobState.ACTIVE: 1}


def test_a_book_stays_true_until_a_stretch_ends_by_itself() -> None:
    timeline = Timeline.of([version(1, 1, at=NOW + 10 * SECOND)], [job(1)])
    book = JobIndex(timeline, NOW)
    assert book.is_true(timeline, NOW + 9 * SECOND)
    assert not book.is_true(timeline, NOW + 10 * SECOND)
