"""A node with a dashboard, asked without a socket: what the tests of pages share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import httpx

from itinerary import Itinerary, every
from itinerary.api.running_node import RunningNode
from itinerary.config.log_setup import engine_log
from itinerary.model.queries import Answer, Query
from itinerary.model.scopes import LocalScope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import TokenBook
from itinerary.schedules import Schedule
from itinerary.web.access import Admission
from itinerary.web.application import application
from itinerary.web.live import LivePages
from itinerary.web.pages.now import draw_now
from itinerary.web.pages.routes import PAGES
from itinerary.web.server_state import ServerState
from tests.local_callers import own_user

__all__ = ["Dashboard", "hourly", "open_dashboard", "run"]

T = TypeVar("T")
PORT = 8417
PATIENCE = 60.0


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await program

    return asyncio.run(bounded())


def hourly() -> Schedule:
    """A schedule that is due in a few days, and then every hour: nothing of it runs by itself in a test."""
    return every("1h", start=datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=3))


class Dashboard:
    """A node, and its pages."""

    def __init__(
        self, app: Itinerary, node: RunningNode, server: ServerState, hub: LivePages, client: httpx.AsyncClient
    ) -> None:
        self.app, self.node, self.server, self.hub, self._client = app, node, server, hub, client

    async def look_around(self) -> None:
        """A round of the web server, which goes by itself every two seconds otherwise."""
        await self.server.view(fresh=True)
        await self.server.rounds.once()

    async def get(self, address: str) -> httpx.Response:
        """A page, as a browser asks for it."""
        return await self._client.get(address, headers={"Accept": "text/html"})

    def follow_now(self) -> AsyncIterator[bytes]:
        """The first page from now on, as who has nothing of it is sent it."""
        return self.hub.follow("/?", partial(draw_now, self.server.rounds), {})

    async def page(self, address: str) -> str:
        """A page that there is."""
        await self.server.view(fresh=True)
        answer = await self.get(address)
        assert answer.status_code == 200, answer.text
        return answer.text


@asynccontextmanager
async def open_dashboard(app: Itinerary, answers_within: float = 5.0) -> AsyncIterator[Dashboard]:
    """Run an app, and open its dashboard."""
    async with app.running() as node:
        server = ServerState(node, app.configuration, answers_within=answers_within)

        async def read(query: Query[Answer]) -> Answer:
            return await (await server.store()).read(query)

        hub = LivePages(server)
        door = Admission(ListenAt("127.0.0.1", PORT), TokenBook(read), local=LocalScope.ADMIN, owner_of=own_user)
        served = application(hub, door, engine_log(), PAGES)
        transport = httpx.ASGITransport(served, client=("127.0.0.1", 50_000))
        try:
            async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client:
                yield Dashboard(app, node, server, hub, client)
        finally:
            await server.close()
