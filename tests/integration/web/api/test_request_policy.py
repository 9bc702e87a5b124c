"""The rule for definitions over HTTP looks at the task and at its executor in effect, on every route (Q3).

The node has an executor of another package, `lambda`, and a module from which code may be named. Its store has jobs of
every kind, which an operator applied from a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from itinerary import Itinerary, cron
from tests.integration.web.api.served import Answer, Served

pytestmark = pytest.mark.spec("Q3", "over HTTP")

ROUTES = ("plan", "apply", "simulate")
HERE = __name__
CALL = {"http": "https://example.com/run"}
WITH_SECRET = {**CALL, "headers": {"Authorization": {"secret": "API"}}}
NEVER_NEW: dict[str, dict[str, Any]] = {
    "command": {"shell": ["true"]},
    "line for a shell": {"shell": "true", "use_shell": True},
    "pod": {"pod": {"image": "local/work:1"}},
    "function in a pod": {"python": f"{HERE}:registered", "pod": {"image": "local/work:1"}},
    "task of another package": {"lambda": "work"},
    "function that is not registered": {"python": f"{HERE}:unregistered"},
    "call with a secret": WITH_SECRET,
}
"""Kinds of tasks that a request may only send back."""
MAY_BE_NEW: dict[str, dict[str, Any]] = {"registered function": {"python": f"{HERE}:registered"}, "call": CALL}
EXECUTORS = ("auto", "async", "thread", "process", "shell", "http", "pod", "lambda")
RUNS_FUNCTIONS = ("auto", "thread", "process")


def registered() -> None:
    """A task that the program declares."""


def unregistered() -> None:
    """A function of an allowed module that no program declares."""


class Lambda:
    """An executor of another package, which must see nothing of a request."""

    checked: ClassVar[list[Any]] = []

    async def open(self, report: Any) -> None: ...
    async def close(self) -> None: ...
    def begin(self, assignments: Any) -> None:
        self.checked.append(assignments)

    def stop(self, attempts: Any) -> None: ...
    def kill(self, attempts: Any) -> None: ...


def job_of(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A job with one task."""
    return {"schedule": "0 5 1 1 *", "tasks": [{"name": "do", **task}], **more}


def stored_job(kind: str) -> str:
    """The name of the stored job of a kind."""
    return "stored " + kind


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node on a store that has a job of each kind. The node that applied them has ended."""
    place: Path = tmp_path_factory.mktemp("policy")
    metadata = place / "site" / "acme-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[itinerary.executors]\nlambda = {HERE}:Lambda\n")
    store = f"sqlite:///{place}/x.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place / "site"))
        text = f"allow_modules = [{json.dumps(HERE)}]\n" + "".join(
            f"[jobs.{json.dumps(stored_job(kind))}]\nschedule = '0 5 1 1 *'\ntasks = [{_toml(task)}]\n"
            for kind, task in NEVER_NEW.items()
        )
        (place / "jobs.toml").write_text(text, "utf-8")
        with Itinerary(store=store, job_file=place / "jobs.toml").running():
            pass
        app = Itinerary(store=store, allow_modules=[HERE], name="here")
        app.job("etl", cron("0 5 1 1 *")).task(registered)
        with Served(app) as served:
            yield served
    assert not Lambda.checked, "no task of a request has begun"


def _toml(task: dict[str, Any]) -> str:
    return _table({"name": "do", **task})


def _table(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_table(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def sent(node: Served, route: str, name: str, job: dict[str, Any]) -> Answer:
    """Send a job to a route."""
    return node.ask("POST", f"/api/v1/{route}", {"jobs": {name: job}})


# -- kind × executor × route -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", NEVER_NEW)
def test_a_task_that_may_not_be_new_is_refused_with_every_executor(
    node: Served, kind: str, executor: str, route: str
) -> None:
    task = NEVER_NEW[kind]
    for job in (job_of({**task, "executor": executor}), job_of(task, executor=executor)):
        answer = sent(node, route, "bad", job)
        assert answer.status in (400, 403), answer
        if answer.status == 400:
            assert "executor" in answer.json["detail"] or "pod: is missing" in answer.json["detail"], answer
        else:
            assert "may not come from a request" in answer.json["detail"]
    assert node.ask("GET", "/api/v1/jobs/bad").status == 404


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", MAY_BE_NEW)
def test_a_function_that_is_registered_and_a_call_may_be_new_unless_another_package_runs_them(
    node: Served, kind: str, executor: str, route: str
) -> None:
    task, name = MAY_BE_NEW[kind], f"new {kind} {executor}"
    for job in (job_of({**task, "executor": executor}), job_of(task, executor=executor)):
        answer = sent(node, route, name, job)
        if executor == "lambda":
            assert answer.status == 403, answer
            assert "a task of executor 'lambda' may not come from a request" in answer.json["detail"]
        elif "http" in task or executor in RUNS_FUNCTIONS:
            assert answer.status == 200, answer
        else:
            assert answer.status == 400, answer


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", NEVER_NEW)
def test_an_update_hands_no_stored_task_to_another_package(node: Served, kind: str, executor: str) -> None:
    address = f"/api/v1/jobs/{stored_job(kind).replace(' ', '%20')}/update"
    for dry in (True, False) if executor == "lambda" else (True,):
        answer = node.ask("POST", address, {"options": {"executor": executor}, "dry_run": dry})
        if executor == "lambda":
            assert answer.status == 403, answer
            assert "a task of executor 'lambda'" in answer.json["detail"]
        else:
            assert answer.status == 200 or "executor" in answer.json["detail"] or "pod" in answer.json["detail"], answer
    assert node.get(f"/api/v1/jobs/{stored_job(kind).replace(' ', '%20')}")["seen"]["version"] == 1


# -- what the store has ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["plan", "simulate"])
@pytest.mark.parametrize("kind", NEVER_NEW)
def test_a_stored_task_may_be_sent_back_with_another_schedule(node: Served, kind: str, route: str) -> None:
    answer = sent(node, route, stored_job(kind), {**job_of(NEVER_NEW[kind]), "schedule": "0 6 1 1 *"})
    assert answer.status == 200, answer


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("command", {"shell": ["false"]}),
        ("line for a shell", {"shell": "false", "use_shell": True}),
        ("pod", {"pod": {"image": "local/work:2"}}),
        ("function in a pod", {"python": f"{HERE}:registered", "pod": {"image": "local/work:2"}}),
        ("task of another package", {"lambda": "other"}),
        ("function that is not registered", {"python": f"{HERE}:stored_job"}),
        ("call with a secret", {**WITH_SECRET, "http": "https://evil.example/run"}),
        ("call with a secret", {**WITH_SECRET, "headers": {"Authorization": {"secret": "OTHER"}}}),
        ("call with a secret", {**WITH_SECRET, "headers": {"X-Other": {"secret": "API"}}}),
    ],
)
def test_a_stored_task_may_not_be_sent_back_changed_nor_under_another_name(
    node: Served, kind: str, changed: dict[str, Any], route: str
) -> None:
    assert sent(node, route, stored_job(kind), job_of(changed)).status == 403
    elsewhere = job_of(NEVER_NEW[kind])
    elsewhere["tasks"][0]["name"] = "other"
    assert sent(node, route, stored_job(kind), elsewhere).status == 403
    assert sent(node, route, "other job", job_of(NEVER_NEW[kind])).status == 403


def test_a_job_that_was_removed_is_stored_no_more_and_one_that_changed_can_be_rolled_back(tmp_path: Path) -> None:
    app = Itinerary(store="memory:", name="here")
    app.job("command", cron("0 5 1 1 *")).shell("do", ["true"])
    with Served(app) as served:
        job = job_of({"shell": ["true"]})
        served.post("/api/v1/jobs/command/update", {"schedule": "0 6 1 1 *"})
        assert served.post("/api/v1/jobs/command/rollback", {"to_version": 1})["version"] == 3
        assert sent(served, "plan", "command", job).status == 200
        served.post("/api/v1/jobs/command/remove")
        assert sent(served, "apply", "command", job).status == 403


# -- conditions and hooks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "more",
    [
        {"requires": [{"python": f"{HERE}:unregistered"}]},
        {"requires": [{"job": "etl", "on_unmet": "act", "action": f"{HERE}:unregistered"}]},
        {"requires": [{"sql": "select 1"}]},
        {"requires": [{"file": "/etc/shadow"}]},
        {"on_start": f"{HERE}:unregistered"},
        {"on_complete": f"{HERE}:unregistered"},
    ],
)
def test_a_condition_or_a_hook_from_a_request_runs_nothing_that_is_not_registered(
    node: Served, more: dict[str, Any], route: str
) -> None:
    answer = sent(node, route, "bad", job_of(CALL, **more))
    assert answer.status == 403, answer
    assert "may not come from a request" in answer.json["detail"]


def test_a_condition_on_a_job_or_an_answer_and_registered_functions_may_be_new(node: Served) -> None:
    name = f"{HERE}:registered"
    requires = [{"python": name}, {"job": "etl", "on_unmet": "act", "action": name}, {"http": "https://example.com"}]
    answer = sent(node, "plan", "good", job_of(CALL, requires=requires))
    assert answer.status == 200, answer


def test_a_function_that_the_job_file_names_is_registered_and_one_of_itinerary_is_not(tmp_path: Path) -> None:
    text = f"allow_modules = ['{HERE}']\n[jobs.a]\nschedule = '0 5 1 1 *'\n"
    (tmp_path / "jobs.toml").write_text(f"{text}tasks = [{{ name = 'do', python = '{HERE}:unregistered' }}]\n", "utf-8")
    app = Itinerary(store="memory:", job_file=tmp_path / "jobs.toml", name="here")
    app.records("folio")
    with Served(app) as served:
        assert sent(served, "plan", "b", job_of({"python": f"{HERE}:unregistered"})).status == 200
        assert sent(served, "plan", "b", job_of({"python": f"{HERE}:job_of"})).status == 403
        for name in ("itinerary.executors.async_iteration:iterated", "itinerary.records.desks.folio:cycled"):
            assert sent(served, "plan", "b", job_of({"python": name})).status == 403
        assert (
            sent(served, "plan", "b", job_of({"python": "itinerary.executors.async_iteration:Channels"})).status == 400
        )
