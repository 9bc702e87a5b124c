"""The defaults of all jobs over HTTP and on the pages: what the store has, and not what the server was started with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary, cron
from itinerary.jobs.undeclared import JobSource
from itinerary.model.policies import UpdatePolicy
from itinerary.operations.apply import ApplyOptions, apply_jobs
from itinerary.stores import open_store
from tests.integration.web.api.served import Served

ADDRESS = "https://example.com/run"


def app_on(store: str, **defaults: Any) -> Itinerary:
    app = Itinerary(store=store, web="127.0.0.1:0", name="here", defaults=defaults)  # type: ignore[arg-type]  # keys of a table
    app.job("nightly", cron("0 5 1 1 *")).http("call", ADDRESS)
    app.job("weekly", cron("0 5 1 1 *"), priority=5).http("call", ADDRESS)
    return app


def job(schedule: str) -> dict[str, Any]:
    return {"schedule": schedule, "tasks": [{"name": "call", "http": ADDRESS}]}


def apply(store: str, app: Itinerary) -> None:
    """Apply the app from another process, as the command line does."""

    async def applied() -> None:
        wish = ApplyOptions(policy=UpdatePolicy.IMMEDIATE, home=JobSource("/srv/jobs.toml"))
        async with open_store(store) as opened:
            await apply_jobs(opened, app.declared, wish, by="anna", zone_data=app.zone_data, is_plan=False)

    asyncio.run(applied())


@pytest.mark.spec("X5", "defaults in the store")
def test_a_server_shows_the_defaults_of_the_store_and_keeps_them_when_a_job_is_sent(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/x.db"
    with Served(app_on(store, priority=3)) as served:
        apply(store, app_on(store, priority=8))
        sent = {"nightly": job("0 6 1 1 *")}
        (planned,) = served.post("/api/v1/plan", {"jobs": sent})["jobs"]
        assert (planned["outcome"], len(planned["differences"])) == ("changed", 1), planned
        assert planned["differences"][0].startswith("schedule: ")
        served.post("/api/v1/apply", {"jobs": sent})
        found = served.get("/api/v1/jobs/nightly")["configuration"]
        assert [one for one in found if one["key"] == "priority"] == [
            {"key": "priority", "value": "8", "source": "settings", "declared_in": "/srv/jobs.toml"}
        ]
        page = served.ask("GET", "/jobs/nightly").body.decode()
        assert "defaults of /srv/jobs.toml" in page
        (planned,) = served.post("/api/v1/plan", {"jobs": {"weekly": job("0 5 1 1 *")}})["jobs"]
        assert planned["differences"] == ["priority: 5 (job) -> 3 (defaults)"], "the store has no default for it"
