"""A node that is stopped with SIGSTOP while something comes due each second, and goes on: as on a laptop that slept."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest

from itinerary.audit import audit_store
from itinerary.model.queries import HistoryQuery, JobsQuery, NodesQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.runtime.suspend_detection import STOPPED
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from tests.e2e.cli.program import PATIENCE, Program
from tests.e2e.cli.test_up import STORE, TICKING
from tests.servers import PostgresServer, postgres_server

JOBS = 25
MANY = "from itinerary import Itinerary, every\n\napp = Itinerary(max_concurrent_jobs=100)\n" + "".join(
    f"""
@app.job(every("1s"))
async def tick_{number}(ctx):
    pass
"""
    for number in range(JOBS)
)
__all__ = ["postgres_server"]

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
            (node,) = await store.read(NodesQuery())
            jumps = json.loads(node.about)["clock_jumps"]["last"]
            longest = max(jumps, key=lambda jump: jump["by"])  # a slow machine may have held it up more than once
            assert longest["why"] == STOPPED
            assert abs(longest["by"] - stood_still * SECOND) < 2 * SECOND

    asyncio.run(audited())


async def completed(tmp_path: Path) -> set[int]:
    """The seconds whose occurrences have completed."""
    async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        (job,) = await store.read(JobsQuery())
        rows = (await store.read(HistoryQuery(job.number))).rows
    return {row.instant // 1_000_000 for row in rows if row.status == "completed"}


@pytest.mark.spec("X6", "what is late together runs in order")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_after_a_stop_each_job_runs_all_its_late_instants_in_order(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        stopped_and_judged(tmp_path, f"sqlite:///{tmp_path}/runs.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.database() as url:
            stopped_and_judged(tmp_path, url)


def stopped_and_judged(tmp_path: Path, url: str) -> None:
    """Stop a node with many jobs for a while, and look at what it made of the instants of that time."""
    (tmp_path / "app.py").write_text(MANY, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", url) as program:
        program.until(lambda line: "completed" in line)
        program.signal(signal.SIGSTOP)
        stopped_at = int(time.time()) + 1
        time.sleep(STOPPED_FOR)  # nothing but real time passes for a process that stands still
        until = int(time.time())
        program.signal(signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE
        rows: list[OccurrenceRow] = []
        while len(rows) < JOBS * (until - stopped_at):
            assert time.monotonic() < deadline, f"{len(rows)} have ended"
            rows = asyncio.run(ended(url, stopped_at, until))
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert {str(row.status) for row in rows} == {"completed"}, "no policy demands that one be skipped"
    by_job: dict[int, list[OccurrenceRow]] = {}
    for row in sorted(rows, key=lambda row: row.instant):
        by_job.setdefault(row.job, []).append(row)
    assert len(by_job) == JOBS
    for of_job in by_job.values():
        assert [row.instant // SECOND for row in of_job] == list(range(stopped_at, until))
        begun = [row.started_at or 0 for row in of_job]
        assert begun == sorted(begun), "in order"
        assert all((one.ended_at or 0) <= two for one, two in zip(of_job, begun[1:], strict=False)), "one by one"


async def ended(url: str, start: int, end: int) -> list[OccurrenceRow]:
    """What has ended of the instants from one second to another."""
    async with open_store(url) as store:
        found = [
            row for job in await store.read(JobsQuery()) for row in (await store.read(HistoryQuery(job.number))).rows
        ]
    return [row for row in found if start * SECOND <= row.instant < end * SECOND]
