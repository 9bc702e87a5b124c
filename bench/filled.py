"""A store that is full, as a dashboard finds it after a week: many jobs, and millions of occurrences of them.

It is filled as nodes would fill it, by a clock that stands a week back; how the occurrences ended is put into the file
afterwards, since a week of runs would take a week. A hundred jobs are due every five minutes, and come first by name.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from bench.noderun import moment, register
from itinerary.model.occurrence import Kind
from itinerary.model.queries import StoreStatusQuery
from itinerary.model.rows import JobNumber, Key
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import jobs_after
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.store import EngineStore

__all__ = ["OFTEN", "fill"]

OFTEN = 100
"""So many jobs are due every five minutes, the others every three and a half hours."""
_WEEK = 7 * 86_400
_FIVE_MINUTES = 300
_SELDOM = 12_600
_CHUNK = 10_000
_ENDS = """
UPDATE itinerary_occurrences SET
    status = CASE WHEN ref % 41 = 0 THEN 'failed' WHEN ref % 97 = 0 THEN 'skipped' ELSE 'completed' END,
    reason = CASE WHEN ref % 41 = 0 THEN 'it did not work' ELSE NULL END,
    started_at = CASE WHEN ref % 97 = 0 AND ref % 41 != 0 THEN NULL ELSE instant + (ref % 50) * 1000 END,
    ended_at = instant + 1000000 + (ref % 500) * 10000
"""


async def fill(path: Path, jobs: int, function: str) -> int:
    """Fill a file, and say how many occurrences there are. The jobs are registered a week back, and due again soon."""
    now = int(time.time()) // _SELDOM * _SELDOM
    past = now - _WEEK
    async with EngineStore(SqliteEngine(path, clock=lambda: (past - 1) * SECOND, synchronous="normal")) as store:
        often, seldom = [f"job {n:06}" for n in range(OFTEN)], [f"job {n:06}" for n in range(OFTEN, jobs)]
        await register(store, often, function, every(f"{_FIVE_MINUTES}s", start=moment(past)))
        await register(store, seldom, function, every(f"{_SELDOM}s", start=moment(past)))
        revision = (await store.read(StoreStatusQuery())).revision
        numbers = [row.number for row in await jobs_after(store.read)]
        count, batch = 0, list[ClaimRequest]()
        for second in range(past, now, _FIVE_MINUTES):
            due = numbers if second % _SELDOM == 0 else numbers[:OFTEN]
            batch += [_wanted(second, job) for job in due]
            while len(batch) >= _CHUNK or (batch and second + _FIVE_MINUTES >= now):
                await store.claim(None, revision, batch[:_CHUNK])
                count += len(batch[:_CHUNK])
                del batch[:_CHUNK]
    with sqlite3.connect(path) as connection:
        connection.execute(_ENDS)
        connection.execute("UPDATE itinerary_sweep SET watermark = ?", [now * SECOND])
    connection.close()
    return count


def _wanted(second: int, job: JobNumber) -> ClaimRequest:
    instant = second * SECOND
    return ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant, OccurrenceState.MISSED)
