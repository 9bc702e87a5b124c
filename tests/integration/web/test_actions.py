"""Actions of the dashboard: each form does what it says, once, under the name of who sent it (U10, Q2)."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from itinerary import Itinerary, every
from itinerary.api import RunReference
from itinerary.model.ids import job_id
from itinerary.model.queries import EntriesQuery
from tests.integration.web.visiting import Visitor, run, text_of, visiting
from tests.local_callers import ME

DAILY = every("24h")
DAILY_JOB = str(job_id("daily"))
IN_TEN_DAYS = f"{datetime.now(UTC) + timedelta(days=10):%Y-%m-%dT00:00:00Z}"


def quiet_app() -> Itinerary:
    """Jobs that are due once a day: one that ends at once, one that does not, one of two tasks."""
    app = Itinerary(store="memory:", name="here", kill_grace="200ms", shutdown_grace_period="5s")

    @app.job(DAILY)
    def daily() -> str:
        return "done"

    @app.job(DAILY)
    async def long() -> None:
        await asyncio.sleep(3_600)

    several = app.job("several", DAILY)
    several.task(_first)
    several.task(_second)
    return app


def _first() -> None: ...


def _second() -> None: ...


async def entries(visitor: Visitor) -> list[tuple[str, str, str | None]]:
    rows = await visitor.node.lent_store().read(EntriesQuery(0))
    return [(row.kind.value, row.entered_by, row.reason) for row in rows if row.kind not in ("version", "zone")]


@pytest.mark.spec("U10", "pause, trigger, cancel, replay, backfill")
@pytest.mark.parametrize(
    ("what", "fields", "notice"),
    [
        ("pause", {"until": IN_TEN_DAYS}, "Paused daily"),
        ("pause", {}, "Paused daily"),
        ("resume", {}, "Resumed daily"),
        ("resume", {"backlog": "skip"}, "Resumed daily"),
        ("stop", {}, "Stopped daily"),
        ("start", {}, "Started daily"),
        ("remove", {}, "Removed daily"),
    ],
)
def test_a_change_says_what_it_will_do_is_made_and_told_of_once(what: str, fields: dict[str, str], notice: str) -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            address = f"/actions/{what}?job={DAILY_JOB}"
            page = await visitor.get(address)
            assert page.status_code == 200
            assert "daily" in text_of(page)
            answer = await visitor.act(address, reason="the disk is full", **fields)
            assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/daily")
            assert (await entries(visitor))[-1] == (what, ME, "the disk is full")
            assert notice in text_of(await visitor.get("/"))
            assert notice not in text_of(await visitor.get("/"))

    run(program())


@pytest.mark.spec("Q2", "changes take an idempotency key")
def test_a_form_that_is_sent_twice_is_one_change() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            pause, trigger = f"/actions/pause?job={DAILY_JOB}", f"/actions/trigger?job={DAILY_JOB}"
            fields = await visitor.form(pause)
            for _ in range(2):
                assert (await visitor.send(pause, fields)).status_code == 303
            assert [kind for kind, _, _ in await entries(visitor)] == ["pause"]
            other = await visitor.send(pause, {**fields, "reason": "another one"})
            assert other.status_code == 400
            assert "was used for another request" in text_of(other)
            fields = await visitor.form(trigger)
            first, second = [await visitor.send(trigger, fields) for _ in range(2)]
            assert first.headers["location"] == second.headers["location"]
            another = await visitor.act(trigger)
            assert another.headers["location"] != first.headers["location"]

    run(program())


@pytest.mark.spec("U10", "trigger")
def test_a_run_that_is_asked_for_runs_and_can_be_cancelled_and_replayed() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            begun = await visitor.act(f"/actions/trigger?job={job_id('long')}", reason="to see")
            number = begun.headers["location"].rpartition("/")[2]
            ended = await visitor.act(f"/actions/cancel?run={number}", reason="seen enough")
            assert ended.headers["location"] == f"/runs/{number}"
            report = await visitor.node.wait(number)
            assert report.outcome == "cancelled"
            assert (await visitor.act(f"/actions/cancel?run={number}")).status_code == 303
            again = await visitor.act(f"/actions/replay?run={number}", version="current")
            assert again.headers["location"] != f"/runs/{number}"

    run(program())


@pytest.mark.spec("U10", "adjust")
@pytest.mark.spec("L6", "update")
def test_a_run_that_waits_can_be_adjusted() -> None:
    app = quiet_app()
    app.job("lined", DAILY, overlap="queue").task(_endless)

    async def program() -> None:
        async with visiting(app) as visitor:
            first, second = [await app["lined"].trigger(key=key) for key in ("first", "second")]
            await _started(visitor, first)
            page = await visitor.get(f"/runs/{second.ref}")
            assert f"/actions/adjust?run={second.ref}" in page.text
            assert f"/actions/adjust?run={first.ref}" not in (await visitor.get(f"/runs/{first.ref}")).text
            address = f"/actions/adjust?run={second.ref}"
            done = await visitor.act(address, **{"priority": "9", "retry.max_retries": "3", "reason": "month end"})
            assert done.headers["location"] == f"/runs/{second.ref}"
            page = await visitor.get(f"/runs/{second.ref}")
            assert "retry.max_retries=3, priority=9, by" in text_of(page)
            assert "month end" in page.text
            wrong = await visitor.act(address, priority="soon")
            assert wrong.status_code == 400
            assert "priority" in text_of(wrong)
            nothing = await visitor.act(address, reason="nothing typed")
            assert "nothing is to be adjusted" in text_of(nothing)
            late = await visitor.act(f"/actions/adjust?run={first.ref}", priority="1")
            assert "has started already" in text_of(late)

    run(program())


async def _started(visitor: Visitor, one: RunReference) -> None:
    while True:
        found = await visitor.node.occurrence(one)
        if found is not None and found.started_at is not None:
            return


async def _endless() -> None:
    await asyncio.Event().wait()


@pytest.mark.spec("O5", "of what has ended")
def test_what_has_ended_well_cannot_be_cancelled() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            begun = await visitor.act(f"/actions/trigger?job={DAILY_JOB}")
            number = begun.headers["location"].rpartition("/")[2]
            await visitor.node.wait(number)
            too_late = await visitor.act(f"/actions/cancel?run={number}", reason="too late")
            assert too_late.status_code == 400
            assert "has ended already" in text_of(too_late)
            assert "too late" in too_late.text

    run(program())


@pytest.mark.spec("R4", "named tasks")
def test_a_replay_runs_the_tasks_that_were_ticked() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            begun = await visitor.act(f"/actions/trigger?job={job_id('several')}")
            number = begun.headers["location"].rpartition("/")[2]
            await visitor.node.wait(number)
            assert {"_first", "_second"} <= set(text_of(await visitor.get(f"/actions/replay?run={number}")).split())
            again = await visitor.act(f"/actions/replay?run={number}", task=["_second"])
            report = await visitor.node.wait(again.headers["location"].rpartition("/")[2])
            assert [(task.name, str(task.status)) for task in report.tasks if str(task.status) == "success"] == [
                ("_second", "success")
            ]

    run(program())


@pytest.mark.spec("S12", "skip one named occurrence")
def test_one_of_the_next_instants_can_be_skipped() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            address = f"/actions/skip?job={DAILY_JOB}"
            offered = re.findall(r'name="instant" value="([^"]*)"', (await visitor.get(address)).text)
            assert len(offered) > 3
            assert (await visitor.act(address, instant=offered[1])).status_code == 303
            left = re.findall(r'name="instant" value="([^"]*)"', (await visitor.get(address)).text)
            assert offered[1] not in left
            refused = await visitor.act(address, instant=IN_TEN_DAYS.replace("00Z", "01Z"), reason="kept <b>words</b>")
            assert refused.status_code == 400
            assert "no occurrence at" in text_of(refused)
            assert "kept &lt;b&gt;words&lt;/b&gt;" in refused.text

    run(program())


@pytest.mark.spec("R4", "backfill")
def test_a_backfill_is_shown_before_it_runs_and_followed_while_it_does() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            address = f"/actions/backfill?job={DAILY_JOB}"
            fields = {
                **await visitor.form(address),
                "from": "2020-01-02T00:00:00Z",
                "to": "2020-01-05T00:00:00Z",
                "which": "missing",
                "max_active": "2",
                "reason": "as it should have been",
            }
            seen = await visitor.send(address, {**fields, "do": "preview"})
            assert seen.status_code == 200
            assert "3 of 3 instants would run" in text_of(seen)
            assert fields["key"] in seen.text
            begun = await visitor.send(address, {**fields, "do": "run"})
            onward = begun.headers["location"]
            assert (begun.status_code, onward) == (303, f"/backfills/{fields['key']}")
            told = await visitor.until(onward, lambda text: "It has ended." in text)
            assert "3 of 3 runs have ended" in told
            assert "completed 3" in told
            again = await visitor.send(address, {**fields, "do": "run"})
            assert again.headers["location"] == onward
            told = await visitor.until(onward, lambda text: "It has ended." in text)
            assert "completed 3" in told
            nothing = await visitor.act(address, **{**fields, "key": "0" * 32, "do": "run"})
            assert nothing.status_code == 400
            assert "nothing to run" in text_of(nothing)

    run(program())


@pytest.mark.spec("R4", "backfill")
def test_a_backfill_that_goes_on_can_be_stopped() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            fields = {"from": "2020-01-02", "to": "2020-01-05", "do": "run"}
            begun = await visitor.act(f"/actions/backfill?job={job_id('long')}", **fields)
            onward = begun.headers["location"]
            page = await visitor.get(onward)
            assert "0 of 3 runs have ended" in text_of(page)
            halt = f"/actions/halt?backfill={onward.rpartition('/')[2]}"
            assert f'href="{halt}"' in page.text
            assert (await visitor.act(halt)).headers["location"] == onward
            assert "somebody stopped it" in text_of(await visitor.get(onward))
            assert (await visitor.act(halt)).status_code == 400

    run(program())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"from": "2020-01-05T00:00:00Z", "to": "2020-01-02T00:00:00Z"}, "ends before it starts"),
        ({"from": "", "to": "2020-01-02T00:00:00Z"}, "needs a range"),
        ({"from": "yesterday", "to": "2020-01-02T00:00:00Z"}, "is no time"),
        ({"from": "2020-01-02T00:00:00Z", "to": "2199-01-01T00:00:00Z"}, "is to come"),
        ({"from": "2020-01-02", "to": "2020-01-03", "max_active": "many"}, "not a whole number"),
        ({"from": "2020-01-02", "to": "2020-01-03", "max_active": "100000"}, "max_active"),
        ({"from": "2020-01-02", "to": "2020-01-03", "which": "some"}, "which"),
        ({"from": "2020-01-02", "to": "2020-01-03", "version": "next"}, "version"),
        ({"from": "2020-01-02", "to": "2020-01-03", "reason": "x" * 1_001}, "characters long"),
    ],
)
def test_what_is_wrong_is_said_in_the_form_with_what_was_typed(fields: dict[str, str], said: str) -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            address = f"/actions/backfill?job={DAILY_JOB}"
            refused = await visitor.act(address, **{"reason": "typed before", **fields})
            assert refused.status_code == 400
            assert said in text_of(refused)
            assert ("typed before" in refused.text) is ("reason" not in fields)
            assert 'role="alert"' in refused.text

    run(program())


def test_the_script_is_told_where_to_go_on_and_the_notice_waits() -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            address = f"/actions/pause?job={DAILY_JOB}"
            answer = await visitor.send(address, await visitor.form(address), {"X-Itinerary-Dialog": "1"})
            assert (answer.status_code, answer.json()) == (200, {"go": "/jobs/daily"})
            assert "Paused daily" in text_of(await visitor.get("/"))

    run(program())


@pytest.mark.parametrize(
    "address",
    [
        "/actions/explode?job=" + DAILY_JOB,
        "/actions/pause?job=" + str(job_id("nobody")),
        "/actions/pause?job=nobody",
        "/actions/cancel?run=999999",
        "/actions/cancel?run=daily",
        "/backfills/" + "0" * 32,
        "/actions/halt?backfill=" + "0" * 32,
    ],
)
def test_what_is_not_there_cannot_be_acted_on(address: str) -> None:
    async def program() -> None:
        async with visiting(quiet_app()) as visitor:
            assert (await visitor.get(address)).status_code == 404

    run(program())
