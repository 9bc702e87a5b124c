"""A caller with the scope operate sets values on a run, and lifts no policy of its job (Q1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary, cron
from itinerary.model.scopes import Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import create
from itinerary.stores.urls import open_store
from tests.integration.web.api.served import PATIENCE, Answer, Served

pytestmark = pytest.mark.spec("Q1", "policies of a job")

NEVER = cron("0 5 1 1 *")
ELSEWHERE = ListenAt("192.0.2.7", 8321)
"""Where others reach it; nothing listens, since requests are handed over."""
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "skips": {"overlap": "skip"},
    "queues": {"overlap": "queue"},
    "allows": {"overlap": "allow"},
    "reruns": {"on_orphan": "rerun"},
}


def _work() -> None: ...


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[Scope, str]]]:
    """A node, and a token of each scope."""
    place: Path = tmp_path_factory.mktemp("runs")
    store = f"sqlite:///{place}/x.db"

    async def tokens() -> dict[Scope, str]:
        async with open_store(store) as opened:
            return {scope: (await create(opened, f"a-{scope}", scope, by="test")).text for scope in Scope}

    made = asyncio.run(tokens())
    app = Itinerary(store=store, name="here", max_concurrent_jobs=1)
    for name, options in JOBS.items():
        app.job(name, NEVER, **options).task(_work)
    with Served(app, ELSEWHERE) as served:
        yield served, made


def ask(node: tuple[Served, dict[Scope, str]], scope: Scope, address: str, body: object) -> Answer:
    """Ask with the token of a scope."""
    served, tokens = node
    return served.ask("POST", address, body, headers={"authorization": f"Bearer {tokens[scope]}"})


@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("plain", {"overlap": "allow"}),
        ("skips", {"overlap": "allow"}),
        ("queues", {"overlap": "allow"}),
        ("queues", {"overlap": "replace"}),
        ("allows", {"overlap": "replace"}),
        ("plain", {"on_orphan": "rerun"}),
    ],
)
def test_operate_cannot_lift_a_policy_in_a_trigger_and_admin_can(
    node: tuple[Served, dict[Scope, str]], job: str, options: dict[str, str]
) -> None:
    refused = ask(node, Scope.OPERATE, f"/api/v1/jobs/{job}/trigger", {"options": options})
    assert refused.status == 403, refused
    assert "lifts a policy of the job" in refused.json["detail"]
    assert "needs the scope admin" in refused.json["detail"]
    assert ask(node, Scope.ADMIN, f"/api/v1/jobs/{job}/trigger", {"options": options}).status == 200


@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("skips", {"overlap": "queue"}),
        ("queues", {"overlap": "skip"}),
        ("allows", {"overlap": "allow"}),
        ("reruns", {"on_orphan": "rerun"}),
        ("skips", {"priority": 9, "task_timeout": "5m", "retry": {"max_retries": 3}, "on_orphan": "leave"}),
    ],
)
def test_operate_sets_values_that_concern_the_run_alone(
    node: tuple[Served, dict[Scope, str]], job: str, options: dict[str, Any]
) -> None:
    answer = ask(node, Scope.OPERATE, f"/api/v1/jobs/{job}/trigger", {"options": options})
    assert answer.status == 200, answer


@pytest.mark.parametrize("scope", [Scope.OPERATE, Scope.ADMIN])
@pytest.mark.parametrize("options", [{"limits": ["api"]}, {"max_active": 99}, {"max_queued": 9}, {"executor": "shell"}])
def test_no_caller_overrides_limits_for_one_run(
    node: tuple[Served, dict[Scope, str]], scope: Scope, options: dict[str, Any]
) -> None:
    answer = ask(node, scope, "/api/v1/jobs/plain/trigger", {"options": options})
    assert answer.status == 400, answer
    assert "cannot be set on an occurrence" in answer.json["detail"]


def test_operate_cannot_lift_a_policy_by_an_adjustment_over_http_or_in_the_dashboard(tmp_path: Path) -> None:
    has_begun = threading.Event()

    async def hold() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    store = f"sqlite:///{tmp_path}/x.db"

    async def tokens() -> dict[Scope, str]:
        async with open_store(store) as opened:
            return {scope: (await create(opened, f"a-{scope}", scope, by="test")).text for scope in Scope}

    made = asyncio.run(tokens())
    app = Itinerary(store=store, name="here")
    app.job("held", NEVER, overlap="queue").task(hold)
    with Served(app, ELSEWHERE) as served:
        node = (served, made)
        first = ask(node, Scope.OPERATE, "/api/v1/jobs/held/trigger", {}).json["number"]
        assert has_begun.wait(PATIENCE), f"run {first} did not begin"
        waiting = ask(node, Scope.OPERATE, "/api/v1/jobs/held/trigger", {}).json["number"]
        address = f"/api/v1/runs/{waiting}/adjust"
        refused = ask(node, Scope.OPERATE, address, {"options": {"overlap": "allow"}})
        assert (refused.status, "needs the scope admin" in refused.json["detail"]) == (403, True)
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "text/html"}
        form = served.ask(
            "POST",
            f"/actions/adjust?run={waiting}",
            raw=b"key=" + b"0" * 32 + b"&overlap=allow",
            headers={**headers, "authorization": f"Bearer {made[Scope.OPERATE]}"},
        )
        assert (form.status, b"needs the scope admin" in form.body) == (403, True)
        assert ask(node, Scope.OPERATE, address, {"options": {"priority": 9}}).status == 200
        assert ask(node, Scope.ADMIN, address, {"options": {"overlap": "allow"}}).json["values"]["overlap"] == "allow"
