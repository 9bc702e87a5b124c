"""Jobs, histories, occurrences, nodes and audits, as programs look at them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest

from itinerary import Itinerary, cron
from itinerary.model.ids import job_id, occurrence_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import JobsByNameQuery
from itinerary.model.rows import Key, StatisticsRow
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Claimed, ClaimRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from tests.integration.web.api.conftest import ODD, served_on, work
from tests.integration.web.api.served import Served
from tests.local_callers import ME


@pytest.mark.spec("U10", "jobs")
def test_jobs_come_in_pages_that_miss_and_repeat_none(here: Served) -> None:
    names, cursor = [], None
    while True:
        more = "" if cursor is None else f"&cursor={cursor}"
        page = here.get(f"/api/v1/jobs?limit=2{more}")
        names += [job["job"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == sorted(names)
    assert {"etl", "etl.2", "report", "slow", ODD} == set(names)
    assert len(names) == len(set(names))


def test_jobs_are_chosen_by_pattern_and_by_how_they_stand(here: Served) -> None:
    assert [job["job"] for job in here.get("/api/v1/jobs?pattern=etl*")["jobs"]] == ["etl", "etl.2"]
    assert here.get("/api/v1/jobs?pattern=etl*&state=paused&state=stopped")["jobs"] == []
    assert len(here.get("/api/v1/jobs?pattern=etl*&state=active")["jobs"]) == 2


@pytest.mark.spec("Q2", "escaped")
def test_a_job_of_any_name_is_found_by_its_id(here: Served) -> None:
    found = here.get(f"/api/v1/jobs/{job_id(ODD)}")
    assert found["seen"]["job"] == ODD
    assert found["id"] == str(job_id(ODD))
    assert here.get("/api/v1/jobs/etl.2")["seen"]["job"] == "etl.2"
    missing = here.ask("GET", f"/api/v1/jobs/{quote('<script>')}")
    assert missing.status == 404
    assert missing.headers["content-type"] == "application/problem+json"
    assert missing.json["title"] == "Not found"
    assert "<script>" in missing.json["detail"]


@pytest.mark.spec("U10", "history")
def test_a_history_comes_in_pages_with_what_has_not_ended_on_the_first(here: Served) -> None:
    for turn in range(3):
        number = here.post("/api/v1/jobs/report/trigger", key=f"turn {turn}")["number"]
        here.run(ended(here, number))
    first = here.get("/api/v1/jobs/report/history?limit=2")
    assert [run["state"] for run in first["runs"]] == ["completed", "completed"]
    rest = here.get(f"/api/v1/jobs/report/history?limit=2&cursor={first['next']}")
    assert len(rest["runs"]) == 1
    assert rest["next"] is None
    assert here.get("/api/v1/jobs/report/history?state=failed")["runs"] == []
    wrong = here.ask("GET", f"/api/v1/jobs?cursor={first['next']}")
    assert (wrong.status, wrong.json["title"]) == (400, "No cursor")


@pytest.mark.spec("D1", "found by its id")
def test_an_occurrence_is_found_by_its_id_over_http_and_on_its_page_however_old_it_is(fresh: Served) -> None:
    instant = 1_600_000_000 * SECOND

    async def keep() -> Claimed:
        store = fresh.node.lent_store()
        job = (await store.read(JobsByNameQuery(("etl",))))["etl"].number
        wanted = ClaimRequest(
            Key(instant, job, Kind.SCHEDULED), 1, instant, OccurrenceState.MISSED, reason="it is over"
        )
        claimed = await store.claim(None, None, [wanted])
        assert isinstance(claimed, list)
        return claimed[0]

    number, identity = fresh.run(keep()).ref, occurrence_id(job_id("etl"), instant)
    assert fresh.get(f"/api/v1/runs/{identity}")["run"]["number"] == number
    page = fresh.ask("GET", f"/runs/{identity}", headers={"Accept": "text/html"})
    assert (page.status, page.headers["location"]) == (303, f"/runs/{number}")


@pytest.mark.spec("U10", "occurrence")
def test_an_occurrence_is_found_by_number_id_and_run_id_with_its_trail_and_output(here: Served) -> None:
    asked = here.post("/api/v1/jobs/etl/trigger", {"reason": "to see"})
    here.run(ended(here, asked["number"]))
    found = here.get(f"/api/v1/runs/{asked['number']}")
    assert found == here.get(f"/api/v1/runs/{asked['id']}")
    assert found["run"]["state"] == "completed"
    assert found["tasks"][0]["result"] == {"rows": 3}
    task, (attempt,) = found["tasks"][0], found["tasks"][0]["attempts"]
    assert [task[key] for key in ("started_at", "ended_at", "took_seconds")] == [
        attempt[key] for key in ("started_at", "ended_at", "took_seconds")
    ]
    assert None not in (task["started_at"], task["ended_at"], task["took_seconds"])
    assert found["asked"]["reason"] == "to see"
    assert found["asked"]["by"] == ME
    assert [step["after"] for step in found["trail"]][-1] == "completed"
    assert here.ask("GET", "/api/v1/runs/etl:7").status == 404
    assert here.ask("GET", "/api/v1/runs/999999999").status == 404


@pytest.mark.spec("U10", "explain")
def test_it_is_said_why_a_job_ran_or_did_not(here: Served) -> None:
    told = here.get("/api/v1/jobs/etl.2/explain?at=2020-01-01T05:00")
    assert told["fate"] == "not_due"
    assert "no version of the job was in force yet" in told["verdict"]
    assert here.ask("GET", "/api/v1/jobs/etl/explain?at=yesterday").status == 400


@pytest.mark.spec("U10", "upcoming")
def test_what_comes_is_counted_in_parts(tmp_path: Path) -> None:
    app = Itinerary(store=f"sqlite:///{tmp_path}/x.db", web="127.0.0.1:0")
    app.job("daily", cron("0 5 * * *")).task(work)
    app.job("other", cron("0 6 * * *")).task(work)
    with Served(app) as served:
        found = served.get("/api/v1/upcoming?for=31d&pattern=daily&parts=12")
    assert [job["job"] for job in found["jobs"]] == ["daily"]
    assert sum(found["jobs"][0]["counts"]) == found["jobs"][0]["runs"] == 31
    assert len(found["jobs"][0]["counts"]) == found["parts"] == 12


@pytest.mark.spec("U10", "nodes")
def test_nodes_are_listed(here: Served) -> None:
    (node,) = here.get("/api/v1/nodes")["nodes"]
    assert (node["node"], node["state"]) == ("here", "running")


@pytest.mark.spec("L10", "read")
def test_the_statistics_of_a_loop_come_in_pages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"

    async def keep() -> int:
        async with open_store(url) as store:
            node = await store.join(uuid4().hex, "there", "{}")
            await store.note_statistics([StatisticsRow(node, n * 1_000_000, 4, 2, 6, 3, 50, n, 9) for n in range(1, 8)])
            await store.leave(node)
            return node

    number = asyncio.run(keep())
    with served_on(url) as here:
        address, seen, cursor = (
            "/api/v1/nodes/there/statistics?from=1970-01-01T00:00:02Z&to=1970-01-01T00:00:07Z",
            [],
            "",
        )
        while True:
            page = here.get(f"{address}&limit=2{cursor}")
            assert (page["node"], page["number"]) == ("there", number)
            seen += [row["inbox_depth"] for row in page["rows"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert seen == [6, 5, 4, 3, 2]
        assert here.get("/api/v1/nodes/there/statistics")["rows"] == [], "the last ten minutes"
        assert here.ask("GET", "/api/v1/nodes/their/statistics").status == 404
        assert here.ask("GET", f"{address.replace('00:07', '00:01')}").status == 400


@pytest.mark.spec("U10", "audit")
def test_an_audit_is_bounded_and_says_what_is_lost(here: Served) -> None:
    (node,) = here.get("/api/v1/nodes")["nodes"]
    found = here.get(f"/api/v1/audit?from={node['joined_at']}")
    assert (found["lost"], found["doubled"], found["wrong"]) == (0, 0, 0)
    assert here.ask("GET", "/api/v1/audit?from=2020-01-01T00:00:00Z").status == 400
    assert here.ask("GET", "/api/v1/audit").status == 400


@pytest.mark.spec("U8", "web")
def test_probes_and_metrics_are_answered_where_the_dashboard_is(here: Served) -> None:
    for probe in ("live", "ready", "progress"):
        assert here.get(f"/health/{probe}")["status"] == "ok"
    number = here.post("/api/v1/jobs/etl/trigger")["number"]
    here.run(ended(here, number))
    told = here.ask("GET", "/metrics").body.decode()
    assert 'scheduler_job_occurrences_total{job="etl",status="completed"}' in told
    assert "scheduler_nodes 1.0" in told


async def ended(served: Served, number: int) -> None:
    """Wait until an occurrence is over."""
    await served.node.wait(str(number))
