"""Refusals: every one is counted, and the log has a line for many."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter

import pytest
import structlog
from structlog.testing import capture_logs

from itinerary.connections import refusals
from itinerary.connections.descriptors import connections_max
from itinerary.connections.refusals import Refusals


def test_the_first_refusal_is_logged_at_once_and_those_of_the_next_minute_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: Counter[tuple[str, str]] = Counter()

    async def story() -> list[int]:
        kept = Refusals("web", structlog.get_logger(), lambda server, status: counted.update([(server, status)]))
        lines = []
        kept.add("no_token", "10.0.0.1", 401)
        lines.append(len(said))
        for number in range(1_000):
            kept.add("no_token", f"10.0.{number // 250}.{number % 250}", 401)
        kept.add("head_timeout", "10.0.0.1")
        kept.count(404)
        lines.append(len(said))
        monkeypatch.setattr(kept, "_next_at", float("-inf"))  # a minute has passed
        kept.add("no_token", "10.0.0.1", 401)
        lines.append(len(said))
        kept.close()
        lines.append(len(said))
        return lines

    with capture_logs() as said:
        assert asyncio.run(story()) == [1, 1, 2, 2]
    assert said[0]["reasons"] == {"no_token": 1}
    assert (said[1]["count"], said[1]["reasons"]) == (1_002, {"no_token": 1_001, "head_timeout": 1})
    assert len(said[1]["clients"]) == 10
    assert counted == {("web", "401"): 1_002, ("web", "none"): 1, ("web", "404"): 1}


def test_a_refusal_that_waits_for_its_line_is_logged_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "LOG_INTERVAL", 0.01)

    async def story() -> None:
        written = asyncio.Event()

        class Log:
            def warning(self, event: str, **fields: object) -> None:
                structlog.get_logger().warning(event, **fields)
                if len(said) == 2:
                    written.set()

        kept = Refusals("web", Log(), lambda _server, _status: None)
        kept.note("no_token", "10.0.0.1")
        kept.note("no_token", "10.0.0.1")
        async with asyncio.timeout(60):
            await written.wait()
        kept.close()

    with capture_logs() as said:
        asyncio.run(story())
    assert [line["count"] for line in said] == [1, 1]


@pytest.mark.parametrize(
    ("files", "web", "health"),
    [(64, 16, 8), (256, 64, 16), (1_024, 256, 64), (1_048_576, 1_000, 64), (resource.RLIM_INFINITY, 1_000, 64)],
)
def test_connections_are_a_share_of_the_open_files(
    files: int, web: int, health: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert (connections_max(4, 1_000), connections_max(16, 64)) == (web, health)
