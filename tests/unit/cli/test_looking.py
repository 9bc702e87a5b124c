"""`jobs`, `show`, `history`, `upcoming` and `nodes` on a store on which no node runs: JSON, limits, errors (U3)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from click.testing import CliRunner

from itinerary import Itinerary, Retry, cron, once
from itinerary.cli.main import app as command_line
from itinerary.jobs.registration import register
from itinerary.model.rows import StatisticsRow
from itinerary.operations.job_changes import StatusChanges
from itinerary.read.timeline_view import StoreView
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from tests.hours import HOURLY
from tests.unit.jobs.test_registration import LOG

NOON = 1_777_636_800 * SECOND
"""2026-05-01T12:00:00Z."""


async def work() -> None: ...


async def fails() -> None:
    raise ValueError("it was not to be")


def declared(url: str) -> Itinerary:
    app = Itinerary(store=url, name="here")
    app.job("etl", HOURLY, retry=Retry(max_retries=2)).task(task_timeout="7m")(work)
    app.job("nightly", cron("0 5 * * 1-5", tz="America/New_York")).shell("dump", ["pg_dump", "-Fc"])
    app.job("broken", HOURLY).task(fails)
    app.job("party", once("2026-01-01T00:00:00Z")).task(work)
    return app


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with jobs in it."""
    place = f"sqlite:///{tmp_path}/itinerary.db"

    async def declare() -> None:
        async with open_store(place) as store:
            await register(store, declared(place)._declared, by="anna", log=LOG)

    asyncio.run(declare())
    return place


def said(url: str, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, [*words, "--store", url])
    return result.exit_code, (result.stdout or result.stderr).strip()


def told(url: str, *words: str) -> Any:
    code, output = said(url, *words, "--json")
    assert code == 0, output
    assert "\n" not in output, "one document on one line"
    return msgspec.json.decode(output)


@pytest.mark.spec("U3", "jobs")
@pytest.mark.spec("S10", "where jobs are listed")
def test_jobs_are_listed_with_how_they_stand_their_schedules_in_words_and_their_next_runs(url: str) -> None:
    said(url, "pause", "etl", "--reason", "migration")
    found = told(url, "jobs")
    assert found["more"] == 0
    by_name = {job["job"]: job for job in found["jobs"]}
    assert list(by_name) == ["broken", "etl", "nightly", "party"]
    assert {name: job["state"] for name, job in by_name.items()} == {
        "broken": "active",
        "etl": "paused",
        "nightly": "active",
        "party": "finished",
    }
    assert "migration" in by_name["etl"]["why"]
    assert by_name["nightly"]["schedule"] == "At 05:00, Monday to Friday, America/New_York"
    assert by_name["nightly"]["timezone"] == "America/New_York"
    assert by_name["nightly"]["next_at"].endswith("Z")
    assert (by_name["etl"]["next_at"], by_name["etl"]["last"]) == (by_name["broken"]["next_at"], None)


@pytest.mark.spec("S11", "next_run")
def test_a_paused_job_is_shown_with_its_next_instants_and_a_stopped_one_has_none(url: str) -> None:
    expected = told(url, "show", "etl")["next_runs"]
    said(url, "pause", "etl")
    assert told(url, "show", "etl")["next_runs"] == expected
    assert "the job is paused: an instant during the pause is skipped" in said(url, "show", "etl")[1]

    async def stop() -> None:
        async with open_store(url) as store:
            await StatusChanges(store, await StoreView.of(store), "anna").stop("etl", None)

    asyncio.run(stop())
    assert told(url, "show", "etl")["next_runs"] == []
    assert told(url, "jobs", "etl")["jobs"][0]["next_at"] is None


@pytest.mark.spec("U3", "jobs")
def test_jobs_are_chosen_by_pattern_and_state_and_what_is_left_out_is_counted(url: str) -> None:
    assert [job["job"] for job in told(url, "jobs", "*t*")["jobs"]] == ["etl", "nightly", "party"]
    assert [job["job"] for job in told(url, "jobs", "--state", "finished", "--state", "paused")["jobs"]] == ["party"]
    assert told(url, "jobs", "--limit", "1")["more"] == 3
    assert said(url, "jobs", "--limit", "1")[1].endswith("and 3 more jobs; --limit, or a pattern, shows them")
    assert said(url, "jobs", "zz*", "--state", "paused")[1] == (
        "there is no job with a name like 'zz*' and that is paused"
    )
    assert said(url, "jobs", "--limit", "1001")[0] == 2


@pytest.mark.spec("U3", "jobs")
def test_a_job_that_was_removed_is_shown_to_those_who_ask_for_it(url: str) -> None:
    app = declared(url)
    with app.running():
        app.blocking(app["party"].remove(reason="over"))
    assert "party" not in [job["job"] for job in told(url, "jobs")["jobs"]]
    (party,) = told(url, "jobs", "--state", "removed")["jobs"]
    assert party["why"].endswith(": over")


@pytest.mark.spec("U3", "show, history")
@pytest.mark.spec("X5", "the effective configuration is shown")
@pytest.mark.spec("D3", "shown")
def test_a_job_and_one_of_its_occurrences_are_shown_with_everything(url: str) -> None:
    first = told(url, "trigger", "etl", "--key", "one", "--reason", "by hand")
    second = told(url, "trigger", "broken")
    with declared(url).running() as node:
        node._app.blocking(node.wait(first["id"]))
        node._app.blocking(node.wait(second["id"]))
    shown = told(url, "show", "etl")
    assert shown["seen"]["job"] == "etl"
    configuration = {one["key"]: (one["value"], one["source"]) for one in shown["configuration"]}
    assert configuration["retry.max_retries"] == ("2", "job")
    assert configuration["overlap"] == ("skip", "default")
    (task,) = shown["tasks"]
    assert (task["name"], task["configuration"]) == (
        "work",
        [{"key": "task_timeout", "value": "7m", "source": "task", "declared_in": None}],
    )
    assert [change["kind"] for change in shown["changes"]] == ["version"]
    assert [run["id"] for run in shown["runs"]] == [first["id"]]
    assert len(shown["next_runs"]) == 5
    detail = told(url, "show", first["id"])
    assert [step["after"] for step in detail["trail"]] == ["prerun", "pending", "running", "completed"]
    assert detail["asked"]["reason"] == "by hand"
    failed = told(url, "show", second["id"])
    assert failed["run"]["state"] == "failed"
    assert "it was not to be" in failed["tasks"][0]["attempts"][0]["error"]
    (task,), (attempt,) = failed["tasks"], failed["tasks"][0]["attempts"]
    assert task["started_at"] == attempt["started_at"] is not None
    assert task["ended_at"] == attempt["ended_at"] is not None
    assert task["took_seconds"] == attempt["took_seconds"] is not None
    assert "ValueError: it was not to be" in said(url, "show", second["id"])[1]
    assert told(url, "history", "broken", "--state", "failed")["runs"][0]["kind"] == "trigger"
    assert told(url, "history", "broken", "--state", "completed")["runs"] == []
    assert second["id"] in said(url, "history", "broken")[1], "what `show` takes, since it is none of its schedule"


@pytest.mark.spec("U3", "show, history")
def test_history_comes_in_pages_that_say_where_the_next_one_begins(url: str) -> None:
    ids = [told(url, "trigger", "etl", "--key", str(number))["id"] for number in range(5)]
    app = declared(url)
    with app.running() as node:
        for one in ids:
            node._app.blocking(node.wait(one))
    first = told(url, "history", "etl", "--limit", "3")
    second = told(url, "history", "etl", "--limit", "3", "--before", str(first["next"]))
    found = [run["id"] for run in (*first["runs"], *second["runs"])]
    assert sorted(found) == sorted(ids)
    assert second["next"] is None
    assert f"there are older ones: --before {first['next']}" in said(url, "history", "etl", "--limit", "3")[1]


@pytest.mark.spec("U3", "upcoming")
def test_what_is_due_is_counted_and_listed_for_the_time_that_is_asked_for(url: str) -> None:
    said(url, "pause", "broken")
    found = told(url, "upcoming", "--for", "10h")
    etl, broken = ({job["job"]: job for job in found["jobs"]}[name] for name in ("etl", "broken"))
    assert (etl["job"], etl["runs"], len(etl["instants"]), sum(etl["counts"])) == ("etl", 10, 10, 10)
    assert (broken["runs"], broken["skipped"]) == (0, 10)
    both = len(told(url, "upcoming", "--for", "2h")["jobs"])
    assert both in (2, 3), "in the morning of a weekday there is another one"
    folded = told(url, "upcoming", "--for", "2h", "--limit", "1")
    assert (len(folded["jobs"]), folded["more_jobs"]) == (1, both - 1)
    assert said(url, "upcoming", "party")[1] == "nothing is due in the next 6h"
    for wrong in ("soon", "10s", "800d"):
        assert said(url, "upcoming", "--for", wrong)[0] == 1


@pytest.mark.spec("U3", "nodes")
def test_nodes_are_listed_with_what_they_say_of_themselves(url: str) -> None:
    assert said(url, "nodes")[1] == "no node is there; --all shows those that have left"
    with declared(url).running():
        (node,) = told(url, "nodes")
        assert (node["node"], node["state"], node["lacks"]) == ("here", "running", [])
        assert node["silent_seconds"] < 30
    (left,) = told(url, "nodes", "--all")
    assert (left["state"], left["left_at"] is not None) == ("left", True)


async def keep_statistics(url: str) -> int:
    """Let a node join and leave, and keep its statistics of ten intervals from noon on, each a second long."""
    async with open_store(url) as store:
        node = await store.join(uuid4().hex, "there", "{}")
        rows = [StatisticsRow(node, NOON + n * SECOND, 4, 2_000, 6_000, 3, 50, n, 9) for n in range(1, 11)]
        await store.note_statistics(rows)
        await store.leave(node)
        return node


@pytest.mark.spec("L10", "read")
def test_the_statistics_of_a_loop_are_shown_by_window_and_in_pages(url: str) -> None:
    code, output = said(url, "statistics")
    assert (code, "no node has run on this store yet" in output) == (1, True)
    number = asyncio.run(keep_statistics(url))
    window = ("--since", "2026-05-01T12:00:03Z", "--until", "2026-05-01T12:00:08Z")
    first = told(url, "statistics", "there", *window, "--limit", "3")
    assert (first["node"], first["number"]) == ("there", number)
    assert [row["inbox_depth"] for row in first["rows"]] == [7, 6, 5]
    newest = {key: first["rows"][0][key] for key in ("iterations", "longest_seconds", "average_seconds", "messages")}
    assert newest == {"iterations": 4, "longest_seconds": 0.002, "average_seconds": 0.0015, "messages": 9}
    output = said(url, "statistics", str(number), *window, "--limit", "3")[1]
    (until,) = re.findall(r"--until (\S+),", output)
    rest = told(url, "statistics", str(number), "--since", window[1], "--until", until)
    assert ([row["inbox_depth"] for row in rest["rows"]], rest["next"]) == ([4, 3], None)
    assert "there is no node 'their' in the store" in said(url, "statistics", "their")[1]
    assert "node there has no statistics in this window" in said(url, "statistics", "there")[1]
    assert said(url, "statistics", "--since", "now", "--until", "1h ago")[0] == 1


@pytest.mark.spec("U3", "exit codes")
@pytest.mark.parametrize(
    "command",
    [("show",), ("history",), ("pause",), ("trigger",), ("skip", "2030-01-01T00:00:00Z")],
    ids=lambda command: command[0],
)
def test_a_job_that_there_is_not_is_an_error_with_the_nearest_name(url: str, command: tuple[str, ...]) -> None:
    code, output = said(url, command[0], "nightli", *command[1:])
    assert code == 1
    assert output.startswith("itinerary: there is no job 'nightli' in ")
    assert output.endswith("did you mean 'nightly'?")
    assert said(url, command[0], "qqqqqq", *command[1:])[1].endswith("see `itinerary jobs`")


@pytest.mark.spec("U3", "exit codes")
@pytest.mark.parametrize(
    "command",
    [
        "jobs",
        "upcoming",
        "nodes",
        "show etl",
        "history etl",
        "statistics",
        "prune",
        "status",
        "doctor",
        "explain etl",
        "audit",
        "pause etl",
        "resume etl",
        "skip etl 17:00",
        "trigger etl",
        "replay 1",
        "cancel 1",
        "adjust 1 priority=9",
        "backfill etl --from yesterday --to today",
        "records",
        "records show folio",
        "records follow folio --until-now",
    ],
)
def test_a_command_on_a_store_that_is_not_there_says_so_and_makes_none(tmp_path: Path, command: str) -> None:
    code, output = said(f"sqlite:///{tmp_path}/typo.db", *command.split())
    assert (code, "there is no store at" in output) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("U3", "show, history")
def test_the_last_run_of_a_job_is_shown_without_knowing_its_number(url: str) -> None:
    assert (
        "job 'broken' has no run on record; `itinerary trigger broken` starts one"
        in said(url, "show", "broken", "--last")[1]
    )
    for _ in range(2):
        asked = told(url, "trigger", "broken")
        with declared(url).running() as node:
            node._app.blocking(node.wait(asked["id"]))
        assert told(url, "show", "broken", "--last")["run"]["id"] == asked["id"]
    assert "ValueError: it was not to be" in said(url, "show", "broken", "--last")[1]
    waiting = told(url, "trigger", "etl")
    assert told(url, "show", "etl", "--last")["run"]["id"] == waiting["id"], "no run of it has ended"


@pytest.mark.spec("U3", "show, history")
def test_a_run_that_is_not_known_is_an_error(url: str) -> None:
    assert (
        "job 'etl' has no occurrence at 7 (seconds since the epoch), or it is no longer kept"
        in said(url, "show", "etl:7")[1]
    )
    assert said(url, "show", "00000000-0000-0000-0000-000000000000")[0] == 1
