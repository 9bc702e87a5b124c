"""What is not taken: unknown names, wrong kinds, too much, other formats. Each refusal is a problem document."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.web.api.routes import api_document
from tests.integration.web.api.served import Answer, Served

PAUSE = "/api/v1/jobs/etl/pause"


def problem(answer: Answer, status: int) -> str:
    """What a refusal says, which is a problem document."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json
    assert {"status", "title", "detail"} <= told.keys()
    assert told["status"] == status
    detail: str = told["detail"]
    return detail


@pytest.mark.spec("Q7", "over HTTP")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"resaon": "typo"}, "unknown field `resaon`"),
        ({"reason": 7}, "Expected `str | null`, got `int` - at `$.reason`"),
        ({"until": "tomorrow"}, "Invalid RFC3339"),
        ({"until": "2026-01-01T00:00:00"}, "timezone"),
        ({"until": 0}, "$.until"),
        ({"until": "2020-01-01T00:00:00Z"}, "is past"),
        ({"until": "2300-01-01T00:00:00Z"}, "outside of the years"),
        ({"reason": "x" * 1_001}, "length"),
        ([], "array"),
        ("text", "str"),
    ],
)
def test_what_nobody_knows_or_is_of_another_kind_is_refused(here: Served, body: Any, why: str) -> None:
    assert why in problem(here.ask("POST", PAUSE, body), 400)
    assert here.get("/api/v1/jobs/etl")["seen"]["state"] == "active"


@pytest.mark.spec("Q7", "over HTTP")
def test_parameters_that_nobody_knows_are_refused_on_every_route(here: Served) -> None:
    for path, operations in api_document()["paths"].items():
        address = path.replace("{", "").replace("}", "")
        for method in operations:
            body: dict[str, Any] | None = None if method == "get" else {}
            assert "'nope'" in problem(here.ask(method.upper(), f"{address}?nope=1", body), 400), (method, path)


@pytest.mark.spec("Q4", "over HTTP")
def test_pages_are_at_most_a_thousand_and_bodies_a_megabyte(here: Served) -> None:
    assert "limit" in problem(here.ask("GET", "/api/v1/jobs?limit=1001"), 400)
    assert "limit" in problem(here.ask("GET", "/api/v1/jobs/etl/history?limit=0"), 400)
    problem(here.ask("POST", "/api/v1/plan", raw=b'{"file": "' + b"#" * 1_000_001 + b'"}'), 413)
    task = {"name": "call", "http": "https://example.com/run", "headers": {"X-Long": "x" * 1_000}}
    tasks = [{**task, "name": f"task {number}"} for number in range(300)]
    large = {"jobs": {"large": {"schedule": "0 5 * * *", "tasks": tasks}}}
    assert "262144 are allowed" in problem(here.ask("POST", "/api/v1/plan", large), 400)


@pytest.mark.spec("Q2", "JSON only")
@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_is_no_json_is_refused(here: Served, media: str) -> None:
    headers = {"content-type": media}
    refused = here.ask("POST", PAUSE, {}, key="from a program", headers=headers)
    problem(refused, 415)
    problem(here.ask("POST", PAUSE, raw=b"{", key="from a program"), 400)
    problem(here.ask("POST", PAUSE, raw=b'{"reason": "\xff"}', key="from a program"), 400)
    problem(here.ask("POST", PAUSE, raw=b"[" * 100_000, key="from a program"), 400)
    problem(here.ask("POST", PAUSE, raw=b'{"reason": "\\ud800"}', key="from a program"), 400)


@pytest.mark.spec("U10", "problems")
def test_what_is_not_there_and_what_is_not_done_is_told_as_a_problem(here: Served) -> None:
    problem(here.ask("GET", "/api/v1/nope"), 404)
    problem(here.ask("GET", "/api/v1/jobs/..%2f..%2fetc%2fpasswd"), 404)
    refused = here.ask("DELETE", "/api/v1/jobs/etl")
    problem(refused, 405)
    assert "GET" in refused.headers["allow"]
    problem(here.ask("GET", "/api/v1/jobs", headers={"host": "evil.example"}), 421)
    problem(here.ask("POST", PAUSE, {}, headers={"origin": "https://evil.example"}), 403)
    for key in ("\t", "a\x01b"):
        problem(here.ask("POST", PAUSE, {}, key=key), 400)
