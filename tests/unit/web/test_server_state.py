"""What the pages and the HTTP API share of a node and its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary import Itinerary
from itinerary.api.running_node import RunningNode
from itinerary.web.server_state import House
from tests.unit.web.dashboards import hourly, run


@pytest.mark.spec("R9", "the dashboard of a node that ends")
def test_a_node_that_ends_before_its_pages_is_still_looked_at_without_an_error(tmp_path: Path) -> None:
    app = Itinerary(store=f"sqlite:///{tmp_path}/runs.db")
    app.job(hourly(), name="tidy")(lambda: None)

    async def program() -> None:
        async with app.running() as node:
            house = await looked_around(node)
        try:
            await house.rounds.once()
        finally:
            await house.close()

    async def looked_around(node: RunningNode) -> House:
        house = House(node, app.configuration)
        await house.rounds.once()
        return house

    run(program())
