"""The pages of a job, its history and an occurrence, of a node that has lived through everything (U10, Q2, Q4)."""

from __future__ import annotations

import re

import pytest

from itinerary.model.ids import job_id
from tests.integration.web.scene import HOSTILE, HOSTILE_TASK, OUTPUT, Scene, part_of, played, text_of

WEIGHS_AT_MOST = 300_000


@pytest.fixture(scope="module")
def scene() -> Scene:
    return played()


# -- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("U10", "job and occurrence")
def test_every_page_is_there_and_weighs_little(scene: Scene) -> None:
    for name, page in scene.pages.items():
        if not name.startswith(("refused", "by ", "no output", "output")):
            assert page.status_code == 200, (name, page.text[:500])
            assert len(page.content) < WEIGHS_AT_MOST, name


@pytest.mark.spec("Q2", "all output is escaped")
def test_nothing_that_people_or_tasks_wrote_is_markup(scene: Scene) -> None:
    for name, page in scene.pages.items():
        if page.headers["content-type"].startswith("text/html"):
            assert not re.search(r"<script>|<img|<b>|<i>|onerror=alert\(2\)>[^&]*<th", page.text), name
            assert not re.search(r"\sstyle=|javascript:", page.text), f"{name}: the policy forbids it"


def test_a_hostile_name_is_in_no_address(scene: Scene) -> None:
    for page in scene.pages.values():
        for address in re.findall(r'href="([^"]*)"', page.text):
            assert re.fullmatch(r"[/#][\w/.?=&;:%+~@-]*", address), address
    assert f"/jobs/{job_id(HOSTILE)}" in scene.pages["evil run"].text
    assert HOSTILE in text_of(scene.pages["evil"])
    assert HOSTILE_TASK in text_of(scene.pages["evil run"], "tasks")


def test_what_is_not_there_or_makes_no_sense_is_refused_and_says_so(scene: Scene) -> None:
    for name, page in scene.pages.items():
        if name.startswith("refused"):
            assert page.status_code in {400, 404}, (name, page.status_code)
            assert "<script>" not in page.text, name


def test_tables_have_headings_and_pictures_have_names(scene: Scene) -> None:
    for name, page in scene.pages.items():
        for heading in re.findall(r"<th\b[^>]*>", page.text):
            assert "scope=" in heading, (name, heading)
        for picture in re.findall(r"<svg\b[^>]*>", page.text):
            assert "aria-label=" in picture or 'aria-hidden="true"' in picture, (name, picture)


# -- a job -----------------------------------------------------------------------------------------------------------


def test_a_job_says_its_schedule_in_words_and_its_next_runs_in_its_own_zone_and_the_readers(scene: Scene) -> None:
    page = scene.pages["etl"]
    assert "At 04:00, Monday to Friday, America/New_York" in text_of(page, "status")
    following = part_of(page, "next")
    assert len(re.findall(r"\d{4}-\d\d-\d\d 04:00:00", following)) == 8
    assert len(re.findall(r'<time datetime="\d{4}-\d\d-\d\dT0[89]:00:00Z"', following)) == 8


def test_a_paused_job_says_by_whom_since_when_and_why_and_can_be_resumed(scene: Scene) -> None:
    page = scene.pages["slow"]
    said = text_of(page, "status")
    assert "paused" in said
    assert "<b>moving</b>" in said
    assert re.search(r"by \S+ since \d{4}", said)
    assert re.findall(r'class="button operates[^"]*" href="/actions/(\w+)\?job=', part_of(page, "status")) == [
        "resume",
        "trigger",
        "backfill",
        "stop",
        "remove",
    ]
    assert "The job is paused: an instant during the pause is skipped." in text_of(page, "next")


def test_what_is_under_way_is_on_its_jobs_page(scene: Scene) -> None:
    page = scene.pages["slow while it runs"]
    assert f'href="/runs/{scene.runs["first"].ref}"' in part_of(page, "active")
    assert "running" in text_of(page, "active")
    assert "1 running, 0 waiting" in text_of(page, "status")


def test_a_change_says_who_made_it_why_and_which_occurrences_it_added_and_removed(scene: Scene) -> None:
    said = text_of(scene.pages["etl"], "changes")
    assert "version 2" in said
    assert "“earlier”" in said or "earlier" in said
    assert re.search(r"schedule: At 05:00, Monday to Friday.* -> At 04:00, Monday to Friday", said)
    added, removed, kept = map(int, re.findall(r"\+(\d+) occurrences , −(\d+) , (\d+) kept", said)[0])
    assert added + removed == 100
    assert kept == 0
    assert "version 1" in said


def test_a_value_of_the_configuration_says_who_set_it_and_tasks_say_what_they_run(scene: Scene) -> None:
    page = scene.pages["etl"]
    assert "priority 3 job" in text_of(page, "configuration")
    assert "more as they come" in text_of(page, "configuration")
    assert "load shell:" in text_of(page, "tasks")
    assert "extract python:" in text_of(page, "tasks")


def test_a_year_has_a_cell_for_each_day_that_leads_to_its_history(scene: Scene) -> None:
    year = part_of(scene.pages["old"], "year")
    cells = re.findall(r"<title>\w{3} (\d{4}-\d\d-\d\d): ([^<]*)</title>", year)
    assert 52 * 7 < len(cells) <= 53 * 7
    told = [said for _, said in cells[:-1]]
    assert {"1 skipped", "1 missed"} <= set(told)
    assert told[:-1].count("nothing") == 0, "the last may be the day in which the test began"
    assert cells[-1][1] == "today, so far"
    assert 35 <= told.count("1 missed") <= 38
    assert len(re.findall(r'href="/jobs/old/history\?before=\d+"', year)) >= len(told)
    assert "Still counting" not in year
    assert "By month" in year


def test_the_last_hundred_are_in_a_chart_and_those_that_ran_have_percentiles(scene: Scene) -> None:
    assert len(re.findall(r'aria-label="[^"]*: (?:skipped|missed)"', part_of(scene.pages["old"], "recent"))) == 100
    assert "Half took at most" not in text_of(scene.pages["old"], "recent")
    said = text_of(scene.pages["etl"], "recent")
    assert "The last 2" in said
    assert "Half took at most" in said
    assert "95 of 100" in said


def test_a_history_is_read_page_by_page_and_by_what_came_of_it(scene: Scene) -> None:
    first, rare, older = scene.pages["history"], scene.pages["missed only"], scene.pages["older"]
    rows = [re.findall(r'href="(/runs/\d+)"', page.text) for page in (first, rare, older)]
    assert [len(some) for some in rows] == [50, 43, 50]
    assert 'href="/jobs/old/history?before=371"' in first.text
    assert "Older" in text_of(first)
    assert "rel=" not in part_of(rare, "history")
    assert set(re.findall(r'class="state state-(\w+)"', rare.text)) == {"missed"}
    assert 'href="/jobs/old/history?before=10"' in older.text


# -- an occurrence ---------------------------------------------------------------------------------------------------


def test_each_state_is_told_to_the_millisecond(scene: Scene) -> None:
    states = part_of(scene.pages["etl run"], "states")
    assert re.findall(r'class="state state-(\w+)"', states)[-2:] == ["running", "completed"]
    assert len(re.findall(r"\d\d:\d\d:\d\d\.\d{3} UTC", states)) >= 3
    assert "aria-hidden" in states


def test_each_attempt_has_a_bar_and_its_error(scene: Scene) -> None:
    page = scene.pages["evil run"]
    assert len(re.findall(r"<svg", part_of(page, "tasks"))) == 2
    said = text_of(page, "output")
    assert "ValueError: <script>alert(3)</script> attempt 1" in said
    assert "ValueError: <script>alert(3)</script> attempt 2" in said
    assert "Tried again after it" in said


@pytest.mark.spec("Q4", "output on a page")
def test_of_a_long_output_the_end_is_on_the_page_and_the_whole_is_a_file(scene: Scene) -> None:
    said = text_of(scene.pages["etl run"], "output")
    assert "<script>alert(4)</script>last" in said
    assert "characters before this are left out" in said
    assert "</pre><script>alert(5)</script>" in said, "the result"
    whole = scene.pages["output"]
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["content-disposition"].startswith("attachment; ")
    assert whole.text == '"' * OUTPUT + "<script>alert(4)</script>last\n"
    assert scene.pages["no output"].status_code == 404


def test_what_runs_can_be_cancelled_and_what_has_ended_replayed(scene: Scene) -> None:
    first = scene.runs["first"].ref
    assert f'href="/actions/cancel?run={first}"' in scene.pages["running"].text
    assert f'href="/actions/replay?run={first}"' not in scene.pages["running"].text
    assert f'href="/actions/replay?run={first}"' in scene.pages["cancelled"].text
    assert "until now" in text_of(scene.pages["running"], "states")
    assert "<b>enough</b>" in text_of(scene.pages["cancelled"], "outcome")


def test_what_was_in_the_way_and_what_it_was_in_the_way_of_lead_to_each_other(scene: Scene) -> None:
    first, second = scene.runs["first"].ref, scene.runs["second"].ref
    assert f'href="/runs/{first}"' in part_of(scene.pages["skipped"], "related")
    assert f'href="/runs/{second}"' in part_of(scene.pages["running"], "related")
    assert "was still running" in text_of(scene.pages["skipped"], "explanation")


def test_a_replay_and_its_original_lead_to_each_other(scene: Scene) -> None:
    original, replay = scene.runs["etl run"].ref, scene.runs["etl replay"].ref
    assert "It replays" in text_of(scene.pages["etl replay"], "related")
    assert f'href="/runs/{original}"' in part_of(scene.pages["etl replay"], "related")
    assert "Replayed by" in text_of(scene.pages["etl run"], "related")
    assert f'href="/runs/{replay}"' in part_of(scene.pages["etl run"], "related")
    assert "“again”" in text_of(scene.pages["etl replay"], "outcome") or "again" in text_of(scene.pages["etl replay"])
    assert "only the tasks extract" in text_of(scene.pages["etl replay"], "outcome")


def test_an_occurrence_says_what_it_ran_with_and_why_it_is_as_it_is(scene: Scene) -> None:
    page = scene.pages["etl run"]
    assert "priority 3 job" in text_of(page, "configuration")
    assert "completed" in text_of(page, "explanation")
    assert "What that rests on" in text_of(page, "explanation")
    assert "<i>now</i>" in text_of(page, "outcome")


def test_a_run_id_and_an_id_lead_to_the_page_of_the_occurrence(scene: Scene) -> None:
    for name, number in (("by run id", scene.numbers["first day"]), ("by id", scene.runs["etl run"].ref)):
        assert (scene.pages[name].status_code, scene.pages[name].headers["location"]) == (303, f"/runs/{number}")
