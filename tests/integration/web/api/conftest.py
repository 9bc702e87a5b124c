"""An app that does nothing by itself while a test looks, served to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary, cron
from tests.integration.web.api.served import Served

GO = threading.Event()
ODD = "a/../<script>alert(1)</script> 🚂"


def work(ctx: Any) -> dict[str, int]:
    """A task that is soon done."""
    return {"rows": 3}


def wait(ctx: Any) -> None:
    """A task that takes until somebody lets it go, or wants it to end."""
    while not GO.is_set() and not ctx.cancelled:
        GO.wait(0.05)


def app_on(store: str) -> Itinerary:
    """The same app, on any store."""
    app = Itinerary(store=store, web="127.0.0.1:0", name="here")
    for name in ("etl", "etl.2", "report", ODD):
        app.job(name, cron("0 5 1 1 *", tz="Europe/Berlin")).task(work)
    app.job("slow", cron("0 5 1 1 *"), overlap="allow").task(wait)
    return app


def served_on(store: str) -> AbstractContextManager[Served]:
    """It, served."""
    return Served(app_on(store))


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    """A server on a store in memory, for tests that leave others alone."""
    with served_on("memory:") as served:
        yield served
        GO.set()


@pytest.fixture(params=["memory", "sqlite"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A server of one's own, on each store."""
    GO.clear()
    with served_on("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/x.db") as served:
        yield served
        GO.set()
