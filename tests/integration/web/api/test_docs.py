"""What the docs say of the API is so: every route is in the reference, and every example does what is shown."""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec
import pytest

from itinerary import Itinerary, cron
from itinerary.model.scopes import Scope
from itinerary.web.api.routes import api_document
from tests.docs.pages import DOCS, Page
from tests.integration.web.api.conftest import work
from tests.integration.web.api.served import Answer, Served
from tests.integration.web.api.test_scopes import handlers

ROUTE = re.compile(r"^\| `(GET|POST) (/api/v1/[^`]+)` \| (\w+) \| (.*) \|$", re.MULTILINE)
BASE = "http://127.0.0.1:8321"
ANYTHING = "…"


@pytest.mark.spec("U10", "document")
def test_every_route_is_in_the_reference_with_what_it_needs_and_takes() -> None:
    told = {(found[1], found[2]): (found[3], found[4]) for found in ROUTE.finditer(_reference())}
    needed = handlers()
    for path, operations in api_document()["paths"].items():
        for method, operation in operations.items():
            needs, words = told.pop((method.upper(), path))
            assert Scope(needs) is needed[method.upper(), path], path
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "query":
                    assert f"`{parameter['name']}`" in words, (path, parameter["name"])
    assert not told


@pytest.mark.spec("Q4", "every route")
def test_every_route_has_a_line_that_says_what_it_costs_and_what_bounds_it() -> None:
    table = _reference().partition("## Heavy requests")[2].partition("## Limits")[0]
    for path in api_document()["paths"]:
        short = path.removeprefix("/api/v1")
        before, _, last = short.rpartition("/")
        is_named = f" {short}`" in table or f"`{short}`" in table or (f" {before}/" in table and f"`/{last}`" in table)
        assert is_named, path


def _reference() -> str:
    return (DOCS / "reference/http-api.md").read_text("utf-8")


def test_every_route_of_the_document_has_a_summary_and_its_refusals() -> None:
    seen = set()
    for path, operations in api_document()["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["operationId"] not in seen
            seen.add(operation["operationId"])
            refusals = {status: one for status, one in operation["responses"].items() if status >= "400"}
            assert {"400", "401", "403", "500", "503"} <= refusals.keys(), path
            assert all("application/problem+json" in one["content"] for one in refusals.values())


@pytest.mark.spec("U10", "examples")
def test_every_example_of_the_guide_does_what_is_shown() -> None:
    app = Itinerary(store="memory:", web="127.0.0.1:0")
    app.job("etl", cron("0 5 * * *"), overlap="skip").task(work)
    app.job("report", cron("0 6 * * *")).task(work)
    count = 0
    with Served(app) as served:
        for block in Page(DOCS / "how-to/http-api.md").blocks:
            lines = block.source.splitlines()
            for command, shown in zip(lines[::2], lines[1::2], strict=True):
                answer = _asked(served, command.removeprefix("$ "))
                _compare(msgspec.json.decode(shown), answer.json, command)
                count += 1
    assert count > 10


def _asked(served: Served, command: str) -> Answer:
    """What curl would have done."""
    curl, *words = shlex.split(command)
    assert curl == "curl"
    method, headers, body, address = "GET", {}, None, ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "--json":
                body, method = words.pop(0), "POST"
            case word:
                address = word.removeprefix(BASE)
    return served.ask(method, address, raw=None if body is None else body.encode(), headers=headers)


def _compare(shown: Any, found: Any, where: str) -> None:
    """What is shown is there; what is not shown may be."""
    if shown == ANYTHING:
        assert found not in (None, ""), where
    elif isinstance(shown, dict):
        for key, value in shown.items():
            _compare(value, found[key], f"{where}: {key}")
    elif isinstance(shown, list):
        assert len(shown) == len(found) or shown, where
        for one, other in zip(shown, found, strict=False):
            _compare(one, other, where)
        assert found or not shown, where
    else:
        assert found == shown, where
