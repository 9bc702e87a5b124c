"""A browser without a screen: it asks the real application of a node that runs, keeps cookies, and sends forms."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from html import unescape
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
import structlog

from itinerary import Itinerary
from itinerary.api import RunningNode
from itinerary.observe.listen_address import ListenAt
from itinerary.web.asgi import WebApplication
from tests.local_callers import all_allowed, own_user

T = TypeVar("T")
AT = ListenAt("127.0.0.1", 8499)
ORIGIN = f"http://{AT}"
FORM = "application/x-www-form-urlencoded"
PATIENCE = 60.0
"""How long a test waits for what must happen, before it says that it did not."""


class Visitor:
    """Somebody with a browser on this machine."""

    def __init__(self, client: httpx.AsyncClient, node: RunningNode) -> None:
        self.client, self.node = client, node

    async def get(self, address: str, **headers: str) -> httpx.Response:
        """Look at a page."""
        return await self.client.get(address, headers={"Accept": "text/html", **headers})

    async def form(self, address: str) -> dict[str, str]:
        """The hidden fields of the form at an address."""
        page = await self.get(address)
        assert page.status_code == 200, page.text
        return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))

    async def send(
        self, address: str, fields: Mapping[str, str | list[str]], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a form."""
        told = {"Accept": "text/html", "Origin": ORIGIN, "Content-Type": FORM, **(headers or {})}
        return await self.client.post(address, content=urlencode(fields, doseq=True), headers=told)

    async def act(self, address: str, **fields: str | list[str]) -> httpx.Response:
        """Open a form, fill it in, and send it."""
        return await self.send(address, {**await self.form(address), **fields})

    async def until(self, address: str, is_so: Callable[[str], bool]) -> str:
        """Look at a page until it says something."""
        async with asyncio.timeout(PATIENCE):
            while True:
                page = await self.get(address)
                if is_so(text_of(page)):
                    return text_of(page)
                await asyncio.sleep(0.05)


def text_of(page: httpx.Response) -> str:
    """What a page says, without its markup."""
    inside = page.text.partition("<main")[2]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", inside)))


def _serving(node: RunningNode, app: Itinerary, log: Any) -> WebApplication:
    return WebApplication(node, all_allowed(app.configuration), AT, log, owner_of=own_user)


@asynccontextmanager
async def visiting(app: Itinerary) -> AsyncIterator[Visitor]:
    """Start a node and its web server, without a socket."""
    log = structlog.get_logger()
    async with app.running() as node, _serving(node, app, log) as application:
        asgi: Any = application  # two libraries that name the same protocol differently
        transport = httpx.ASGITransport(app=asgi, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            yield Visitor(client, node)


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run a test to its end."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await program

    return asyncio.run(bounded())
