"""Audit: a day of 500,000 occurrences on SQLite, each held against what was expected and against itself.

The day is what a busy store is full of: 348 jobs due each minute, which were claimed, started and completed in batches,
as a node does it. The audit must find nothing. Then one row is deleted by hand and another one doubled, and it must
find both.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from bench.harness import Result
from bench.lives import live, wanted_at
from itinerary.audit import AuditResult, audit_store
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.rows import EntryKind, JobNumber
from itinerary.model.sweeps import SweepStep
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.store import EngineStore

__all__ = ["run"]

JOBS = 348
MINUTES = 1_440
BEGINNING = 1_767_225_600 * SECOND
AT_ONCE = 10
"""So many minutes are filled in together: batches are long then, and filling takes less time."""
DELETED = "DELETE FROM itinerary_occurrences WHERE ref = 1000"
DOUBLED = """
INSERT INTO itinerary_occurrences (ref, instant, job, kind, request, version, due_at, is_recovery, priority, created_at,
  status, fence, sequence, adjustments, started_at, ended_at, is_withdrawn)
SELECT 90000000, instant, job, kind, 'again', version, due_at, is_recovery, priority, created_at,
  status, fence, sequence, adjustments, started_at, ended_at, is_withdrawn FROM itinerary_occurrences WHERE ref = 2000
"""


def run(*, quick: bool) -> Iterator[Result]:
    """A day, or the first tenth of it."""
    minutes = MINUTES // 10 if quick else MINUTES
    with TemporaryDirectory(prefix="itinerary-bench-") as directory:
        path = Path(directory, "itinerary.db")
        asyncio.run(_fill(path, minutes))
        begun, used = perf_counter(), process_time()
        found = asyncio.run(_audited(path))
        seconds, cpu = perf_counter() - begun, process_time() - used
        assert found.is_clean, found.findings[:3]
        assert found.occurrences == found.matched == JOBS * minutes, found
        many = "500k" if minutes == MINUTES else "50k"
        yield Result("audit", f"sqlite_{many}_s", seconds, "s")
        yield Result("audit", f"sqlite_{many}_cpu_s", cpu, "s")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(DELETED)
            connection.execute(DOUBLED)
        damaged = asyncio.run(_audited(path))
        yield Result("audit", "sqlite_lost_found", damaged.lost, "")
        yield Result("audit", "sqlite_doubled_found", damaged.doubled, "")


async def _audited(path: Path) -> AuditResult:
    async with EngineStore(SqliteEngine(path)) as store:
        return await audit_store(store)


async def _fill(path: Path, minutes: int) -> None:
    now = [BEGINNING]
    async with EngineStore(SqliteEngine(path, synchronous="normal", clock=lambda: now[0])) as store:
        body = to_json(Definition(schedule={"every": "1m"})).decode()
        entries = [
            TimelineEntryRequest(
                job=f"job {n:04}", kind=EntryKind.VERSION, request="1", by="bench", from_version=0, body=body
            )
            for n in range(JOBS)
        ]
        entered = [answer for answer in await store.amend(entries) if isinstance(answer, EntryAccepted)]
        jobs: list[JobNumber] = [answer.job for answer in entered]
        revision = max(answer.revision for answer in entered)
        node = await store.join("bench", "bench", "{}")
        for first in range(0, minutes, AT_ONCE):
            instants = [BEGINNING + minute * 60 * SECOND for minute in range(first, min(first + AT_ONCE, minutes))]
            now[0] = instants[-1] + SECOND
            for instant in instants:
                await live(store, node, revision, wanted_at(instant, jobs), at_once=2)
        now[0] = BEGINNING + minutes * 60 * SECOND
        plan = await store.begin_sweep(node, now[0])
        assert plan is not None
        last = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", is_last=True)
        assert await store.advance_sweep(node, revision, last) is None
