"""Every route says what it needs, and nobody gets more (Q6): each is asked with every kind of token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from itinerary.model.scopes import Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import create, revoke
from itinerary.stores.urls import open_store
from itinerary.web.access import PUBLIC
from itinerary.web.api.routes import API_ROUTES, api_document
from itinerary.web.pages.routes import PAGES
from tests.integration.web.api.conftest import app_on
from tests.integration.web.api.served import Served

ELSEWHERE = ListenAt("192.0.2.7", 8321)
"""Where others reach it; nothing listens, since requests are handed over."""
GOES_ON = ("/follow", "/events")


def handlers() -> dict[tuple[str, str], Any]:
    """Every route there is, with what it says that it needs."""
    return {(route.method, route.path): route.needs for route in (*PAGES, *API_ROUTES)}


@pytest.mark.spec("Q6")
def test_every_route_says_what_it_needs() -> None:
    found = handlers()
    assert not [route for route, needs in found.items() if needs not in (*Scope, PUBLIC)]
    documented = {
        (method.upper(), path) for path, operations in api_document()["paths"].items() for method in operations
    }
    assert documented | {("GET", "/api/v1/openapi.json")} == {route for route in found if route[1].startswith("/api")}


@pytest.mark.spec("Q6")
def test_what_changes_something_needs_more_than_reading() -> None:
    asked_by_post = {"/api/v1/plan", "/api/v1/simulate"}  # which change nothing, and take much to say what is wanted
    found = {path: needs for (method, path), needs in handlers().items() if method == "POST" and "/api/" in path}
    assert {path for path, needs in found.items() if needs is Scope.READ} == asked_by_post
    admin = {path.rpartition("/")[2] for path, needs in found.items() if needs is Scope.ADMIN}
    assert admin == {"apply", "update", "rollback", "remove", "prune"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server that others reach, and tokens of every kind."""
    place: Path = tmp_path_factory.mktemp("scopes")
    store = f"sqlite:///{place}/x.db"
    tokens = asyncio.run(_tokens(store))
    with Served(app_on(store), ELSEWHERE) as served:
        yield served, tokens


async def _tokens(url: str) -> dict[str, str]:
    async with open_store(url) as store:
        made = {scope.value: (await create(store, f"a-{scope}", scope, by="test")).text for scope in Scope}
        made["revoked"] = (await create(store, "gone", Scope.ADMIN, by="test")).text
        await revoke(store, "gone", by="test")
    return made | {"wrong": made["admin"][:-4] + "0000", "nonsense": "no token at all"}


@pytest.mark.spec("Q6")
@pytest.mark.spec("Q1", "API")
def test_each_route_is_refused_to_every_token_that_has_not_its_scope(guarded: tuple[Served, dict[str, str]]) -> None:
    served, tokens = guarded
    for (method, path), needs in handlers().items():
        if not path.startswith(("/api", "/health", "/metrics")):
            continue
        assert isinstance(needs, Scope)
        address = path.replace("{", "").replace("}", "")
        for kind, text in {"none": None, **tokens}.items():
            headers = {} if text is None else {"authorization": f"Bearer {text}"}
            may = kind in list(Scope) and Scope(kind).covers(needs)
            if may and path.endswith(GOES_ON) and method == "GET" and "{" not in path:
                status = served.begin(address, until=b": still", headers=headers).result(60).status
            else:
                status = served.ask(method, address, None if method == "GET" else {}, headers=headers).status
            if may:
                assert status not in (401, 403, 405, 500), (method, path, kind, status)
            elif kind in list(Scope):
                assert status == 403, (method, path, kind, status)
            else:
                assert status == 401, (method, path, kind, status)


@pytest.mark.spec("Q2", "token's name")
def test_a_change_is_kept_with_the_name_of_the_token(guarded: tuple[Served, dict[str, str]]) -> None:
    served, tokens = guarded
    headers = {"authorization": f"Bearer {tokens['operate']}"}
    told = served.ask("POST", "/api/v1/jobs/etl/pause", {"reason": "why not"}, headers=headers)
    assert (told.status, told.json["by"]) == (200, "a-operate")
