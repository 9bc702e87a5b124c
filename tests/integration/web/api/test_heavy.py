"""Heavy requests on each store: in a worker process, or under stricter bounds where no other process can open it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from itinerary.web.api.backfills import BackfillRegistry, TrackedBackfill
from tests.integration.web.api.conftest import served_on
from tests.integration.web.api.served import Served

NEW = {"new": {"schedule": {"every": "1h"}, "tasks": [{"name": "call", "http": "https://example.com/"}]}}


@pytest.mark.spec("Q4", "windows")
def test_a_store_in_memory_has_stricter_bounds_and_says_why(here: Served) -> None:
    assert here.get("/api/v1/upcoming?for=7d")["jobs"] == []
    for answer in (
        here.ask("GET", "/api/v1/upcoming?for=8d"),
        here.ask("POST", "/api/v1/simulate", {"for": "8d"}),
    ):
        assert (answer.status, answer.json["title"]) == (400, "Too much"), answer
        assert "longer than 7 days" in answer.json["detail"]
        assert "where only the node's own process can do the work" in answer.json["detail"]


@pytest.mark.spec("Q4", "windows")
def test_a_change_is_compared_over_ten_years_at_most_and_a_plan_over_less(here: Served) -> None:
    for address, body, days in (
        ("plan", {"jobs": NEW, "window": "8d"}, "7 days"),
        ("apply", {"jobs": NEW, "window": "145000d"}, "3,660 days"),
        ("jobs/etl/update", {"schedule": "0 4 * * *", "window": "145000d", "dry_run": True}, "3,660 days"),
        ("jobs/etl/rollback", {"to_version": 1, "window": "145000d"}, "3,660 days"),
    ):
        answer = here.ask("POST", f"/api/v1/{address}", body)
        assert (answer.status, answer.json["title"]) == (400, "Too much"), answer
        assert f"window: the window is longer than {days}" in answer.json["detail"]


@pytest.mark.spec("Q4", "instants")
def test_a_store_in_memory_has_a_stricter_bound_of_instants(here: Served) -> None:
    job = {"schedule": {"every": "1s"}, "tasks": [{"name": "call", "http": "https://example.com/"}]}
    answer = here.ask("POST", "/api/v1/simulate", {"jobs": {"often": job}, "for": "1d"})
    assert (answer.status, answer.json["title"]) == (400, "Too much"), answer
    assert "more than 50,000 occurrences" in answer.json["detail"]


def test_a_backfill_of_more_than_ten_years_is_refused(here: Served) -> None:
    wanted = {"from": "1990-01-01T00:00:00Z", "to": "2020-01-01T00:00:00Z", "dry_run": True}
    answer = here.ask("POST", "/api/v1/jobs/etl/backfill", wanted)
    assert answer.status == 400
    assert "longer than 3,660 days" in answer.json["detail"]


def test_a_backfill_that_has_begun_is_told_so_even_if_its_caller_has_no_cpu_seconds_left(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = BackfillRegistry.begin

    async def begin_with_the_last_seconds(self: BackfillRegistry, *given: Any) -> TrackedBackfill:
        begun = await begin(self, *given)
        heavy = fresh._serving._server.heavy
        for caller in [*heavy._budget._levels]:
            heavy._budget.take(caller, 2 * heavy._budget.seconds)
        return begun

    monkeypatch.setattr(BackfillRegistry, "begin", begin_with_the_last_seconds)
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-04T00:00:00Z", "which": "all"}
    begun = fresh.ask("POST", "/api/v1/jobs/etl/backfill", body, key="days")
    assert (begun.status, begun.json["key"]) == (202, "days"), begun
    assert fresh.ask("GET", "/api/v1/upcoming?for=1h").status == 429


def test_what_a_worker_refuses_is_answered_as_if_it_were_done_here(tmp_path: Path) -> None:
    with served_on(f"sqlite:///{tmp_path}/x.db") as served:
        unknown = served.ask("GET", f"/api/v1/runs/{uuid4()}")
        assert (unknown.status, unknown.json["title"]) == (404, "Not found")
        missing = served.ask("POST", "/api/v1/plan", {"jobs": NEW, "remove": ["nothing"]})
        assert missing.status == 400
        assert "is to be removed, and is not in the store" in missing.json["detail"]
        run = served.post("/api/v1/jobs/etl/trigger")
        assert served.get(f"/api/v1/runs/{run['id']}")["run"]["number"] == run["number"]
        planned = served.post("/api/v1/plan", {"jobs": NEW})
        assert [(job["job"], job["outcome"], len(job["diff"]["added"])) for job in planned["jobs"]] == [
            ("new", "new", 24)
        ]


@pytest.mark.spec("Q4", "windows")
def test_a_file_that_is_sent_for_a_plan_is_read_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[jobs.new]\nschedule = { every = "1h", start = 2026-01-01T00:00:00Z }\n'
    text += '[[jobs.new.tasks]]\nname = "call"\nhttp = "https://example.com/"\n'
    with served_on(f"sqlite:///{tmp_path}/store.db") as served:
        monkeypatch.setattr("tomllib.loads", _not_here)
        for route in ("plan", "simulate"):
            answer = served.ask("POST", f"/api/v1/{route}", {"file": text})
            assert answer.status == 200, answer
        wrong = served.ask("POST", "/api/v1/plan", {"file": "jobs = ["})
        assert (wrong.status, "file:1" in wrong.json["detail"]) == (400, True), wrong


def _not_here(_: str) -> None:
    raise AssertionError("TOML was read in the process of the node")
