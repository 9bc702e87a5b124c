"""Signing in from elsewhere: a token is asked for, a session stands for it, and it ends with the token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from itinerary import Itinerary, every
from itinerary.config.log_setup import engine_log
from itinerary.errors import NodeError
from itinerary.model.scopes import Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import TokenBook, create, revoke
from itinerary.stores.urls import open_store
from itinerary.web import asgi as serving
from itinerary.web.asgi import WebApplication

ELSEWHERE = ListenAt("192.0.2.7", 8321)
HOME = "http://jobs.example.com"
BROWSER = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin", "Origin": HOME}


def work() -> None:
    """Nothing."""


@asynccontextmanager
async def visitor(url: str, client: str = "192.0.2.99") -> AsyncIterator[httpx.AsyncClient]:
    """A browser on another machine, before a node whose dashboard can be reached from there."""
    app = Itinerary(store=url, web_names=["jobs.example.com"])
    app.job("tick", every("1h")).task(work)
    async with app.running() as node, WebApplication(node, app.configuration, ELSEWHERE, engine_log()) as served:
        transport = httpx.ASGITransport(served, client=(client, 4711))
        async with httpx.AsyncClient(transport=transport, base_url=HOME, headers=BROWSER) as browser:
            yield browser


async def token(url: str, scope: Scope) -> str:
    async with open_store(url) as store:
        return (await create(store, "ada", scope, by="root")).text


def field(name: str, page: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, f"no field {name} in {page}"
    return found[1]


@pytest.mark.spec("Q1", "sign in")
def test_who_comes_from_elsewhere_signs_in_with_a_token_and_is_led_back_to_where_they_were(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def visit() -> None:
        text = await token(url, Scope.READ)
        async with visitor(url) as browser:
            turned_away = await browser.get("/?jobs=tick")
            assert turned_away.status_code == 303
            login = await browser.get(turned_away.headers["location"])
            assert login.status_code == 200
            assert "needs a token" in login.text
            fields = {"_csrf": field("_csrf", login.text), "next": field("next", login.text).replace("&amp;", "&")}
            wrong = await browser.post("/login", data={**fields, "token": "itinerary_wrong"})
            assert wrong.status_code == 401
            assert 'role="alert"' in wrong.text
            done = await browser.post("/login", data={**fields, "token": text})
            assert (done.status_code, done.headers["location"]) == (303, "/?jobs=tick")
            assert "HttpOnly" in done.headers["set-cookie"]
            assert "SameSite=Strict" in done.headers["set-cookie"]
            page = await browser.get("/?jobs=tick")
            assert page.status_code == 200
            assert "Sign out ada" in page.text
            assert text not in page.text
            out = await browser.post("/logout", data={"_csrf": field("_csrf", page.text)})
            assert out.status_code == 303
            assert (await browser.get("/")).status_code == 303

    asyncio.run(visit())


@pytest.mark.spec("Q1", "revoked")
def test_a_session_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "TokenBook", partial(TokenBook, fresh_for=0))
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def visit() -> None:
        text = await token(url, Scope.READ)
        async with visitor(url) as browser:
            proof = field("_csrf", (await browser.get("/login")).text)
            await browser.post("/login", data={"_csrf": proof, "next": "/", "token": text})
            assert (await browser.get("/")).status_code == 200
            async with open_store(url) as store:
                await revoke(store, "ada", by="root")
            assert (await browser.get("/")).status_code == 303

    asyncio.run(visit())


@pytest.mark.spec("Q1", "no token, no listening")
def test_nothing_listens_elsewhere_as_long_as_there_is_no_token(tmp_path: Path) -> None:
    async def visit() -> None:
        async with visitor(f"sqlite:///{tmp_path}/jobs.db"):
            raise AssertionError("it may not listen")

    with pytest.raises(NodeError, match="itinerary token create"):
        asyncio.run(visit())


@pytest.mark.spec("Q2", "where a sign-in leads")
@pytest.mark.parametrize(
    "onward",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "evil", "/a\r\nb: c"],
)
def test_a_sign_in_never_leads_to_another_site(tmp_path: Path, onward: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def visit() -> None:
        text = await token(url, Scope.READ)
        async with visitor(url) as browser:
            proof = field("_csrf", (await browser.get("/login")).text)
            done = await browser.post("/login", data={"_csrf": proof, "next": onward, "token": text})
            assert (done.status_code, done.headers["location"]) == (303, "/")

    asyncio.run(visit())
