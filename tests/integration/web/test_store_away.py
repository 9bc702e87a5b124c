"""The database goes away while somebody looks: the page says so and since when, and goes on by itself (N5, U10)."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest

from itinerary import Itinerary, every
from tests.servers import PostgresServer, postgres_server
from tests.unit.web.dashboards import Dashboard, open_dashboard, run

__all__ = ["postgres_server"]


class Follower:
    """Somebody who keeps a page open."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._stream = dashboard.follow_now()

    async def until(self, kind: str, *, is_set: bool = True) -> Any:
        """What the next message of a kind says, that says something (or, with `is_set` false, nothing)."""
        async for message in self._stream:
            for event in message.decode().split("\n\n"):
                lines = dict(line.partition(": ")[::2] for line in event.split("\n") if line)
                if lines.get("event") == kind and bool(said := json.loads(lines["data"])) is is_set:
                    return said
        raise AssertionError("the stream has ended")


@pytest.mark.spec("U10", "away")
@pytest.mark.spec("N5")
def test_the_first_page_says_since_when_the_database_is_away_and_recovers_by_itself(
    postgres_server: PostgresServer,
) -> None:
    async def story(url: str) -> None:
        app = Itinerary(store=url, name="here")
        app.job("tick", every("1h")).task(_nothing)
        async with open_dashboard(app, answers_within=1.0) as dashboard:
            follower = Follower(dashboard)
            before = await dashboard.page("/")
            assert "The store cannot be reached" in before  # in the banner, which is hidden
            assert 'role="alert" hidden' in before
            await follower.until("parts")
            await asyncio.to_thread(postgres_server.stop)
            try:
                trouble = await follower.until("trouble")
                since = datetime.fromisoformat(trouble["since"])
                page = (await dashboard.get("/")).text
                assert 'role="alert" hidden' not in page
                assert since.isoformat().replace("+00:00", "Z") in page
                assert "tick" in page  # what was last known is still there
                later = (await dashboard.get("/jobs")).text
                assert since.isoformat().replace("+00:00", "Z") in later
            finally:
                await asyncio.to_thread(postgres_server.start)
            assert await follower.until("trouble", is_set=False) is None
            assert 'role="alert" hidden' in await dashboard.page("/")
            await dashboard.node.wait(await app["tick"].trigger())

    with postgres_server.database() as url:
        run(story(url))


def _nothing() -> None: ...
