"""What the pages and the HTTP API share of a node and its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary import Itinerary
from itinerary.api.running_node import RunningNode
from itinerary.web.server_state import ServerState
from tests.unit.web.dashboards import hourly, run


@pytest.mark.spec("R9", "the dashboard of a node that ends")
def test_a_node_that_ends_before_its_pages_is_still_looked_at_without_an_error(tmp_path: Path) -> None:
    app = Itinerary(store=f"sqlite:///{tmp_path}/runs.db")
    app.job(hourly(), name="tidy")(lambda: None)

    async def program() -> None:
        async with app.running() as node:
            server = await looked_around(node)
        try:
            await server.rounds.once()
        finally:
            await server.close()

    async def looked_around(node: RunningNode) -> ServerState:
        server = ServerState(node, app.configuration)
        await server.rounds.once()
        return server

    run(program())
