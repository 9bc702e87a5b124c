"""The page of audits: a window is audited in the background, and what people changed stands below (U6, Q2)."""

from __future__ import annotations

import pytest

from itinerary import Itinerary, every
from itinerary.model.ids import job_id
from tests.integration.web.visiting import run, text_of, visiting
from tests.local_callers import ME


def app() -> Itinerary:
    found = Itinerary(store="memory:", name="here")

    @found.job(every("24h"))
    def daily() -> None: ...

    @found.job(every("24h"))
    def other() -> None: ...

    return found


@pytest.mark.spec("U6", "on the dashboard")
def test_the_last_day_is_audited_in_the_background_and_found_clean() -> None:
    async def program() -> None:
        async with visiting(app()) as visitor:
            asked = await visitor.get("/audit?from=&to=")
            assert asked.status_code == 303
            address = asked.headers["location"]
            said = await visitor.until(address, lambda text: "Nothing is lost" in text)
            assert "0 lost" in said
            assert "decided exactly once" in said

    run(program())


@pytest.mark.parametrize(
    ("since", "until", "why"),
    [
        ("yesterday", "", "is no time"),
        ("", "2198-01-01T00:00:00Z", "up to where everything is decided"),
        ("2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z", "ends before it starts"),
        ("2020-01-02T00:00:00Z", "2020-06-01T00:00:00Z", "longer than 31 days"),
        ("2020-01-02T00:00:00Z' or 1=1", "", "is no time"),
    ],
)
def test_a_window_that_cannot_be_audited_says_why(since: str, until: str, why: str) -> None:
    async def program() -> None:
        async with visiting(app()) as visitor:
            page = await visitor.client.get(
                "/audit", params={"from": since, "to": until}, headers={"Accept": "text/html"}
            )
            assert page.status_code == 400
            assert why in text_of(page)
            assert "Changes" in text_of(page)

    run(program())


@pytest.mark.spec("Q2", "every change is recorded with a name")
def test_the_trail_says_who_changed_what_and_why_newest_first() -> None:
    async def program() -> None:
        async with visiting(app()) as visitor:
            said = text_of(await visitor.get("/audit"))
            assert "registered daily and 1 more" in said
            for what in ("pause", "resume", "stop", "start", "skip", "remove"):
                address = f"/actions/{what}?job={job_id('daily')}"
                fields = {}
                if what == "skip":
                    form = (await visitor.get(address)).text
                    fields = {"instant": form.partition('name="instant" value="')[2].partition('"')[0]}
                answer = await visitor.act(address, reason=f"because of {what} <i>", **fields)
                assert answer.status_code == 303, text_of(answer)
            page = await visitor.get("/audit")
            said = text_of(page)
            words = ["removed daily", "will skip daily at", "started daily", "stopped daily", "resumed daily"]
            places = [said.index(word) for word in [*words, "paused daily", "registered daily"]]
            assert places == sorted(places)
            assert f"{ME} removed daily because of remove <i>" in said
            assert "remove <i>" not in page.text
            newest = text_of(await visitor.get("/audit?before=3"))
            assert "removed daily" not in newest

    run(program())


def test_runs_that_somebody_asked_for_stand_with_their_name() -> None:
    async def program() -> None:
        async with visiting(app()) as visitor:
            await visitor.act(f"/actions/trigger?job={job_id('other')}", reason="to see")
            said = text_of(await visitor.get("/audit")).partition("Runs that somebody asked for")[2]
            assert f"trigger {ME}" in said
            assert "to see" in said

    run(program())
