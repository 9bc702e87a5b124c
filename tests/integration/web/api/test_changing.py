"""What is changed over HTTP: once for each key, kept with who and why, on every store, through restarts."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from itinerary.model.ids import job_id
from tests.integration.web.api.conftest import GO, served_on
from tests.integration.web.api.served import Served
from tests.integration.web.api.test_looking import ended
from tests.local_callers import ME

NEW = {
    "jobs": {
        "nightly": {"schedule": "0 5 * * *", "tasks": [{"name": "call", "http": "https://example.com/run"}]},
    }
}


@pytest.mark.spec("Q2", "reason")
@pytest.mark.spec("S12", "over HTTP")
def test_every_change_is_kept_with_who_when_and_why(fresh: Served) -> None:
    for what in ("pause", "resume", "stop", "start"):
        told = fresh.post(f"/api/v1/jobs/etl/{what}", {"reason": f"to {what}"})
        assert (told["kind"], told["by"], told["reason"]) == (what, ME, f"to {what}")
    (instant,) = fresh.get("/api/v1/jobs/etl?limit=1")["next_runs"]
    skipped = fresh.post("/api/v1/jobs/etl/skip", {"instant": instant, "reason": "a holiday"})
    assert skipped["instant"] == instant
    paused = fresh.post(f"/api/v1/jobs/{job_id('etl.2')}/pause", {"until": "2190-01-01T00:00:00Z"})
    assert (paused["until"], paused["held"]) == ("2190-01-01T00:00:00Z", 0)
    assert fresh.ask("POST", "/api/v1/jobs/etl.2/resume", {"backlog": "drop"}).status == 400
    assert fresh.post("/api/v1/jobs/etl/resume", {"backlog": "skip"})["skipped"] == 0
    fresh.post("/api/v1/jobs/report/remove", {"reason": "not read by anybody"})
    changes = [(one["kind"], one["reason"]) for one in fresh.get("/api/v1/jobs/etl")["changes"]]
    assert changes[:3] == [("resume", None), ("skip", "a holiday"), ("start", "to start")]
    assert fresh.get("/api/v1/jobs/etl.2")["seen"]["state"] == "paused"
    assert fresh.get("/api/v1/jobs/report")["seen"]["state"] == "removed"
    assert "report" not in [job["job"] for job in fresh.get("/api/v1/jobs")["jobs"]]


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("jobs/etl/pause", {"reason": "one"}, {"reason": "another"}),
    ("jobs/etl/resume", {}, {"reason": "another"}),
    ("jobs/etl/stop", {}, {"reason": "another"}),
    ("jobs/etl/start", {}, {"reason": "another"}),
    ("jobs/etl/trigger", {"reason": "one"}, {"reason": "another"}),
    ("jobs/etl/update", {"schedule": {"every": "15m"}}, {"schedule": {"every": "20m"}}),
    ("jobs/etl/rollback", {"to_version": 1}, {"to_version": 1, "reason": "another"}),
    ("apply", NEW, {**NEW, "reason": "another"}),
    (
        "jobs/etl.2/backfill",
        {"from": "2020-01-01T00:00:00Z", "to": "2021-02-01T00:00:00Z"},
        {"from": "2020-01-01T00:00:00Z", "to": "2021-02-01T00:00:00Z", "reason": "another"},
    ),
    (
        "records/folio/events",
        {"kind": "RecordCreated", "record": "F-1", "partition": "lisbon", "fields": {"data": 1}},
        {"kind": "RecordCreated", "record": "F-1", "partition": "lisbon", "fields": {"data": 2}},
    ),
    ("jobs/etl/remove", {}, {"reason": "another"}),
]


@pytest.mark.spec("Q2", "idempotency")
def test_the_same_key_is_one_change_and_with_another_request_it_is_refused(fresh: Served) -> None:
    for place, (address, body, other) in enumerate(CHANGES):
        first = fresh.post(f"/api/v1/{address}", body, key=f"key {place}")
        revision = _revision(fresh)
        again = fresh.post(f"/api/v1/{address}", body, key=f"key {place}")
        if "backfill" not in address:  # which goes on meanwhile, and says how far it is
            assert again == first, address
        assert _revision(fresh) == revision, address
        refused = fresh.ask("POST", f"/api/v1/{address}", other, key=f"key {place}")
        assert (refused.status, refused.json["title"]) == (422, "Key used"), address
        assert _revision(fresh) == revision, address
    assert fresh.ask("POST", "/api/v1/jobs/etl.2/pause", {}, key=" ").status == 400
    assert fresh.ask("POST", "/api/v1/jobs/etl.2/pause", {}, key="k" * 256).status == 400


@pytest.mark.spec("Q2", "idempotency")
def test_a_key_holds_through_a_restart_and_on_another_node(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/x.db"
    GO.clear()
    before = []
    with served_on(store) as one:
        for place, (address, body, _) in enumerate(CHANGES):
            before.append(one.post(f"/api/v1/{address}", body, key=f"key {place}"))
    with served_on(store) as another:
        revision = _revision(another)
        for place, (address, body, other) in enumerate(CHANGES):
            if "backfill" not in address:
                assert another.post(f"/api/v1/{address}", body, key=f"key {place}") == before[place], address
            assert another.ask("POST", f"/api/v1/{address}", other, key=f"key {place}").status == 422, address
        assert _revision(another) == revision


def _revision(served: Served) -> int:
    """How far the timeline is, and so whether anything has been changed."""
    revision: int = served.run(_status(served))
    return revision


async def _status(served: Served) -> int:
    return (await served._serving._server.view(fresh=True)).timeline.revision  # what no route tells


@pytest.mark.spec("R4", "over HTTP")
def test_a_run_is_triggered_cancelled_and_replayed(fresh: Served) -> None:
    asked = fresh.post("/api/v1/jobs/slow/trigger", {"reason": "try", "options": {"execution_timeout": "2h"}})
    told = fresh.post(f"/api/v1/runs/{asked['number']}/cancel", {"reason": "wrong data"})
    assert told["cancelled_by"] == f"{ME}: wrong data"
    fresh.run(ended(fresh, asked["number"]))
    assert fresh.post(f"/api/v1/runs/{asked['id']}/cancel", {"reason": "again"})["cancelled_by"] == told["cancelled_by"]
    GO.set()
    again = fresh.post(f"/api/v1/runs/{asked['number']}/replay", {"reason": "with the right data"}, key="r")
    assert again["kind"] == "replay"
    assert again == fresh.post(f"/api/v1/runs/{asked['number']}/replay", {"reason": "with the right data"}, key="r")
    other = fresh.ask("POST", f"/api/v1/runs/{asked['number']}/replay", {"tasks": ["wait"]}, key="r")
    assert other.status == 422
    fresh.run(ended(fresh, again["number"]))
    assert fresh.get(f"/api/v1/runs/{again['number']}")["asked"]["replay_of"] == asked["id"]
    late = fresh.ask("POST", f"/api/v1/runs/{again['number']}/cancel", {})
    assert (late.status, late.json["title"]) == (409, "Ended already")
    unknown = fresh.ask("POST", f"/api/v1/runs/{asked['number']}/replay", {"tasks": ["nope"]})
    assert unknown.status == 400


@pytest.mark.spec("L6", "update over HTTP")
def test_a_run_that_waits_is_adjusted_and_one_that_runs_is_not(fresh: Served) -> None:
    queued = {"options": {"overlap": "queue"}}
    first = fresh.post("/api/v1/jobs/slow/trigger", queued)
    fresh.run(begun(fresh, first["number"]))
    second = fresh.post("/api/v1/jobs/slow/trigger", queued)
    address = f"/api/v1/runs/{second['number']}/adjust"
    body = {"options": {"priority": 9, "retry": {"max_retries": 3}}, "reason": "month end"}
    done = fresh.post(address, body, key="a")
    assert done["values"] == {"overlap": "queue", "retry.max_retries": 3, "priority": 9}
    assert fresh.post(address, body, key="a") == done
    (adjusted,) = fresh.get(f"/api/v1/runs/{second['number']}")["adjusted"]
    assert (adjusted["by"], adjusted["reason"], adjusted["values"]["priority"]) == (ME, "month end", 9)
    assert fresh.ask("POST", address, {"options": {"prioritty": 9}}).status == 400
    assert fresh.ask("POST", address, {}).status == 400
    late = fresh.ask("POST", f"/api/v1/runs/{first['number']}/adjust", body)
    assert (late.status, late.json["title"]) == (409, "Started already")
    assert "has started already" in late.json["detail"]
    GO.set()
    fresh.run(ended(fresh, second["number"]))
    settings = {one["key"]: one["value"] for one in fresh.get(f"/api/v1/runs/{second['number']}")["configuration"]}
    assert (settings["priority"], settings["retry.max_retries"]) == ("9", "3")


async def begun(served: Served, number: int) -> None:
    while True:
        seen = (await served._answer("GET", f"/api/v1/runs/{number}", None, None, None, None, None)).json
        if seen["run"]["started_at"] is not None:
            return


@pytest.mark.spec("R4", "over HTTP")
def test_a_backfill_goes_on_by_itself_and_can_be_followed(fresh: Served) -> None:
    body = {"from": "2020-01-01T00:00:00Z", "to": "2023-01-01T00:00:00Z", "max_active": 2}
    planned = fresh.ask("POST", "/api/v1/jobs/etl/backfill", {**body, "dry_run": True})
    assert (planned.status, planned.json["total"], planned.json["is_dry"]) == (200, 3, True)
    begun = fresh.ask("POST", "/api/v1/jobs/etl/backfill", body, key="years")
    assert (begun.status, begun.json["total"]) == (202, 3)
    seen = fresh.run(_until_worked_off(fresh, begun.json["follow"]))
    assert seen["ended"] == {"completed": 3}
    assert (seen["made"], seen["trouble"]) == (3, None)
    assert fresh.post("/api/v1/jobs/etl/backfill", body, key="years")["made"] == 3
    to_come = fresh.ask("POST", "/api/v1/jobs/etl/backfill", {**body, "to": "2190-01-01T00:00:00Z"})
    assert to_come.status == 400
    assert fresh.ask("GET", begun.json["follow"].replace("years", "others")).status == 404


async def _until_worked_off(served: Served, address: str) -> Any:
    while True:
        seen = (await served._answer("GET", address, None, None, None, None, None)).json
        if not seen["is_worked_on"]:
            return seen


@pytest.mark.spec("R6", "over HTTP")
@pytest.mark.spec("R7", "over HTTP")
def test_a_job_is_updated_from_the_version_that_was_looked_at_and_rolled_back(fresh: Served) -> None:
    change = {"schedule": "0 6 * * *", "options": {"overlap": "queue"}, "from_version": 1, "reason": "later"}
    planned = fresh.post("/api/v1/jobs/etl/update", {**change, "dry_run": True})
    assert (planned["is_applied"], planned["version"]) == (False, 2)
    assert fresh.get("/api/v1/jobs/etl")["seen"]["version"] == 1
    done = fresh.post("/api/v1/jobs/etl/update", change)
    assert (done["is_applied"], done["version"]) == (True, 2)
    assert len(done["added"]) > 20
    stale = fresh.ask("POST", "/api/v1/jobs/etl/update", {"options": {"overlap": "skip"}, "from_version": 1})
    assert (stale.status, stale.json["title"]) == (409, "Changed meanwhile")
    assert f"by {ME}: later" in stale.json["detail"]
    back = fresh.post("/api/v1/jobs/etl/rollback", {"to_version": 1})
    assert (back["version"], len(back["removed"])) == (3, len(done["added"]))
    assert fresh.ask("POST", "/api/v1/jobs/etl/update", {"schedule": "61 * * * *"}).status == 400
    assert fresh.ask("POST", "/api/v1/jobs/etl/update", {"options": {"overlapp": "skip"}}).status == 400


@pytest.mark.spec("U2", "over HTTP")
def test_a_job_file_is_planned_and_applied(fresh: Served) -> None:
    text = '[jobs.nightly]\nschedule = "0 5 * * *"\n[[jobs.nightly.tasks]]\nname = "call"\nhttp = "https://example.com/run"\n'
    planned = fresh.post("/api/v1/plan", {"file": text, "remove": ["report"]})
    assert [(job["job"], job["outcome"]) for job in planned["jobs"]] == [("nightly", "new"), ("report", "removed")]
    assert not planned["is_applied"]
    fresh.post("/api/v1/apply", {"file": text, "remove": ["report"], "reason": "tidied up"})
    assert fresh.get("/api/v1/jobs/nightly")["changes"][0]["reason"] == "tidied up"
    assert fresh.post("/api/v1/plan", NEW)["jobs"][0]["outcome"] == "same"


@pytest.mark.spec("Q3", "over HTTP")
@pytest.mark.parametrize(
    ("task", "status", "why"),
    [
        ({"shell": ["rm", "-rf", "/"]}, 403, "may not come from a request"),
        ({"shell": "rm -rf /", "use_shell": True}, 403, "may not come from a request"),
        ({"python": "os:system"}, 400, "no code may be named"),
        ({"python": "subprocess:run"}, 400, "no code may be named"),
    ],
)
def test_nothing_from_a_request_reaches_a_shell_or_names_code_that_is_not_allowed(
    here: Served, task: dict[str, Any], status: int, why: str
) -> None:
    body = {"jobs": {"bad": {"schedule": "0 5 * * *", "tasks": [{"name": "do", **task}]}}}
    for address in ("plan", "apply", "simulate"):
        refused = here.ask("POST", f"/api/v1/{address}", body)
        assert refused.status == status, (address, refused)
        assert why in refused.json["detail"]
    assert here.ask("GET", "/api/v1/jobs/bad").status == 404


@pytest.mark.spec("Q3", "over HTTP")
def test_a_statement_may_not_come_from_a_request_and_settings_do_not_count_in_it(here: Served) -> None:
    job = {"schedule": "0 5 * * *", "tasks": [{"name": "do", "http": "https://example.com/run"}]}
    refused = here.ask("POST", "/api/v1/apply", {"jobs": {"bad": {**job, "requires": [{"sql": "select 1"}]}}})
    assert refused.status == 403
    refused = here.ask("POST", "/api/v1/apply", {"file": 'allow_modules = ["os"]\nstore = "memory:"\n'})
    assert refused.status == 400
    assert "settings are not taken from a request" in refused.json["detail"]


@pytest.mark.spec("U5", "over HTTP")
def test_what_will_happen_is_said_of_stored_jobs_and_of_those_that_are_sent(here: Served) -> None:
    window = {"from": "2026-12-31T00:00:00Z", "for": "3d"}
    stored = here.post("/api/v1/simulate", {**window, "pattern": "etl*", "takes": {"etl": "30s"}})
    assert (stored["jobs"], stored["occurrences"]) == (2, 2)
    sent = here.post(
        "/api/v1/simulate",
        {**window, **NEW, "outages": [{"from": "2027-01-01T00:00:00Z", "to": "2027-01-01T12:00:00Z"}]},
    )
    assert sent["occurrences"] == 3
    assert sent["outages"][0]["due"] == 1
    too_much = {
        "jobs": {"often": {"schedule": {"every": "1s"}, "tasks": NEW["jobs"]["nightly"]["tasks"]}},
        "for": "30d",
    }
    assert here.ask("POST", "/api/v1/simulate", too_much).json["title"] == "Too much"


@pytest.mark.spec("U5", "over HTTP")
@pytest.mark.spec("R7", "graceful")
def test_a_simulation_of_stored_jobs_follows_a_graceful_update_that_is_under_way(fresh: Served) -> None:
    monthly = {"jobs": {"monthly": {**NEW["jobs"]["nightly"], "schedule": "0 5 1 * *"}}}
    fresh.post("/api/v1/apply", monthly)
    change = {"schedule": "0 9 1 * *", "policy": "graceful", "window": "70d"}
    diff = fresh.post("/api/v1/jobs/monthly/update", change)
    last, first = sorted([*diff["kept"], *diff["added"]])[:2]
    assert (last[8:16], first[8:16], diff["first_at"]) == ("01T05:00", "01T09:00", first)
    for due in (last, first):
        foreseen = fresh.post("/api/v1/simulate", {"from": f"{due[:10]}T00:00:00Z", "for": "1d", "pattern": "monthly"})
        assert (foreseen["occurrences"], foreseen["load"]["busiest_minute"][:16]) == (1, due[:16])


@pytest.mark.spec("D8", "over HTTP")
def test_old_history_is_counted_and_removed(here: Served) -> None:
    dry = here.post("/api/v1/prune", {"dry_run": True, "keep_for": "1d"})
    assert (dry["is_dry"], dry["occurrences"]) == (True, 0)
    assert here.post("/api/v1/prune", {"keep_max": 10})["occurrences"] == 0
    assert here.ask("POST", "/api/v1/prune", {"keep_for": "ages"}).status == 400


@pytest.mark.spec("Q2", "prune")
def test_a_prune_keeps_who_asked_for_it_among_the_changes_and_a_dry_run_makes_none(fresh: Served) -> None:
    fresh.post("/api/v1/prune", {"dry_run": True})
    assert "pruned the history" not in fresh.ask("GET", "/audit").body.decode()
    fresh.post("/api/v1/prune", {"keep_for": "2d", "keep_max": 10})
    page, deadline = "", monotonic() + 60.0
    while "pruned the history" not in page and monotonic() < deadline:  # a page may be half a second old
        page = " ".join(fresh.ask("GET", "/audit").body.decode().split())
    kept = "keep_for 2d, keep_failed_for 90d, keep_max 10"
    assert f'<th scope="row">{ME}</th><td>pruned the history <span class="soft">{kept}</span>' in page, page


@pytest.mark.spec("Q2", "events")
def test_an_appended_event_keeps_who_appended_it(fresh: Served) -> None:
    address = "/api/v1/records/folio/events"
    fresh.post(address, {"kind": "RecordCreated", "record": "F-1", "partition": "lisbon"})
    (event,) = fresh.get(address)["events"]
    assert event["by"] == ME


@pytest.mark.spec("E10", "over HTTP")
def test_events_are_appended_and_read_in_pages(fresh: Served) -> None:
    address = "/api/v1/records/folio/events"
    for number in range(5):
        event = {"kind": "RecordCreated", "record": f"F-{number}", "partition": "lisbon", "fields": {"data": {"a": 1}}}
        assert fresh.post(address, event, key=f"import:{number}")["sequence"] == number + 1
    fresh.post(
        address, {"kind": "CallbackScheduled", "record": "F-0", "fields": {"target_time": "2190-01-01T00:00:00Z"}}
    )
    page = fresh.get(f"{address}?limit=4")
    rest = fresh.get(f"{address}?limit=4&cursor={page['next']}")
    assert [one["sequence"] for one in (*page["events"], *rest["events"])] == [1, 2, 3, 4, 5, 6]
    assert rest["next"] is None
    assert fresh.get(f"{address}?after=4&partition=lisbon")["events"][0]["record"] == "F-4"
    (desk,) = fresh.get("/api/v1/records")["desks"]
    assert (desk["desk"], desk["sequence"]) == ("folio", 6)
    (partition,) = fresh.get("/api/v1/records/folio")["partitions"]
    assert (partition["partition"], partition["records"], partition["callbacks"]) == ("lisbon", 5, 1)
    assert fresh.ask("GET", "/api/v1/records/nope/events").status == 404
    assert fresh.ask("POST", address, {"kind": "RecordQueued", "record": "F-0"}).status == 400
    assert json.loads(fresh.ask("GET", address).body)["desk"] == "folio"
