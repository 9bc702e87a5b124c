"""A node that is stopped with SIGSTOP while something comes due each second, and goes on: as on a laptop that slept."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest

from itinerary.audit import audit_store
from itinerary.model.queries import History, Jobs, Nodes
from itinerary.runtime.standstill import STOPPED
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from tests.e2e.cli.program import Program
from tests.e2e.cli.test_up import STORE, TICKING

STOPPED_FOR = 4.0
"""Seconds: more than others would wait before they take over, and less than the grace period."""


@pytest.mark.spec("N6", "a process that was stopped")
def test_a_node_that_was_stopped_and_goes_on_has_lost_and_doubled_nothing_and_says_so(tmp_path: Path) -> None:
    source = TICKING.replace("Itinerary()", 'Itinerary(node_heartbeat_interval="2s")')  # shorter than the stop
    (tmp_path / "app.py").write_text(source, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE) as program:
        program.until(lambda line: "completed" in line)
        program.signal(signal.SIGSTOP)
        stopped_at, stood_from = int(time.time()), time.monotonic()
        time.sleep(STOPPED_FOR)  # nothing but real time passes for a process that stands still
        program.signal(signal.SIGCONT)
        goes_on_at, stood_still = time.time(), time.monotonic() - stood_from
        done: set[int] = set()
        while not done >= set(range(stopped_at + 1, int(goes_on_at))):
            program.until(lambda line: "completed" in line)
            done = asyncio.run(completed(tmp_path))
        program.signal(signal.SIGTERM)
        assert program.end() == 0

    assert any("clock.jumped" in line and STOPPED in line for line in program.errors)

    async def audited() -> None:
        async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
            report = await audit_store(store, None, None)
            assert (report.lost, report.doubled) == (0, 0)
            (node,) = await store.read(Nodes())
            jumps = json.loads(node.about)["clock_jumps"]["last"]
            longest = max(jumps, key=lambda jump: jump["by"])  # a slow machine may have held it up more than once
            assert longest["why"] == STOPPED
            assert abs(longest["by"] - stood_still * SECOND) < 2 * SECOND

    asyncio.run(audited())


async def completed(tmp_path: Path) -> set[int]:
    """The seconds whose occurrences have completed."""
    async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        (job,) = await store.read(Jobs())
        rows = (await store.read(History(job.number))).rows
    return {row.instant // 1_000_000 for row in rows if row.status == "completed"}
