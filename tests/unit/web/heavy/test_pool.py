"""Workers for heavy requests: why a request gets none."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import structlog

from itinerary.errors import StoreUnavailable
from itinerary.model.settings import Settings
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import packaged_zone_data
from itinerary.web.heavy.pool import HeavyWork
from itinerary.web.heavy.process import WorkerProcess
from itinerary.web.heavy.works import Setup, UpcomingWork
from itinerary.web.problems import RequestRefused
from tests.other_users import AS_NOBODY, needs_setpriv

WORK = UpcomingWork(span=1, parts=1, limit=1)
PLACES = 17
"""The request in progress, and all that may wait."""


def pool(closed: asyncio.Event, *, is_in_process: bool) -> HeavyWork:
    """Make a pool whose store answers when the event is set."""

    async def view() -> StoreView:
        await closed.wait()
        raise StoreUnavailable("closed")

    return HeavyWork(
        "memory:",
        Settings(),
        zone_data=packaged_zone_data(),
        view=view,
        is_in_process=is_in_process,
        log=structlog.get_logger(),
    )


def test_a_caller_without_a_worker_learns_whether_its_own_request_or_that_of_another_is_in_progress() -> None:
    async def story() -> None:
        closed = asyncio.Event()
        heavy = pool(closed, is_in_process=True)
        asked = [asyncio.create_task(heavy.run(WORK, "ann")) for _ in range(PLACES)]
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused, match="another heavy request or audit of 'ann' is in progress"):
            await heavy.run(WORK, "ann")
        with pytest.raises(RequestRefused, match="other long-running requests are in progress on this node") as refused:
            await heavy.run(WORK, "bob")
        assert (refused.value.status, refused.value.headers) == (503, (("Retry-After", "5"),))
        closed.set()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(end) for end in ends} == {StoreUnavailable}

    asyncio.run(story())


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_a_worker_that_cannot_be_started_is_not_blamed_on_the_request(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)

    async def story() -> None:
        heavy = pool(asyncio.Event(), is_in_process=False)
        with pytest.raises(RequestRefused, match="no worker process could be started for this request") as refused:
            await heavy.run(WORK, "ann")
        assert (refused.value.status, refused.value.title) == (503, "No worker")
        await heavy.close()

    asyncio.run(story())


@needs_setpriv
def test_a_worker_starts_where_the_node_has_a_stricter_limit_of_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nulimit -v 4000000\nexec {" ".join(AS_NOBODY)} {sys.executable} "$@"\n', "utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    async def story() -> None:
        worker = await WorkerProcess.start(Setup(store="memory:", settings=Settings(), megabytes=8_000))
        assert worker.is_running
        await worker.end()

    asyncio.run(story())
